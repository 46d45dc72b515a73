"""Embedding problems: a click model on the synthetic stream, and a matrix factorisation.

Tables get dense gradients here, because most of the optimizers compared accept no sparse ones.
"""

import functools
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data.clicks.stream import HELD_OUT, TRAINING, ClickStream
from gradagrad_lab.problems.clicks.dlrm import DLRM, Size
from gradagrad_lab.problems.training import RowOrder, Rows, Supervised, Task, TrainingProblem, split, supervised

CLICKS = Size(cap=200, dimension=8, bottom=(16,), top=(16,))
CLICK_ROWS, CLICK_HELD_OUT = 65_536, 16_384
USERS, ITEMS, RANK, NEAR_ZERO = 80, 60, 4, 1e-3


@functools.cache
def _clicks() -> tuple[Rows, Rows]:
    parts = [
        ClickStream(seed, CLICKS.cap).rows(count)
        for seed, count in ((TRAINING, CLICK_ROWS), (HELD_OUT, CLICK_HELD_OUT))
    ]
    train, held_out = (
        (torch.from_numpy(part.dense), torch.from_numpy(part.ids).long(), torch.from_numpy(part.clicks))
        for part in parts
    )
    return train, held_out


def _make_clicks(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    train, held_out = _clicks()
    model = DLRM(size=CLICKS, seed=seed, sparse=False)
    order = RowOrder(seed, len(train[-1]), steps, batch)
    return Supervised(model, functional.binary_cross_entropy_with_logits, train, held_out, order)


@functools.cache
def _ratings(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """Every cell of a matrix of rank `RANK` with noise of a tenth of its variance, a fifth of them held out."""
    random = torch.Generator().manual_seed(11)
    left, right = torch.randn(USERS, RANK, generator=random), torch.randn(ITEMS, RANK, generator=random)
    matrix = left @ right.T / RANK**0.5 + 0.1**0.5 * torch.randn(USERS, ITEMS, generator=random)
    users, items = (axis.flatten() for axis in torch.meshgrid(torch.arange(USERS), torch.arange(ITEMS), indexing="ij"))
    return split((users, items, matrix.flatten()))


class _Factors(nn.Module):
    """Vectors for rows and columns; near zero the gradient is near zero too: a saddle."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, RANK, _weight=NEAR_ZERO * torch.randn(USERS, RANK))
        self.items = nn.Embedding(ITEMS, RANK, _weight=NEAR_ZERO * torch.randn(ITEMS, RANK))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return (self.users(users) * self.items(items)).sum(dim=1)


clicks = TrainingProblem(
    *("clicks", "click model", "embeddings", 512, 128, _make_clicks),
    "a small DLRM (26 tables, 3,810 rows of 8) in one pass over 65,536 rows of the synthetic click stream",
)
factorisation = TrainingProblem(
    *("factorisation", "matrix factorisation", "embeddings", 1500, 64),
    supervised(_ratings, lambda _: _Factors(), functional.mse_loss),
    f"rank {RANK} of an {USERS} × {ITEMS} matrix with noise, from vectors of size {NEAR_ZERO:g}",
)
