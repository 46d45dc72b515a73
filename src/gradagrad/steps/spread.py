"""Groups whose slots lie on several ranks: each rank measures its shards, the sums are added up, and all step.

What a rank sends must not depend on how it steps, since one may use the compiled kernel where another cannot. It is
always Σ g² and Σ g·m side by side: for each tensor, or for all tensors of a group that are added over the same ranks.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.distributed import Addition, Axes
from gradagrad.steps import fused
from gradagrad.steps.bundle import Batch, Bundle, Pair, Parts, take_group_step

Copies = Sequence[tuple[Tensor, Tensor]]


class Spread:
    """One param group's share of a step: measured when created, taken by `step`."""

    def __init__(
        self,
        batch: Batch,
        parts: Parts,
        copies: Copies | None,
        bundles: Callable[[Parts], Iterable[Bundle]],
        *,
        kernel: bool,
    ) -> None:
        self._batch, self._parts, self._copies = batch, parts, copies
        self._bundles: list[list[Bundle]] = []
        sums = self._measure_with_kernel() if kernel else None
        if sums is None:
            torch._foreach_add_(batch.steps, 1)  # the kernel counts by itself
            self._bundles = [list(bundles([part])) for part in parts]
            sums = [self._measured(own) for own in self._bundles]
        self._counts = [len(own) for own in sums]
        self.sums: list[Tensor] = [both for own in sums for both in own]
        self.axes: list[Axes] = [axes for (axes, _), own in zip(parts, sums, strict=True) for _ in own]

    def step(self, sums: Iterable[Tensor]) -> None:
        """Takes the step, given the sums over all ranks."""
        remaining = iter(sums)
        complete = [[next(remaining) for _ in range(count)] for count in self._counts]
        if not self._bundles:
            self._step_with_kernel(complete)
        elif self._copies is not None:
            together = [bundle for own in self._bundles for bundle in own]
            take_group_step(together, [(both[0], both[1]) for own in complete for both in own], self._copies)
        else:
            for own, both in zip(self._bundles, complete, strict=True):
                _advance(own, both)

    def _measured(self, bundles: Sequence[Bundle]) -> list[Tensor]:
        pairs = [bundle.measure() for bundle in bundles]
        both = [torch.stack((gg, gm)) for pair in pairs for gg, gm in zip(*map(_tensors, pair), strict=True)]
        return both if self._copies is None else [torch.stack([b.double() for b in both]).sum(0)]

    def _measure_with_kernel(self) -> list[list[Tensor]] | None:
        if self._batch.granularity == "row" or any(g.layout != torch.strided for g in self._batch.grads):
            return None
        measured = [fused.measure(part, self._copies) for _, part in self._parts]
        return (
            [list(m) for m in measured if isinstance(m, Tensor)]
            if all(isinstance(m, Tensor) for m in measured)
            else None
        )

    def _step_with_kernel(self, sums: list[list[Tensor]]) -> None:
        if self._copies is not None:
            total = torch.stack([both for own in sums for both in own]).sum(0, keepdim=True)
            reasons = [fused.apply(self._batch, total, self._copies)]
        else:
            reasons = [fused.apply(part, torch.stack(own)) for (_, part), own in zip(self._parts, sums, strict=True)]
        if any(reasons):  # it has just measured the same tensors
            raise RuntimeError(f"the kernel measured a step that it cannot take: {reasons}")


def take_spread_steps(groups: Sequence[Spread], meanwhile: Callable[[], None]) -> None:
    """Adds up what the groups measured, in one message for each set of ranks, and does something else on the way."""
    addition = Addition([both for group in groups for both in group.sums], [a for group in groups for a in group.axes])
    meanwhile()
    sums = iter(addition.result())
    for group in groups:
        group.step([next(sums) for _ in group.sums])


def _advance(bundles: Sequence[Bundle], sums: Sequence[Tensor]) -> None:
    remaining = iter(sums)
    for bundle in bundles:
        if isinstance(bundle.x, Tensor):
            both = next(remaining)
            measured: Pair = both[0], both[1]
        else:
            several = [next(remaining) for _ in bundle.x]
            measured = tuple(type(bundle.x)([both[i] for both in several]) for i in (0, 1))
        bundle.advance(measured)


def _tensors(a: Any) -> Iterable[Tensor]:
    """A single tensor as a list; a list as it is."""
    return [a] if isinstance(a, Tensor) else a
