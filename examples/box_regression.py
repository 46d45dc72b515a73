"""Least squares with coefficients between 0 and 1: a projection in the optimizer, and a check of the result.

    python examples/box_regression.py

At the minimum every coefficient inside the box has a zero gradient, and for one at a bound the negative gradient points
out of the box. The example prints the largest violation of that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradagrad import GradaGrad
from gradagrad.projections import Box


def problem(rows: int = 200, columns: int = 30) -> tuple[Tensor, Tensor]:
    """Columns of very different size, and targets whose unconstrained coefficients leave the box."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    X = X * torch.logspace(-1, 1, columns, dtype=torch.float64)
    coefficients = 1.5 * torch.randn(columns, generator=generator, dtype=torch.float64)
    return X, X @ coefficients + torch.randn(rows, generator=generator, dtype=torch.float64)


def violation(x: Tensor, gradient: Tensor) -> float:
    """The largest negative gradient that points into the box. It is zero at the minimum."""
    allowed = torch.where(x <= 0.0, gradient.clamp(max=0.0), torch.where(x >= 1.0, gradient.clamp(min=0.0), gradient))
    return float(allowed.abs().max())


def main(steps: int = 2_000) -> tuple[Tensor, float, float]:
    """Solves the problem; returns the coefficients and the violation before and after."""
    X, y = problem()
    x = torch.full((X.shape[1],), 0.5, dtype=torch.float64, requires_grad=True)
    optimizer = GradaGrad([x], lr=0.1, projection=Box(0.0, 1.0))

    def gradient() -> Tensor:
        optimizer.zero_grad()
        (0.5 * (X @ x - y).square().mean()).backward()
        assert x.grad is not None
        return x.grad

    before = violation(x.detach(), gradient())
    for _ in range(steps):
        gradient()
        optimizer.step()
    after = violation(x.detach(), gradient())
    at_bound = int(((x <= 0) | (x >= 1)).sum())
    print(f"{at_bound} of {len(x)} coefficients at a bound; violation {before:.3g} before, {after:.3g} after")
    return x.detach(), before, after


if __name__ == "__main__":
    main()
