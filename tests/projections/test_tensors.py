"""Projections of any shape, dtype and memory order, and through autograd and the compiler."""

import math
from typing import Any

import pytest
import torch

from gradagrad.projections import Ball, Box, L1Ball, NonNegative, Projection, Simplex
from tests.projections.sets import F64, NAMES, inf, metric_spanning, nan, normal, sets


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
            (Box(narrow, 9), Box(wide, 9)),
        ]
        for left, right in pairs:
            assert torch.equal(left(z, a), right(z, a))
    in_float32 = Ball(0.5, center=torch.ones(3, dtype=torch.int64))(z.float(), a)
    assert in_float32.dtype == torch.float32


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
@pytest.mark.parametrize("name", ["box", "orthant", "ball", "simplex", "l1 ball"])
def test_scalars_and_empty_tensors(name: str, shape: tuple[int, ...]) -> None:
    result = sets(1)[name](torch.full(shape, 3.0), torch.ones(()))
    expected = {"box": 0.4, "orthant": 3.0, "ball": 0.7, "simplex": 1.0, "l1 ball": 0.9}[name]
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


@pytest.mark.parametrize("name", ["box", "ball", "simplex"])
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


@pytest.mark.parametrize("name", ["ball elsewhere"])
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
