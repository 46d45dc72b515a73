"""The backend that runs the compiled kernel: csrc, whose loops are generated from the rules.

A step is prepared first: the kernel checks every tensor, writes nothing and returns a ticket. The ticket then takes
the step, whole or phase by phase. The mathematics is neither here nor in csrc.
"""

from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from gradagrad import precision
from gradagrad.codegen import variants
from gradagrad.engine.batch import Batch
from gradagrad.engine.plan import Plan
from gradagrad.kernel import load
from gradagrad.projections import Box
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
Settings = tuple[int, int, list[float], int, int]
"""The kernel's arguments besides tensors: variant, scope, settings, flags, seed."""
KEPT_FROM_PARAMS = 16  # With this many parameters, passing their state takes a good part of a step.


class KernelStep:
    """A step that the kernel has checked. A ticket that is not used is released with this object."""

    def __init__(self, batch: Batch, ops: Any, tickets: list[int]) -> None:
        self.batch, self.ops, self.tickets = batch, ops, tickets
        self.after: dict[str, Any] = {}

    def __del__(self) -> None:
        for ticket in self.tickets:
            self.ops.release_step(ticket)

    def take(self) -> None:
        for ticket in self.tickets:
            self.ops.step_(ticket)
        self.tickets = []
        torch.autograd.graph.increment_version(self.batch.params)

    def measure(self) -> Tensor | None:
        if not self.batch.plan.rule.measures:
            return None
        sums, _ = self._rows()
        self.ops.measure_(self.tickets[0], sums)
        return sums

    def move(self, sums: Tensor | None) -> Tensor | None:
        plan, (none, statistics) = self.batch.plan, self._rows()
        given = none if sums is None else sums
        # There is a ticket for all parameters, or one for each.
        for ticket, rows in zip(self.tickets, statistics.chunk(len(self.tickets)), strict=True):
            self.ops.move_(ticket, given, rows)
            if not plan.is_shared and not plan.rule.learns:
                self.ops.write_blocks_(ticket, given)
        torch.autograd.graph.increment_version(self.batch.params)
        return statistics if plan.rule.learns else None

    def write_shared(self, sums: Tensor | None) -> None:
        self.ops.write_blocks_(self.tickets[0], sums)

    def _rows(self) -> tuple[Tensor, Tensor]:
        """Sums and statistics of zero: a row for a shared block, else one for each parameter."""
        plan = self.batch.plan
        phases = variants.phases_of(variants.variant_of(plan.settings) or 0)
        zeros = partial(torch.zeros, 1 if plan.is_shared else len(self.batch.params), dtype=torch.float64)
        return zeros(phases.sums), zeros(phases.statistics)


class Kernel:
    """Steps batches of dense gradients, each by one call."""

    def prepare(self, batch: Batch) -> KernelStep | str:
        plan = batch.plan
        if isinstance(arguments := plan.kernel or _arguments(plan), str):
            return arguments
        ops, settings = arguments
        # In the kernel's order: counters, element fields, block fields.
        state, number = [*batch.steps, *chain.from_iterable(batch.state.values()), *batch.shared.values()], 0
        if plan.kept is not None and len(batch.params) >= KEPT_FROM_PARAMS:
            state, number = [], plan.kept.number_of(ops, state)
        code = ops.prepare(batch.params, batch.grads, state, number, *settings, batch.streams)
        if code <= 0 and -code % 64 == _REFUSALS.index(_DTYPE) and any(map(Tensor.is_complex, batch.params)):
            real = [[real_view(a) for a in tensors] for tensors in (batch.params, batch.grads)]
            code = ops.prepare(*real, state, number, *settings, batch.streams)
        return KernelStep(batch, ops, [code]) if code > 0 else _sentence(-code, batch)


