"""Neural nets of the suite: on scikit-learn's digits (8 × 8 pixels), and one that learns a picture from coordinates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data import bundled
from gradagrad_lab.problems.training import (
    RowOrder,
    Rows,
    Supervised,
    Task,
    TrainingProblem,
    layers,
    right_class,
    split,
)

PLAIN_LAYERS, PLAIN_WIDTH = 9, 32


@functools.cache
def _digits() -> tuple[Rows, Rows]:
    loaded = bundled.load("digits")
    return split((torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets)))


def _classifier(build: Callable[[], nn.Module]) -> Callable[[int, int, int, Path | None], Task]:
    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        train, held_out = _digits()
        order = RowOrder(seed, len(train[-1]), steps, batch)
        return Supervised(build(), functional.cross_entropy, train, held_out, order, right_class)

    return make


def _mlp() -> nn.Module:
    return layers((64, 64, 32, 10))


def _deep_plain() -> nn.Module:
    return layers((64, *[PLAIN_WIDTH] * (PLAIN_LAYERS - 1), 10))


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


class _RowReader(nn.Module):
    """A GRU that reads the digit row by row, then names it."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(8, 24, batch_first=True)
        self.last = nn.Linear(24, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        _, state = self.recurrent(pixels.view(-1, 8, 8))
        return self.last(state.squeeze(0))


def _make_autoencoder(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    train, held_out = ((part[0], part[0]) for part in _digits())
    model = layers((64, 48, 8, 48, 64), nn.Tanh)
    return Supervised(model, functional.mse_loss, train, held_out, RowOrder(seed, len(train[-1]), steps, batch))


@functools.cache
def _picture() -> tuple[Rows, Rows]:
    """A fixed function on the square: waves of several lengths across a sharp edge, on a 64 × 64 grid."""
    line = torch.linspace(-1, 1, 64)
    x, y = (axis.flatten() for axis in torch.meshgrid(line, line, indexing="ij"))
    value = torch.sin(3 * x + 2 * y) + 0.5 * torch.sin(9 * x * y) + (x**2 + y**2 < 0.4).float()
    return split((torch.stack([x, y], dim=1), value))


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    return (predictions.squeeze(-1) - targets).square().mean()


def _make_coordinates(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    train, held_out = _picture()
    model = layers((2, 32, 32, 1), nn.Tanh)
    return Supervised(model, _squared, train, held_out, RowOrder(seed, len(train[-1]), steps, batch))


mlp = TrainingProblem("mlp", "MLP on digits", "net", 500, 32, _classifier(_mlp), "64-64-32-10, ReLU, cross-entropy")
deep_plain = TrainingProblem(
    "deep-mlp",
    "9-layer plain MLP on digits",
    "net",
    1000,
    32,
    _classifier(_deep_plain),
    f"{PLAIN_LAYERS} layers of width {PLAIN_WIDTH}, ReLU, no normalisation or shortcuts: it starts on a plateau",
)
cnn = TrainingProblem(
    "cnn", "CNN on digits", "net", 300, 32, _classifier(_convolutions), "two convolutions (8 and 16 channels), linear"
)
recurrent = TrainingProblem(
    "gru", "GRU on digits", "net", 400, 32, _classifier(_RowReader), "a GRU of 24 units reads the 8 rows of a digit"
)
autoencoder = TrainingProblem(
    "autoencoder",
    "autoencoder on digits",
    "net",
    1000,
    32,
    _make_autoencoder,
    "64-48-8-48-64, tanh, squared error per pixel",
)
coordinates = TrainingProblem(
    "coordinates",
    "coordinate net",
    "net",
    1500,
    64,
    _make_coordinates,
    "2-32-32-1, tanh, learns a picture with waves and an edge",
)
