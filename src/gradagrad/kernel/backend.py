"""The backend that runs the compiled kernel: csrc, whose loops are generated from the rules.

A step is prepared first: the kernel checks every tensor, writes nothing and returns a ticket. The ticket
then takes the step, whole or phase by phase. The mathematics is neither here nor in csrc.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import chain
from operator import is_
from typing import Any, cast

import torch
from torch import Tensor

from gradagrad import precision
from gradagrad.codegen import variants
from gradagrad.engine.batch import Batch
from gradagrad.kernel import load
from gradagrad.projections import Box, NonNegative
from gradagrad.rules.scope import SCOPES, SINGLE
from gradagrad.torch_ops.ops import real_view
from gradagrad.torch_ops.steps import step_in_phases
from gradagrad.torch_ops.views import catch_up, clock, own_fields, row_clocks

_DTYPE = "{p} must be float32, float64, bfloat16 or float16."
# In the order of `Refusal` in csrc/tensors.h. "{p}" is the parameter's place in its list and shape.
_REFUSALS = (
    "",
    "the lists of parameters, gradients and states differ in length.",
    "{p}, its gradient and its state must be on the CPU.",
    "{p}, its gradient and its state must be dense.",
    _DTYPE,
    "the gradient of {p} must have the parameter's dtype.",
    "the state of {p} must be float32 (float64 for float64 parameters and for shared numbers) or bfloat16.",
    "the gradient of {p} must have the parameter's shape.",
    "the state of {p} does not fit its shape.",
    "{p}, its gradient and its state must have the same strides.",
    "{p} must fill its memory without gaps (contiguous, channels_last or another permutation).",
    "the first dimension of {p} must be the outermost in memory for row-wise, lazy or sparse steps.",
    "the step counter of {p} must be an int64 number on the CPU.",
    "a parameter or its state shares memory with another tensor of the step.",
    "the rows of the sparse gradient of {p} must be int64 and inside the table.",
    "the clocks of the rows of {p} must be float64, one for each row.",
)
_ops = cast("Callable[[], Any]", load.ops)
"""The kernel's ops. They exist if anything could be prepared."""
Settings = tuple[int, int, list[float], int, int]
"""The kernel's arguments besides tensors: variant, scope, settings, flags, seed."""
CACHE_FROM_PARAMS = 16  # With this many parameters, passing their state takes a good part of a step.
MAX_CACHED_LISTS = 32  # for each optimizer


class HandleCache:
    """State tensors that the kernel keeps handles of, so that a step need not pass them. Belongs to one optimizer.

    Memory, shapes and strides are still checked at every step, and a list in which a tensor was replaced is passed
    again. Parameters and gradients are never kept, because users may replace them.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[list[Tensor], int]] = {}
        self._ops: Any = None  # Python may have cleared the module when the last optimizers go.

    def number_of(self, ops: Any, state: list[Tensor]) -> int:
        """The kernel's number for a list."""
        self._ops, known = ops, self._known.pop(id(state[0]), None)
        if known is None or len(known[0]) != len(state) or not all(map(is_, known[0], state)):
            number: int = ops.keep(state)
            if known is None and len(self._known) >= MAX_CACHED_LISTS:
                known = self._known.pop(next(iter(self._known)))
            if known is not None:
                ops.release_list(known[1])
            known = (state, number)
        self._known[id(state[0])] = known  # Move it to the end: the oldest list is dropped first.
        return known[1]

    def __del__(self) -> None:
        for _, number in self._known.values():
            self._ops.release_list(number)


class Kernel:
    """Steps batches of dense gradients, each by one call."""

    name = "kernel"

    def prepare(self, batch: Batch) -> str | None:
        if batch.prepared is not None:
            self.forget(batch)
        common = batch.derived.get("kernel") or _common(batch)
        found = common if isinstance(common, str) else self._find_tickets(batch, *common)
        if isinstance(found, str):
            return found
        batch.prepared = found
        return None

    def forget(self, batch: Batch) -> None:
        for ticket in batch.prepared or ():
            _ops().release_step(ticket)
        batch.prepared = None

    def step(self, batch: Batch) -> None:
        for ticket in batch.prepared or self._tickets(batch):
            _ops().step_(ticket)
        batch.prepared = None
        torch.autograd.graph.increment_version(batch.params)

    def measure(self, batch: Batch) -> Tensor | None:
        if not batch.rule.measures:
            return None
        sums, _ = _rows(batch)
        _ops().measure_(self._tickets(batch)[0], sums)
        return sums

    def move(self, batch: Batch, sums: Tensor | None) -> Tensor | None:
        none, statistics = _rows(batch)
        tickets, given = self._tickets(batch), none if sums is None else sums
        # There is a ticket for all parameters, or one for each.
        for ticket, rows in zip(tickets, statistics.chunk(len(tickets)), strict=True):
            _ops().move_(ticket, given, rows)
            if not batch.is_shared and not batch.rule.learns:
                _ops().write_blocks_(ticket, given)
        torch.autograd.graph.increment_version(batch.params)
        return statistics if batch.rule.learns else None

    def write_shared(self, batch: Batch, sums: Tensor | None) -> None:
        _ops().write_blocks_(self._tickets(batch)[0], sums)
        self.forget(batch)

    def _tickets(self, batch: Batch) -> list[int]:
        if batch.prepared is None and (reason := self.prepare(batch)):
            raise RuntimeError(f"the kernel cannot step this batch: {reason}")
        return batch.prepared or []

    def _find_tickets(self, batch: Batch, ops: Any, settings: Settings) -> list[int] | str:
        """The tickets of a step, or why there are none."""
        # In the kernel's order: counters, element fields, block fields.
        state, number = [*batch.steps, *chain.from_iterable(batch.state.values()), *batch.shared.values()], 0
        if batch.handles is not None and len(batch.params) >= CACHE_FROM_PARAMS:
            state, number = [], batch.handles.number_of(ops, state)
        code = ops.prepare(batch.params, batch.grads, state, number, *settings, batch.streams)
        if code <= 0 and -code % 64 == _REFUSALS.index(_DTYPE) and any(map(Tensor.is_complex, batch.params)):
            real = [[real_view(a) for a in tensors] for tensors in (batch.params, batch.grads)]
            code = ops.prepare(*real, state, number, *settings, batch.streams)
        return [code] if code > 0 else _sentence(-code, batch)


