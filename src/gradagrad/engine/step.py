"""The order of a step, and the only place that knows it: prepare → measure → add over ranks → decide → move → learn."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.backends import choose_backend
from gradagrad.engine.batch import Batch
from gradagrad.engine.support import refuse_misfits, refuse_unfit
from gradagrad.engine.uninterrupted import uninterrupted
from gradagrad.torch_ops.steps import added_up


def prepare(batches: Sequence[Batch], groups: Sequence[Mapping[str, Any]]) -> list[Batch]:
    """Checks everything and writes nothing: the batches of the step, each with a backend that can step it."""
    ready: list[Batch] = []
    try:
        for batch, group in zip(batches, groups, strict=True):
            plain = not torch.compiler.is_compiling() and batch.ranks is None and batch.is_plain()
            if not plain:
                refuse_unfit(batch)
            for part in [batch] if plain else sharding.split(batch):
                part.backend = choose_backend(part, group)
                ready.append(part)
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
    if torch.compiler.is_compiling():
        _run(batches)
    elif len(batches) == 1 and _is_one_call(batches[0]):
        batches[0].backend.step(batches[0])  # A compiled call cannot be interrupted.
    else:
        with uninterrupted():
            _run(batches)


def _is_one_call(batch: Batch) -> bool:
    alone = batch.backend.name == "kernel" and not batch.is_shared and len(batch.params) == 1
    return not batch.axes and (batch.backend.is_one_call or alone)


def _run(batches: Sequence[Batch]) -> None:
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
    statistics = _totals(batches, moved)
    written: set[int] = set()
    for batch, own, found in zip(batches, sums, statistics, strict=True):
        if batch.is_shared and _shared_block(batch) not in written:
            batch.backend.write_shared(batch, own, found)
            written.add(_shared_block(batch))
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
