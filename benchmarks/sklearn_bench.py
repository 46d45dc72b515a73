"""The estimators beside scikit-learn's own: ``GRADAGRAD_DATA=FOLDER python -m benchmarks.sklearn_bench``.

Accuracy on held-out samples and seconds of one fit, in one run: `GradaGradClassifier` as it comes and with
``alpha="search"``, SGDClassifier as it comes and tuned (loss, alpha and average by cross-validation on the training
part), the latter also behind StandardScaler, since ours scales columns by itself, and LogisticRegression (lbfgs and
saga). The sets are the paper's, those of them that are found, over random splits into two thirds and one third, and a
sparse text-like problem of 100,000 × 100,000. Tuning is counted apart: a fit's seconds are those of one fit with the
chosen settings. Nothing of ours was chosen on these sets: see docs/sklearn.md. ``--few`` compares, on other sets with
fewer than ten samples for each column, the penalty that ``alpha="auto"`` finds there with 1e-4.
"""

import argparse
import json
import os
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, normalize

from gradagrad.sklearn import GradaGradClassifier

GRID = {"loss": ["hinge", "log_loss"], "alpha": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2], "average": [False, True]}
LARGE = 3000
"""Samples from which on settings are tuned once, not for each split."""
Split = tuple[Any, Any, Any, Any]


def text(rows: int = 100_000, columns: int = 100_000, words: int = 80, seed: int = 0) -> tuple[Any, Any]:
    """Two classes of documents: Zipf's words, one in ten of them by a word list of the class; tf-idf, unit rows."""
    rng = np.random.RandomState(seed)
    frequency = 1.0 / np.arange(1, columns + 1)
    cumulated = np.cumsum(frequency / frequency.sum())
    y = rng.randint(2, size=rows)
    lengths = 1 + rng.poisson(words - 1, rows)
    row = np.repeat(np.arange(rows), lengths)
    word = np.minimum(np.searchsorted(cumulated, rng.rand(len(row))), columns - 1)
    own = rng.rand(len(row)) < 0.1
    lists = np.array([rng.permutation(columns) for _ in range(2)])
    word[own] = lists[y[row[own]], word[own]]
    X = sp.csr_matrix((np.ones(len(row)), (row, word)), (rows, columns))
    seen = np.bincount(X.indices, minlength=columns)
    X.data = np.log1p(X.data) * np.log(rows / (1.0 + seen))[X.indices]
    y = np.where(rng.rand(rows) < 0.05, 1 - y, y)
    normalised: Any = normalize(X)
    return normalised, y


def splits(X: Any, y: Any, count: int) -> list[Split]:
    parts = StratifiedShuffleSplit(count, test_size=1 / 3, random_state=0).split(X, y)
    return [(X[a], y[a], X[b], y[b]) for a, b in parts]


TUNED = ("SGDClassifier tuned", "scaled SGDClassifier tuned")


def sgd(label: str, seed: int, sparse: bool, **arguments: Any) -> Any:
    model = SGDClassifier(random_state=seed, **arguments)
    return make_pipeline(StandardScaler(with_mean=not sparse), model) if label.startswith("scaled") else model


def tune(label: str, split: Split) -> dict[str, Any]:
    """By three folds; by one part of a quarter where three would take too long."""
    X, y, _, _ = split
    folds: Any = 3 if len(y) < LARGE else StratifiedShuffleSplit(1, test_size=0.25, random_state=0)
    model = sgd(label, 0, sp.issparse(X))
    prefix = "sgdclassifier__" if isinstance(model, Pipeline) else ""
    search = GridSearchCV(model, {prefix + key: values for key, values in GRID.items()}, cv=folds, n_jobs=1).fit(X, y)
    return {key.removeprefix(prefix): value for key, value in search.best_params_.items()}


def contender(label: str, seed: int, X: Any, tuned: dict[str, Any]) -> Any:
    strength = 1.0 / (1e-4 * X.shape[0])  # the penalty that ours and SGDClassifier's defaults have
    match label:
        case "GradaGradClassifier":
            return GradaGradClassifier(random_state=seed)
        case "GradaGradClassifier search":
            return GradaGradClassifier(alpha="search", random_state=seed)
        case "LogisticRegression lbfgs":
            return LogisticRegression(C=strength, max_iter=1000)
        case "LogisticRegression saga":
            return LogisticRegression(C=strength, solver="saga", random_state=seed)
        case _:
            return sgd(label, seed, sp.issparse(X), **tuned)


OURS = ("GradaGradClassifier", "GradaGradClassifier search")
LABELS = (*OURS, "SGDClassifier", *TUNED, "LogisticRegression lbfgs", "LogisticRegression saga")


def compare(name: str, parts: list[Split], repeats: int) -> list[dict[str, Any]]:
    """One row for each contender: mean accuracy over the splits, and the median of their seconds (CPU time)."""
    rows: list[dict[str, Any]] = []
    for label in LABELS:
        began = time.process_time()
        searched = parts[: 1 if len(parts[0][1]) >= LARGE else len(parts)] if label in TUNED else []
        tuned = [tune(label, part) for part in searched] or [{}]
        row: dict[str, Any] = {"set": name, "model": label}
        if searched:
            row["tuning"] = (time.process_time() - began) / len(tuned)
        scores, seconds = [], []
        for seed, (X, y, X_test, y_test) in enumerate(parts):
            fits = [fit(contender(label, seed, X, tuned[seed % len(tuned)]), X, y) for _ in range(repeats)]
            scores.append(fits[0][0].score(X_test, y_test))
            seconds.append(min(took for _, took in fits))
        rows.append(row | {"accuracy": statistics.mean(scores), "seconds": statistics.median(seconds)})
        print(line(rows[-1]), flush=True)
    return rows


