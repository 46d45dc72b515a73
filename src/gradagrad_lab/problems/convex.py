"""Logistic regression of the suite, with Figure 3's loss."""

import functools
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from gradagrad_lab import data
from gradagrad_lab.problems.training import (
    RowOrder,
    Rows,
    Supervised,
    Task,
    TrainingProblem,
    linear,
    right_class,
    split,
)


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

    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        train, held_out, classes = _set(name, data_dir)
        model, order = linear(train[0].shape[1], classes), RowOrder(seed, len(train[-1]), steps, batch)
        return Supervised(model, one_vs_rest, train, held_out, order, right_class)

    words = f"one-vs-rest logistic regression on {title}"
    return TrainingProblem(f"{name}-{batch}", f"{title}, batch {batch}", "convex", steps, batch, make, words)
