"""Projections: exact in the metric, feasible, silent on members, and clear about mistakes."""

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from gradagrad.projections import Ball, Box, HalfSpace, Hyperplane, L1Ball, NonNegative, Projection, Simplex

F64 = torch.float64
inf, nan = math.inf, math.nan


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def metric_spanning(decades: float, *shape: int, seed: int = 1) -> Tensor:
    """Entries spread evenly on the logarithmic scale around 1."""
    return 10 ** (decades * (torch.rand(shape, dtype=F64, generator=torch.Generator().manual_seed(seed)) - 0.5))


def sets(n: int) -> dict[str, Projection]:
    """One of each kind, sized so that standard normal points of dimension n mostly lie outside."""
    return {
        "box": Box(-0.3, 0.4),
        "box of tensors": Box(-normal(n, seed=2).abs(), normal(n, seed=3).abs()),
        "orthant": NonNegative(),
        "ball": Ball(0.7),
        "ball elsewhere": Ball(0.7, center=normal(n, seed=4)),
        "simplex": Simplex(),
        "large simplex": Simplex(total=float(n)),
        "l1 ball": L1Ball(0.9),
        "plane": Hyperplane(normal(n, seed=5), 0.5),
        "sum": Hyperplane(1.0, 1.0),
        "half-space": HalfSpace(normal(n, seed=5), -0.5),
    }


NAMES = list(sets(2))
COUPLED = [name for name in NAMES if name not in ("box", "box of tensors", "orthant")]


def violation(projection: Any, p: Tensor) -> float:
    """Distance by which p breaks the set's rule, measured in float64 and independently of the projection's code."""
    p = p.double()
    match projection:
        case Box(lower=lower, upper=upper):
            # The bounds, as the float32 or float64 point sees them.
            return float(torch.maximum(torch.as_tensor(lower) - p, p - torch.as_tensor(upper)).amax().clamp(min=0))
        case NonNegative():
            return float((-p).amax().clamp(min=0))
        case Ball(radius=radius, center=center):
            return max(float((p - center).norm()) - radius, 0.0)
        case Simplex(total=total):
            return max(abs(math.fsum(p.tolist()) - total), float((-p).amax()))
        case L1Ball(radius=radius):
            return max(math.fsum(p.abs().tolist()) - radius, 0.0)
        case HalfSpace(normal=across, offset=offset):
            return max(float((p * across).sum()) - offset, 0.0)
        case Hyperplane(normal=across, offset=offset):
            return abs(float((p * across).sum()) - offset)
    raise AssertionError(projection)


def member(projection: Any, raw: Tensor) -> Tensor:
    """Some member of the set, made out of `raw` without projecting it."""
    match projection:
        case Box(lower=lower, upper=upper):
            return lower + (upper - lower) * raw.sigmoid()
        case NonNegative():
            return raw.abs()
        case Ball(radius=radius, center=center):
            return center + raw * (radius / max(float(raw.norm()), 1.0))
        case Simplex(total=total):
            return total * raw.softmax(0)
        case L1Ball(radius=radius):
            return raw * (radius / max(float(raw.abs().sum()), 1.0))
        case HalfSpace(normal=Tensor() as across, offset=offset):
            return raw - across * ((raw * across).sum() - offset).clamp(min=0) / (across * across).sum()
        case Hyperplane(normal=across, offset=offset):
            across = torch.zeros_like(raw) + across
            return raw - across * ((raw * across).sum() - offset) / (across * across).sum()
    raise AssertionError(projection)


# ---------------------------------------------------------------------------------------------- the right minimiser


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
        case Hyperplane(normal=across, offset=offset):
            a = values(across)
            kind = "ineq" if isinstance(projection, HalfSpace) else "eq"
            return [{"type": kind, "fun": lambda p: offset - (a * p).sum(), "jac": lambda p: 0 * p - a}], None
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
        case Hyperplane(normal=across):
            across = across + torch.zeros_like(z)
            multiplier = force[(across.abs() / a).argmax()] / across[(across.abs() / a).argmax()]
            assert ((force - multiplier * across).abs() <= 4 * noise + 1e-12 * (multiplier * across).abs()).all()
            assert not isinstance(projection, HalfSpace) or multiplier > 0
    scale = float(p.abs().sum()) if isinstance(projection, Hyperplane) else max(1.0, float(p.norm()))
    assert violation(projection, p) <= 4e-15 * scale * max(1.0, getattr(projection, "total", 1.0))


