"""The sets that come with the package, and what they say about mistakes."""

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradagrad.projections import Box, NonNegative

F64, inf, nan, T = torch.float64, math.inf, math.nan, torch.tensor


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


SETS = {"box": Box(-0.25, 0.5), "orthant": NonNegative()}


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31 - 1), n=st.integers(1, 9), log_scale=st.integers(-3, 3))
def test_the_nearest_member_in_every_metric(name: str, seed: int, n: int, log_scale: int) -> None:
    projection = SETS[name]
    x, raw, log_metric = normal(3, n, seed=seed, scale=10.0**log_scale)
    metric = log_metric.sigmoid() * 10.0
    p = projection(x, metric)
    lower, upper = T(projection.lower), T(projection.upper)
    assert bool(((p >= lower) & (p <= upper)).all())
    assert torch.equal(projection(p, metric), p)  # members come back bit for bit
    other = raw.abs() if name == "orthant" else lower + (upper - lower) * raw.sigmoid()
    assert float((metric * (x - p) * (other - p)).sum()) <= 1e-12 * float((metric * x * x).sum() + 1.0)


def test_zeros_keep_their_sign_and_nan_stays_by_itself() -> None:
    z = T([nan, -2.0, inf, -inf, -0.0])
    for projection, expected in [(Box(-1.0, 1.0), [-1.0, 1.0, -1.0]), (NonNegative(), [0.0, inf, 0.0])]:
        result = projection(z, torch.ones(5)).tolist()
        assert math.isnan(result[0])
        assert result[1:4] == expected
        assert math.copysign(1.0, result[4]) == -1.0


@pytest.mark.parametrize("name", SETS)
def test_any_shape_memory_order_and_device(name: str) -> None:
    """A meta tensor has no values: any .item(), bool() or data-dependent shape raises."""
    projection, z, a = SETS[name], normal(3, 4, seed=76).t(), torch.ones(())
    assert torch.equal(projection(z, a), projection(z.contiguous(), a))
    before = z.clone()
    projection(z, a).zero_()
    assert torch.equal(z, before)
    meta = torch.empty(4, 3, device="meta")
    assert projection(meta, meta).shape == meta.shape
    compiled = torch.compile(lambda point: projection(point, a), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(z), projection(z, a))
    assert SETS[name](torch.full((1,), 3.0), a).shape == (1,)


@pytest.mark.parametrize("renew", [copy.deepcopy, copy.copy, lambda p: pickle.loads(pickle.dumps(p))])
@pytest.mark.parametrize("name", SETS)
def test_copies_and_pickles_project_alike(name: str, renew: Callable[[Any], Any]) -> None:
    projection, z = SETS[name], normal(4, 3, seed=82)
    twin = renew(projection)
    assert repr(twin) == repr(projection)
    assert torch.equal(twin(z, T(1.0)), projection(z, T(1.0)))


def test_frozen() -> None:
    box = Box(-1, 1)
    assert isinstance(box.upper, float)
    with pytest.raises(FrozenInstanceError):
        box.upper = 2.0  # pyright: ignore[reportAttributeAccessIssue]
    assert NonNegative().elementwise
    assert NonNegative() == Box(0.0)


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Box(1.0, 0.0), ValueError, r"Box: lower must be <= upper, got \(1.0, 0.0\)\. Exchange"),
    (lambda: Box(nan, 1.0), ValueError, "Box: lower must be below inf and not NaN, got nan"),
    (lambda: Box(0.0, nan), ValueError, "Box: upper must be above -inf and not NaN"),
    (lambda: Box(inf, inf), ValueError, "Box: lower must be below inf"),
    (lambda: Box(-inf, -inf), ValueError, "Box: upper must be above -inf"),
    (lambda: Box("0", 1.0), TypeError, "Box: lower must be a number, got '0'. Convert"),  # pyright: ignore
    (lambda: Box(T([0.0, 1.0]), 1.0), TypeError, r"a number, got tensor\(.*clamp in a function of your own: lambda"),  # pyright: ignore
]


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES, ids=[message[:40] for _, _, message in MISTAKES])
def test_mistakes_are_named_with_rule_value_and_remedy(
    mistake: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mistake()
