"""Projections as objects, and what they say about mistakes."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from torch import Tensor

from gradagrad.projections import Ball, Box, L1Ball, NonNegative, Simplex
from tests.projections.sets import COUPLED, NAMES, inf, metric_spanning, nan, normal, sets


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
    (lambda: Ball(1.0, dim=2)(torch.ones(3, 4), T(1.0)), ValueError, r"Ball: dim must be .* \(3, 4\), got 2"),
    (lambda: Simplex(dim=0)(T(1.0), T(1.0)), ValueError, r"Simplex: dim must be .* shape \(\), got 0"),
    (lambda: Box(torch.zeros(3), 1.0)(torch.ones(4), T(1.0)), ValueError, r"Box: lower must be .*\(4,\), got \(3,\)"),
    (lambda: Ball(1.0, torch.zeros(2, 3))(torch.ones(3), T(1.0)), ValueError, r"Ball: center .* got \(2, 3\)\. Resh"),
    (lambda: Simplex()(torch.ones(3), torch.ones(2)), ValueError, r"Simplex: metric must be .*\(3,\), got \(2,\)"),
]


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES, ids=[message[:40] for _, _, message in MISTAKES])
def test_mistakes_are_named_with_rule_value_and_remedy(
    mistake: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        mistake()
