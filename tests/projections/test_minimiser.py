"""Projections find the minimiser in the metric."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from gradagrad.projections import Ball, Box, L1Ball, NonNegative, Projection, Simplex
from tests.projections.sets import F64, NAMES, metric_spanning, normal, sets, violation


def constraints(projection: Any) -> tuple[list[dict[str, Any]], list[tuple[float | None, float | None]] | None]:
    """The set in scipy's words; an l1 ball gets doubled variables from its caller."""

    def values(x: Any) -> Any:
        return x.numpy() if isinstance(x, Tensor) else x

    match projection:
        case Ball(radius=radius, center=center):
            c = values(center)
            return [
                {"type": "ineq", "fun": lambda p: radius**2 - ((p - c) ** 2).sum(), "jac": lambda p: -2 * (p - c)}
            ], None
        case Simplex(total=total):
            return [{"type": "eq", "fun": lambda p: p.sum() - total, "jac": np.ones_like}], [(0, None)]
        case L1Ball(radius=radius):
            return [{"type": "ineq", "fun": lambda p: radius - p.sum(), "jac": lambda p: -np.ones_like(p)}], [(0, None)]
        case Box(lower=lower, upper=upper):
            low, high = np.broadcast_to(values(lower), 5), np.broadcast_to(values(upper), 5)
            return [], list(zip(low, high, strict=True))
        case NonNegative():
            return [], [(0, None)]
    raise AssertionError(projection)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_a_generic_solver(name: str, seed: int) -> None:
    projection = sets(5)[name]
    z, a = normal(5, seed=10 + seed, scale=2.0), metric_spanning(3, 5, seed=20 + seed)
    split = isinstance(projection, L1Ball)
    # |p| = p⁺ + p⁻ turns the l1 ball into linear constraints on twice as many variables.
    join: Callable[[Any], Any] = (lambda x: x[:5] - x[5:]) if split else (lambda x: x)
    rules, bounds = constraints(projection)
    weights, target = (a / a.mean()).numpy(), z.numpy()

    def slope(x: Any) -> Any:
        g = 2 * weights * (join(x) - target)
        return np.concatenate([g, -g]) if split else g

    size = 10 if split else 5
    found = minimize(
        lambda x: float((weights * (join(x) - target) ** 2).sum()),
        np.full(size, 0.1),
        jac=slope,
        method="SLSQP",
        constraints=rules,
        bounds=bounds * size if bounds is not None and len(bounds) == 1 else bounds,
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    torch.testing.assert_close(projection(z, a), torch.from_numpy(join(found.x)), rtol=1e-5, atol=2e-6)


def decimal_root(decreasing: Callable[[Decimal], Decimal], low: Decimal, high: Decimal) -> Decimal:
    """Root of a decreasing function by bisection in 100 digits."""
    for _ in range(330):
        middle = (low + high) / 2
        low, high = (middle, high) if decreasing(middle) > 0 else (low, middle)
    return (low + high) / 2


def decimal_ball(z: list[float], a: list[float], radius: float) -> list[float]:
    with localcontext(prec=100):
        weights, target, r = [Decimal(v) for v in a], [Decimal(v) for v in z], Decimal(radius)

        def at(multiplier: Decimal) -> list[Decimal]:
            return [w * t / (w + multiplier) for w, t in zip(weights, target, strict=True)]

        size = sum(t * t for t in target).sqrt()  # pyright: ignore[reportAttributeAccessIssue]
        if size <= r:
            return z
        root = decimal_root(lambda m: sum(p * p for p in at(m)) - r * r, Decimal(0), max(weights) * size / r)
        return [float(p) for p in at(root)]


def decimal_simplex(z: list[float], a: list[float], total: float) -> list[float]:
    with localcontext(prec=100):
        weights, target, whole = [Decimal(v) for v in a], [Decimal(v) for v in z], Decimal(total)

        def at(threshold: Decimal) -> list[Decimal]:
            return [max(t - threshold / w, Decimal(0)) for w, t in zip(weights, target, strict=True)]

        highest = max(w * t for w, t in zip(weights, target, strict=True))
        root = decimal_root(lambda s: sum(at(s), -whole), highest - max(weights) * whole, highest)
        return [float(p) for p in at(root)]


EXTREMES = [
    metric_spanning(40, 12),
    torch.tensor([1e-20, 1e20] * 6, dtype=F64),
    torch.tensor([1e20] + [1e-20] * 11, dtype=F64),
    torch.tensor([1e-20] + [1e20] * 11, dtype=F64),
    torch.logspace(-20, 20, 12, dtype=F64),
    torch.full((12,), 1e-20, dtype=F64),
    torch.full((12,), 1e20, dtype=F64),
]


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("case", range(len(EXTREMES)))
def test_extreme_metrics_agree_with_hundred_digits(case: int, dtype: torch.dtype) -> None:
    a = EXTREMES[case].to(dtype)
    for scale, size in [(1.0, 0.7), (1e6, 1e-3), (1e-10, 2e-11), (1e15, 1e15)]:
        z = normal(12, seed=30 + case, scale=scale).to(dtype)
        weights = a.double().tolist()
        expected: dict[Projection, list[float]] = {
            Ball(size): decimal_ball(z.tolist(), weights, size),
            Simplex(size): decimal_simplex(z.tolist(), weights, size),
        }
        magnitudes = decimal_simplex(z.abs().tolist(), weights, size)
        if float(z.double().abs().sum()) > size:
            expected[L1Ball(size)] = [math.copysign(m, v) for m, v in zip(magnitudes, z.tolist(), strict=True)]
        for projection, reference in expected.items():
            result = projection(z, a)
            eps = torch.finfo(dtype).eps
            # A backward stable answer: right for a point that differs from z by rounding.
            torch.testing.assert_close(
                result, torch.tensor(reference, dtype=dtype), rtol=8 * eps, atol=8 * eps * min(scale, 1e3 * size)
            )


@pytest.mark.parametrize("decades", [0, 2, 12])
@pytest.mark.parametrize("name", NAMES)
def test_optimality_conditions_in_many_dimensions(name: str, decades: float) -> None:
    n = 20_000
    projection: Any = sets(n)[name]
    z, a = normal(n, seed=40), metric_spanning(decades, n)
    p = projection(z, a)
    # The force A(z − p) that holds p in the set must point out of it.
    force = a * (z - p)
    noise = 4e-16 * a * (z.abs() + p.abs()) + 1e-12
    match projection:
        case Box(lower=lower, upper=upper):
            assert ((force <= noise) | (p == upper)).all()
            assert ((force >= -noise) | (p == lower)).all()
        case NonNegative():
            assert ((p > 0) & (force == 0) | (p == 0) & (force <= 0)).all()
        case Ball(center=center):
            arm = p - center
            # Read the multiplier where rounding matters least: where the force is small beside its arm.
            multiplier = float((force / arm)[(a / arm.abs()).argmin()])
            lost = 4 * noise + 1e-12 * (multiplier * arm).abs() + 4e-16 * multiplier * (p.abs() + arm.abs())
            assert multiplier > 0
            assert ((force - multiplier * arm).abs() <= lost).all()
        case Simplex() | L1Ball():
            outward = force * z.sign() if isinstance(projection, L1Ball) else force
            active = p != 0
            threshold = float(outward[active][a[active].argmin()])
            assert ((outward - threshold).abs() <= 4 * noise + 1e-12 * abs(threshold))[active].all()
            assert (outward <= threshold + 4 * noise + 1e-12 * abs(threshold))[~active].all()
            assert isinstance(projection, Simplex) or threshold > 0
    scale = max(1.0, float(p.norm()))
    assert violation(projection, p) <= 4e-15 * scale * max(1.0, getattr(projection, "total", 1.0))


@pytest.mark.parametrize("shape", ["constant", "scalar"])
def test_an_equal_metric_gives_the_euclidean_closed_forms(shape: str) -> None:
    z = normal(50, seed=50)
    a = torch.full(() if shape == "scalar" else (50,), 3.7, dtype=F64)
    three = a if shape == "scalar" else a[:3]
    c = normal(50, seed=51)
    close = torch.testing.assert_close
    close(Ball(0.6)(z, a), z * 0.6 / z.norm())
    close(Ball(0.6, center=c)(z, a), c + (z - c) * 0.6 / (z - c).norm())
    close(Simplex()(torch.tensor([0.5, 1.5, -1.0], dtype=F64), three), torch.tensor([0.0, 1.0, 0.0], dtype=F64))
    close(Simplex()(torch.tensor([0.4, 0.8, -1.0], dtype=F64), three), torch.tensor([0.3, 0.7, 0.0], dtype=F64))
    soft = L1Ball(2.0)(z, a)
    threshold = float((z - soft).abs().max())
    close(soft, z.sign() * (z.abs() - threshold).clamp(min=0))
    close(soft.abs().sum(), torch.tensor(2.0, dtype=F64))
