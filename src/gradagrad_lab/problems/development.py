"""Small problems without held-out rows that AutoGradaGrad's constants were chosen on, where they had to give way to
what suits nets.

Everything random (start, rows of a mini-batch, noise) follows from the seed, so all optimizers see the same.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.problems.training import RowOrder, Supervised, Task, TrainingProblem

MEASURED = 2000  # rows measured at once


def problem(
    name: str,
    describe: str,
    steps: int,
    batch: int,
    rows: Callable[[], tuple[Tensor, Tensor]],
    build: Callable[[], nn.Module],
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy,
) -> TrainingProblem:
    """A model and the rows it is trained on; none is held out. ``loss(model(inputs), targets)`` is that of a batch."""

    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        order = RowOrder(seed, len(rows()[1]), steps, batch)
        return Supervised(build(), loss, rows(), None, order, at_once=MEASURED)

    return TrainingProblem(name, name, "net", steps, batch, make, describe)


@functools.cache
def _noise(size: int) -> tuple[Tensor, Tensor]:
    """Noise that is zero in the mean over all rows."""
    rows = torch.randn(10_000, size, generator=torch.Generator().manual_seed(127))
    return rows - rows.mean(0), torch.zeros(10_000)


class _Quadratic(nn.Module):
    """½ Σ h·x² with noise in the gradient, which the loss over all rows does not have."""

    def __init__(self, size: int, condition: float, noise: float) -> None:
        super().__init__()
        self.x, self.noise = nn.Parameter(torch.randn(size)), noise
        self.h = condition ** -torch.linspace(0, 1, size)

    def forward(self, rows: Tensor) -> Tensor:
        return (self.h * self.x.square()).sum() / 2.0 + self.noise * rows @ (self.h.sqrt() * self.x)


@functools.cache
def _matrix(rank: int, noise: float) -> tuple[Tensor, Tensor]:
    """The places and entries of a 300 × 200 matrix."""
    random = torch.Generator().manual_seed(131)
    factors = torch.randn(300, rank, generator=random), torch.randn(200, rank, generator=random)
    entries = factors[0] @ factors[1].T / rank**0.5 + noise * torch.randn(300, 200, generator=random)
    return torch.cartesian_prod(torch.arange(300), 300 + torch.arange(200)), entries.flatten()


class _Factors(nn.Module):
    """An entry is the product of a row's and a column's vector."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 8, _weight=0.1 * torch.randn(500, 8))

    def forward(self, pair: Tensor) -> Tensor:
        return self.table(pair).prod(1).sum(1)


DEVELOPMENT = (
    problem("quadratic", "100 numbers, condition 1,000, noise", 1000, 1, lambda: _noise(100),
            lambda: _Quadratic(100, 1e3, 1.0), lambda losses, _: losses.mean()),
    problem("quadratic-small", "20 numbers, condition 10, much noise", 2000, 1, lambda: _noise(20),
            lambda: _Quadratic(20, 10.0, 3.0), lambda losses, _: losses.mean()),
    problem("factors", "a matrix of rank 8 with noise, by embeddings", 2000, 64, lambda: _matrix(8, 0.5), _Factors,
            functional.mse_loss),
    problem("factors-exact", "a matrix of rank 4 with little noise", 3000, 64, lambda: _matrix(4, 0.1), _Factors,
            functional.mse_loss),
)  # fmt: skip
