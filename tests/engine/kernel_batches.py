"""Batches made up for tests of the kernel, and the same step by torch operations."""

import copy
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.engine.plan import Plan
from gradagrad.engine.state import new_field
from gradagrad.kernel import load as kernel
from gradagrad.kernel.backend import KERNEL
from gradagrad.projections import Box, NonNegative
from gradagrad.rules import auto, gradagrad
from gradagrad.torch_ops import ops as tensors
from gradagrad.torch_ops import steps as torch_steps
from gradagrad.torch_ops import views
from gradagrad.torch_ops.steps import TorchStep

needs_kernel = pytest.mark.skipif(not kernel.kernel_status().loaded, reason=str(kernel.kernel_status()))

# Every option of the rule by itself, and many together.
GRADAGRAD: dict[str, dict[str, Any]] = {
    "plain": {},
    "momentum": {"beta": 0.9},
    "rho": {"rho": 10.0},
    "eps": {"eps": 0.1, "beta": 0.5},
    "capped": {"gamma_max": 0.12},
    "capped, momentum": {"gamma_max": 0.12, "beta": 0.9},
    "travelled": {"travelled": True, "rho": 10.0},
    "travelled, momentum": {"travelled": True, "beta": 0.9, "lazy": True, "project": Box(-0.5, 0.75)},
    "limited": {"growth_limit": 1.01, "beta": 0.9},
    "bounded": {"grad_bound": 2.0, "initial_accumulator_value": 0.5},
    "decoupled": {"weight_decay": 0.5, "beta": 0.9},
    "coupled": {"coupled_decay": 0.5},
    "lazy": {"lazy": True},
    "lazy, momentum": {"lazy": True, "beta": 0.9},
    "lazy, bounded": {"lazy": True, "grad_bound": 2.0},
    "maximize": {"maximize": True, "beta": 0.9},
    "box": {"project": Box(-0.5, 0.75)},
    "box, momentum": {"project": Box(-0.5, 0.75), "beta": 0.9},
    "non-negative": {"project": NonNegative(), "beta": 0.9},
    "decaying": {"lr_decay": 0.3},
    "all": {
        "project": Box(-1.0, 1.0), "beta": 0.7, "gamma_max": 0.15, "growth_limit": 1.3, "grad_bound": 2.0,
        "coupled_decay": 0.1, "maximize": True, "initial_accumulator_value": 0.1, "rho": 3.0, "eps": 1e-3,
    },
}  # fmt: skip
AUTO: dict[str, dict[str, Any]] = {
    "plain": {},
    "no guard": {"guard": False, "maximize": True},
    "decay": {"weight_decay": 0.1, "beta": 0.9},
    "capped": {"gamma_max": 1.2e-4, "eps": 1e-3, "coupled_decay": 0.1, "lr": 0.5, "top_lr": 0.5},
}
_OF_BATCH = ("coupled_decay", "lr_decay", "maximize", "stochastic_rounding")


class ExactOps(tensors.TensorOps):
    """torch's square root may be off by one unit in the last place; numpy's is exact, and so is the kernel's."""

    def sqrt(self, a: Any) -> Any:
        if not isinstance(a, Tensor):
            return math.sqrt(a)
        values = a.numpy()
        return torch.from_numpy(np.sqrt(values, out=np.empty(values.shape, values.dtype)))


def make(
    shapes: Sequence[tuple[int, ...] | Tensor] = ((7, 33), (130,), ()),
    scope: Any = "element",
    dtype: torch.dtype = torch.float32,
    state_dtype: torch.dtype = torch.float32,
    **options: Any,
) -> Batch:
    """A batch of GradaGrad (AutoGradaGrad, if the scope is "auto"), with random parameters of these shapes or these."""
    own = {name: options.pop(name) for name in _OF_BATCH if name in options}
    rule: Any = auto if scope == "auto" else gradagrad
    settings = rule.Settings(**options) if scope == "auto" else rule.Settings(**{"lr": 0.1, **options})
    own["draws"] = state_dtype == torch.bfloat16 or own.get("stochastic_rounding", False)
    batch = Batch(Plan(rule.RULE, settings, "tensor" if scope == "auto" else scope, **own))
    batch.params = [a if isinstance(a, Tensor) else torch.randn(a, dtype=torch.float64).to(dtype) for a in shapes]
    batch.owners, batch.streams = batch.params, list(range(3, 3 + len(shapes)))
    fill(batch, state_dtype)
    return batch