@pytest.mark.parametrize("shape", ["constant", "scalar"])
def test_an_equal_metric_gives_the_euclidean_closed_forms(shape: str) -> None:
    z = normal(50, seed=50)
    a = torch.full(() if shape == "scalar" else (50,), 3.7, dtype=F64)
    three = a if shape == "scalar" else a[:3]
    c, n = normal(50, seed=51), normal(50, seed=52)
    close = torch.testing.assert_close
    close(Ball(0.6)(z, a), z * 0.6 / z.norm())
    close(Ball(0.6, center=c)(z, a), c + (z - c) * 0.6 / (z - c).norm())
    close(Hyperplane(n, 0.3)(z, a), z - n * ((n * z).sum() - 0.3) / (n * n).sum())
    close(HalfSpace(n, -9.0)(z, a), z - n * ((n * z).sum() + 9.0) / (n * n).sum())
    close(Simplex()(torch.tensor([0.5, 1.5, -1.0], dtype=F64), three), torch.tensor([0.0, 1.0, 0.0], dtype=F64))
    close(Simplex()(torch.tensor([0.4, 0.8, -1.0], dtype=F64), three), torch.tensor([0.3, 0.7, 0.0], dtype=F64))
    soft = L1Ball(2.0)(z, a)
    threshold = float((z - soft).abs().max())
    close(soft, z.sign() * (z.abs() - threshold).clamp(min=0))
    close(soft.abs().sum(), torch.tensor(2.0, dtype=F64))


# ------------------------------------------------------------------------------------------------------ properties

seeds = st.integers(0, 2**31 - 1)
exact = settings(max_examples=60, deadline=None, derandomize=True)


@pytest.mark.parametrize("name", NAMES)
@exact
@given(seed=seeds, n=st.integers(1, 9), decades=st.sampled_from([0, 2, 8]), log_scale=st.integers(-3, 3))
def test_variational_inequality_and_non_expansiveness(
    name: str, seed: int, n: int, decades: float, log_scale: int
) -> None:
    projection = sets(n)[name]
    x, y, raw = normal(3, n, seed=seed, scale=10.0**log_scale)
    a = metric_spanning(decades, n, seed=seed)
    p, q, other = projection(x, a), projection(y, a), member(projection, raw)

    def length(v: Tensor) -> float:
        return float((a * v * v).sum().sqrt())

    size = length(x) + length(y) + length(p) + length(q) + length(other)
    assert float((a * (x - p) * (other - p)).sum()) <= 1e-13 * size**2
    assert length(p - q) <= length(x - y) + 1e-13 * size


@pytest.mark.parametrize("name", NAMES)
@exact
@given(
    seed=seeds,
    n=st.sampled_from([1, 2, 3, 9, 500]),
    decades=st.sampled_from([0, 2, 12, 40]),
    log_scale=st.integers(-6, 8),
    dtype=st.sampled_from([torch.float32, F64]),
)
def test_feasible_and_idempotent_bit_for_bit(
    name: str, seed: int, n: int, decades: float, log_scale: int, dtype: torch.dtype
) -> None:
    projection: Any = sets(n)[name]
    if isinstance(projection, Box):  # bounds the dtype can hold, so that "exactly feasible" has one meaning
        projection = Box(*(torch.as_tensor(b).to(dtype).double() for b in (projection.lower, projection.upper)))
    z = normal(n, seed=seed, scale=10.0**log_scale).to(dtype)
    a = metric_spanning(decades, n, seed=seed).to(dtype)
    p = projection(z, a)
    assert p.dtype == dtype
    assert p.shape == z.shape
    assert torch.equal(projection(p, a), p)
    broken = violation(projection, p)
    if isinstance(projection, Box | NonNegative):
        assert broken == 0
    else:
        own = getattr(projection, "center", getattr(projection, "normal", 0.0))
        size = float((p.double() * own).abs().sum()) if isinstance(projection, Hyperplane) else float(p.norm())
        limit = getattr(projection, "radius", getattr(projection, "total", getattr(projection, "offset", 0.0)))
        assert broken <= 6 * torch.finfo(dtype).eps * (size + abs(limit))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("name", NAMES)
