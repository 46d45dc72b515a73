"""Steps on a GPU by Triton kernels that are generated from the rule: a few launches for any number of tensors.

========================  ===========================================================================
scope                     launches of a step
========================  ===========================================================================
element, row              one
tensor, group             three: measure, move, settle
all (AutoGradaGrad)       two: move, settle; with the guard three
========================  ===========================================================================

More where a batch mixes dtypes, layouts or sparse gradients: each kind is walked by kernels of its own. Nothing is
read back to the host. Inside a CUDA graph everything that changes must be in device memory: the counters, a learning
rate that a schedule changes, and gradients at the addresses they had in a step before the capture.

Triton comes with torch for CUDA and ROCm; the package does not ask for it. Developers run the kernels without a GPU by
``GRADAGRAD_BACKEND=triton TRITON_INTERPRET=1``, which lets Triton's interpreter step tensors on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.rules.scope import SINGLE
from gradagrad.triton.plan import launch_settings, refusal
from gradagrad.triton.program import Plan
from gradagrad.triton.ready import NotCapturedError, Part, Preparation, slots_of
from gradagrad.triton.runtime import load
from gradagrad.triton.source import source, writer
from gradagrad.triton.tables import Sizes, sizes_for

Launcher = Callable[[Plan, str, int, dict[str, Any]], None]
"""Runs a plan's kernel of this name in so many programs."""
WARPS = 4
SIZES = sizes_for(torch.version.hip is not None)


@cache
def module(plan: Plan) -> dict[str, Any]:
    """A plan's kernels by name."""
    return load(source(plan), f"{plan.rule.name} {plan.scope}")


def launch(plan: Plan, name: str, programs: int, arguments: dict[str, Any]) -> None:
    """Compiles the kernel at its first use, and runs it."""
    kernel = module(plan)[f"{name}_kernel"]
    given = {key: arguments[key] for key in kernel.arg_names}
    # Without fused multiply-adds, whose default differs between versions of Triton, numbers are those of the rule.
    kernel[(programs,)](**given, num_warps=WARPS, enable_fp_fusion=False)


class Sums(NamedTuple):
    """Partial sums, and which of them belong to a slot: (first, count) for each."""

    partial: Tensor
    spans: Tensor


class TritonBackend:
    """`gradagrad.engine.backend.Backend`; takes sparse gradients too."""

    name = "triton"
    is_one_call = False

    def __init__(self, launcher: Launcher = launch, sizes: Sizes = SIZES, *, read_counters: bool = True) -> None:
        """``read_counters=False`` passes the number of a step instead of reading a counter on the device, for tests."""
        self.launcher, self.sizes = launcher, sizes
        self.preparation = Preparation(sizes, read_counters=read_counters)

    def forget(self, batch: Batch) -> None:
        """Nothing is held between preparing and stepping."""

    def prepare(self, batch: Batch) -> str | None:
        """Why this batch cannot be stepped, as a sentence; None if it can. Checks everything, writes nothing."""
        capturing = batch.params != [] and _capturing(batch)
        if not batch.params or (not capturing and self.preparation.is_fit(batch)):
            return None
        reason = refusal(batch)
        if reason is None and capturing:
            try:
                self.preparation.ready(batch, capturing=True)
            except NotCapturedError as error:
                return str(error)
        if reason is None:
            self.preparation.remember_fit(batch)
        return reason

    def step(self, batch: Batch) -> None:
        """Counts and takes the whole step of a batch that has all of its slots: measure, decide, move, learn."""
        with _Run(self, batch, ahead=1) as run:
            if batch.scope in SINGLE:
                sums = run.measure()
                run.settle(sums, run.move(sums))
            else:
                run.walk("step", 0)
            torch._foreach_add_(batch.steps, 1)

    def measure(self, batch: Batch) -> Tensor | None:
        """The rule's sums, a row for each tensor or one for all; None if the rule measures nothing. Writes nothing."""
        with _Run(self, batch, ahead=1) as run:
            return run.complete(run.measure())

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        """Counts the step and moves, given complete sums; the traces. A shared slot stays, others are written too."""
        with _Run(self, batch, ahead=1) as run:
            given = run.given(sums)
            traces = run.move(given)
            if not batch.is_shared:
                run.settle(given, traces)
            torch._foreach_add_(batch.steps, 1)
            return run.complete(traces)

    def write_shared(self, batch: Batch, sums: Tensor | None, traces: Tensor | None) -> None:
        """Writes a shared slot as it stands after the step, given complete sums and traces."""
        with _Run(self, batch, ahead=0) as run:
            run.settle(run.given(sums), run.given(traces))


