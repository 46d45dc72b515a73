"""Matrix factorisation with lazy rows: two embedding tables predict ratings, and each row has its own clock.

    python examples/matrix_factorisation.py

A batch touches only some users. With `lazy=True` the other rows stay idle, so agreement is measured between consecutive
gradients of a row. Without it, a row that is seldom touched twice in a row steps as in AdaGrad. AutoGradaGrad is always
lazy and needs no learning rate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gradagrad import AutoGradaGrad, GradaGrad

USERS, ITEMS, RANK = 400, 300, 4


class Factors(nn.Module):
    """A rating is the inner product of a user's row and an item's."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, 8, sparse=True)
        self.items = nn.Embedding(ITEMS, 8, sparse=True)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1, generator=torch.Generator().manual_seed(1))

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """The ratings of pairs."""
        return (self.users(user) * self.items(item)).sum(1)


def ratings(count: int = 40_000) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs and their noisy ratings, of rank 4."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(USERS, RANK, generator=generator) / RANK**0.25
    right = torch.randn(ITEMS, RANK, generator=generator) / RANK**0.25
    user = torch.randint(USERS, (count,), generator=generator)
    item = torch.randint(ITEMS, (count,), generator=generator)
    noise = 0.1 * torch.randn(count, generator=generator)
    return user, item, (left[user] * right[item]).sum(1) + noise


def train(optimizer_class: Any, options: dict[str, Any], steps: int, batch: int = 100) -> float:
    """Mean squared error on pairs that were not trained on."""
    user, item, rating = ratings()
    held_out = 4_000
    model = Factors()
    optimizer = optimizer_class(model.parameters(), **options)
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        chosen = torch.randint(held_out, len(user), (batch,), generator=generator)
        optimizer.zero_grad()
        (model(user[chosen], item[chosen]) - rating[chosen]).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        return float((model(user[:held_out], item[:held_out]) - rating[:held_out]).square().mean())


def main(steps: int = 1_500) -> dict[str, float]:
    """Trains with each optimizer and prints the held-out error. The first number is the error of predicting zero."""
    results = {"nothing": float(ratings()[2][:4_000].square().mean())}
    for name, optimizer, options in (
        ("AdaGrad, lr 0.1", torch.optim.Adagrad, {"lr": 0.1}),
        ("GradaGrad, rows", GradaGrad, {"lr": 0.1, "granularity": "row"}),
        ("GradaGrad, rows, lazy", GradaGrad, {"lr": 0.1, "granularity": "row", "lazy": True}),
        ("AutoGradaGrad", AutoGradaGrad, {}),
    ):
        results[name] = train(optimizer, options, steps)
    for name, error in results.items():
        print(f"{name:24} {error:.4f}")
    return results


if __name__ == "__main__":
    main()
