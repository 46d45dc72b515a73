"""Takes the step of all param groups: which driver steps what, and in which order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed
from gradagrad.projecting import Checked
from gradagrad.steps import foreach, fused, loop, sparse
from gradagrad.steps.bundle import Batch, Bundle, Parts, take_group_step, take_steps
from gradagrad.steps.choice import wants_foreach, wants_kernel
from gradagrad.steps.spread import Spread, take_spread_steps


@dataclass
class Turn:
    """One param group's part in a step."""

    index: int
    group: Mapping[str, Any]
    batch: Batch
    state: Mapping[Tensor, dict[str, Any]]
    """The optimizer's state, by parameter."""
    copies: list[tuple[Tensor, Tensor]] | None
    """All (growth, accumulator) copies of the group's slot, if its parameters share one."""

    def refuse_unfit_gradients(self) -> None:
        """Raises on gradients that the group's settings cannot be used with; nothing has been changed then."""
        for parameter, gradient in zip(self.batch.params, self.batch.grads, strict=True):
            plain = type(parameter) is torch.nn.Parameter
            reason = None if plain else distributed.refusal(self.batch, parameter, gradient)
            if gradient.layout != torch.strided:
                reason = reason or sparse.refusal(self.batch, gradient)
            if reason:
                raise RuntimeError(reason)

    def bundles(self, parts: Parts, *, together: bool) -> Iterator[Bundle]:
        """Dense parameters one by one or together, sparse ones by their touched rows."""
        for axes, part in parts:
            if part.grads[0].layout != torch.strided:
                bundles = sparse.bundles(part, [self.state[p] for p in part.owners])
            else:
                bundles = foreach.bundles(part) if together else loop.bundles(part)
            for bundle in bundles:
                bundle.axes = axes
                yield bundle

    def proposals(self) -> list[tuple[Bundle, Tensor]]:
        """The first step's bundles and their parameters, the values of projections checked and lr not yet decayed."""
        settings, projection = self.batch.settings, self.group["projection"]
        if projection is not None:
            settings = settings._replace(project=Checked(projection, values=True))
        parts = replace(self.batch, settings=settings, lr_decay=0.0).parts()
        owners = [owner for _, part in parts for owner in part.owners]
        return list(zip(self.bundles(parts, together=False), owners, strict=True))

    @property
    def uses_foreach(self) -> bool:
        return wants_foreach(self.group, self.batch.params)


def take(turns: Sequence[Turn], grad_scale: Tensor | None, memory: fused.Memory) -> None:
    """Steps the groups' parameters. Sums that other ranks hold a part of travel while everything else is stepped."""
    spread: list[Spread] = []
    whole: list[Turn] = []
    for turn in turns:
        parts = turn.batch.parts()
        shared = any(axes for axes, _ in parts)
        if turn.group["fused"] and (shared or len(turns) > 1):  # all or none
            fused.require(turn.batch, turn.copies)
        if not shared:
            whole.append(turn)
            continue
        if grad_scale is not None:
            fused.unscale(turn.batch.grads, grad_scale)
        bundles = partial(turn.bundles, together=turn.uses_foreach)
        spread.append(Spread(turn.batch, parts, turn.copies, bundles, kernel=wants_kernel(turn.group)))

    def meanwhile() -> None:
        for turn in whole:
            _take_whole(turn, grad_scale, memory)

    take_spread_steps(spread, meanwhile)


def _take_whole(turn: Turn, grad_scale: Tensor | None, memory: fused.Memory) -> None:
    """Steps a group that this rank has all the numbers of: the kernel what it can, torch operations the rest."""
    batch: Batch | None = turn.batch
    if wants_kernel(turn.group):
        required = turn.group["fused"] is True
        batch = fused.advance(turn.batch, turn.copies, turn.state, grad_scale, memory, required=required)
        if batch is None:
            return
    torch._foreach_add_(batch.steps, 1)
    bundles = turn.bundles(batch.parts(), together=turn.uses_foreach)
    if turn.copies is None:
        take_steps(bundles)
    else:
        together = list(bundles)
        take_group_step(together, [bundle.measure() for bundle in together], turn.copies)
