"""Convex problems of the suite: logistic regression, a linear support vector machine, regressions, a quadratic."""

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab import data
from gradagrad_lab.problems.training import (
    Maker,
    RowOrder,
    Rows,
    Supervised,
    Task,
    TrainingProblem,
    linear,
    right_class,
    split,
    squared,
    supervised,
)

QUADRATIC_SIZE = 100
Loss = Callable[[Tensor, Tensor], Tensor]


@functools.lru_cache(maxsize=16)
def _set(name: str, data_dir: Path | None) -> tuple[Rows, Rows, int]:
    loaded = data.load(name, data_dir)
    return *split((torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets))), loaded.classes


def one_vs_rest(scores: Tensor, targets: Tensor) -> Tensor:
    """A binary logistic loss per class, summed over classes, mean over rows: Figure 3's loss."""
    wanted = functional.one_hot(targets, scores.shape[1]).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / len(targets)


def logistic(name: str, batch: int, steps: int) -> TrainingProblem:
    """One-vs-rest logistic regression on a data set of the lab, from zero."""
    title = name.replace("_", " ")
    describe = f"one-vs-rest logistic regression on {title}"
    maker = _linear_classifier(name, one_vs_rest)
    return TrainingProblem(f"{name}-{batch}", f"{title}, batch {batch}", "convex", steps, batch, maker, describe)


def _linear_classifier(name: str, loss: Loss) -> Maker:
    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        train, held_out, classes = _set(name, data_dir)
        model = linear(train[0].shape[1], classes)
        return Supervised(model, loss, train, held_out, RowOrder(seed, len(train[-1]), steps, batch), right_class)

    return make


def _hinge(scores: Tensor, targets: Tensor) -> Tensor:
    """Crammer and Singer's margin over the best rival; not smooth."""
    return functional.multi_margin_loss(scores, targets)


def _wine(data_dir: Path | None) -> tuple[Rows, Rows]:
    bunch = datasets.load_wine()
    return split((torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)))  # pyright: ignore


def _diabetes(data_dir: Path | None) -> tuple[Rows, Rows]:
    bunch = datasets.load_diabetes(scaled=False)
    return split(tuple(torch.tensor(part, dtype=torch.float32) for part in (bunch.data, bunch.target)))  # pyright: ignore


def _badly_scaled(data_dir: Path | None) -> tuple[Rows, Rows]:
    random = np.random.default_rng(7)
    features = random.standard_normal((2000, 20))
    scales = np.logspace(-2, 2, 20)
    weights = random.standard_normal(20)
    targets = features @ weights + np.sqrt(0.1 * 20) * random.standard_normal(2000)
    return split((torch.tensor(features * scales, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)))


class _NoisyQuadratic(Task):
    """½ Σ λ x² with λ from 0.01 to 1, seen through gradients with noise of unit variance; the least value is 0."""

    def __init__(self, seed: int, steps: int, batch: int) -> None:
        random = torch.Generator().manual_seed(1_000_003 * seed + 23)
        self.parameters = [nn.Parameter(torch.ones(QUADRATIC_SIZE))]
        self._curvatures = torch.logspace(-2, 0, QUADRATIC_SIZE)
        self._noise = torch.randn(steps, QUADRATIC_SIZE, generator=random) / batch**0.5

    def _value(self) -> Tensor:
        return 0.5 * (self._curvatures * self.parameters[0].square()).sum()

    def loss_on(self, step: int) -> Tensor:
        return self._value() + self._noise[step] @ self.parameters[0]

    @torch.no_grad()
    def full_train_loss(self) -> float:
        return float(self._value())

    def held_out(self) -> dict[str, float]:
        return {}


def _convex(name: str, title: str, steps: int, batch: int, maker: Maker, describe: str) -> TrainingProblem:
    return TrainingProblem(name, title, "convex", steps, batch, maker, describe)


def _least_squares(read: Callable[[Path | None], tuple[Rows, Rows]]) -> Maker:
    return supervised(read, lambda train: linear(train[0].shape[1], 1), squared)


badly_scaled = _convex(
    *("badly-scaled", "badly scaled regression", 1500, 16, _least_squares(_badly_scaled)),
    "least squares, 20 columns of scale 0.01 to 100",
)
quadratic = _convex(
    *("quadratic", "noisy quadratic", 1500, 1, lambda seed, steps, batch, _: _NoisyQuadratic(seed, steps, batch)),
    "½ Σ λ x², 100 curvatures λ from 0.01 to 1, unit noise in the gradient",
)
hinge = _convex(
    *("digits-svm", "linear SVM on digits", 500, 16, _linear_classifier("digits", _hinge)),
    "multi-class hinge loss, not smooth, on scikit-learn's digits",
)
wine = _convex(
    *("wine-raw", "wine, raw columns", 1500, 16),
    supervised(_wine, lambda train: linear(train[0].shape[1], 3), functional.cross_entropy, right_class),
    "soft-max regression on scikit-learn's wine, columns not scaled",
)
diabetes = _convex(
    *("diabetes-raw", "diabetes, raw columns", 1500, 16, _least_squares(_diabetes)),
    "least squares on scikit-learn's diabetes, columns and target not scaled",
)