class RowKernelStep(KernelStep):
    """A step of touched rows, with a ticket for each parameter."""

    def take(self) -> None:
        self._make_clocks()
        if self.batch.plan.rule.learns:
            step_in_phases(self)
        else:
            super().take()

    def move(self, sums: Tensor | None) -> Tensor | None:
        self._make_clocks()
        return super().move(sums)

    def _make_clocks(self) -> None:
        """Makes the clocks of rows that the step needs. They are state, so preparing must not make them."""
        batch, made = self.batch, False
        if batch.plan.rule.needs_catch_up(batch.plan.settings):
            for i, own in enumerate(batch.param_states):
                if "row_clocks" in own and own["row_clocks"].dim() != 1:
                    catch_up(batch, i)
                if "row_clocks" not in own:
                    row_clocks(batch, i, 1, clock(batch, i))
                    made = True
        if made:
            again = ROW_KERNEL.prepare(batch)
            assert not isinstance(again, str), again
            self.tickets, again.tickets = again.tickets, self.tickets


class RowKernel:
    """Steps batches of sparse gradients: a call for each parameter, over its touched rows."""

    def prepare(self, batch: Batch) -> RowKernelStep | str:
        plan = batch.plan
        if isinstance(arguments := plan.kernel or _arguments(plan), str):
            return arguments
        ops, settings = arguments
        if plan.scope in SINGLE and plan.rule.measures:
            return f'sparse gradients with granularity="{plan.scope}" are stepped by torch operations.'
        blocks = [f.key for f in plan.fields if f.at != "element"]
        clock_place = blocks.index(plan.rule.clock) if plan.rule.clock else -1
        step = RowKernelStep(batch, ops, [])
        for i, (parameter, gradient) in enumerate(zip(batch.params, batch.grads, strict=True)):
            if gradient.layout != torch.sparse_coo or gradient.sparse_dim() != 1 or parameter.is_complex():
                return "sparse gradients must be real and sparse in their first dimension only."
            state = [batch.steps[i], *(stored for _, stored in own_fields(batch, i))]
            state += [batch.shared[f.key] for f in plan.fields if f.key in batch.shared]
            rows, values = gradient._indices(), gradient._values().contiguous()
            clocks = batch.param_states[i].get("row_clocks") if batch.param_states else None
            stream = batch.streams[i] if batch.streams else 0
            code = ops.prepare_sparse(parameter, rows, values, state, clocks, *settings, stream, clock_place)
            if code <= 0:
                return _sentence(-code, batch, i)
            step.tickets.append(code)
        return step


KERNEL, ROW_KERNEL = Kernel(), RowKernel()


def _arguments(plan: Plan) -> tuple[Any, Settings] | str:
    """The kernel's ops and their arguments besides tensors, or why they cannot be used."""
    ops = load.ops()
    if ops is None:
        status = load.kernel_status()
        return f"{status.reason} {status.remedy}"
    if plan.differentiable:
        return "differentiable=True needs torch operations."
    s = plan.settings
    variant = variants.variant_of(s, plan.scope)
    if variant is None:
        return f"the kernel was not generated for the rule {plan.rule.name!r}."
    if plan.scope != "tensor" and not variants.VARIANTS[variant].elementwise:
        return f'the rule {plan.rule.name!r} learns for each tensor; the kernel cannot take "{plan.scope}".'
    project = getattr(s, "project", None)
    box = getattr(project, "projection", project)  # Without the wrapper that checks it.
    if box is not None and type(box) is not Box:  # A subclass may behave differently.
        return f"projection must be a Box or NonNegative(), got {box!r}."
    bounds = None if box is None else (box.lower, box.upper)
    if isinstance(s.lr, Tensor) and s.lr.device.type != "cpu":
        return "lr must be a number or a tensor on the CPU."
    given = [*variants.kernel_settings(s, bounds), plan.coupled_decay, plan.lr_decay]
    flags = plan.maximize + 2 * plan.stochastic_rounding
    arguments = ops, (variant, SCOPES.index(plan.scope), given, flags, precision.SEED)
    if project is None and not any(isinstance(a, Tensor) for a in s):  # A tensor's value may change in place.
        plan.kernel = arguments
    return arguments


def _sentence(code: int, batch: Batch, i: int | None = None) -> str:
    index, reason = divmod(code, 64)
    index = index if i is None else i
    return _REFUSALS[reason].format(p=f"parameter {index} of its group (shape {tuple(batch.params[index].shape)})")