def test_members_come_back_bit_for_bit(name: str, dtype: torch.dtype) -> None:
    for n in (1, 7, 3000):
        projection = sets(n)[name]
        for seed in range(5):
            inside = member(projection, normal(n, seed=60 + seed)).to(dtype)
            if isinstance(projection, Box):
                inside = inside.clamp(
                    torch.as_tensor(projection.lower).to(dtype), torch.as_tensor(projection.upper).to(dtype)
                )
            result = projection(inside, metric_spanning(40, n).to(dtype))
            assert torch.equal(result.view(torch.uint8), inside.view(torch.uint8))


@pytest.mark.parametrize("projection", [NonNegative(), Box(0.0, 1.0), Ball(1.0), Simplex(), L1Ball(1.0)])
def test_negative_zero_is_a_member_and_stays(projection: Projection) -> None:
    z = torch.tensor([-0.0, 1.0])
    assert torch.equal(projection(z, torch.ones(2)).view(torch.int32), z.view(torch.int32))


def test_a_stiff_coordinate_stays_and_a_loose_one_gives_way() -> None:
    z, a = torch.tensor([3.0, 3.0]), torch.tensor([1e20, 1e-20])
    for projection in (Hyperplane(1.0, 1.0), HalfSpace(torch.ones(2), 1.0)):
        assert projection(z, a).tolist() == [3.0, -2.0]
    assert Ball(5.0)(torch.tensor([4.0, 400.0]), a).tolist() == [4.0, 3.0]
    assert L1Ball(5.0)(torch.tensor([4.0, -400.0]), a).tolist() == [4.0, -1.0]
    assert Simplex(4.0)(z, a).tolist() == [3.0, 1.0]


