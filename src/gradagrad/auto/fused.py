"""The compiled kernel's part of a step: the loops over elements of `rule.measure`, `rule.move` and `rule.average`.

csrc/auto_rule.h restates those; tests pin it to them. A first call checks everything and measures, a second one moves
what the first has prepared, so that a list of tensors is handed over once. In between nothing has been written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradagrad import kernel, rounding
from gradagrad.auto import averaging, rule
from gradagrad.auto.batch import Batch
from gradagrad.auto.numbers import Numbers
from gradagrad.steps.fused import IMPOSSIBLE, reason_for
from gradagrad.steps.kept import MANY, Lists, Memory
from gradagrad.steps.ops import real_view

State = Mapping[Tensor, dict[str, Any]]


class Plan:
    """Parameters that the kernel has checked and measured, and will move."""

    def __init__(self, ops: Any, batch: Batch, sums: Tensor, pending: list[int]) -> None:
        self.sums = sums
        """`rule.Sums` as one tensor."""
        self._ops, self._batch, self._pending = ops, batch, pending

    def move(self, before: Numbers, after: Numbers, settings: rule.Settings) -> None:
        """Counts and takes the step."""
        pace = self._batch.pace(after, settings, torch.float64)
        numbers = [*pace, self._batch.coupled_decay, before.values.step]
        while self._pending:
            self._ops.auto_move_(self._pending.pop(), numbers, int(self._batch.maximize))
        torch.autograd.graph.increment_version(self._batch.params)

    def __del__(self) -> None:
        for number in self._pending:  # of a step that was given up
            self._ops.auto_drop(number)


def plan(
    batch: Batch, state: State, memory: Memory, before: Numbers, settings: rule.Settings, *, required: bool
) -> tuple[Plan | None, Batch | None]:
    """What the kernel steps of a batch of dense or of sparse gradients, measured, and the rest for torch operations.

    ``required`` raises instead if dense gradients are left over.
    """
    ops = kernel.ops()
    status = kernel.kernel_status()
    reason = None if ops is not None else f"{status.reason} {status.remedy}"
    reason = reason or _unfit(batch, before)
    if reason is None and batch.grads[0].layout != torch.strided:
        return _sparse_plan(ops, batch, state, before, settings)
    measured = reason or _measured(ops, batch, memory, before, settings)
    if isinstance(measured, Plan):
        return measured, None
    if required:
        raise RuntimeError(IMPOSSIBLE.format(measured))
    if ops is None and batch.params[0].device.type == "cpu":
        kernel.warn_once()
    if reason is not None or len(batch.params) == 1:
        return None, batch
    return _split(ops, batch, memory, before, settings)


def _unfit(batch: Batch, before: Numbers) -> str | None:
    """Why no parameter of this batch is for the kernel."""
    if batch.differentiable:
        return "differentiable=True needs torch operations."
    if not isinstance(before.values.step, float):
        return f"the numbers that all parameters share must be on the CPU, got them on {before.device}."
    return None


def _split(
    ops: Any, batch: Batch, memory: Memory, before: Numbers, settings: rule.Settings
) -> tuple[Plan | None, Batch | None]:
    """Looks at the parameters one by one, since some do not fit."""
    every = range(len(batch.params))
    on_cpu = [i for i in every if batch.params[i].device.type == "cpu"]
    fit = [i for i in on_cpu if _check(ops, batch.select([i]), before, settings) is None]
    if not fit:
        return None, batch
    measured = _measured(ops, batch.select(fit), memory, before, settings)
    if not isinstance(measured, Plan):
        return None, batch  # they fit, but not together
    others = set(every).difference(fit)
    return measured, batch.select(sorted(others)) if others else None


def _measured(ops: Any, batch: Batch, memory: Memory, before: Numbers, settings: rule.Settings) -> Plan | str:
    sums = torch.empty(len(rule.Sums._fields), dtype=torch.float64)
    lists, number = _lists(batch), 0
    grads = batch.grads
    if any(map(Tensor.is_complex, grads)):
        grads = [real_view(g) for g in grads]
    if len(grads) >= MANY:
        lists, number = memory.keep(ops, lists)
    code = ops.auto_measure_(*lists, grads, number, *_numbers(batch, before, settings), _streams(batch), sums, False)
    if code > 0:
        return reason_for(code, batch.params)
    return Plan(ops, batch, sums, [-code])


def _check(ops: Any, batch: Batch, before: Numbers, settings: rule.Settings) -> str | None:
    """Why the kernel cannot step this batch of dense gradients; None if it can."""
    sums = torch.empty(len(rule.Sums._fields), dtype=torch.float64)
    grads = [real_view(g) for g in batch.grads]
    numbers = _numbers(batch, before, settings)
    code = ops.auto_measure_(*_lists(batch), grads, 0, *numbers, _streams(batch), sums, True)
    return reason_for(code, batch.params) if code else None


def _lists(batch: Batch) -> Lists:
    params = batch.params
    if any(map(Tensor.is_complex, params)):
        params = [real_view(p) for p in params]
    return params, batch.momenta, batch.accumulators, batch.averages, batch.steps


def _numbers(batch: Batch, before: Numbers, settings: rule.Settings) -> tuple[list[float], int, int]:
    """What measuring needs: numbers, flags and the seed."""
    pace = rule.Pace(before.weight(settings, torch.float64), 1.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    return [*pace, batch.coupled_decay, before.values.step], int(batch.maximize), rounding.SEED


def _streams(batch: Batch) -> list[int]:
    return batch.streams or list(range(len(batch.params)))


def _sparse_plan(
    ops: Any, batch: Batch, state: State, before: Numbers, settings: rule.Settings
) -> tuple[Plan | None, Batch | None]:
    """Parameter by parameter; gradients need not be coalesced."""
    fit: list[int] = []
    pending: list[int] = []
    every = torch.zeros(len(batch.params), len(rule.Sums._fields), dtype=torch.float64)
    numbers = _numbers(batch, before, settings)
    for i, (parameter, gradient) in enumerate(zip(batch.params, batch.grads, strict=True)):
        if gradient.layout != torch.sparse_coo or gradient.sparse_dim() != 1 or batch.coupled_decay:
            continue
        average, clocks = None, None
        if batch.averages:
            average = batch.averages[i]
            clocks = averaging.row_clocks(state[batch.owners[i]], 1, before.values.step)
        code = ops.auto_sparse_measure_(
            real_view(parameter),
            gradient._indices()[0],
            real_view(gradient._values()).contiguous(),
            batch.momenta[i],
            batch.accumulators[i],
            average,
            clocks,
            batch.steps[i],
            *numbers,
            _streams(batch)[i],
            every[i],
        )
        if code <= 0:
            fit.append(i)
            pending.append(-code)
    if not fit:
        return None, batch
    if len(fit) == len(batch.params):
        return Plan(ops, batch, every.sum(0), pending), None
    rest = batch.select(sorted(set(range(len(batch.params))).difference(fit)))
    return Plan(ops, batch.select(fit), every.sum(0), pending), rest
