"""The order of a step, and the only place that knows it: prepare → measure → add over ranks → decide → move → learn."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

from gradagrad import sharding
from gradagrad.engine.batch import Backend, Batch, Step
from gradagrad.engine.support import refuse_unfit
from gradagrad.kernel import load
from gradagrad.kernel.backend import KERNEL, ROW_KERNEL
from gradagrad.torch_ops.ops import real_view
from gradagrad.torch_ops.steps import TorchStep, added_up, learn, refuse_misfits
from gradagrad.triton.backend import TRITON, interprets

IS_CPU = attrgetter("is_cpu")


def prepare(batches: Sequence[Batch], *, looks: bool = True) -> list[Step]:
    """Checks everything and writes nothing: a step for each batch by a backend that can take it.

    There are no steps if the rule learns and every gradient is zero; without ``looks`` nobody looks.
    """
    ready: list[Batch] = []
    for batch in batches:
        plain = not torch.compiler.is_compiling() and _is_plain(batch)
        if not plain:
            refuse_unfit(batch)
        ready += [batch] if plain else sharding.split(batch)
    if looks and ready and ready[0].plan.rule.learns and not moves(ready, map(look, ready)):
        return []
    return [prepared(batch) for batch in ready]


# Whether a step has a gradient at all: one in which every gradient is zero changes nothing if the rule learns.


def look(batch: Batch) -> bool | Tensor:
    """Whether a number in the gradients is not zero. On a CPU the host knows, and stops at the first such number."""
    if torch.compiler.is_compiling() or not all(map(IS_CPU, batch.grads)):
        return look_on_device(batch)
    kernel = load.ops()
    return any(map(kernel.any_nonzero if kernel else Tensor.any, map(_values, batch.grads)))


def look_on_device(batch: Batch) -> Tensor:
    """The same as a number on the device, for which the host does not wait."""
    like, values = next(iter(batch.shared.values())), [a for a in map(_values, batch.grads) if a.numel()]
    found: list[Tensor] = []
    for device in dict.fromkeys(a.device for a in values):
        # One operation for all tensors of a device. A norm is NaN if a number is.
        largest = torch._foreach_norm([a for a in values if a.device == device], torch.inf)
        found.append(torch.stack(largest).count_nonzero().to(like))
    return sum(found[1:], found[0]) if found else like.new_zeros(())


def moves(batches: Sequence[Batch], found: Iterable[bool | Tensor]) -> bool:
    """Whether to take a step, given what `look` has found in each batch. It is not taken if no rank has a gradient.

    Where only the device knows, the step is taken, and the rule is told the answer.
    """
    answers, axes = list(found), [batch.axes for batch in batches]
    if not any(axes) and any(answer is True for answer in answers):
        return True
    like = next(iter(batches[0].shared.values()))
    numbers = sharding.add_over_ranks([torch.as_tensor(a).to(like) for a in answers], axes)
    moved = sum(numbers[1:], numbers[0])
    if any(isinstance(a, bool) for a in answers):  # The kernel must be told, and a CPU need not be waited for.
        return bool(moved)
    for batch in batches:
        batch.moved = moved
    return True


def _values(gradient: Tensor) -> Tensor:
    return real_view(gradient if gradient.layout == torch.strided else gradient._values())


def run(steps: Sequence[Step]) -> None:
    """Takes prepared steps."""
    if len(steps) == 1 and not steps[0].batch.axes:  # The usual case.
        steps[0].take()
        return
    blocks: dict[int, list[Step]] = {}
    for step in steps:
        blocks.setdefault(_shared_block(step.batch), []).append(step)
    together: list[Step] = []
    for own in blocks.values():
        if len(own) > 1 or own[0].batch.axes:
            together += own
        else:
            own[0].take()
    if together:
        _take_together(together)


def _shared_block(batch: Batch) -> int:
    """The same number for batches whose parameters share one block."""
    return id(next(iter(batch.shared.values()))) if batch.shared else id(batch)


def _take_together(steps: Sequence[Step]) -> None:
    """Steps blocks that span several batches or ranks: everything is measured before anything moves."""
    sums = _totals([step.batch for step in steps], [step.measure() for step in steps])
    moved = [step.move(own) for step, own in zip(steps, sums, strict=True)]
    written: set[int] = set()
    for step, own in zip(steps, sums, strict=True):
        if step.batch.plan.is_shared and _shared_block(step.batch) not in written:
            step.write_shared(own)
            written.add(_shared_block(step.batch))
    if steps[0].batch.plan.rule.learns:
        statistics = [own for own in moved if own is not None]
        learn([step.batch for step in steps], statistics, [step.after for step in steps])


def _totals(batches: Sequence[Batch], values: Sequence[Any]) -> list[Any]:
    """Each batch's numbers added over its ranks, in one message, and over the batches that share its block.

    A value is a tensor, a list of tensors, or None.
    """
    tensors = [[value] if isinstance(value, Tensor) else value or [] for value in values]
    axes = [batch.axes for batch, own in zip(batches, tensors, strict=True) for _ in own]
    added = iter(sharding.add_over_ranks([tensor for own in tensors for tensor in own], axes))
    totals = [next(added) if isinstance(a, Tensor) else a and [next(added) for _ in a] for a in values]
    shared: dict[int, tuple[Batch, list[Tensor]]] = {}
    for batch, total in zip(batches, totals, strict=True):
        if batch.plan.is_shared and total is not None:
            shared.setdefault(_shared_block(batch), (batch, []))[1].append(total[0])
    sums = {block: added_up(parts, batch) for block, (batch, parts) in shared.items()}
    return [sums.get(_shared_block(batch), total) for batch, total in zip(batches, totals, strict=True)]


_LAYOUT = attrgetter("layout")
_PARAMETER, _STRIDED = {torch.nn.Parameter}, {torch.strided}


def _is_plain(batch: Batch) -> bool:
    """The usual case: all parameters are whole and on one rank, and all gradients are dense."""
    return _PARAMETER.issuperset(map(type, batch.params)) and _STRIDED.issuperset(map(_LAYOUT, batch.grads))


_RANKS = "rows that share a step size are split over several ranks."


def prepared(batch: Batch) -> Step:
    """A compiled step where it is wanted and possible (C++ on a CPU, Triton on a GPU), else one of torch operations."""
    plan, layout = batch.plan, batch.grads[0].layout
    known: Backend | None = None if batch.axes else plan.backends.get(layout)
    if known and not isinstance(step := known.prepare(batch), str):
        return step  # The kernel took the last step. It refuses parameters that have moved to another device.
    if plan.fused and any(parameter.is_meta for parameter in batch.params):  # in torch's words, for its own tests
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices.")
    reason = ""
    if _wants_kernel(batch):
        on_cpu = all(map(IS_CPU, batch.params)) and not interprets()
        backend = TRITON if not on_cpu else KERNEL if layout == torch.strided else ROW_KERNEL
        step = _RANKS if plan.scope == "row" and batch.axes else backend.prepare(batch)
        if not isinstance(step, str):
            if on_cpu:
                plan.backends[layout] = backend
            else:
                refuse_misfits(batch)
            return step
        reason = step
    refuse_misfits(batch)  # This explains misfits better than the kernels do.
    if reason and plan.fused and layout == torch.strided:
        raise RuntimeError(f"fused=True is impossible here: {reason} Pass fused=None to use the kernel where possible.")
    if reason and batch.params[0].is_cpu and load.ops() is None:
        load.warn_once()
    together = plan.foreach
    if together is None:
        together = _default_to_fused_or_foreach(batch.params, plan.differentiable, use_fused=False)[1]
    return TorchStep(batch, together=together)


def _wants_kernel(batch: Batch) -> bool:
    """Whether to ask the kernel, as torch's optimizers decide it."""
    plan = batch.plan
    if plan.fused is not None:
        return plan.fused
    if plan.foreach or plan.differentiable or torch.compiler.is_compiling():
        return False
    return batch.params[0].is_cuda or all(map(IS_CPU, batch.params))