def fit(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    # Time of this process alone, so that what else the machine does counts little.
    began = time.process_time()
    return model.fit(X, y), time.process_time() - began


def line(row: dict[str, Any]) -> str:
    tuning = f"  (tuning: {row['tuning']:.1f} s)" if "tuning" in row else ""
    return f"{row['set']:24} {row['model']:26} {100 * row['accuracy']:6.2f} % {1000 * row['seconds']:10.1f} ms{tuning}"


def verdict(rows: list[dict[str, Any]]) -> str:
    """How far ours is from SGDClassifier tuned, set by set: points of accuracy, and times its seconds."""
    lines = ["", f"{'against tuned SGD':24} {'as it comes':>20} {'alpha search':>20} {'as it comes, SGD scaled':>24}"]
    for name in dict.fromkeys(row["set"] for row in rows):
        found = {row["model"]: row for row in rows if row["set"] == name}
        text = f"{name:24}"
        for ours, theirs, width in ((OURS[0], TUNED[0], 20), (OURS[1], TUNED[0], 20), (OURS[0], TUNED[1], 24)):
            points = 100 * (found[ours]["accuracy"] - found[theirs]["accuracy"])
            factor = found[ours]["seconds"] / found[theirs]["seconds"]
            text += f" {f'{points:+.2f}, {factor:.2f} ×':>{width}}"
        lines.append(text)
    return "\n".join(lines)


def few_samples() -> dict[str, tuple[Any, Any]]:
    """Sets of the development with few samples for each column: made ones, and digits in more columns."""
    found: dict[str, tuple[Any, Any]] = {}
    for rows, columns, telling, classes, wrong, apart in (
        (1500, 300, 20, 3, 0.05, 1.0),
        (2400, 200, 30, 2, 0.1, 0.7),
        (3000, 600, 40, 5, 0.02, 1.5),
    ):
        made: Any = datasets.make_classification(
            rows,
            columns,
            n_informative=telling,
            n_redundant=columns // 5,
            n_classes=classes,
            flip_y=wrong,
            class_sep=apart,
            n_clusters_per_class=1,
            random_state=rows + columns,
        )
        found[f"make_classification, {classes} classes"] = made
    digits: Any = datasets.load_digits()
    products = PolynomialFeatures(2, include_bias=False).fit_transform(digits.data[:, 10:54:2] / 16)
    noise = np.random.RandomState(0).randn(len(digits.data), 256)
    found["digits, products of pixels"] = products, digits.target
    found["digits and columns of noise"] = np.hstack([digits.data / 16, noise]), digits.target
    rng = np.random.RandomState(3)
    weights = rng.randn(250) * 2 / np.sqrt(250)
    X = rng.randn(2000, 250) * np.exp(rng.randn(250))  # columns of all sizes that all tell a little
    found["logistic, 250 columns"] = X, (X @ (weights / X.std(axis=0)) + rng.logistic(size=2000) > 0).astype(int)
    return found


def compare_penalties() -> None:
    """Accuracy with 1e-4 and with what ``alpha="auto"`` finds."""
    for name, (X, y) in few_samples().items():
        (part,) = splits(X, y, 1)
        fixed, found = (GradaGradClassifier(alpha=alpha, random_state=0).fit(*part[:2]) for alpha in (1e-4, "auto"))
        scores = [100 * model.score(*part[2:]) for model in (fixed, found)]
        samples = len(part[1]) / X.shape[1]
        print(
            f"{name:32} {samples:4.1f} samples a column: 1e-4 {scores[0]:.2f} %, {found.alpha_:.1e} {scores[1]:.2f} %"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", help="names of sets, and text; default: all that are found, and text")
    parser.add_argument(
        "--splits", type=int, default=10, help="random splits of sets below 2,000 samples; a fifth as many of others"
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows and columns of the text-like problem")
    parser.add_argument("--few", action="store_true", help="only the penalty where there are few samples")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # of solvers that reach their limit: the tables show what comes of it
    if arguments.few:
        compare_penalties()
        return

    from gradagrad_lab.data import data_sets_at_hand, load

    rows: list[dict[str, Any]] = []
    for name in arguments.sets or [*data_sets_at_hand(), "text"]:
        if name == "text":
            X, y = text(arguments.rows, arguments.rows)
            label, count = f"text {arguments.rows:,}²", 1
        else:
            data = load(name)
            X, y, label = data.features, data.targets, data.label
            count = arguments.splits if data.rows < 2000 else max(1, arguments.splits // 5)
        rows += compare(label, splits(X, y, count), 3 if X.shape[0] < LARGE or name == "text" else 1)
        if arguments.output:
            arguments.output.write_text(json.dumps({"load": os.getloadavg()[0], "rows": rows}, indent=1))
    print(verdict(rows))


if __name__ == "__main__":
    main()