def fill(batch: Batch, state_dtype: torch.dtype = torch.float32) -> None:
    """Gives a batch's parameters new state."""
    group = {"state_dtype": state_dtype, "capturable": False}
    batch.steps = [torch.zeros((), dtype=torch.int64) for _ in batch.params]
    for field in batch.plan.fields:
        made = [new_field(field, group, batch.settings, batch.plan.scope, p) for p in batch.params]
        if field.key in batch.plan.shared_keys:
            batch.shared[field.key] = made[0]
        else:
            batch.state[field.key] = made
    batch.param_states = [{key: batch.state[key][i] for key in batch.state} for i in range(len(batch.params))]


def draw_gradients(batch: Batch, *, zeros: bool = False) -> None:
    """Gives the batch new gradients with a common direction, some rows and entries zero if asked."""
    batch.grads = []
    for p in batch.params:
        gradient = torch.empty_strided(p.shape, p.stride(), dtype=p.dtype)
        batch.grads.append(gradient.copy_(torch.randn(p.shape, dtype=torch.float64) + 0.5))
    for gradient in batch.grads if zeros else ():
        if gradient.dim():
            gradient[::2] = 0
            gradient[gradient.real > 1.5] = 0


def twin(batch: Batch) -> Batch:
    """An independent copy with the same memory layouts."""
    result = copy.deepcopy(replace(batch, plan=None))  # pyright: ignore[reportArgumentType]
    result.plan = batch.plan
    return result


def take(backend: Any, batch: Batch) -> None:
    """A whole step."""
    step = backend.prepare(batch)
    assert not isinstance(step, str), step
    step.take()


def torch_step(batch: Batch) -> None:
    """The step by torch operations, with exact square roots."""
    with ExitStack() as stack:
        for module in (views, torch_steps):
            stack.enter_context(mock.patch.object(module, "tensor_ops", ExactOps))
        TorchStep(batch).take()


def step_both(ours: Batch, theirs: Batch, *, zeros: bool = False) -> None:
    """The same new gradients for both, then a step by the kernel and one by torch operations."""
    draw_gradients(ours, zeros=zeros)
    theirs.grads = [g.clone(memory_format=torch.preserve_format) for g in ours.grads]
    take(KERNEL, ours)
    torch_step(theirs)


def assert_same(ours: Batch, theirs: Batch, rtol: float = 0.0, atol: float = 0.0, about: str = "") -> None:
    """All tensors equal, bit for bit unless a tolerance is given; NaN equals NaN."""
    for name in ("params", "steps"):
        _compare(f"{about} {name}", getattr(ours, name), getattr(theirs, name), rtol, atol)
    for key in theirs.state:
        _compare(f"{about} {key}", ours.state[key], theirs.state[key], rtol, atol)
    _compare(f"{about} shared", list(ours.shared.values()), list(theirs.shared.values()), rtol, atol)
    clocks = [[own["row_clocks"] for own in batch.param_states if "row_clocks" in own] for batch in (ours, theirs)]
    _compare(f"{about} row_clocks", *clocks, rtol, atol)


def _compare(what: str, ours: list[Tensor], theirs: list[Tensor], rtol: float, atol: float) -> None:
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        torch.testing.assert_close(a, b, equal_nan=True, rtol=rtol, atol=atol, msg=lambda m, i=i: f"{what}[{i}]: {m}")
