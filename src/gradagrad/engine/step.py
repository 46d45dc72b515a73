"""The order of a step, and the only place that knows it: prepare → measure → add over ranks → decide → move → learn."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

from gradagrad import sharding
from gradagrad.engine.batch import Backend, Batch
from gradagrad.engine.gradients import IS_CPU, look, moves
from gradagrad.engine.support import refuse_unfit
from gradagrad.kernel import load
from gradagrad.kernel.backend import KERNEL, ROW_KERNEL
from gradagrad.torch_ops.steps import TorchSteps, added_up, learn, refuse_misfits
from gradagrad.triton.backend import TRITON, interprets


def prepare(batches: Sequence[Batch], groups: Sequence[Mapping[str, Any]], *, looks: bool = True) -> list[Batch]:
    """Checks everything and writes nothing: the batches of the step, each with a backend that can step it.

    ``groups`` are all param groups. There are no batches if the rule learns and every gradient is zero; without
    ``looks`` nobody looks.
    """
    ready: list[Batch] = []
    for batch in batches:
        plain = not torch.compiler.is_compiling() and _is_plain(batch)
        if not plain:
            refuse_unfit(batch)
        ready += [batch] if plain else sharding.split(batch)
    if looks and ready and ready[0].rule.learns and not moves(ready, map(look, ready)):
        return []
    try:
        for part in ready:
            part.backend = choose_backend(part, groups[part.group])
            if part.backend.name != "kernel":  # The kernel has checked all shapes.
                refuse_misfits(part)
    except BaseException:
        forget(ready)
        raise
    return ready


def forget(batches: Sequence[Batch]) -> None:
    """Releases what was prepared for a step that will not be taken."""
    for batch in batches:
        if batch.prepared is not None:
            batch.backend.forget(batch)


def run(batches: Sequence[Batch]) -> None:
    """Takes a prepared step."""
    blocks = [_shared_block(batch) for batch in batches]
    together: list[Batch] = []
    for batch, block in zip(batches, blocks, strict=True):
        if batch.axes or blocks.count(block) > 1:
            together.append(batch)
        else:
            batch.backend.step(batch)
    if together:
        _step_together(together)


def _shared_block(batch: Batch) -> int:
    """The same number for batches whose parameters share one block."""
    return id(next(iter(batch.shared.values()))) if batch.shared else id(batch)


def _step_together(batches: Sequence[Batch]) -> None:
    """Steps blocks that span several batches or ranks: everything is measured before anything moves."""
    sums = _totals(batches, [batch.backend.measure(batch) for batch in batches])
    moved = [batch.backend.move(batch, own) for batch, own in zip(batches, sums, strict=True)]
    written: set[int] = set()
    for batch, own in zip(batches, sums, strict=True):
        if batch.is_shared and _shared_block(batch) not in written:
            batch.backend.write_shared(batch, own)
            written.add(_shared_block(batch))
    if batches[0].rule.learns:
        learn(batches, moved)
    forget(batches)


def _totals(batches: Sequence[Batch], values: Sequence[Any]) -> list[Any]:
    """Each batch's numbers added over its ranks, in one message, and over the batches that share its block.

    A value is a tensor, a list of tensors, or None.
    """
    tensors = [[value] if isinstance(value, Tensor) else value or [] for value in values]
    axes = [batch.axes for batch, own in zip(batches, tensors, strict=True) for _ in own]
    added = iter(sharding.add_over_ranks([tensor for own in tensors for tensor in own], axes))
    totals = [next(added) if isinstance(a, Tensor) else a and [next(added) for _ in a] for a in values]
    shared: dict[int, list[Tensor]] = {}
    for batch, total in zip(batches, totals, strict=True):
        if batch.is_shared and total is not None:
            shared.setdefault(_shared_block(batch), []).append(total[0])
    return [
        added_up(shared[_shared_block(batch)], batch) if _shared_block(batch) in shared else total
        for batch, total in zip(batches, totals, strict=True)
    ]


_LAYOUT = attrgetter("layout")
_PARAMETER, _STRIDED = {torch.nn.Parameter}, {torch.strided}


def _is_plain(batch: Batch) -> bool:
    """The usual case: all parameters are whole and on one rank, and all gradients are dense."""
    return _PARAMETER.issuperset(map(type, batch.params)) and _STRIDED.issuperset(map(_LAYOUT, batch.grads))


_RANKS = "rows that share a step size are split over several ranks."
ONE_BY_ONE, TOGETHER = TorchSteps(together=False), TorchSteps(together=True)


def choose_backend(batch: Batch, group: Mapping[str, Any]) -> Backend:
    """Compiled steps where they are wanted and possible (C++ on a CPU, Triton on a GPU), else torch operations."""
    layout = batch.grads[0].layout
    kernel = None if batch.axes else batch.derived.get(layout)
    if kernel and not kernel.prepare(batch):
        return kernel  # The last step took it; it refuses parameters that have moved to another device.
    if group["fused"] and any(parameter.is_meta for parameter in batch.params):  # in torch's words, for its own tests
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices.")
    if wanted := _wants_kernel(batch, group):
        on_cpu = _is_on_cpu(batch) and not interprets()
        backend = TRITON if not on_cpu else KERNEL if layout == torch.strided else ROW_KERNEL
        reason = _RANKS if batch.scope == "row" and batch.axes else backend.prepare(batch)
        if reason is None:
            if on_cpu:
                batch.derived[layout] = backend
            return backend
        if on_cpu:
            refuse_misfits(batch)  # This explains misfits better than the kernel does.
        if wanted == "always" and layout == torch.strided:
            raise RuntimeError(
                f"fused=True is impossible here: {reason} Pass fused=None to use the kernel where possible."
            )
        if on_cpu and load.ops() is None:
            load.warn_once()
    together = group["foreach"]
    if together is None:
        together = _default_to_fused_or_foreach(batch.params, group["differentiable"], use_fused=False)[1]
    return TOGETHER if together else ONE_BY_ONE


def _wants_kernel(batch: Batch, group: Mapping[str, Any]) -> str:
    """Whether to ask the kernel: "always", "where possible" or not at all, as torch's optimizers decide it."""
    if group["fused"]:
        return "always"
    if group["fused"] is False or group["foreach"] or batch.differentiable or torch.compiler.is_compiling():
        return ""
    return "where possible" if _is_on_cpu(batch) or batch.params[0].is_cuda else ""


def _is_on_cpu(batch: Batch) -> bool:
    return all(map(IS_CPU, batch.params))
