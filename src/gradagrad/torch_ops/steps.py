"""The backend that always works: the rule's own lines over torch tensors, one by one or laid end to end."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.batch import Batch, Step
from gradagrad.torch_ops.ops import TensorOps, real_shape, tensor_ops, write_scalars
from gradagrad.torch_ops.views import View, joined, lr_of, parts, views


class TorchStep:
    """A step of ordinary torch operations; ``together`` lays the tensors of a batch end to end."""

    def __init__(self, batch: Batch, *, together: bool = False) -> None:
        self.batch, self._together = batch, together
        self._measured: list[View] = []
        self.after: dict[str, Any] = {}

    def take(self) -> None:
        if self.batch.shared:
            step_in_phases(self)
            return
        for view in views(self.batch, together=self._together):  # Only one holds temporaries.
            view.step(*view.decide(view.measure()))
        torch._foreach_add_(self.batch.steps, 1)

    def measure(self) -> Any:
        """A shared block's sums, (1, numbers); otherwise each tensor's own, (numbers, blocks)."""
        if not self.batch.plan.rule.measures:
            return None
        self._measured = list(views(self.batch, together=self._together))
        found = [(view, view.measure()) for view in self._measured]
        if self.batch.plan.is_shared:
            return added_up([torch.stack(own) for _, own in found], self.batch)
        sums: dict[int, Tensor] = {}
        for view, own in found:
            sums.update(zip(view.places, view.by_tensor(own), strict=True))
        return [sums[i] for i in range(len(self.batch.params))]

    def move(self, sums: Any) -> Tensor | None:
        batch = self.batch
        statistics: dict[int, Tensor] = {}
        factors: Sequence[Any] = ()
        if batch.shared:  # One decision serves all tensors.
            self.after, factors = decide(batch, () if sums is None else sums[0].unbind())
        narrowed: dict[Any, list[Any]] = {}
        for view in self._measured or views(batch, together=self._together):
            if batch.shared:
                if (key := (view.device, view.ops)) not in narrowed:
                    narrowed[key] = _narrowed(factors, view)
                after, own = self.after, [_at(view.places, a) for a in narrowed[key]]
            else:
                after, own = view.decide(() if sums is None else view.from_tensors([sums[i] for i in view.places]))
            moved = view.step(after, own)
            if batch.plan.rule.learns:
                rows = torch.stack(moved, -1).reshape(len(view.places), -1)
                statistics.update(zip(view.places, rows, strict=True))
        self._measured = []
        count(batch)
        if not statistics:
            return None
        device = next(iter(batch.shared.values())).device
        return torch.stack([statistics[i].to(device) for i in range(len(batch.params))])

    def write_shared(self, sums: Tensor | None) -> None:
        shared = self.batch.shared
        changed = [key for key, number in shared.items() if self.after[key] is not number]
        write_scalars([shared[key] for key in changed], [self.after[key] for key in changed])


def count(batch: Batch) -> None:
    """Counts the step of a batch. A counter on the host cannot know that every gradient on the device is zero."""
    if batch.moved is None or batch.moved.device != batch.steps[0].device:
        torch._foreach_add_(batch.steps, 1)
    else:
        torch._foreach_add_(batch.steps, [(batch.moved > 0).long()] * len(batch.steps))


def step_in_phases(step: Step) -> None:
    """Takes the whole step of a batch phase by phase, as blocks that span batches or ranks are stepped."""
    sums = step.measure()
    statistics = step.move(sums)
    if step.batch.plan.is_shared:
        step.write_shared(sums)
    if statistics is not None:
        learn([step.batch], [statistics], [step.after])


def decide(batch: Batch, sums: Sequence[Any] = ()) -> tuple[dict[str, Any], Sequence[Any]]:
    """The shared numbers of a batch, and those of its tensors as rows, after this step; the factors of the move."""
    # Autograd saves tensors, so it gets some that will not be overwritten.
    given = {key: a.clone() if batch.plan.differentiable else a for key, a in batch.shared.items()}
    block: dict[str, Any] = {key: a.item() for key, a in given.items()} if _knows_shared(batch) else given
    shared = next(iter(batch.shared.values()))
    for field in batch.plan.fields:
        if field.at == "block" and field.key not in block:
            block[field.key] = torch.stack([a.to(shared.device) for a in batch.state[field.key]])
    settings = batch.settings._replace(lr=lr_of(batch, 0, shared.dtype))
    return batch.plan.rule.decide(sums, block, settings, tensor_ops(shared.dtype))


def _knows_shared(batch: Batch) -> bool:
    """Whether shared numbers become floats, because the host adds floats ten times as fast as tensors of one number."""
    traced = batch.plan.differentiable or torch.compiler.is_compiling()
    return batch.plan.rule.learns and batch.moved is None and not traced and next(iter(batch.shared.values())).is_cpu


def learn(batches: Sequence[Batch], statistics: Sequence[Tensor], decided: Sequence[dict[str, Any]] = ()) -> None:
    """Writes what the rule learns for the next step from all tensors of all ranks. Shared numbers are written last.

    One message adds over ranks the statistics of tensors and what they report to the totals. ``decided`` are the blocks
    after the step, where they are known.
    """
    shared = batches[0].shared
    ops = tensor_ops(next(iter(shared.values())).dtype)
    blocks = [own or decide(batch)[0] for own, batch in zip(decided or [{}] * len(batches), batches, strict=True)]
    reports = [_report(batch, rows, own, ops) for batch, rows, own in zip(batches, statistics, blocks, strict=True)]
    added = sharding.add_over_ranks([*statistics, *reports], [batch.axes for batch in batches] * 2)
    totals, known = added_up(added[len(batches) :], batches[0])[0], _knows_shared(batches[0])
    totals = totals.tolist() if known else totals.unbind()
    targets: list[Tensor] = []
    values: list[Tensor] = []
    after: dict[str, Any] = {}
    for batch, rows, block in zip(batches, added[: len(batches)], blocks, strict=True):
        after = batch.plan.rule.learn(rows.unbind(1), totals, block, batch.settings, ops)
        for key in (field.key for field in batch.plan.fields if field.at == "block"):
            targets += batch.state[key]
            values += after[key].unbind()
    numbers = [after[key] for key in shared]
    numbers = torch.tensor(numbers, dtype=ops.dtype).unbind() if known else numbers
    write_scalars([*targets, *shared.values()], [*values, *numbers])


def _report(batch: Batch, statistics: Tensor, block: dict[str, Any], ops: TensorOps) -> Tensor:
    """What the tensors of a batch add to the totals over all tensors."""
    make = torch.tensor if torch.compiler.is_compiling() else _kept
    sizes = make(tuple(real_shape(p).numel() for p in batch.params), dtype=ops.dtype, device=statistics.device)
    reported = batch.plan.rule.report(statistics.unbind(1), block, sizes, batch.settings, ops)
    return torch.stack(reported).sum(1)


@cache
def _kept(numbers: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Keeps a tensor, because a CUDA graph cannot copy numbers from the host and must not lose them."""
    return torch.tensor(numbers, dtype=dtype, device=device)


