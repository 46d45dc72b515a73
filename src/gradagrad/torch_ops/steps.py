"""The backend that always works: the rule's own lines over torch tensors, one by one or laid end to end."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.torch_ops.ops import real_shape, tensor_ops, write_scalars
from gradagrad.torch_ops.views import View, lr_of, views


class TorchSteps:
    """Steps with ordinary torch operations; ``together`` lays the tensors of a batch end to end."""

    name = "torch"
    is_one_call = False

    def __init__(self, *, together: bool) -> None:
        self._together = together

    def prepare(self, batch: Batch) -> str | None:
        return None

    def forget(self, batch: Batch) -> None:
        batch.prepared = None

    def step(self, batch: Batch) -> None:
        if batch.is_shared:
            after, factors = decide(batch, self.measure(batch))
            _write_block(batch, after, self._move_shared(batch, factors))
        else:
            for view in self._views(batch):  # One after the other, so that only one holds temporaries.
                view.step(view.measure())
        torch._foreach_add_(batch.steps, 1)

    def measure(self, batch: Batch) -> Any:
        """A shared block's sums, (1, numbers); otherwise each tensor's own, (numbers, blocks)."""
        if not batch.rule.measures(batch.settings):
            return None
        batch.prepared = list(self._views(batch))
        if batch.is_shared:
            return added_up([torch.stack(view.measure()) for view in batch.prepared], batch)
        return [sums for view in batch.prepared for sums in view.by_tensor(view.measure())]

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        statistics = None
        if batch.is_shared:
            statistics = self._move_shared(batch, decide(batch, sums)[1])
        else:
            remaining = iter(sums)
            for view in self._read_views(batch):
                view.step(view.from_tensors(remaining))
        torch._foreach_add_(batch.steps, 1)
        return statistics

    def write_shared(self, batch: Batch, sums: Tensor | None, statistics: Tensor | None) -> None:
        _write_block(batch, decide(batch, sums, counted=True)[0], statistics)

    def _views(self, batch: Batch) -> Any:
        return views(batch, together=self._together and not torch.compiler.is_compiling())

    def _read_views(self, batch: Batch) -> list[View]:
        """The views that were measured, or new ones."""
        found, batch.prepared = batch.prepared, None
        return found or list(self._views(batch))

    def _move_shared(self, batch: Batch, factors: Sequence[Any]) -> Tensor | None:
        statistics: list[Tensor] = []
        for view in self._read_views(batch):
            new, found = view.move(_narrowed(factors, view))
            view.write(new, {})
            statistics += [torch.stack(found)] if found else []
        return added_up(statistics, batch) if statistics else None


def decide(batch: Batch, sums: Tensor | None, *, counted: bool = False) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What the rule decides for a batch that shares one block: the block after this step, and the factors of the move.

    ``counted`` says that the step counters include this step already.
    """
    block = batch.shared
    if batch.differentiable:  # Autograd saves these tensors, so they must not be overwritten.
        block = {key: number.clone() for key, number in block.items()}
    wide = next(iter(block.values())).dtype
    scalars = {key: a.reshape(()) for key, a in batch.settings._asdict().items() if isinstance(a, Tensor)}
    scalars["lr"] = lr_of(batch, 0, wide, counted=counted)
    settings = batch.settings._replace(**scalars)
    return batch.rule.decide(() if sums is None else sums[0].unbind(), block, settings, tensor_ops(wide))


def _write_block(batch: Batch, after: dict[str, Any], statistics: Tensor | None) -> None:
    """Writes a shared block as it was decided, and as the rule learns it from the statistics."""
    if batch.rule.learns(batch.settings) and statistics is not None:
        after = batch.rule.learn(statistics[0].unbind(), after, batch.settings, tensor_ops(statistics.dtype))
    changed = [key for key, number in batch.shared.items() if after[key] is not number]
    write_scalars([batch.shared[key] for key in changed], [after[key] for key in changed])


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
        if reason := misfit(parameter, gradient, state):
            raise RuntimeError(reason)


def misfit(parameter: Tensor, gradient: Tensor, state: list[Tensor]) -> str | None:
    """Why shapes do not fit; None if they do."""
    shape = parameter.shape
    if gradient.shape != shape:
        return f"the gradient of a parameter of shape {tuple(shape)} has shape {tuple(gradient.shape)}."
    expected = real_shape(parameter)
    for tensor in state:
        if tensor.shape != expected:
            return (
                f"a parameter has shape {tuple(shape)}, but its state {tuple(tensor.shape)}: "
                "it was replaced or resized since the last step. Construct a new optimizer for it, or delete its state."
            )
    return None
