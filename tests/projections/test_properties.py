"""What holds of every projection: inequalities, members kept bit for bit, extremes of the range."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradagrad.projections import Ball, Box, L1Ball, NonNegative, Projection, Simplex
from tests.projections.sets import F64, NAMES, member, metric_spanning, normal, sets, violation

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
        limit = getattr(projection, "radius", getattr(projection, "total", 0.0))
        assert broken <= 6 * torch.finfo(dtype).eps * (float(p.norm()) + limit)


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
    for projection in (Ball(2.0), L1Ball(2.0), Simplex(2.0)):
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
    big = torch.tensor([3e38, -3e38])
    assert torch.equal(Box(-1e300, 1e300)(big, big), big)
    assert Ball(1.0)(big, torch.ones(2)).norm().item() == pytest.approx(1.0)


def test_a_radius_of_zero_leaves_only_the_centre() -> None:
    z, a, c = normal(2, 3), metric_spanning(4, 2, 3), normal(3, seed=9)
    assert torch.equal(Ball(0, center=c, dim=1)(z, a), c.expand(2, 3))
    assert torch.equal(Ball(0.0, center=1.5)(z, torch.tensor(2.0)), torch.full((2, 3), 1.5, dtype=F64))
    assert torch.equal(L1Ball(0.0)(z, a), torch.zeros(2, 3, dtype=F64))
