"""The estimators beside scikit-learn's own: ``GRADAGRAD_DATA=FOLDER python -m benchmarks.sklearn_bench``.

Measures accuracy on held-out samples and the CPU time of one fit for `GradaGradClassifier` with defaults and with
``alpha="search"``, for SGDClassifier with defaults and tuned (loss, alpha and average by cross-validation), for a tuned
SGDClassifier behind StandardScaler, because ours scales columns by itself, and for LogisticRegression (lbfgs and saga).
The data sets are those of the paper's that are found, over random splits into two thirds and one third, and a sparse
text-like problem of 100,000 × 100,000. The time of tuning is shown separately. Nothing of ours was chosen on these data
sets: see docs/sklearn.md.
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
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from gradagrad.sklearn import GradaGradClassifier

GRID = {"loss": ["hinge", "log_loss"], "alpha": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2], "average": [False, True]}
LARGE = 3000
"""From this number of samples on, settings are tuned once and not for each split."""
Split = tuple[Any, Any, Any, Any]


def text(rows: int = 100_000, columns: int = 100_000, words: int = 80, seed: int = 0) -> tuple[Any, Any]:
    """Two classes of documents: words by Zipf's law, a tenth of them by the class's own ranking; tf-idf, unit rows."""
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
    """Tunes by three folds, or by one held-out quarter if three would take too long."""
    X, y, _, _ = split
    folds: Any = 3 if len(y) < LARGE else StratifiedShuffleSplit(1, test_size=0.25, random_state=0)
    model = sgd(label, 0, sp.issparse(X))
    prefix = "sgdclassifier__" if isinstance(model, Pipeline) else ""
    search = GridSearchCV(model, {prefix + key: values for key, values in GRID.items()}, cv=folds, n_jobs=1).fit(X, y)
    return {key.removeprefix(prefix): value for key, value in search.best_params_.items()}


def contender(label: str, seed: int, X: Any, tuned: dict[str, Any]) -> Any:
    strength = 1.0 / (1e-4 * X.shape[0])  # the penalty of our defaults and of SGDClassifier's
    others = {
        "GradaGradClassifier": GradaGradClassifier(random_state=seed),
        "GradaGradClassifier search": GradaGradClassifier(alpha="search", random_state=seed),
        "LogisticRegression lbfgs": LogisticRegression(C=strength, max_iter=1000),
        "LogisticRegression saga": LogisticRegression(C=strength, solver="saga", random_state=seed),
    }
    return others[label] if label in others else sgd(label, seed, sp.issparse(X), **tuned)


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
    # Process time leaves out what else the machine does.
    began = time.process_time()
    return model.fit(X, y), time.process_time() - began


def line(row: dict[str, Any]) -> str:
    tuning = f"  (tuning: {row['tuning']:.1f} s)" if "tuning" in row else ""
    return f"{row['set']:24} {row['model']:26} {100 * row['accuracy']:6.2f} % {1000 * row['seconds']:10.1f} ms{tuning}"


def verdict(rows: list[dict[str, Any]]) -> str:
    """Our distance from tuned SGDClassifier on each data set: points of accuracy and ratio of seconds."""
    lines = ["", f"{'against tuned SGD':24} {'defaults':>20} {'alpha search':>20} {'defaults, SGD scaled':>24}"]
    for name in dict.fromkeys(row["set"] for row in rows):
        found = {row["model"]: row for row in rows if row["set"] == name}
        text = f"{name:24}"
        for ours, theirs, width in ((OURS[0], TUNED[0], 20), (OURS[1], TUNED[0], 20), (OURS[0], TUNED[1], 24)):
            points = 100 * (found[ours]["accuracy"] - found[theirs]["accuracy"])
            factor = found[ours]["seconds"] / found[theirs]["seconds"]
            text += f" {f'{points:+.2f}, {factor:.2f} ×':>{width}}"
        lines.append(text)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", help="names of data sets, and text; default: all that are found")
    parser.add_argument(
        "--splits", type=int, default=10, help="random splits below 2,000 samples; a fifth as many above"
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows and columns of the text-like problem")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # solvers warn when they reach their limit

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
