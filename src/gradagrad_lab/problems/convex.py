"""Convex problems of the suite: logistic regression, a linear support vector machine, regressions, a quadratic."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab import data
from gradagrad_lab.problems.training import Maker, RowOrder, Rows, Supervised, Task, TrainingProblem, right_class, split

QUADRATIC_SIZE = 100


@functools.lru_cache(maxsize=16)
def _set(name: str, data_dir: Path | None) -> tuple[Rows, Rows, int]:
    loaded = data.load(name, data_dir)
    rows = (torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets))
    return *split(rows), loaded.classes


def _from_zero(inputs: int, outputs: int) -> nn.Linear:
    model = nn.Linear(inputs, outputs)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def one_vs_rest(scores: Tensor, targets: Tensor) -> Tensor:
    """A binary logistic loss per class, summed over classes, mean over rows: Figure 3's loss."""
    wanted = functional.one_hot(targets, scores.shape[1]).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / len(targets)


def logistic(name: str, batch: int, steps: int) -> TrainingProblem:
    """One-vs-rest logistic regression on a set of the lab, from zero."""

    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        train, held_out, classes = _set(name, data_dir)
        model = _from_zero(train[0].shape[1], classes)
        order = RowOrder(seed, len(train[-1]), steps, batch)
        return Supervised(model, one_vs_rest, train, held_out, order, right_class)

    title = name.replace("_", " ")
    return TrainingProblem(
        f"{name}-{batch}",
        f"{title}, batch {batch}",
        "convex",
        steps,
        batch,
        make,
        f"one-vs-rest logistic regression on {title}",
    )


def _hinge(scores: Tensor, targets: Tensor) -> Tensor:
    """Crammer and Singer's margin over the best rival; not smooth."""
    return functional.multi_margin_loss(scores, targets)


def _make_hinge(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    """multi-class hinge loss, not smooth, on scikit-learn's digits."""
    train, held_out, classes = _set("digits", None)
    model = _from_zero(train[0].shape[1], classes)
    return Supervised(model, _hinge, train, held_out, RowOrder(seed, len(train[-1]), steps, batch), right_class)


def _make_wine(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    """soft-max regression on scikit-learn's wine, columns not scaled."""
    bunch = datasets.load_wine()
    rows = (torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target))  # pyright: ignore
    train, held_out = split(rows)
    model = _from_zero(rows[0].shape[1], 3)
    order = RowOrder(seed, len(train[-1]), steps, batch)
    return Supervised(model, functional.cross_entropy, train, held_out, order, right_class)


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    return (predictions.squeeze(-1) - targets).square().mean()


def _make_diabetes(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    """least squares on scikit-learn's diabetes, columns and target not scaled."""
    bunch = datasets.load_diabetes(scaled=False)
    rows = (torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target, dtype=torch.float32))  # pyright: ignore
    train, held_out = split(rows)
    order = RowOrder(seed, len(train[-1]), steps, batch)
    return Supervised(_from_zero(rows[0].shape[1], 1), _squared, train, held_out, order)


def _make_badly_scaled(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    """least squares, 20 columns of scale 0.01 to 100."""
    random = np.random.default_rng(7)
    features = random.standard_normal((2000, 20))
    scales = np.logspace(-2, 2, 20)
    weights = random.standard_normal(20)
    targets = features @ weights + np.sqrt(0.1 * 20) * random.standard_normal(2000)
    rows = (torch.tensor(features * scales, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32))
    train, held_out = split(rows)
    order = RowOrder(seed, len(train[-1]), steps, batch)
    return Supervised(_from_zero(20, 1), _squared, train, held_out, order)


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


def _make_quadratic(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    """½ Σ λ x², 100 curvatures λ from 0.01 to 1, unit noise in the gradient."""
    return _NoisyQuadratic(seed, steps, batch)


def _convex(name: str, title: str, steps: int, batch: int, maker: Maker) -> TrainingProblem:
    """Described by its maker's own words."""
    return TrainingProblem(name, title, "convex", steps, batch, maker, (maker.__doc__ or "").rstrip("."))


badly_scaled = _convex("badly-scaled", "badly scaled regression", 1500, 16, _make_badly_scaled)
quadratic = _convex("quadratic", "noisy quadratic", 1500, 1, _make_quadratic)
hinge = _convex("digits-svm", "linear SVM on digits", 500, 16, _make_hinge)
wine = _convex("wine-raw", "wine, raw columns", 1500, 16, _make_wine)
diabetes = _convex("diabetes-raw", "diabetes, raw columns", 1500, 16, _make_diabetes)
