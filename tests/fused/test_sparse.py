"""Sparse gradients in the kernel: the same as by torch operations, duplicates and forgotten rows included."""

from typing import Any

import pytest
import torch

from gradagrad import GradaGrad
from gradagrad.projections import NonNegative
from tests.fused.reference import needs_kernel

pytestmark = needs_kernel


def _train(use: bool | None, *, rows: int = 50, width: int = 5, sparse: bool = True, steps: int = 12, **options):
    torch.manual_seed(1)
    dtype = options.pop("dtype", torch.float64)
    table = torch.randn(rows, width).to(dtype) if width else torch.randn(rows).to(dtype)
    optimizer = GradaGrad([table], 0.1, fused=use, **options)
    for _ in range(steps):
        index = torch.randint(rows, (20,))
        index[3] = index[7] = index[5]  # a row three times
        values = (torch.randn(20, *table.shape[1:]) + 0.5).to(dtype)
        gradient = torch.sparse_coo_tensor(index[None], values, table.shape, check_invariants=True)
        table.grad = gradient if sparse else gradient.to_dense()
        optimizer.step()
    return table, optimizer.state[table]


CASES: dict[str, dict[str, Any]] = {
    "element": {},
    "lazy": {"lazy": True},
    "lazy momentum": {"lazy": True, "momentum": 0.9},
    "rows": {"granularity": "row"},
    "lazy rows": {"granularity": "row", "lazy": True, "momentum": 0.9},
    "bounded": {"grad_bound": 2.0, "lazy": True},
    "projected": {"projection": NonNegative()},
    "decayed": {"lazy": True, "weight_decay": 0.1, "decoupled_weight_decay": True},
    "maximize": {"maximize": True, "lr_decay": 0.1},
    "one-dimensional": {"width": 0},
    "one column": {"width": 1, "granularity": "row"},
    "wide": {"width": 300},
}


@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_torch_operations(case: str):
    ours, our_state = _train(True, **CASES[case])
    theirs, their_state = _train(False, **CASES[case])
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    assert our_state.keys() == their_state.keys()
    for key, value in their_state.items():
        torch.testing.assert_close(our_state[key], value, rtol=1e-10, atol=1e-11, msg=lambda m, key=key: f"{key}: {m}")


@pytest.mark.parametrize("case", ["element", "lazy momentum", "rows", "lazy rows"])
def test_sparse_equals_dense(case: str):
    sparse, _ = _train(True, **CASES[case])
    dense, _ = _train(True, sparse=False, **CASES[case])
    torch.testing.assert_close(sparse, dense, rtol=1e-11, atol=1e-12)


def test_bf16_state_is_rounded_alike():
    options: dict[str, Any] = {"state_dtype": torch.bfloat16, "dtype": torch.float32, "steps": 30}
    ours, our_state = _train(True, **options)
    theirs, their_state = _train(False, **options)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    for key in ("momentum", "growth", "accumulator"):
        same = (our_state[key] == their_state[key]).double().mean()
        assert same > 0.99  # torch's float32 square root differs in the last bit here and there


def test_untouched_rows_are_not_written():
    table = torch.randn(1000, 4)
    before = table.clone()
    optimizer = GradaGrad([table], 0.1, fused=True, lazy=True)
    for _ in range(3):
        table.grad = torch.sparse_coo_tensor(
            torch.tensor([[3, 998, 3]]), torch.ones(3, 4), (1000, 4), check_invariants=True
        )
        optimizer.step()
    changed = (table != before).any(dim=1).nonzero().flatten()
    assert changed.tolist() == [3, 998]


def test_rows_outside_the_table_are_refused_before_any_write():
    table = torch.ones(10, 2)
    optimizer = GradaGrad([table], 0.1, fused=True, lazy=True)
    table.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (10, 2), check_invariants=True)
    optimizer.step()
    before = {k: v.clone() for k, v in optimizer.state[table].items()}
    x = table.clone()
    with torch.sparse.check_sparse_tensor_invariants(False):
        table.grad = torch.sparse_coo_tensor(torch.tensor([[1, 10]]), torch.ones(2, 2), (10, 2))
    with pytest.raises((RuntimeError, IndexError)):
        optimizer.step()
    assert torch.equal(x, table)
    for key in ("momentum", "growth", "accumulator"):
        assert torch.equal(before[key], optimizer.state[table][key])


def test_no_rows_at_all():
    table = torch.ones(10, 2)
    optimizer = GradaGrad([table], 0.1, fused=True)
    for rows in ([1, 2], [], [2], []):
        index = torch.tensor([rows], dtype=torch.int64)
        table.grad = torch.sparse_coo_tensor(index, torch.ones(len(rows), 2), (10, 2), check_invariants=True)
        optimizer.step()
    assert optimizer.state[table]["last_rows"].numel() == 0
    assert not optimizer.state[table]["momentum"].any()
    assert optimizer.state[table]["step"] == 4