def added_up(parts: Sequence[Tensor], batch: Batch) -> Tensor:
    """The sum of what views or batches measured of one block, as a row."""
    device = next(iter(batch.shared.values())).device
    moved = [part.to(device) for part in parts]
    return (torch.stack(moved).sum(0) if len(moved) > 1 else moved[0]).reshape(1, -1)


def _narrowed(factors: Sequence[Any], view: View) -> list[Any]:
    """The factors on the view's device and in its precision, moved in one transfer."""
    tensors = [a for a in factors if isinstance(a, Tensor)]
    moved = iter(parts(view.ops.narrow(joined(tensors).to(view.device)), tensors) if tensors else ())
    return [next(moved) if isinstance(a, Tensor) else a for a in factors]


def _at(places: Sequence[int], a: Any) -> Any:
    """A factor of the tensors at these places, from one for each tensor or one for all."""
    if not isinstance(a, Tensor) or not a.dim():
        return a
    return a[places[0]] if len(places) == 1 else a[places] if len(places) < len(a) else a


def refuse_misfits(batch: Batch) -> None:
    """Raises where the shape of a gradient or of state differs from its parameter's, for backends that do not check."""
    states = [batch.state[field.key] for field in batch.plan.fields if field.at == "element"]
    for parameter, gradient, *state in zip(batch.params, batch.grads, *states, strict=True):
        if gradient.shape != parameter.shape:
            shape, found = tuple(parameter.shape), tuple(gradient.shape)
            raise RuntimeError(f"the gradient of a parameter of shape {shape} has shape {found}.")
        expected = real_shape(parameter)
        if others := [tensor for tensor in state if tensor.shape != expected]:
            raise RuntimeError(
                f"a parameter has shape {tuple(parameter.shape)}, but its state has {tuple(others[0].shape)}: it was "
                "replaced or resized since the last step. Construct a new optimizer for it, or delete its state."
            )
        if gradient.layout == torch.sparse_coo and gradient.is_cpu and not torch.compiler.is_compiling():
            rows = gradient._indices()
            if rows.numel() and int(rows.min()) < 0:
                raise RuntimeError(f"a sparse gradient has a negative index, {int(rows.min())}; number rows from 0.")
