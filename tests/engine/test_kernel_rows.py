"""Sparse gradients in the kernel: the same as torch operations, also for repeated and idle rows."""

from typing import Any

import pytest
import torch

from gradagrad.engine.batch import Batch
from gradagrad.kernel.backend import ROW_KERNEL
from gradagrad.projections import NonNegative
from tests.engine.kernel_batches import AUTO, assert_same, draw_gradients, make, needs_kernel, take, torch_step, twin

pytestmark = needs_kernel
TABLES = ((20, 5), (12, 700), (30,), (15, 2, 3), (9, 16))  # short rows, long ones, numbers, several dimensions
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bounded": {"grad_bound": 2.0},
    "lazy": {"lazy": True},
    "lazy, momentum": {"lazy": True, "beta": 0.9},
    "lazy, decoupled": {"lazy": True, "weight_decay": 0.1, "beta": 0.5},
    "maximize": {"maximize": True},
    "capped": {"gamma_max": 0.12},
    "travelled": {"travelled": True, "rho": 10.0},
    "travelled, lazy": {"travelled": True, "rho": 10.0, "lazy": True, "beta": 0.5},
    "projected": {"project": NonNegative(), "lazy": True},
    "decaying": {"lr_decay": 0.1},
}


def _draw(batch: Batch, touched: int = 9) -> None:
    """Values for some rows, some of them twice or more often."""
    batch.grads = []
    for p in batch.params:
        rows = torch.randint(0, max(len(p), 1), (1, touched))
        values = (torch.randn(touched, *p.shape[1:], dtype=torch.float64) + 0.5).to(p.dtype)
        batch.grads.append(torch.sparse_coo_tensor(rows, values, p.shape, check_invariants=True))


def _compare(batch: Batch, tolerance: float, steps: int = 5) -> None:
    other = twin(batch)
    for step in range(steps):
        _draw(batch)
        other.grads = [g.clone() for g in batch.grads]
        take(ROW_KERNEL, batch)
        torch_step(other)
        assert_same(batch, other, tolerance, tolerance, f"step {step}")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("formats", ["f32", "f64", "f32 bf16", "bf16 bf16", "f16 f32"])
def test_elements_equal_the_rule_bit_for_bit(name: str, formats: str):
    dtypes = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
    words = formats.split()
    dtype, state_dtype = dtypes[words[0]], dtypes[words[-1]]
    _compare(make(TABLES, "element", dtype, state_dtype, stochastic_rounding=True, **OPTIONS[name]), 0.0)


@pytest.mark.parametrize("name", OPTIONS)
def test_rows_equal_the_rule(name: str):
    _compare(make(TABLES, "row", torch.float64, **OPTIONS[name]), 1e-11)


@pytest.mark.parametrize("name", [name for name in AUTO if "coupled_decay" not in AUTO[name]])
def test_auto_equals_the_rule(name: str):
    _compare(make(TABLES, "auto", torch.float64, **AUTO[name]), 1e-11)


def test_the_number_of_threads_changes_nothing():
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        batch = make(((5000, 16), (400, 600)), "auto")
        for _ in range(2):
            _draw(batch, touched=3000)
            take(ROW_KERNEL, batch)
        results.append(batch)
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def test_untouched_rows_are_not_written():
    batch = make(((50, 6),), "element", state_dtype=torch.bfloat16)
    batch.params[0][10:].fill_(float("nan"))
    for tensors in batch.state.values():
        tensors[0][10:] = float("nan")
    rows = torch.tensor([[3, 7, 3]])
    batch.grads = [torch.sparse_coo_tensor(rows, torch.ones(3, 6), (50, 6), check_invariants=True)]
    take(ROW_KERNEL, batch)
    assert torch.isfinite(batch.params[0][:10]).all()
    assert batch.param_states[0]["row_clocks"].tolist() == [0, 0, 0, 1, 0, 0, 0, 1] + 42 * [0]


@pytest.mark.parametrize("rows", [[0, 50], [-1, 3]])
def test_rows_outside_the_table_are_refused_before_any_write(rows: list[int]):
    batch = make(((50, 6),), "element")
    indices = torch.tensor([rows])
    batch.grads = [torch.sparse_coo_tensor(indices, torch.ones(2, 6), (50, 6), check_invariants=False)]
    before = twin(batch)
    assert "inside the table" in str(ROW_KERNEL.prepare(batch))
    assert_same(batch, before)
    assert "row_clocks" not in batch.param_states[0]


@pytest.mark.parametrize("scope", ["element", "row", "auto"])
def test_no_rows_at_all(scope: str):
    batch = make(((50, 6), (0, 3)), scope)
    other = twin(batch)
    _draw(batch, touched=0)
    other.grads = [g.clone() for g in batch.grads]
    take(ROW_KERNEL, batch)
    torch_step(other)
    assert_same(batch, other)


def test_what_does_not_fit_is_refused():
    for scope, change, message in (
        ("group", lambda b: None, "torch operations"),
        ("element", lambda b: b.params.__setitem__(0, torch.randn(6, 50).t()), "outermost"),
        ("element", lambda b: b.grads.__setitem__(0, torch.eye(50, 6).to_sparse()), "first dimension only"),
        ("element", lambda b: b.param_states[0].__setitem__("row_clocks", torch.zeros(50)), "clocks of the rows"),
    ):
        batch = make(((50, 6),), scope)
        _draw(batch)
        change(batch)
        assert message in str(ROW_KERNEL.prepare(batch))


def test_dense_gradients_in_between_leave_no_clocks():
    batch = make(((20, 4),), "element", torch.float64)
    _draw(batch)
    take(ROW_KERNEL, batch)
    assert "row_clocks" in batch.param_states[0]
    draw_gradients(batch)
    assert "sparse" in str(ROW_KERNEL.prepare(batch))
