"""The order of a step, and the only place that knows it: prepare → measure → add over ranks → decide → move → learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.backend import Backend
from gradagrad.engine.backends import choose_backend
from gradagrad.engine.batch import Batch
from gradagrad.engine.support import refuse_misfits, refuse_unfit
from gradagrad.engine.uninterrupted import uninterrupted
from gradagrad.torch_ops.steps import added_up

Pending = Callable[[], None]
"""What is left to do of a step once a message from other ranks has arrived."""


@dataclass
class Part:
    """Parameters of one batch whose sums are added over the same ranks, and who steps them."""

    batch: Batch
    backend: Backend
    axes: sharding.Axes = ()

    @property
    def is_one_call(self) -> bool:
        """Whether it is stepped by one call into compiled code."""
        if self.axes or self.backend.is_one_call:
            return not self.axes
        return self.backend.name == "kernel" and self.is_whole and len(self.batch.params) == 1

    @property
    def is_whole(self) -> bool:
        """Whether all numbers of its blocks are here."""
        return not self.axes and not self.batch.is_shared


Measured = tuple[Any, sharding.Axes]
"""What a part has measured, and over whom it is to be added."""
Settling = tuple[Part, Any, list[Measured]]
"""The first part of a family, the family's complete sums, and what each part's move has left behind."""


def prepare(batches: Sequence[Batch], groups: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Checks everything and writes nothing: the parts of the step, each with a backend that can take it."""
    parts: list[Part] = []
    try:
        for batch, group in zip(batches, groups, strict=True):
            whole = not torch.compiler.is_compiling() and batch.is_plain()
            if not whole:
                refuse_unfit(batch)
            for axes, part in [((), batch)] if whole else sharding.parts(batch):
                backend = choose_backend(part, group, axes)
                parts.append(Part(part, backend, axes))
                if backend.name != "kernel":  # which has looked at all shapes
                    refuse_misfits(part)
    except BaseException:
        forget(parts)
        raise
    return parts


def forget(parts: Sequence[Part]) -> None:
    """Lets go of what was prepared and will not be taken."""
    for part in parts:
        if part.batch.prepared is not None:
            part.backend.forget(part.batch)


def run(parts: Sequence[Part]) -> Pending | None:
    """Takes a prepared step. What other ranks must first be heard of is left to the caller, for later."""
    if torch.compiler.is_compiling():
        return _run(parts)
    if len(parts) == 1 and parts[0].is_one_call:
        parts[0].backend.step(parts[0].batch)  # which nothing can interrupt
        return None
    with uninterrupted():
        return _run(parts)


def _run(parts: Sequence[Part]) -> Pending | None:
    families = _families(parts)
    if any(len(family) > 1 or family[0].axes for family in families):
        return _run_together(families)
    for part in parts:
        part.backend.step(part.batch)
    return None


def _families(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts that share a block stand together."""
    families: dict[int, list[Part]] = {}
    for part in parts:
        block = part.batch.shared
        families.setdefault(id(next(iter(block.values()))) if block else id(part), []).append(part)
    return list(families.values())


def _run_together(families: Sequence[Sequence[Part]]) -> Pending | None:
    """Steps whose blocks belong to several parts or ranks: all is measured before anything moves."""
    measuring = [part for family in families for part in family if not part.is_whole]
    addition = Message([(part.backend.measure(part.batch), part.axes) for part in measuring])
    for family in families:
        if family[0].is_whole:
            family[0].backend.step(family[0].batch)  # while the message is on its way
    sums = dict(zip(map(id, measuring), addition.result(), strict=True))
    settling: list[Settling] = []
    for family in families:
        if family[0].is_whole:
            continue
        first, batch = family[0], family[0].batch
        if not batch.is_shared:
            first.backend.move(batch, sums[id(first)])
            continue
        measured = [sums[id(part)] for part in family if sums[id(part)] is not None]
        total = added_up([a[0] for a in measured], batch) if measured else None
        statistics = [(part.backend.move(part.batch, total), part.axes) for part in family]
        settling.append((first, total, statistics))
    return _write_shared(settling)


def _write_shared(settling: Sequence[Settling]) -> Pending | None:
    """Writes the shared blocks: at once, or as soon as all ranks have told what their moves left behind."""
    message = Message([trace for _, _, statistics in settling for trace in statistics])

    def finish() -> None:
        arrived = iter(message.result())
        for first, total, statistics in settling:
            left = [a for a in (next(arrived) for _ in statistics) if a is not None]
            complete = added_up([a[0] for a in left], first.batch) if left else None
            first.backend.write_shared(first.batch, total, complete)

    if message.is_needed:
        return finish
    finish()
    return None


class Message:
    """What parts have measured, added over their ranks in one go; begun by creating it. Nones stay None."""

    def __init__(self, values: Sequence[Measured]) -> None:
        self._values = [value for value, _ in values]
        flat = [(tensor, axes) for value, axes in values for tensor in _tensors(value)]
        self.is_needed = any(axes for _, axes in flat)
        self._addition = sharding.Addition([t for t, _ in flat], [axes for _, axes in flat])

    def result(self) -> list[Any]:
        """The sums over all ranks, in the form of the values."""
        added = iter(self._addition.result())
        return [
            next(added) if isinstance(value, Tensor) else value and [next(added) for _ in value]
            for value in self._values
        ]


def _tensors(value: Any) -> Sequence[Tensor]:
    return [value] if isinstance(value, Tensor) else value or []