class _Run:
    """The launches of one call. The batch's counters still lack ``ahead`` of this step's number."""

    def __init__(self, backend: TritonBackend, batch: Batch, *, ahead: int) -> None:
        self.batch, self.launcher, self.sizes = batch, backend.launcher, backend.sizes
        self.ready = backend.preparation.ready(batch, capturing=_capturing(batch))
        self.arguments = launch_settings(batch) | {"BLOCK": self.sizes.block, "LANES": self.sizes.lanes, "ahead": ahead}
        self.ahead = ahead
        device = batch.params[0].device
        self._device: Any = torch.cuda.device(device) if device.type == "cuda" else nullcontext()

    def __enter__(self) -> _Run:
        self._device.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._device.__exit__(*error)

    def measure(self) -> Sums | None:
        columns = writer(self.ready.parts[0].plan).sums
        return self.walk("measure", columns) if columns else None

    def move(self, sums: Sums | None) -> Sums | None:
        return self.walk("move", len(writer(self.ready.parts[0].plan).traces), **_named("sum", sums))

    def walk(self, name: str, columns: int, **given: Tensor) -> Sums | None:
        """Launches a kernel over all parts; what its programs leave to be summed."""
        walk = self.ready.walks["measure" if name == "measure" else "move"]
        device = self.batch.params[0].device
        partial = torch.empty((max(walk.firsts[-1], 1), columns), dtype=torch.float64, device=device)
        for part, work, first in zip(self.ready.parts, walk.works, walk.firsts, strict=False):
            self.launch(part, name, work.programs, work=work.shares, partial=partial, first=first, **given)
        return Sums(partial, walk.spans) if columns else None

    def write_shared(self, sums: Sums | None, traces: Sums | None) -> None:
        given = _named("sum", sums) | _named("trace", traces)
        for part in self.ready.parts if self.batch.scope == "tensor" else self.ready.parts[:1]:
            programs = len(part.indices) if self.batch.scope == "tensor" else 1
            self.launch(part, "settle", programs, **given)

    def complete(self, sums: Sums | None) -> Tensor | None:
        """Each slot's sums, added up."""
        if sums is None:
            return None
        slots, columns = slots_of(self.batch), sums.partial.shape[1]
        result = torch.empty((slots, columns), dtype=torch.float64, device=sums.partial.device)
        arguments = {"partial": sums.partial, "spans": sums.spans, "result": result, "COLUMNS": columns}
        self.launch(self.ready.parts[0], "complete", slots, **arguments)
        return result

    def given(self, sums: Tensor | None) -> Sums | None:
        """Complete sums as partial ones, one for each slot."""
        return None if sums is None else Sums(sums.contiguous(), self.ready.given)

    def launch(self, part: Part, name: str, programs: int, **arguments: Any) -> None:
        if not programs:
            return
        counted = part.plan.counter == "argument"
        step = int(self.batch.steps[part.indices[0]]) + self.ahead if counted else 0
        own = {"table": part.table, "n": len(part.indices), "step": step}
        self.launcher(part.plan, name, programs, {**self.arguments, **own, **arguments})


def _named(kind: str, sums: Sums | None) -> dict[str, Tensor]:
    return {} if sums is None else {f"{kind}s": sums.partial, f"{kind}_spans": sums.spans}


def _capturing(batch: Batch) -> bool:
    return batch.params[0].is_cuda and torch.cuda.is_current_stream_capturing()


TRITON = TritonBackend()
"""The backend that the engine asks."""
