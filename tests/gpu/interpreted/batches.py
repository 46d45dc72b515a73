"""Batches for the kernels, and the comparison with the rule."""

import copy
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.rules import auto, gradagrad
from gradagrad.rules.scope import SINGLE, block_shape
from gradagrad.torch_ops.steps import TorchSteps
from gradagrad.triton.backend import Sizes, TritonBackend

SHAPES: tuple[tuple[int, ...], ...] = ((41, 13), (9,), (), (0, 3))
"""With tiles of 512 elements: a full one and a remainder, small tensors, an empty one."""
SIZES = Sizes(tile=512, chunk=512, programs=2, width=4)


def batch_of(
    scope: Any,
    *,
    rule: Any = gradagrad.RULE,
    shapes: Any = SHAPES,
    dtype: torch.dtype = torch.float32,
    state: torch.dtype | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> Batch:
    s = (gradagrad.Settings if rule is gradagrad.RULE else auto.Settings)(**settings)
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    computing = torch.float64 if dtype == torch.float64 else torch.float32
    batch = Batch(rule, s, scope, params=params, streams=list(range(3, 3 + len(params))), **(options or {}))
    batch.grads = [torch.zeros_like(p) for p in params]
    batch.steps = [torch.zeros((), dtype=torch.int64) for _ in params]
    for f in batch.fields:
        start: Any = getattr(s, f.start) if isinstance(f.start, str) and f.start != "point" else f.start
        whole = f.at == "element" or scope == "element"
        if f.at == "block" and scope in ("group", "all"):
            batch.shared[f.key] = torch.full((), start, dtype=torch.float64)
            continue
        kept = torch.float64 if f.at == "block" and scope in SINGLE else (state or computing) if whole else computing
        batch.state[f.key] = [
            p.to(kept).clone()
            if start == "point"
            else torch.full_like(p, start, dtype=kept)
            if whole
            else torch.full(block_shape(p.shape, scope), start, dtype=kept)
            for p in params
        ]
    batch.param_states = [{} for _ in params]
    return batch


def set_gradients(batch: Batch, k: int, *, sparse: bool = False) -> None:
    """Those of a noisy quadratic, some of them zero, as rows and as elements."""
    generator = torch.Generator().manual_seed(100 + k)
    for i, p in enumerate(batch.params):
        g = p.double() - 1.0 + 0.5 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
        g = g * (torch.rand(p.shape, generator=generator) > 0.1)
        if p.dim() > 1:
            g = g * (torch.rand(p.shape[0], *(1 for _ in p.shape[1:]), generator=generator) > 0.2)
        g = g.to(p.dtype)
        if sparse:
            rows = torch.randperm(p.shape[0], generator=generator)[: p.shape[0] // 2]
            rows = torch.cat([rows, rows[:1]])  # one of them twice, to be added up
            g = torch.sparse_coo_tensor(rows[None], g[rows], p.shape, check_invariants=True)
        elif g.stride() != p.stride():
            g = torch.empty_like(p).copy_(g)
        batch.grads[i] = g


def both(
    batch: Batch, steps: int = 3, *, sparse: bool = False, backend: TritonBackend | None = None
) -> tuple[Batch, Batch]:
    """The batch stepped by the kernels, and by the rule."""
    backend = backend or TritonBackend(sizes=SIZES)
    other = copy.deepcopy(batch)
    for k in range(steps):
        set_gradients(other, k, sparse=sparse)
        batch.grads = list(other.grads)
        assert backend.prepare(batch) is None
        backend.step(batch)
        TorchSteps(together=False).step(other)
    return batch, other


def numbers(batch: Batch) -> dict[str, Tensor]:
    """Everything a step writes, by name."""
    result = {f"x{i}": p for i, p in enumerate(batch.params)} | {f"step{i}": p for i, p in enumerate(batch.steps)}
    result |= {f"{key}{i}": a for key, values in batch.state.items() for i, a in enumerate(values)}
    return (
        result | batch.shared | {f"row_steps{i}": row["row_steps"] for i, row in enumerate(batch.param_states) if row}
    )


def assert_same(a: Batch, b: Batch, rtol: float = 0.0) -> None:
    mine, other = numbers(a), numbers(b)
    assert mine.keys() == other.keys()
    for key, value in mine.items():
        torch.testing.assert_close(
            value, other[key], rtol=rtol, atol=rtol, equal_nan=True, msg=lambda m, k=key: f"{k}: {m}"
        )
