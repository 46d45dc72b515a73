"""The backend that always works: the rule's own lines over torch tensors, one by one or laid end to end."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.batch import Backend, Batch
from gradagrad.torch_ops.ops import TensorOps, real_shape, tensor_ops, write_scalars
from gradagrad.torch_ops.views import View, lr_of, views


class TorchSteps:
    """Steps with ordinary torch operations; ``together`` lays the tensors of a batch end to end."""

    name = "torch"

    def __init__(self, *, together: bool) -> None:
        self._together = together

    def prepare(self, batch: Batch) -> str | None:
        return None

    def forget(self, batch: Batch) -> None:
        batch.prepared = None

    def step(self, batch: Batch) -> None:
        if batch.shared:
            step_in_phases(self, batch)
            return
        for view in views(batch, together=self._together):  # One after the other, so that only one holds temporaries.
            view.step(*view.decide(view.measure()))
        torch._foreach_add_(batch.steps, 1)

    def measure(self, batch: Batch) -> Any:
        """A shared block's sums, (1, numbers); otherwise each tensor's own, (numbers, blocks)."""
        if not batch.rule.measures:
            return None
        batch.prepared = list(views(batch, together=self._together))
        if batch.is_shared:
            return added_up([torch.stack(view.measure()) for view in batch.prepared], batch)
        sums: dict[int, Tensor] = {}
        for view in batch.prepared:
            sums.update(zip(view.places, view.by_tensor(view.measure()), strict=True))
        return [sums[i] for i in range(len(batch.params))]

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        # The views that were measured, or new ones.
        found, batch.prepared = batch.prepared or views(batch, together=self._together), None
        statistics: dict[int, Tensor] = {}
        if batch.is_shared:
            after, factors = _decide(batch, sums)
            for view in found:
                view.step({}, _narrowed(factors, view))
            batch.prepared = [after]
        else:
            for view in found:
                given = () if sums is None else view.from_tensors([sums[i] for i in view.places])
                after, factors = view.decide(given)
                own = view.step(after, factors)
                if batch.rule.learns:
                    rows = torch.stack(own, -1).reshape(len(view.places), -1)
                    statistics.update(zip(view.places, rows, strict=True))
        count(batch)
        if not statistics:
            return None
        device = next(iter(batch.shared.values())).device
        return torch.stack([statistics[i].to(device) for i in range(len(batch.params))])

    def write_shared(self, batch: Batch, sums: Tensor | None) -> None:
        assert batch.prepared is not None
        (after,) = batch.prepared
        changed = [key for key, number in batch.shared.items() if after[key] is not number]
        write_scalars([batch.shared[key] for key in changed], [after[key] for key in changed])


def count(batch: Batch) -> None:
    """Counts the step of a batch. A counter on the host cannot know that every gradient on the device is zero."""
    moved: Tensor | None = getattr(batch.settings, "moved", None)
    if moved is None or moved.device != batch.steps[0].device:
        torch._foreach_add_(batch.steps, 1)
    else:
        torch._foreach_add_(batch.steps, [(moved > 0).long()] * len(batch.steps))


def step_in_phases(backend: Backend, batch: Batch) -> None:
    """Takes the whole step of a batch phase by phase, as blocks that span batches or ranks are stepped."""
    sums = backend.measure(batch)
    statistics = backend.move(batch, sums)
    if batch.is_shared:
        backend.write_shared(batch, sums)
    if statistics is not None:
        learn([batch], [statistics])
    backend.forget(batch)


def _decide(batch: Batch, sums: Tensor | None) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """(the block that a batch shares after this step, the factors of the move)."""
    # Autograd saves these tensors, so they must not be overwritten.
    block = {key: a.clone() if batch.differentiable else a for key, a in batch.shared.items()}
    wide = next(iter(block.values())).dtype
    scalars = {key: a.reshape(()) for key, a in batch.settings._asdict().items() if isinstance(a, Tensor)}
    scalars["lr"] = lr_of(batch, 0, wide)
    settings = batch.settings._replace(**scalars)
    return batch.rule.decide(() if sums is None else sums[0].unbind(), block, settings, tensor_ops(wide))


def learn(batches: Sequence[Batch], statistics: Sequence[Tensor]) -> None:
    """Writes what the rule learns for the next step from all tensors of all ranks. Shared numbers are written last.

    One message adds over ranks the statistics of tensors and what they report to the totals.
    """
    axes, decided = [batch.axes for batch in batches], [_decided(batch) for batch in batches]
    reports = [_report(batch, rows, *own) for batch, rows, own in zip(batches, statistics, decided, strict=True)]
    added = sharding.add_over_ranks([*statistics, *reports], [*axes, *axes])
    totals = added_up(added[len(batches) :], batches[0])[0].unbind()
    targets: list[Tensor] = []
    values: list[Tensor] = []
    after: dict[str, Any] = {}
    for batch, rows, (block, ops) in zip(batches, added[: len(batches)], decided, strict=True):
        after = batch.rule.learn(rows.unbind(1), totals, block, batch.settings, ops)
        for key in (field.key for field in batch.fields if field.at == "block"):
            targets += batch.state[key]
            values += [a.to(target.device) for a, target in zip(after[key].unbind(), batch.state[key], strict=True)]
    shared = batches[0].shared
    write_scalars([*targets, *shared.values()], [*values, *(after[key] for key in shared)])


def _decided(batch: Batch) -> tuple[dict[str, Any], TensorOps]:
    """The numbers of all tensors of a batch, as rows, and the shared ones, as the rule decides them for this step."""
    shared = next(iter(batch.shared.values()))
    block: dict[str, Any] = {key: a.clone() if batch.differentiable else a for key, a in batch.shared.items()}
    for field in batch.fields:
        if field.at == "block":
            block[field.key] = torch.stack([a.to(shared.device) for a in batch.state[field.key]])
    ops = tensor_ops(shared.dtype)
    return batch.rule.decide((), block, batch.settings._replace(lr=1.0), ops)[0], ops


def _report(batch: Batch, statistics: Tensor, block: dict[str, Any], ops: TensorOps) -> Tensor:
    """What the tensors of a batch add to the totals over all tensors."""
    make = torch.tensor if torch.compiler.is_compiling() else _kept
    sizes = make(tuple(real_shape(p).numel() for p in batch.params), dtype=ops.dtype, device=statistics.device)
    return torch.stack([a.sum() for a in batch.rule.report(statistics.unbind(1), block, sizes, batch.settings, ops)])


@cache
def _kept(numbers: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor that is kept, because a CUDA graph cannot copy numbers from the host and must not lose them."""
    return torch.tensor(numbers, dtype=dtype, device=device)


