"""What the kernel is compared with: the rule driven by torch operations, on batches made up here."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradagrad import kernel, rounding
from gradagrad.auto import bundles, fused, rule
from gradagrad.auto.batch import Batch
from gradagrad.auto.numbers import Numbers
from gradagrad.steps.kept import Memory
from gradagrad.steps.ops import TensorOps, computing_dtype, real_view

needs_kernel = pytest.mark.skipif(not kernel.kernel_status().loaded, reason=str(kernel.kernel_status()))

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
# Parameter and state.
FORMATS = {
    "f64": (F64, F32),
    "f32": (F32, F32),
    "bf16, f32": (BF16, F32),
    "f32, bf16": (F32, BF16),
    "bf16": (BF16, BF16),
    "f16, f32": (F16, F32),
    "f16, bf16": (F16, BF16),
    "f64, bf16": (F64, BF16),
}
RARE = ("f16, f32", "f16, bf16", "f64, bf16")

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ascent": {"maximize": True},
    "coupled": {"coupled_decay": 0.3},
    "decoupled": {"decoupled_decay": 0.3},
    "eps": {"eps": 0.1},
    "no momentum": {"momentum": 0.0},
    "all": {"maximize": True, "coupled_decay": 0.1, "decoupled_decay": 0.2, "eps": 1e-3, "lr": 0.3, "momentum": 0.9},
}
STATE = ("params", "momenta", "accumulators", "averages", "steps")


class ExactOps(TensorOps):
    """torch's square root may be off by one unit in the last place; the kernel's is exact."""

    def sqrt(self, a: Tensor) -> Tensor:
        return torch.from_numpy(np.asarray(np.sqrt(a.double().numpy()))).to(a.dtype)


def make(
    shapes: Sequence[tuple[int, ...]],
    dtype: torch.dtype = F32,
    state_dtype: torch.dtype = F32,
    *,
    averaging: bool = True,
    **settings: Any,
) -> Batch:
    """A fresh batch with random parameters."""
    params = [torch.randn(shape, dtype=F64).to(dtype) for shape in shapes]
    stored = rounding.stored_dtype(computing_dtype(dtype), state_dtype, "element")
    values = [real_view(p) for p in params]
    own: dict[str, Any] = {"lr": 1.0, "coupled_decay": 0.0, "decoupled_decay": 0.0, "eps": 0.0, "momentum": 0.7}
    own["maximize"] = False
    return Batch(
        **(own | settings),
        averages_points=averaging,
        differentiable=False,
        params=params,
        owners=params,
        momenta=[torch.zeros_like(v, dtype=stored) for v in values],
        accumulators=[torch.zeros_like(v, dtype=stored) for v in values],
        averages=[v.to(stored, copy=True) for v in values] if averaging else [],
        steps=[torch.zeros(()) for _ in params],
        streams=list(range(3, 3 + len(params))),
    )


def draw_gradients(*batches: Batch) -> None:
    """Gives twins the same new gradients with a common direction, a few of them zero."""
    drawn = [torch.randn(p.shape, dtype=F64).add_(0.5) for p in batches[0].params]
    drawn = [g.where(g < 1.8, 0.0) for g in drawn]
    for batch in batches:
        batch.grads = [g.to(p.dtype).as_strided(p.shape, p.stride()) for g, p in zip(drawn, batch.params, strict=True)]


def twin(batch: Batch) -> Batch:
    """An independent copy with the same memory layouts."""
    result = copy.deepcopy(replace(batch, owners=[]))
    return replace(result, owners=result.params)


def start(gamma: float = 0.05) -> Numbers:
    return Numbers(rule.start(gamma, rule.Settings().certainty), plain=True, device=torch.device("cpu"))


def coalesced(gradient: Tensor) -> Tensor:
    """`coalesce`, but repeated rows are added in the order in which they stand there, which torch does not promise."""
    index, values = gradient._indices(), gradient._values()
    rows: dict[int, Tensor] = {}
    for row, value in zip(index[0].tolist(), values, strict=True):
        rows[row] = rows[row] + value if row in rows else value
    kept = sorted(rows)
    stacked = torch.stack([rows[row] for row in kept])
    return torch.sparse_coo_tensor(
        torch.tensor([kept]), stacked, gradient.shape, is_coalesced=True, check_invariants=True
    )


def loop_bundles(batch: Batch, state: bundles.State, before: Numbers) -> list[bundles.Bundle]:
    """By torch operations, with exact roots."""
    sparse = batch.grads[0].layout != torch.strided
    if sparse:
        batch = replace(batch, grads=[coalesced(gradient) for gradient in batch.grads])
    found = list(bundles.touched_rows(batch, state, before) if sparse else bundles.one_by_one(batch))
    for bundle in found:
        bundle.ops = ExactOps(bundle.dtype)
    return found


def step_both(
    ours: Batch,
    theirs: Batch,
    before: Numbers,
    settings: rule.Settings,
    states: tuple[bundles.State, bundles.State] = ({}, {}),
    memory: Memory | None = None,
) -> Numbers:
    """One step by the kernel and one by torch operations, with the γ that the latter found; sums are compared."""
    plan, rest = fused.plan(ours, states[0], memory or Memory(), before, settings, required=True)
    assert plan is not None
    assert rest is None
    found = loop_bundles(theirs, states[1], before)
    sums = torch.stack([bundle.measure(before, settings) for bundle in found]).sum(0)
    precise = all(bundle.dtype == F64 for bundle in found)
    assert_same_sums(plan.sums, sums, 1e-12 if precise else 2e-6)
    after = before.judged(sums, settings)
    torch._foreach_add_(theirs.steps, 1)
    for bundle in found:
        bundle.move(after, settings)
    plan.move(before, after, settings)
    return after


def assert_same_sums(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """S, Q, N and the change of Σ √B have terms of one sign; P's cancel, and it is compared with √Q."""
    usable = bool(theirs.sum().isfinite())
    assert bool(ours.sum().isfinite()) == usable
    if usable:
        scale = theirs.abs()
        scale[1] = scale[1].maximum(theirs[2].sqrt())
        assert ((ours - theirs).abs() <= tolerance * scale).all(), (ours, theirs)


def assert_same(ours: Batch, theirs: Batch) -> None:
    """All tensors equal, bit for bit; NaN equals NaN."""
    for name in STATE:
        for i, (a, b) in enumerate(zip(getattr(ours, name), getattr(theirs, name), strict=True)):
            where = f"{name}[{i}]"
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=lambda m, w=where: f"{w}: {m}")
