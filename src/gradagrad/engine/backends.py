"""Who steps a batch: what its arguments ask for, and torch's convention where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch
from torch.optim.optimizer import _default_to_fused_or_foreach

from gradagrad.engine.backend import Backend
from gradagrad.engine.batch import Batch
from gradagrad.engine.support import refuse_misfits
from gradagrad.kernel import load
from gradagrad.kernel.backend import KERNEL, kernel_for
from gradagrad.sharding import Axes
from gradagrad.torch_ops.steps import TorchSteps
from gradagrad.triton.backend import TRITON, interprets

_RANKS = "rows that share a decision are split over several ranks."
ONE_BY_ONE, TOGETHER = TorchSteps(together=False), TorchSteps(together=True)


def choose_backend(batch: Batch, group: Mapping[str, Any], axes: Axes = ()) -> Backend:
    """Compiled steps where they are wanted and possible (C++ on a CPU, Triton on a GPU), else torch operations."""
    if (
        batch.derived.get("backend") is KERNEL
        and batch.grads[0].layout == torch.strided
        and not axes
        and not KERNEL.refusal(batch)
    ):
        return KERNEL  # as at the step before; on other devices it refuses
    if wanted := _wants_kernel(batch, group):
        on_cpu = _is_on_cpu(batch) and not interprets()
        backend = kernel_for(batch) if on_cpu else TRITON
        reason = _RANKS if batch.scope == "row" and axes else backend.refusal(batch)
        if reason is None:
            if backend is KERNEL:
                batch.derived["backend"] = KERNEL
            return backend
        if on_cpu:
            refuse_misfits(batch)  # the better explanation, if it is one
        if wanted == "always" and batch.grads[0].layout == torch.strided:
            raise RuntimeError(
                f"fused=True is impossible here: {reason} Pass fused=None to use the kernel where it can be."
            )
        if on_cpu and load.ops() is None:
            load.warn_once()
    together = group["foreach"]
    if together is None:
        together = _default_to_fused_or_foreach(batch.params, group["differentiable"], use_fused=False)[1]
    return TOGETHER if together else ONE_BY_ONE


def _wants_kernel(batch: Batch, group: Mapping[str, Any]) -> str:
    """Whether to ask the kernel: "always", "where possible" or not at all, as torch's optimizers decide it."""
    if group["fused"]:
        return "always"
    if group["fused"] is False or group["foreach"] or batch.differentiable or torch.compiler.is_compiling():
        return ""
    return "where possible" if _is_on_cpu(batch) or batch.params[0].is_cuda else ""


_IS_CPU = attrgetter("is_cpu")


def _is_on_cpu(batch: Batch) -> bool:
    return all(map(_IS_CPU, batch.params))