class RowKernel(Kernel):
    """Steps batches of sparse gradients: a call for each parameter, over its touched rows."""

    def _find_tickets(self, batch: Batch, ops: Any, settings: Settings) -> list[int] | str:
        if batch.scope in SINGLE and batch.rule.measures:
            return f'sparse gradients with granularity="{batch.scope}" are stepped by torch operations.'
        blocks = [f.key for f in batch.fields if f.at != "element"]
        clock_place = blocks.index(batch.rule.clock) if batch.rule.clock else -1
        tickets: list[int] = []
        for i, (parameter, gradient) in enumerate(zip(batch.params, batch.grads, strict=True)):
            if gradient.layout != torch.sparse_coo or gradient.sparse_dim() != 1 or parameter.is_complex():
                return "sparse gradients must be real and sparse in their first dimension only."
            state = [batch.steps[i], *(stored for _, stored in own_fields(batch, i))]
            state += [batch.shared[f.key] for f in batch.fields if f.key in batch.shared]
            rows, values = gradient._indices(), gradient._values().contiguous()
            clocks = batch.param_states[i].get("row_clocks") if batch.param_states else None
            stream = batch.streams[i] if batch.streams else 0
            code = ops.prepare_sparse(parameter, rows, values, state, clocks, *settings, stream, clock_place)
            if code <= 0:
                for ticket in tickets:
                    ops.release_step(ticket)
                return _sentence(-code, batch, i)
            tickets.append(code)
        return tickets

    def step(self, batch: Batch) -> None:
        self._tickets(batch)
        if batch.rule.learns:
            step_in_phases(self, batch)
        else:
            super().step(batch)

    def _tickets(self, batch: Batch) -> list[int]:
        # The step needs clocks of rows. They are state, so preparing must not make them.
        if batch.rule.needs_catch_up(batch.settings) and batch.param_states:
            for i, own in enumerate(batch.param_states):
                if "row_clocks" in own and own["row_clocks"].dim() != 1:
                    catch_up(batch, i)
                if "row_clocks" not in own:
                    row_clocks(batch, i, 1, clock(batch, i))
                    self.forget(batch)
        return super()._tickets(batch)


KERNEL, ROW_KERNEL = Kernel(), RowKernel()


def _common(batch: Batch) -> tuple[Any, Settings] | str:
    """The kernel's ops and their arguments besides tensors, or why they cannot be used."""
    ops = load.ops()
    if ops is None:
        status = load.kernel_status()
        return f"{status.reason} {status.remedy}"
    if batch.differentiable:
        return "differentiable=True needs torch operations."
    s = batch.settings
    variant = variants.variant_of(s, batch.scope)
    if variant is None:
        return f"the kernel was not generated for the rule {batch.rule.name!r}."
    if batch.scope != "tensor" and not variants.VARIANTS[variant].elementwise:
        return f'the rule {batch.rule.name!r} learns for each tensor; the kernel cannot take "{batch.scope}".'
    project = getattr(s, "project", None)
    bounds = None if project is None else _bounds(project)
    if isinstance(bounds, str):
        return bounds
    if isinstance(s.lr, Tensor) and s.lr.device.type != "cpu":
        return "lr must be a number or a tensor on the CPU."
    given = [*variants.kernel_settings(s, bounds), batch.coupled_decay, batch.lr_decay]
    flags = batch.maximize + 2 * batch.stochastic_rounding
    common = ops, (variant, SCOPES.index(batch.scope), given, flags, precision.SEED)
    if project is None and not any(isinstance(a, Tensor) for a in s):  # A tensor's value may change in place.
        batch.derived["kernel"] = common
    return common


def _bounds(project: Any) -> tuple[float, float] | str:
    projection = getattr(project, "projection", project)  # Without the wrapper that checks it.
    if type(projection) is NonNegative:  # A subclass may behave differently.
        return 0.0, math.inf
    if type(projection) is Box:
        lower, upper = projection.lower, projection.upper
        if not isinstance(lower, Tensor) and not isinstance(upper, Tensor):
            return lower, upper
    return f"projection must be NonNegative or a Box with numbers as bounds, got {projection!r}."


def _rows(batch: Batch) -> tuple[Tensor, Tensor]:
    """Sums and statistics of zero: a row for a shared block, else one for each parameter."""
    phases = variants.phases_of(variants.variant_of(batch.settings) or 0)
    zeros = partial(torch.zeros, 1 if batch.is_shared else len(batch.params), dtype=torch.float64)
    return zeros(phases.sums), zeros(phases.statistics)


def _sentence(code: int, batch: Batch, i: int | None = None) -> str:
    index, reason = divmod(code, 64)
    index = index if i is None else i
    return _REFUSALS[reason].format(p=f"parameter {index} of its group (shape {tuple(batch.params[index].shape)})")
