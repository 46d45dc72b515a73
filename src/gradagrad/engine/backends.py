"""What a backend offers, and which one steps a batch: torch operations, the CPU kernel or the Triton kernels."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

from gradagrad.engine.batch import Batch
from gradagrad.engine.support import refuse_misfits
from gradagrad.kernel import load
from gradagrad.kernel.backend import KERNEL, kernel_for
from gradagrad.torch_ops.steps import TorchSteps
from gradagrad.triton.backend import TRITON
from gradagrad.triton.runtime import interprets


class Backend(Protocol):
    """Steps batches. Sums and statistics are float64 tensors with a row of numbers for each block."""

    name: str
    is_one_call: bool
    """Whether `step` is one call into compiled code, which no signal handler can interrupt."""

    def prepare(self, batch: Batch) -> str | None:
        """Gets a step ready and returns None, or says why this batch cannot be stepped. Writes nothing."""
        ...

    def forget(self, batch: Batch) -> None:
        """Releases what was prepared or read, if the step is not taken after all."""
        ...

    def step(self, batch: Batch) -> None:
        """Counts and takes the whole step of a batch that has all of its blocks: measure, decide, move, learn."""
        ...

    def measure(self, batch: Batch) -> Any:
        """The rule's sums, one row for each tensor or one for all; None if the rule needs none. Writes nothing."""
        ...

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        """Counts the step and moves parameters and element fields, given complete sums. Returns the statistics.

        A block that parameters share is not written; blocks of one parameter are.
        """
        ...

    def write_shared(self, batch: Batch, sums: Tensor | None, statistics: Tensor | None) -> None:
        """Writes a shared block as it is after the step, given complete sums and statistics."""
        ...


_RANKS = "rows that share a decision are split over several ranks."
ONE_BY_ONE, TOGETHER = TorchSteps(together=False), TorchSteps(together=True)


def choose_backend(batch: Batch, group: Mapping[str, Any]) -> Backend:
    """Compiled steps where they are wanted and possible (C++ on a CPU, Triton on a GPU), else torch operations."""
    if (
        batch.derived.get("backend") is KERNEL
        and batch.grads[0].layout == torch.strided
        and not batch.axes
        and not KERNEL.prepare(batch)
    ):
        return KERNEL  # The last step took it; it refuses parameters that have moved to another device.
    if group["fused"] and any(parameter.is_meta for parameter in batch.params):  # in torch's words, for its own tests
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices.")
    if wanted := _wants_kernel(batch, group):
        on_cpu = _is_on_cpu(batch) and not interprets()
        backend = kernel_for(batch) if on_cpu else TRITON
        reason = _RANKS if batch.scope == "row" and batch.axes else backend.prepare(batch)
        if reason is None:
            if backend is KERNEL:
                batch.derived["backend"] = KERNEL
            return backend
        if on_cpu:
            refuse_misfits(batch)  # This explains misfits better than the kernel does.
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
