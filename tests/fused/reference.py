"""What the kernel is compared with: the Python loop over `gradagrad.rule`, on batches made up here."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from gradagrad import kernel, rounding
from gradagrad.granularity import Granularity, slot_shape
from gradagrad.projections import Box, NonNegative
from gradagrad.rule import Settings
from gradagrad.steps import loop
from gradagrad.steps.bundle import Batch, Measurement, take_group_step, take_steps
from gradagrad.steps.ops import TensorOps, computing_dtype, real_view

needs_kernel = pytest.mark.skipif(not kernel.kernel_status().loaded, reason=str(kernel.kernel_status()))

# Every option of the kernel by itself, and many together.
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"beta": 0.9},
    "rho": {"rho": 10.0},
    "eps": {"eps": 0.1, "beta": 0.5},
    "capped": {"gamma_max": 0.12},
    "limited": {"growth_limit": 1.01, "beta": 0.9},
    "bounded": {"grad_bound": 2.0, "alpha_0": 0.5},
    "decoupled": {"weight_decay": 0.5, "beta": 0.9},
    "coupled": {"coupled_decay": 0.5},
    "lazy": {"lazy": True, "beta": 0.9},
    "lazy bounded": {"lazy": True, "grad_bound": 2.0},
    "maximize": {"maximize": True, "beta": 0.9},
    "box": {"project": Box(-0.5, 0.75)},
    "box, momentum": {"project": Box(-0.5, 0.75), "beta": 0.9},
    "non-negative": {"project": NonNegative(), "beta": 0.9},
    "decaying": {"lr_decay": 0.3},
    "all": {
        "project": Box(-1.0, 1.0), "beta": 0.7, "gamma_max": 0.15, "growth_limit": 1.3, "grad_bound": 2.0,
        "coupled_decay": 0.1, "maximize": True, "lr_decay": 0.1, "alpha_0": 0.1, "rho": 3.0, "eps": 1e-3,
    },
}  # fmt: skip


class ExactOps(TensorOps):
    """torch's float32 square root may be off by one unit in the last place; the kernel's is exact."""

    def sqrt(self, a: Tensor) -> Tensor:
        return a.double().sqrt().to(a.dtype)


def make(
    shapes: list[tuple[int, ...]],
    granularity: Granularity = "element",
    dtype: torch.dtype = torch.float32,
    state_dtype: torch.dtype = torch.float32,
    *,
    coupled_decay: float = 0.0,
    lr_decay: float = 0.0,
    maximize: bool = False,
    lr: float = 0.1,
    **settings: Any,
) -> Batch:
    """A fresh batch with random parameters."""
    params = [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]
    computing = computing_dtype(dtype)
    momentum_dtype = rounding.stored_dtype(computing, state_dtype, "element")
    slots = rounding.stored_dtype(computing, state_dtype, granularity)
    values = [real_view(p) for p in params]
    start = settings.get("alpha_0", 0.0)
    batch = Batch(
        granularity, Settings(lr=lr, **settings), coupled_decay, lr_decay, maximize, False,
        params=params,
        momenta=[torch.zeros_like(v, dtype=momentum_dtype) for v in values],
        growths=[torch.ones(slot_shape(v.shape, granularity), dtype=slots) for v in values],
        accumulators=[torch.full(slot_shape(v.shape, granularity), start, dtype=slots) for v in values],
        steps=[torch.zeros(()) for _ in params],
        streams=list(range(3, 3 + len(params))),
    )  # fmt: skip
    return replace(batch, owners=batch.params)


def draw_gradients(batch: Batch, *, zeros: bool = False) -> None:
    """Gives the batch new gradients with a common direction, some rows and entries zero if asked."""
    batch.grads = [
        (torch.randn(p.shape, dtype=torch.float64) + 0.5).to(p.dtype).as_strided(p.shape, p.stride())
        for p in batch.params
    ]
    for gradient in batch.grads if zeros else ():
        if gradient.dim():
            gradient[::2] = 0
            gradient[gradient.real > 1.5] = 0


def twin(batch: Batch) -> Batch:
    """An independent copy with the same memory layouts."""
    settings = batch.settings
    result = copy.deepcopy(replace(batch, settings=settings._replace(project=None), owners=[]))
    return replace(result, settings=settings, owners=result.params)


def copies_of(batch: Batch) -> list[tuple[Tensor, Tensor]] | None:
    pairs = list(zip(batch.growths, batch.accumulators, strict=True))
    return pairs if batch.granularity == "group" else None


def loop_step(batch: Batch, *, exact: bool = False) -> None:
    """The step by the Python loop."""
    torch._foreach_add_(batch.steps, 1)
    bundles = list(loop.bundles(batch))
    for bundle in bundles if exact else ():
        bundle.ops = ExactOps(bundle.x.dtype)
    if batch.granularity == "group":
        take_group_step(bundles, Measurement(bundles).pairs(), copies_of(batch) or [])
    else:
        take_steps(bundles)


def tensors(batch: Batch) -> dict[str, list[Tensor]]:
    names = ("params", "momenta", "growths", "accumulators", "steps")
    return {name: getattr(batch, name) for name in names}


def assert_same(ours: Batch, theirs: Batch, rtol: float = 0.0, atol: float = 0.0) -> None:
    """All tensors equal, bit for bit unless a tolerance is given; NaN equals NaN."""
    for name, expected in tensors(theirs).items():
        for i, (a, b) in enumerate(zip(tensors(ours)[name], expected, strict=True)):
            where = f"{name}[{i}]"
            torch.testing.assert_close(a, b, equal_nan=True, rtol=rtol, atol=atol, msg=lambda m, w=where: f"{w}: {m}")
