"""Takes the step of all param groups: measure everything, decide once, move everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed, rounding
from gradagrad.auto import averaging, bundles, fused, rule
from gradagrad.auto.batch import Batch, parts
from gradagrad.auto.bundles import Bundle
from gradagrad.auto.numbers import Numbers
from gradagrad.steps.choice import wants_foreach, wants_kernel
from gradagrad.steps.kept import Memory


def _no_numbers() -> dict[Tensor, int]:
    return {}


@dataclass
class Turn:
    """One param group's part in a step."""

    group: Mapping[str, Any]
    batch: Batch
    state: Mapping[Tensor, dict[str, Any]]
    """The optimizer's state, by parameter."""
    numbers: dict[Tensor, int] = field(default_factory=_no_numbers)
    """Each parameter's place in the optimizer, where state is rounded."""

    def number(self, numbers: dict[Tensor, int]) -> None:
        """Gives each parameter whose state is rounded a sequence of random bits of its own."""
        self.numbers = numbers
        self.batch.streams = [numbers[parameter] for parameter in self.batch.params] if numbers else []

    def bundles(self, batch: Batch, before: Numbers) -> Iterator[Bundle]:
        """Dense parameters one by one or together, sparse ones by their touched rows."""
        if batch.grads[0].layout != torch.strided:
            return bundles.touched_rows(batch, self.state, before)
        return bundles.together(batch) if self.uses_foreach else bundles.one_by_one(batch)

    @property
    def uses_foreach(self) -> bool:
        return wants_foreach(self.group, self.batch.params)

    def rest(self, share: Any) -> None:
        """Averages the parameters that have no gradient at this step; those with row clocks can do so later."""
        if self.group["averaging"] is None:
            return
        for parameter in self.group["params"]:
            if parameter.grad is not None:
                continue
            state = self.state.get(parameter)
            if not state or "average" not in state or "row_steps" in state:
                continue
            average = distributed.local(state["average"])
            bits = None
            if average.dtype == torch.bfloat16:
                # It takes no step of its own, so that the shared count numbers its bits.
                stream = self.numbers[parameter] | averaging.STREAM
                bits = rounding.random_bits(average, state["shared"][0], stream)
            share_here = share.to(average.device) if isinstance(share, Tensor) else share
            averaging.rest(distributed.local(parameter), average, share_here, bits)


def refuse(turns: Sequence[Turn]) -> None:
    """Raises on gradients that cannot be used, before anything has changed."""
    for turn in turns:
        for parameter, gradient in zip(turn.batch.params, turn.batch.grads, strict=True):
            if type(parameter) is torch.nn.Parameter and gradient.layout == torch.strided:
                continue  # most are, and hundreds of calls take time
            if reason := _refusal(turn.batch, parameter, gradient):
                raise RuntimeError(reason)


def _refusal(batch: Batch, parameter: Tensor, gradient: Tensor) -> str | None:
    if reason := distributed.unfit(parameter, gradient, differentiable=batch.differentiable):
        return reason
    if gradient.layout == torch.strided:
        return None
    if batch.differentiable:
        return "differentiable=True needs dense gradients; construct the embedding with sparse=False."
    if batch.coupled_decay:
        return (
            f"weight_decay must be 0 with sparse gradients, got {batch.coupled_decay}, since it would touch every row; "
            "use decoupled_weight_decay=True, which decays the touched rows."
        )
    return None


def take(turns: Sequence[Turn], stored: Tensor, settings: rule.Settings, memory: Memory) -> None:
    """Steps all groups; ``stored`` are the shared numbers. What several ranks hold a part of is added up in between."""
    before = Numbers.of(stored)
    work = [
        _Work(turn, axes, part, before, settings, memory) for turn in turns for axes, part in _prepared(turn, before)
    ]
    measured = [own.measure() for own in work]
    sums = distributed.Addition(measured, [own.axes for own in work]).result()
    after = before.judged(torch.stack([s.to(before.device) for s in sums]).sum(0), settings)
    for own in work:
        own.move(after)
    after.store(stored)
    for turn in turns:
        turn.rest(turn.batch.pace(after, settings, torch.float64).share)


def _prepared(turn: Turn, before: Numbers) -> list[tuple[distributed.Axes, Batch]]:
    """The turn's local parts; late averages are brought up to date before dense gradients."""
    if not turn.batch.params:
        return []
    batch = turn.batch.local()
    for i, gradient in enumerate(batch.grads):
        is_sparse = gradient.layout != torch.strided
        state = turn.state[batch.owners[i]]
        if "row_steps" in state and (not is_sparse or gradient.sparse_dim() != state["row_steps"].dim()):
            averaging.bring_up_to_date(batch.owners[i], state, before.values.step)
    return parts(batch)


class _Work:
    """A part of a group whose sums are added over the same ranks: measured and moved by the kernel or by torch."""

    def __init__(
        self,
        turn: Turn,
        axes: distributed.Axes,
        batch: Batch,
        before: Numbers,
        settings: rule.Settings,
        memory: Memory,
    ) -> None:
        self.axes = axes
        self._turn, self._before, self._settings = turn, before, settings
        self._kernel: fused.Plan | None = None
        self._rest: Batch | None = batch
        if wants_kernel(turn.group):
            required = turn.group["fused"] is True
            self._kernel, self._rest = fused.plan(batch, turn.state, memory, before, settings, required=required)
        if self._rest is not None and batch.grads[0].layout != torch.strided:
            self._rest = replace(self._rest, grads=[gradient.coalesce() for gradient in self._rest.grads])

    def _bundles(self) -> Iterator[Bundle]:
        return iter(()) if self._rest is None else self._turn.bundles(self._rest, self._before)

    def measure(self) -> Tensor:
        every = [bundle.measure(self._before, self._settings) for bundle in self._bundles()]
        if self._kernel is not None:
            every.append(self._kernel.sums)
        return every[0] if len(every) == 1 else torch.stack([sums.to(every[0].device) for sums in every]).sum(0)

    def move(self, after: Numbers) -> None:
        """Counts and takes the step."""
        if self._kernel is not None:
            self._kernel.move(self._before, after, self._settings)
        if self._rest is not None:
            torch._foreach_add_(self._rest.steps, 1)
        for bundle in self._bundles():
            bundle.move(after, self._settings)
