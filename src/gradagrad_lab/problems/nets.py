"""Neural nets of the suite: on scikit-learn's digits (8 × 8 pixels), and one that learns a picture from coordinates."""

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data import bundled
from gradagrad_lab.problems.training import Rows, TrainingProblem, layers, right_class, split, squared, supervised

PLAIN_LAYERS, PLAIN_WIDTH = 9, 32


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


class _RowReader(nn.Module):
    """A GRU that reads the digit row by row, then names it."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(8, 24, batch_first=True)
        self.last = nn.Linear(24, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        _, state = self.recurrent(pixels.view(-1, 8, 8))
        return self.last(state.squeeze(0))


@functools.cache
def _picture(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """A fixed function on the square: waves of several lengths across a sharp edge, on a 64 × 64 grid."""
    line = torch.linspace(-1, 1, 64)
    x, y = (axis.flatten() for axis in torch.meshgrid(line, line, indexing="ij"))
    value = torch.sin(3 * x + 2 * y) + 0.5 * torch.sin(9 * x * y) + (x**2 + y**2 < 0.4).float()
    return split((torch.stack([x, y], dim=1), value))


def _on_digits(name: str, title: str, steps: int, build: Callable[[Rows], nn.Module], describe: str) -> TrainingProblem:
    maker = supervised(_digits, build, functional.cross_entropy, right_class)
    return TrainingProblem(name, title, "net", steps, 32, maker, describe)


mlp = _on_digits("mlp", "MLP on digits", 500, lambda _: layers((64, 64, 32, 10)), "64-64-32-10, ReLU, cross-entropy")
deep_plain = _on_digits(
    *("deep-mlp", "9-layer plain MLP on digits", 1000),
    lambda _: layers((64, *[PLAIN_WIDTH] * (PLAIN_LAYERS - 1), 10)),
    f"{PLAIN_LAYERS} layers of width {PLAIN_WIDTH}, ReLU, no normalisation or shortcuts: it starts on a plateau",
)
cnn = _on_digits("cnn", "CNN on digits", 300, _convolutions, "two convolutions (8 and 16 channels), linear")
recurrent = _on_digits(
    "gru", "GRU on digits", 400, lambda _: _RowReader(), "a GRU of 24 units reads the 8 rows of a digit"
)
autoencoder = TrainingProblem(
    *("autoencoder", "autoencoder on digits", "net", 1000, 32),
    supervised(_pixels, lambda _: layers((64, 48, 8, 48, 64), nn.Tanh), functional.mse_loss),
    "64-48-8-48-64, tanh, squared error per pixel",
)
coordinates = TrainingProblem(
    *("coordinates", "coordinate net", "net", 1500, 64),
    supervised(_picture, lambda _: layers((2, 32, 32, 1), nn.Tanh), squared),
    "2-32-32-1, tanh, learns a picture with waves and an edge",
)
