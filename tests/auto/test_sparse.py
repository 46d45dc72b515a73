"""Sparse and dense gradients give the same numbers, and only touched rows cost."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from cases import ROWS, Largest, coo, row_gradient
from torch.nn import Parameter

from gradagrad import AutoGradaGrad

from .cases import DRIVERS, Oracle, assert_same, every_parameter, gammas, shared

Pair = tuple[AutoGradaGrad, AutoGradaGrad]


def both(
    steps: int, shape: tuple[int, ...] = (ROWS, 3), dtype: torch.dtype = torch.float64, **options: Any
) -> Iterator[Pair]:
    """Two optimizers, one given sparse gradients and one the same gradients dense; a dense parameter beside."""
    sparse = [Parameter(torch.randn(shape, dtype=dtype)), Parameter(torch.randn(4, dtype=dtype))]
    dense = copy.deepcopy(sparse)
    chosen: dict[str, Any] = {"gamma0": 1e-3} | options
    a, b = (
        AutoGradaGrad([{"params": some[:1], "lr": 0.5}, {"params": some[1:]}], **chosen) for some in (sparse, dense)
    )
    for k in range(steps):
        sparse[0].grad = row_gradient(k, shape, dtype)
        dense[0].grad = sparse[0].grad.to_dense()
        sparse[1].grad = dense[1].grad = torch.full((4,), 0.1 * (k % 3), dtype=dtype)
        a.step()
        b.step()
        yield a, b


def assert_equal(a: AutoGradaGrad, b: AutoGradaGrad, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(shared(a), shared(b), rtol=tolerance, atol=tolerance * 1e-2)
    a.state_dict()  # Idle rows catch up.
    for p, q in zip(every_parameter(a), every_parameter(b), strict=True):
        torch.testing.assert_close(p, q, rtol=tolerance, atol=tolerance * 1e-2)
        for key in ("accumulator", "offset", "displacement", "gamma", "agreement_square", "step"):
            torch.testing.assert_close(a.state[p][key], b.state[q][key], rtol=tolerance, atol=tolerance * 1e-2)


def assert_equal_averages(a: AutoGradaGrad, b: AutoGradaGrad, tolerance: float = 1e-12) -> None:
    with a.averaged(), b.averaged():
        torch.testing.assert_close(every_parameter(a), every_parameter(b), rtol=tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("options", [{}, {"guard": False}, {"maximize": True}, {"weight_decay": 0.1}], ids=str)
def test_sparse_is_dense(driver: str, options: dict[str, Any]) -> None:
    runs = list(both(25, **DRIVERS[driver], **options))
    a, b = runs[-1]
    assert_equal(a, b)
    assert_equal_averages(a, b)
    assert max(gammas(a)) > 2e-3


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((ROWS,), torch.float64),
        ((ROWS, 2, 2), torch.float64),
        ((ROWS, 3), torch.complex128),
        ((ROWS, 3), torch.float32),
        ((ROWS, 3), torch.bfloat16),
    ],
    ids=str,
)
def test_other_shapes_and_numbers(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 3e-2}.get(dtype, 1e-11)
    for a, b in both(12, shape, dtype):
        assert_equal(a, b, tolerance)
    assert_equal_averages(a, b, tolerance)  # pyright: ignore[reportPossiblyUnboundVariable]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("rows", [[[1, 4]], [[]]], ids=["zeros", "no rows"])
@pytest.mark.parametrize("steps", [0, 6])
def test_gradients_of_zero_change_nothing(driver: str, rows: list[list[int]], steps: int) -> None:
    runs = list(both(steps + 1, **DRIVERS[driver]))
    optimizer = runs[-1][0]
    before, (table, p) = copy.deepcopy(optimizer), every_parameter(optimizer)
    table.grad, p.grad = coo(rows, torch.zeros(len(rows[0]), 3, dtype=table.dtype), table.shape), torch.zeros_like(p)
    optimizer.step()
    assert_same(optimizer, before)


def test_the_oracle_of_a_table() -> None:
    """Untouched rows have a gradient of zero."""
    table = Parameter(torch.randn(ROWS, 3, dtype=torch.float64))
    optimizer = AutoGradaGrad([table])
    oracle = Oracle(optimizer)
    for k in range(60):
        table.grad = row_gradient(k, (ROWS, 3))
        oracle.step()
        if k % 10 == 9:
            oracle.compare()


def test_several_sparse_dimensions_and_then_one() -> None:
    p = Parameter(torch.randn(5, 4, dtype=torch.float64))
    q = copy.deepcopy(p)
    a, b = (AutoGradaGrad([some], gamma0=1e-2) for some in (p, q))
    for k in range(18):
        generator = torch.Generator().manual_seed(k)
        rows, columns = (torch.randint(n, (6,), generator=generator) for n in (5, 4))
        if k % 6 < 4:
            p.grad = coo(torch.stack([rows, columns]), torch.randn(6, generator=generator, dtype=torch.float64), (5, 4))
        else:
            p.grad = coo(rows[None, :2], torch.randn(2, 4, generator=generator, dtype=torch.float64), (5, 4))
        q.grad = p.grad.to_dense()
        a.step()
        b.step()
        assert_equal(a, b)
    assert_equal_averages(a, b)


def test_bfloat16_state_of_untouched_rows_stays_as_it_is() -> None:
    p = Parameter(torch.randn(4, 3))
    optimizer = AutoGradaGrad([p], gamma0=0.1, state_dtype=torch.bfloat16)
    p.grad = coo([[0, 1]], torch.randn(2, 3), (4, 3))
    optimizer.step()
    kept = {key: value.clone() for key, value in optimizer.state[p].items()}
    p.grad = coo([[1]], torch.randn(1, 3), (4, 3))
    optimizer.step()
    for key in ("accumulator", "offset", "displacement"):
        assert optimizer.state[p][key].dtype == torch.bfloat16
        for row in (0, 2, 3):
            assert torch.equal(optimizer.state[p][key][row], kept[key][row])
        assert key == "offset" or not torch.equal(optimizer.state[p][key][1], kept[key][1])


def test_decoupled_decay_touches_the_touched_rows() -> None:
    p = Parameter(torch.ones(4, 3))
    optimizer = AutoGradaGrad([p], gamma0=0.1, weight_decay=0.5)
    p.grad = coo([[2]], torch.ones(1, 3), (4, 3))
    optimizer.step()  # γ·(g/√a + λ·y) with a = g²
    torch.testing.assert_close(p.detach()[2], torch.full((3,), 1.0 - 0.1 * (1.0 + 0.5)))
    assert torch.equal(p[[0, 1, 3]], torch.ones(3, 3))


def test_cost_follows_the_touched_rows() -> None:
    p, other = Parameter(torch.zeros(10_000, 4)), Parameter(torch.zeros(3))
    optimizer = AutoGradaGrad([p, other])
    for k in range(6):
        p.grad = coo([[k, k + 1]], torch.ones(2, 4), p.shape) if k != 3 else None  # and without a gradient
        other.grad = torch.ones(3)
        with Largest() as seen:
            optimizer.step()
        assert k == 0 or seen.largest <= 100, (k, seen.largest)  # The first step may copy the weights.


def test_a_single_number_may_miss_a_gradient() -> None:
    number, other = (torch.nn.Parameter(torch.ones(shape)) for shape in ((), (1,)))
    optimizer = AutoGradaGrad([number, other], gamma0=0.1)
    for k in range(4):
        number.grad = None if k == 2 else torch.ones(())
        other.grad = torch.ones(1)
        optimizer.step()
    assert torch.isfinite(number)
    assert "row_clocks" not in optimizer.state[number]
