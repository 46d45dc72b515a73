"""Sparse gradients in AutoGradaGrad's kernel: the same as by torch operations, repeated and resting rows included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from gradagrad import AutoGradaGrad
from gradagrad.auto import fused, rule
from gradagrad.auto.batch import Batch
from gradagrad.steps.kept import Memory

from . import cases
from .kernel_cases import FORMATS, OPTIONS, assert_same, make, needs_kernel, start, step_both, twin

pytestmark = needs_kernel

SETTINGS = rule.Settings()


def _draw(*batches: Batch, touched: int = 20) -> None:
    """Gives twins the same gradients for some rows, one of them three times."""
    rows, *rest = batches[0].params[0].shape
    index = torch.randint(rows, (touched,))
    index[3] = index[7] = index[5]
    values = torch.randn(touched, *rest, dtype=torch.float64) + 0.5
    values[11] = 0.0
    for batch in batches:
        batch.grads = [cases.coo(index[None], values.to(p.dtype), p.shape) for p in batch.params]


def _states(*batches: Batch) -> tuple[Any, Any]:
    first, second = ({p: {"average": mean} for p, mean in zip(b.params, b.averages, strict=False)} for b in batches)
    return first, second


@pytest.mark.parametrize("averaging", [True, False], ids=["average", "none"])
@pytest.mark.parametrize("options", ["plain", "ascent", "decoupled", "eps"])
@pytest.mark.parametrize("formats", FORMATS)
def test_every_option(formats: str, options: str, averaging: bool) -> None:
    batch = make([(40, 5)], *FORMATS[formats], averaging=averaging, **OPTIONS[options])
    _compare(batch, 12)


@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 16), (50, 300), (50, 3, 7), (50, 600)], ids=str)
@pytest.mark.parametrize("formats", ["f64", "bf16"])
def test_widths(shape: tuple[int, ...], formats: str) -> None:
    _compare(make([shape], *FORMATS[formats]), 6)


@pytest.mark.parametrize("formats", FORMATS)
def test_three_hundred_steps(formats: str) -> None:
    _compare(make([(60, 4)], *FORMATS[formats]), 300)


def _compare(batch: Batch, steps: int) -> None:
    other = twin(batch)
    states = _states(batch, other)
    numbers = start(0.01)
    for _ in range(steps):
        _draw(batch, other)
        numbers = step_both(batch, other, numbers, SETTINGS, states)
    assert_same(batch, other)
    for ours, theirs in zip(states[0].values(), states[1].values(), strict=True):
        assert torch.equal(ours["row_steps"], theirs["row_steps"])


def test_the_number_of_threads_changes_nothing() -> None:
    results: list[tuple[Tensor, Batch]] = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        batch = make([(5000, 16)])
        state, _ = _states(batch, batch)
        numbers = start()
        for _ in range(3):
            _draw(batch, touched=4000)
            plan, _ = fused.plan(batch, state, Memory(), numbers, SETTINGS, required=True)
            assert plan is not None
            after = numbers.judged(plan.sums, SETTINGS)
            plan.move(numbers, after, SETTINGS)
            numbers = after
        results.append((torch.tensor(numbers.values), batch))
    for numbers, batch in results[1:]:
        assert torch.equal(numbers, results[0][0])
        assert_same(batch, results[0][1])


def _train(use: bool | None, dtype: torch.dtype = torch.float64, sparse: bool = True, **options: Any) -> AutoGradaGrad:
    """Two tables and a dense weight; some steps leave a table out."""
    torch.manual_seed(1)
    tables = [Parameter(torch.randn(30, 4).to(dtype)), Parameter(torch.randn(20, 2).to(dtype))]
    weight = Parameter(torch.randn(6).to(dtype))
    optimizer = AutoGradaGrad([*tables, weight], fused=use, gamma0=1e-3, **options)
    for k in range(30):
        for i, table in enumerate(tables):
            index = torch.randint(len(table), (9,))
            values = torch.randn(9, *table.shape[1:]).to(dtype) + 0.3
            gradient = cases.coo(index[None], values, table.shape)
            table.grad = None if k % 5 == i else gradient if sparse else gradient.to_dense()
        weight.grad = torch.randn(6).to(dtype) + 0.3
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("options", [{}, {"averaging": None}, {"weighting": "uniform"}], ids=str)
def test_the_optimizer_steps_alike(options: dict[str, Any]) -> None:
    cases.assert_same(_train(True, **options), _train(False, **options), rtol=1e-9, atol=1e-11)


def test_complex_tables() -> None:
    options: dict[str, Any] = {"dtype": torch.complex128}
    cases.assert_same(_train(True, **options), _train(False, **options), rtol=1e-9, atol=1e-11)


def test_sparse_equals_dense() -> None:
    sparse, dense = _train(True), _train(True, sparse=False)
    for p, q in zip(cases.every_parameter(sparse), cases.every_parameter(dense), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
    with sparse.averaged(), dense.averaged():
        for p, q in zip(cases.every_parameter(sparse), cases.every_parameter(dense), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)


def test_untouched_rows_are_not_written() -> None:
    table = Parameter(torch.randn(1000, 4))
    optimizer = AutoGradaGrad([table], fused=True)
    table.grad = cases.coo([[5]], torch.ones(1, 4), table.shape)
    optimizer.step()
    tensors = {"x": table.detach(), **{k: optimizer.state[table][k] for k in ("accumulator", "average", "row_steps")}}
    before = {k: t.clone() for k, t in tensors.items()}
    for _ in range(3):
        table.grad = cases.coo([[3, 998, 3]], torch.ones(3, 4), table.shape)
        optimizer.step()
    for name, tensor in tensors.items():
        changed = (tensor != before[name]).reshape(1000, -1).any(dim=1).nonzero().flatten()
        assert changed.tolist() == [3, 998], name


def test_rows_outside_the_table_are_refused_before_any_write() -> None:
    table = Parameter(torch.ones(10, 2))
    optimizer = AutoGradaGrad([table], fused=True)
    table.grad = cases.coo([[1]], torch.ones(1, 2), table.shape)
    optimizer.step()
    before = {k: v.clone() for k, v in optimizer.state[table].items()} | {"x": table.detach().clone()}
    with torch.sparse.check_sparse_tensor_invariants(False):
        table.grad = torch.sparse_coo_tensor(torch.tensor([[1, 10]]), torch.ones(2, 2), (10, 2))
    with pytest.raises((RuntimeError, IndexError)):
        optimizer.step()
    for key, value in {**optimizer.state[table], "x": table.detach()}.items():
        assert torch.equal(value, before[key]), key


def test_no_rows_at_all() -> None:
    table = Parameter(torch.ones(10, 2))
    optimizer = AutoGradaGrad([table], fused=True)
    for rows in ([1, 2], [], [2], []):
        table.grad = cases.coo(torch.tensor([rows], dtype=torch.int64), torch.ones(len(rows), 2), table.shape)
        optimizer.step()
    assert optimizer.state[table]["step"] == 4
    assert optimizer.state[table]["row_steps"].tolist() == [0, 1, 3, *[0] * 7]


@pytest.mark.parametrize("table", [
    torch.ones(6, 4).t(), torch.ones(4, 6)[:, ::2],
], ids=["transposed", "gaps"])  # fmt: skip
def test_tables_that_do_not_fit_are_stepped_by_torch_operations(table: Tensor) -> None:
    optimizers: list[AutoGradaGrad] = []
    for use in (True, False):
        parameter = Parameter(table.clone(memory_format=torch.preserve_format))
        optimizers.append(AutoGradaGrad([parameter, Parameter(torch.ones(4, 6))], fused=use))
        torch.manual_seed(2)
        for _ in range(4):
            for p in cases.every_parameter(optimizers[-1]):
                p.grad = cases.coo([[3, 0, 3]], torch.randn(3, *p.shape[1:]).to(p.dtype), p.shape)
            optimizers[-1].step()
    cases.assert_same(*optimizers, rtol=1e-4, atol=1e-6)
