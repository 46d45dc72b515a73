"""The backend that always works: the rule's own lines over torch tensors, one by one or in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.torch_ops.ops import tensor_ops, write_scalars
from gradagrad.torch_ops.view import View
from gradagrad.torch_ops.views import views


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
            after, factors = decide(batch, self.measure(batch))
            write_slot(batch, after, self._move_shared(batch, factors))
        else:
            for view in views(batch, together=self.together):  # one after the other: only one holds temporaries
                view.write(*view.step(view.measure()))
        torch._foreach_add_(batch.steps, 1)

    def measure(self, batch: Batch) -> Any:
        """A shared slot's sums, (1, numbers); or for each tensor its own, (numbers, slots)."""
        if not batch.rule.measures(batch.settings):
            return None
        batch.views = list(views(batch, together=self.together))
        if batch.is_shared:
            return added_up([_stacked(view.measure()) for view in batch.views], batch)
        return [sums for view in batch.views for sums in view.by_tensor(view.measure())]

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        traces = None
        if batch.is_shared:
            traces = self._move_shared(batch, decide(batch, sums)[1])
        else:
            remaining = iter(sums)
            for view in self._read_views(batch):
                view.write(*view.step(view.from_tensors(remaining)))
        torch._foreach_add_(batch.steps, 1)
        return traces

    def _read_views(self, batch: Batch) -> list[View]:
        """The views that were measured, no longer kept."""
        found, batch.views = batch.views, None
        return found or list(views(batch, together=self.together))

    def _move_shared(self, batch: Batch, factors: Sequence[Any]) -> Tensor | None:
        traces: list[Tensor] = []
        for view in self._read_views(batch):
            new, left = view.move(_narrowed(factors, view))
            view.write(new, {})
            traces += [_stacked(left)] if len(left) else []
        return added_up(traces, batch) if traces else None

    def settle(self, batch: Batch, sums: Tensor | None, traces: Tensor | None) -> None:
        settle(batch, sums, traces)


def decide(batch: Batch, sums: Tensor | None, *, counted: bool = False) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What the rule decides for a batch that shares one slot: the slot after this step, and the factors of its move.

    ``counted`` says that the counters have counted this step already.
    """
    slot = batch.shared
    if batch.differentiable:  # what autograd saves must not be what is overwritten
        slot = {key: number.clone() for key, number in slot.items()}
    wide = next(iter(slot.values())).dtype
    scalars = {key: a.reshape(()) for key, a in batch.settings._asdict().items() if isinstance(a, Tensor)}
    scalars["lr"] = batch.lr_after(0, wide) if counted else batch.lr(0, wide)
    settings = batch.settings._replace(**scalars)
    return batch.rule.decide(() if sums is None else sums[0].unbind(), slot, settings, tensor_ops(wide))


def settle(batch: Batch, sums: Tensor | None, traces: Tensor | None) -> None:
    """Writes a shared slot as it stands after the step."""
    write_slot(batch, decide(batch, sums, counted=True)[0], traces)


def write_slot(batch: Batch, after: dict[str, Any], traces: Tensor | None) -> None:
    """Writes a shared slot as it was decided, and as the rule learns it from the traces."""
    if batch.rule.learns(batch.settings) and traces is not None:
        after = batch.rule.learn(traces[0].unbind(), after, batch.settings, tensor_ops(traces.dtype))
    changed = [key for key, number in batch.shared.items() if after[key] is not number]
    write_scalars([batch.shared[key] for key in changed], [after[key] for key in changed])


def added_up(parts: Sequence[Tensor], batch: Batch) -> Tensor:
    """The sum of what views, or parts of a batch, measured of one slot; a row for the slot."""
    device = next(iter(batch.shared.values())).device
    moved = [part.to(device) for part in parts]
    return (torch.stack(moved).sum(0) if len(moved) > 1 else moved[0]).reshape(1, -1)


def _stacked(sums: Any) -> Tensor:
    return sums if isinstance(sums, Tensor) else torch.stack(sums)


def _narrowed(factors: Sequence[Any], view: View) -> list[Any]:
    """The factors where the view computes, and as precisely; in one go."""
    tensors = [a for a in factors if isinstance(a, Tensor)]
    together = torch.stack(tensors) if len(tensors) > 1 else tensors[0].reshape(1)
    moved = iter(together.to(view.device, view.ops.dtype).unbind())
    return [next(moved) if isinstance(a, Tensor) else a for a in factors]