def test_stiff_coordinates_stay_bit_for_bit_around_any_centre() -> None:
    z, c = normal(200, seed=61), normal(200, seed=62)
    a = torch.full((200,), 1e30, dtype=F64)
    z[0], a[0] = 1e3, 1.0
    result = Ball(float((z - c)[1:].norm()) + 1.0, center=c)(z, a)
    assert torch.equal(result[1:], z[1:])
    assert float((result - c).norm()) == pytest.approx(float((z - c)[1:].norm()) + 1.0, rel=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_point_outside_by_more_than_rounding_is_brought_back(dtype: torch.dtype) -> None:
    eps, a = torch.finfo(dtype).eps, metric_spanning(3, 30).to(dtype)
    for projection in (Ball(2.0), L1Ball(2.0), Simplex(2.0), Hyperplane(1.0, 2.0), HalfSpace(1.0, 2.0)):
        edge = projection(normal(30, seed=63).abs().to(dtype), a)
        assert violation(projection, edge * (1 + 40 * eps)) > 60 * eps
        assert violation(projection, projection(edge * (1 + 40 * eps), a)) <= 30 * eps


@pytest.mark.parametrize("decades", [0, 1, 4, 20])
def test_far_points_meet_a_small_total(decades: float) -> None:
    """Moved along 1/A a point keeps its projection, but sums of its entries no longer resolve the total."""
    for n in (2, 30, 1000):
        a = metric_spanning(decades, n)
        for distance in (1e4, 1e10, 1e20):
            z = 1.3 * normal(n, seed=64).softmax(0) + distance * a.min() / a
            for projection in (Simplex(), L1Ball(1.0)):
                assert math.fsum(projection(z, a).tolist()) == pytest.approx(1.0, rel=4e-15)


def test_numbers_near_the_ends_of_the_range() -> None:
    z, a = torch.tensor([3e200, -4e200], dtype=F64), torch.tensor([1e150, 1e150], dtype=F64)
    torch.testing.assert_close(Ball(1e-100)(z, a), torch.tensor([0.6e-100, -0.8e-100], dtype=F64), atol=0, rtol=1e-15)
    skewed = Ball(1.0)(z, torch.tensor([1e-150, 1e150], dtype=F64))
    torch.testing.assert_close(skewed.norm(), torch.tensor(1.0, dtype=F64), atol=0, rtol=1e-15)
    plane = Hyperplane(torch.tensor([1e-200, 1e-200], dtype=F64), 0.0)
    torch.testing.assert_close(plane(z, a), torch.tensor([3.5e200, -3.5e200], dtype=F64))
    big = torch.tensor([3e38, -3e38])
    assert torch.equal(Box(-1e300, 1e300)(big, big), big)
    assert Ball(1.0)(big, torch.ones(2)).norm().item() == pytest.approx(1.0)


def test_a_radius_of_zero_leaves_only_the_centre() -> None:
    z, a, c = normal(2, 3), metric_spanning(4, 2, 3), normal(3, seed=9)
    assert torch.equal(Ball(0, center=c, dim=1)(z, a), c.expand(2, 3))
    assert torch.equal(Ball(0.0, center=1.5)(z, torch.tensor(2.0)), torch.full((2, 3), 1.5, dtype=F64))
    assert torch.equal(L1Ball(0.0)(z, a), torch.zeros(2, 3, dtype=F64))


# ------------------------------------------------------------------------------------------ shapes, dtypes, devices


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("metric_shape", [(4, 3, 5), (4, 1, 1), (1, 3, 1), (), (5,)])
@pytest.mark.parametrize("kind", [Ball, Simplex, L1Ball])
def test_dim_projects_every_slice_by_itself(kind: Any, metric_shape: tuple[int, ...], dim: int) -> None:
    z, a = normal(4, 3, 5, seed=70), metric_spanning(4, *metric_shape)
    result = kind(0.8, dim=dim)(z, a)
    slices, weights, results = (t.expand_as(z).movedim(dim, -1).reshape(-1, z.shape[dim]) for t in (z, a, result))
    for vector, weight, expected in zip(slices, weights, results, strict=True):
        torch.testing.assert_close(expected, kind(0.8)(vector, weight), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("metric_shape", [(4, 1), (1, 3), (), (3,)])
@pytest.mark.parametrize("name", NAMES)
def test_a_metric_of_fewer_entries_counts_as_expanded(name: str, metric_shape: tuple[int, ...]) -> None:
    z, a = normal(4, 3, seed=71), metric_spanning(3, *metric_shape)
    projection = sets(3)[name]
    torch.testing.assert_close(projection(z, a), projection(z, a.expand(4, 3)), rtol=1e-13, atol=1e-14)


def test_tensors_of_a_set_broadcast_to_the_parameter() -> None:
    z, a = normal(4, 3, seed=72), metric_spanning(3, 4, 3)
    for narrow in (normal(3, seed=73), normal(4, 1, seed=74), normal(1, seed=75)):
        wide = narrow.expand(4, 3)
        pairs = [
            (Ball(0.5, center=narrow), Ball(0.5, center=wide)),
            (Ball(0.5, center=narrow, dim=0), Ball(0.5, center=wide, dim=0)),
            (Hyperplane(narrow, 2.0), Hyperplane(wide, 2.0)),
            (Box(narrow, 9), Box(wide, 9)),
        ]
        for left, right in pairs:
            assert torch.equal(left(z, a), right(z, a))
    in_float32 = Ball(0.5, center=torch.ones(3, dtype=torch.int64))(z.float(), a)
    assert in_float32.dtype == torch.float32


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
@pytest.mark.parametrize("name", ["box", "orthant", "ball", "simplex", "l1 ball", "sum"])
def test_scalars_and_empty_tensors(name: str, shape: tuple[int, ...]) -> None:
    result = sets(1)[name](torch.full(shape, 3.0), torch.ones(()))
    expected = {"box": 0.4, "orthant": 3.0, "ball": 0.7, "simplex": 1.0, "l1 ball": 0.9, "sum": 1.0}[name]
    torch.testing.assert_close(result, torch.full(shape, expected))


@pytest.mark.parametrize("name", NAMES)
def test_points_in_any_memory_order(name: str) -> None:
    z, a = normal(3, 4, seed=76).t(), metric_spanning(3, 3, 4).t()
    projection = sets(3)[name]
    assert torch.equal(projection(z, a), projection(z.contiguous(), a.contiguous()))


@pytest.mark.parametrize("name", NAMES)
def test_the_point_is_not_written_to(name: str) -> None:
    z, a = normal(6, seed=77), metric_spanning(3, 6)
    before, weights = z.clone(), a.clone()
    sets(6)[name](z, a).zero_()
    assert torch.equal(z, before)
    assert torch.equal(a, weights)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_depends_on_values_known_only_to_the_device(name: str) -> None:
    """A meta tensor has no values: any .item(), bool() or data-dependent shape raises."""
    z = torch.empty(4, 3, device="meta")
    projection = sets(3)[name]
    assert projection(z, torch.empty(4, 3, device="meta")).shape == z.shape
    assert projection(z, torch.empty((), device="meta")).dtype == z.dtype


@pytest.mark.parametrize("name", ["box", "ball", "simplex", "half-space"])
def test_compiles_to_one_graph(name: str) -> None:
    projection, z, a = sets(3)[name], normal(4, 3, seed=78), metric_spanning(3, 4, 3)
    compiled = torch.compile(lambda point, metric: projection(point, metric), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(z, a), projection(z, a))


@pytest.mark.parametrize("projection", [Ball(0.9, dim=1), Ball(0.9), Simplex(dim=1), L1Ball(0.9, dim=1), L1Ball(0.9)])
def test_derivatives_with_slices_outside_inside_and_at_the_centre(projection: Projection) -> None:
    rows = [[1.0, 2.0, -0.7], [0.2, 0.3, 0.5], [0.0, 0.0, 0.0], [4.0, 0.1, 0.2]]
    z = torch.tensor(rows[: 2 if isinstance(projection, Simplex) else 4], dtype=F64, requires_grad=True)
    a = metric_spanning(1.5, *z.shape).requires_grad_()
    if isinstance(projection, Simplex | L1Ball):  # zeros and members of the simplex are kinks: keep off them
        z = (z.detach() + 0.05).requires_grad_()
    assert torch.autograd.gradcheck(projection, (z, a))


@pytest.mark.parametrize("name", ["ball elsewhere", "plane", "half-space"])
def test_derivatives_of_sets_with_tensors(name: str) -> None:
    z, a = normal(4, seed=80, scale=3.0).requires_grad_(), metric_spanning(2, 4).requires_grad_()
    assert torch.autograd.gradcheck(sets(4)[name], (z, a))


@pytest.mark.parametrize("bad", [nan, inf, -inf])
@pytest.mark.parametrize("kind", [Ball, Simplex, L1Ball])
def test_a_vector_without_nearest_point_is_left_alone(kind: Any, bad: float) -> None:
    z, a = normal(3, 4, seed=81, scale=5.0), metric_spanning(3, 3, 4)
    expected = kind(1.0, dim=1)(z, a)
    spoiled, weights = z.clone(), a.clone()
    spoiled[0, 2], weights[1, 1] = bad, abs(bad)
    result = kind(1.0, dim=1)(spoiled, weights)
    assert torch.equal(result[0].nan_to_num(7.0), spoiled[0].nan_to_num(7.0))
    assert torch.equal(result[1], z[1])
    assert torch.equal(result[2], expected[2])


def test_elementwise_sets_keep_a_nan_to_itself() -> None:
    z = torch.tensor([nan, -2.0, inf, -inf])
    for projection, expected in [(Box(-1.0, 1.0), [-1.0, 1.0, -1.0]), (NonNegative(), [0.0, inf, 0.0])]:
        result = projection(z, torch.ones(4)).tolist()
        assert math.isnan(result[0])
        assert result[1:] == expected


# ------------------------------------------------------------------------------------------------- objects, mistakes


def test_elementwise_is_said_only_where_rows_are_alike() -> None:
    assert NonNegative().elementwise
    assert Box(-1.0, 1.0).elementwise
    assert Box(torch.tensor(-1.0), 1).elementwise
    assert not Box(torch.zeros(3), 1.0).elementwise
    assert not any(getattr(sets(3)[name], "elementwise", False) for name in COUPLED)


@pytest.mark.parametrize("renew", [copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))])
@pytest.mark.parametrize("name", NAMES)
def test_copies_and_pickles_project_alike(name: str, renew: Callable[[Any], Any]) -> None:
    projection, z, a = sets(3)[name], normal(4, 3, seed=82), metric_spanning(3, 4, 3)
    twin = renew(projection)
    assert repr(twin) == repr(projection)
    assert torch.equal(twin(z, a), projection(z, a))


