"""Neural nets on scikit-learn's digits (8 × 8 pixels)."""

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from gradagrad_lab.data import bundled
from gradagrad_lab.problems.training import Rows, TrainingProblem, layers, right_class, split, supervised


@functools.cache
def _digits(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    loaded = bundled.load("digits")
    return split((torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets)))


def _pixels(data_dir: Path | None) -> tuple[Rows, Rows]:
    """Each digit as its own target."""
    train, held_out = ((part[0], part[0]) for part in _digits())
    return train, held_out


def _convolutions(train: Rows) -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def _on_digits(name: str, title: str, steps: int, build: Callable[[Rows], nn.Module], describe: str) -> TrainingProblem:
    maker = supervised(_digits, build, functional.cross_entropy, right_class)
    return TrainingProblem(name, title, "net", steps, 32, maker, describe)


mlp = _on_digits("mlp", "MLP on digits", 500, lambda _: layers((64, 64, 32, 10)), "64-64-32-10, ReLU, cross-entropy")
cnn = _on_digits("cnn", "CNN on digits", 300, _convolutions, "two convolutions (8 and 16 channels), linear")
autoencoder = TrainingProblem(
    *("autoencoder", "autoencoder on digits", "net", 1000, 32),
    supervised(_pixels, lambda _: layers((64, 48, 8, 48, 64), nn.Tanh), functional.mse_loss),
    "64-48-8-48-64, tanh, squared error per pixel",
)
