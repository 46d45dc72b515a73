"""The backend that always works: the rule's own lines over torch tensors, one by one or in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.engine.tensors import tensor_ops, write_numbers
from gradagrad.engine.views import View, views


class TorchSteps:
    """Steps with ordinary torch operations; ``together`` through ``torch._foreach_*``."""

    name = "torch"
    is_one_call = False

    def __init__(self, *, together: bool) -> None:
        self.together = together

    def refusal(self, batch: Batch) -> str | None:
        return None

    def forget(self, batch: Batch) -> None:
        batch.views = None

    def step(self, batch: Batch) -> None:
        if batch.is_shared:
            sums = self.measure(batch)
            self.settle(batch, sums, self.move(batch, sums))
            return
        for view in views(batch, together=self.together):  # one after the other, so that only one holds temporaries
            view.write(*view.step(view.measure()))
        torch._foreach_add_(batch.steps, 1)

    def measure(self, batch: Batch) -> Any:
        """A shared slot's sums, (1, numbers); or for each tensor its own, (numbers, slots)."""
        if not batch.rule.measures(batch.settings):
            return None
        batch.views = list(views(batch, together=self.together))
        measured = [view.measure() for view in batch.views]
        if batch.is_shared:
            return added_up([torch.stack(sums) for sums in measured], batch)
        return [torch.stack(sums) for view_sums in measured for sums in _by_tensor(view_sums)]

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        found = batch.views or list(views(batch, together=self.together))
        batch.views = None
        if batch.is_shared:
            traces = self._move_shared(batch, found, sums)
        else:
            traces, remaining = None, iter(sums)
            for view in found:
                view.write(*view.step(_of_view(view, remaining)))
        torch._foreach_add_(batch.steps, 1)
        return traces

    def _move_shared(self, batch: Batch, found: Sequence[View], sums: Tensor | None) -> Tensor | None:
        _, pace = decide(batch, sums)
        traces: list[Tensor] = []
        for view in found:
            new, left = view.move([a.to(view.device) if isinstance(a, Tensor) else a for a in pace])
            view.write(new, {})
            traces += [torch.stack(left)] if left else []
        return added_up(traces, batch) if traces else None

    def settle(self, batch: Batch, sums: Tensor | None, traces: Tensor | None) -> None:
        settle(batch, sums, traces)


def decide(batch: Batch, sums: Tensor | None, *, counted: bool = False) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What the rule decides for a batch that shares one slot: the slot after this step, and the pace of its move.

    ``counted`` says that the counters have counted this step already.
    """
    slot = batch.shared
    if batch.differentiable:  # what autograd saves must not be what is overwritten
        slot = {key: number.clone() for key, number in slot.items()}
    wide = next(iter(slot.values())).dtype
    settings = batch.settings._replace(lr=batch.lr_after(0, wide) if counted else batch.lr(0, wide))
    return batch.rule.decide(() if sums is None else sums[0].unbind(), slot, settings, tensor_ops(wide))


def settle(batch: Batch, sums: Tensor | None, traces: Tensor | None) -> None:
    """Writes a shared slot as it stands after the step."""
    after, _ = decide(batch, sums, counted=True)
    if batch.rule.learns(batch.settings) and traces is not None:
        ops = tensor_ops(traces.dtype)
        after = batch.rule.learn(traces[0].unbind(), after, batch.settings, ops)
    changed = [key for key, number in batch.shared.items() if after[key] is not number]
    write_numbers([batch.shared[key] for key in changed], [after[key] for key in changed])


def added_up(parts: Sequence[Tensor], batch: Batch) -> Tensor:
    """The sum of what views, or parts of a batch, measured of one slot; a row for the slot."""
    device = next(iter(batch.shared.values())).device
    moved = [part.to(device) for part in parts]
    return (torch.stack(moved).sum(0) if len(moved) > 1 else moved[0]).reshape(1, -1)


def _by_tensor(sums: Sequence[Any]) -> list[tuple[Any, ...]]:
    """A view's sums tensor by tensor."""
    return [tuple(sums)] if not sums or isinstance(sums[0], Tensor) else list(zip(*sums, strict=True))


def _of_view(view: View, remaining: Any) -> tuple[Any, ...]:
    """The next sums, in the form the view measured them."""
    if isinstance(view.values["x"], Tensor):
        return tuple(next(remaining).unbind())
    several = [next(remaining).unbind() for _ in view.values["x"]]
    return tuple(type(view.values["x"])(column) for column in zip(*several, strict=True))