def added_up(parts: Sequence[Tensor], batch: Batch) -> Tensor:
    """The sum of what views or batches measured of one block, as a row."""
    device = next(iter(batch.shared.values())).device
    moved = [part.to(device) for part in parts]
    return (torch.stack(moved).sum(0) if len(moved) > 1 else moved[0]).reshape(1, -1)


def _narrowed(factors: Sequence[Any], view: View) -> list[Any]:
    """The factors on the view's device and in its precision, moved in one transfer."""
    tensors = [a for a in factors if isinstance(a, Tensor)]
    together = torch.stack(tensors) if len(tensors) > 1 else tensors[0].reshape(1)
    moved = iter(view.ops.narrow(together.to(view.device)).unbind())
    return [next(moved) if isinstance(a, Tensor) else a for a in factors]


def refuse_misfits(batch: Batch) -> None:
    """Raises where the shape of a gradient or of state differs from its parameter's, for backends that do not check."""
    states = [batch.state[field.key] for field in batch.fields if field.at == "element"]
    for parameter, gradient, *state in zip(batch.params, batch.grads, *states, strict=True):
        shape, found = tuple(parameter.shape), tuple(gradient.shape)
        if found != shape:
            raise RuntimeError(f"the gradient of a parameter of shape {shape} has shape {found}.")
        expected = real_shape(parameter)
        if others := [tensor for tensor in state if tensor.shape != expected]:
            raise RuntimeError(
                f"a parameter has shape {shape}, but its state has {tuple(others[0].shape)}: it was replaced or "
                "resized since the last step. Construct a new optimizer for it, or delete its state."
            )
        if gradient.layout == torch.sparse_coo and gradient.is_cpu and not torch.compiler.is_compiling():
            rows = gradient._indices()
            if rows.numel() and int(rows.min()) < 0:
                raise RuntimeError(f"a sparse gradient has a negative index, {int(rows.min())}; number rows from 0.")