def test_frozen_also_against_the_tensor_it_was_made_of() -> None:
    center = torch.zeros(2, requires_grad=True)
    ball = Ball(1, center=center)
    with torch.no_grad():
        center.fill_(9.0)
    assert isinstance(ball.center, Tensor)
    assert ball.center.tolist() == [0.0, 0.0]
    assert isinstance(ball.radius, float)
    with pytest.raises(FrozenInstanceError):
        ball.radius = 2.0  # pyright: ignore[reportAttributeAccessIssue]
    assert Simplex(2) == Simplex(2.0)
    assert hash(L1Ball(1.0)) == hash(L1Ball(1))


T = torch.tensor
MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Box(1.0, 0.0), ValueError, r"Box: lower must be <= upper everywhere, got \(1.0, 0.0\)\. Exchange"),
    (lambda: Box(T([0.0, 2.0]), T([1.0, 1.0])), ValueError, "Box: lower must be <= upper everywhere"),
    (lambda: Box(nan, 1.0), ValueError, "Box: lower must be below inf and not NaN, got nan"),
    (lambda: Box(0.0, T([1.0, nan])), ValueError, "Box: upper must be above -inf and not NaN"),
    (lambda: Box(inf, inf), ValueError, "Box: lower must be below inf"),
    (lambda: Box(-inf, -inf), ValueError, "Box: upper must be above -inf"),
    (lambda: Box(torch.zeros(3), torch.ones(4)), ValueError, "Box: lower and upper must broadcast together"),
    (lambda: Box("0", 1.0), TypeError, "Box: lower must be a number, got '0'. Convert"),  # pyright: ignore
    (lambda: Box(T(1j), 1.0), TypeError, "Box: lower must be real, got torch.complex64"),
    (lambda: Ball(-1.0), ValueError, r"Ball: radius must be a finite number >= 0, got -1\.0"),
    (lambda: Ball(nan), ValueError, "Ball: radius must be .* got nan"),
    (lambda: Ball(inf), ValueError, "Ball: radius must be .* got inf. Without limit"),
    (lambda: Ball(T([1.0])), TypeError, r"Ball: radius must be a number, got tensor.*float\(\)"),  # pyright: ignore
    (lambda: Ball(1.0, center=nan), ValueError, "Ball: center must be finite, got nan"),
    (lambda: Ball(1.0, dim=0.5), TypeError, "Ball: dim must be an integer or None, got 0.5"),  # pyright: ignore
    (lambda: Simplex(0.0), ValueError, r"Simplex: total must be a finite number > 0, got 0\.0"),
    (lambda: Simplex(-2), ValueError, "Simplex: total"),
    (lambda: Simplex(nan), ValueError, "Simplex: total"),
    (lambda: Simplex(dim=1.0), TypeError, "Simplex: dim"),  # pyright: ignore
    (lambda: L1Ball(-1e-9), ValueError, "L1Ball: radius must be a finite number >= 0, got -1e-09"),
    (lambda: L1Ball(1.0, dim="x"), TypeError, "L1Ball: dim"),  # pyright: ignore
    (lambda: Hyperplane(torch.zeros(3), 1.0), ValueError, "Hyperplane: normal must be finite and not all zero"),
    (lambda: HalfSpace(0.0, 1.0), ValueError, "HalfSpace: normal must be finite and not all zero, got 0.0"),
    (lambda: HalfSpace(T([1.0, inf]), 1.0), ValueError, "HalfSpace: normal"),
    (lambda: Hyperplane(1.0, nan), ValueError, "Hyperplane: offset must be finite, got nan"),
    (lambda: Hyperplane(1.0, None), TypeError, "Hyperplane: offset must be a number, got None"),  # pyright: ignore
    (lambda: Ball(1.0, dim=2)(torch.ones(3, 4), T(1.0)), ValueError, r"Ball: dim must be .* \(3, 4\), got 2"),
    (lambda: Simplex(dim=0)(T(1.0), T(1.0)), ValueError, r"Simplex: dim must be .* shape \(\), got 0"),
    (lambda: Box(torch.zeros(3), 1.0)(torch.ones(4), T(1.0)), ValueError, r"Box: lower must be .*\(4,\), got \(3,\)"),
    (lambda: Ball(1.0, torch.zeros(2, 3))(torch.ones(3), T(1.0)), ValueError, r"Ball: center .* got \(2, 3\)\. Resh"),
    (
        lambda: Hyperplane(torch.ones(2), 1.0)(torch.ones(3), T(1.0)),
        ValueError,
        "Hyperplane: normal must be of a shape",
    ),
    (lambda: Simplex()(torch.ones(3), torch.ones(2)), ValueError, r"Simplex: metric must be .*\(3,\), got \(2,\)"),
]


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES, ids=[message[:40] for _, _, message in MISTAKES])
def test_mistakes_are_named_with_rule_value_and_remedy(
    mistake: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mistake()
