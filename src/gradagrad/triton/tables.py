"""What the Triton kernels find their way by: addresses, chunks of work, and where partial sums lie.

Addresses change with every gradient that is allocated anew, the rest hardly ever, so the two are remembered apart. Both
are kept on the device; a step whose tensors lie where they lay before uploads nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradagrad.triton.rows import REGULAR, TILES


class Sizes(NamedTuple):
    """How work is cut up."""

    block: int = 512
    """Elements that a program takes at a time: four for each of 128 threads, so that float32 moves by 128 bits."""
    chunk: int = 8192
    """Elements of a program that moves; a multiple of the block."""
    programs: int = 1024
    """About as many programs measure, since each program that moves adds up what they left."""
    lanes: int = 512
    """Partial sums that are added at a time."""


def sizes_for(amd: bool) -> Sizes:
    """An AMD wave has 64 lanes, so that 128 bits for each need a block twice as large."""
    return Sizes(block=1024) if amd else Sizes()


class Extent(NamedTuple):
    """What of one tensor a kernel walks."""

    rows: int
    length: int
    """Elements of a row; a flat tensor is one row."""
    aligned: bool


class Work(NamedTuple):
    """The shares of one kernel's programs."""

    shares: Tensor
    """(programs, 4): tensor, begin, count, and how many elements lie in whole aligned blocks or if rows are regular."""
    programs: int
    tensors: tuple[int, ...]
    """How many programs each tensor has; those of one tensor follow each other."""


class Memory:
    """Tables on one device, kept by what they were made from; the oldest goes when there are too many."""

    def __init__(self, device: torch.device, most: int = 128) -> None:
        self.device, self.most = device, most
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def recall(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made for this key, or is made now."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        value = self._known[key] = make()
        if len(self._known) > self.most:
            self._known.popitem(last=False)
        return value

    def table(self, rows: tuple[int, ...]) -> Tensor:
        """These numbers on the device."""
        return self.recall(rows, lambda: self.upload(rows))

    def upload(self, rows: Sequence[int]) -> Tensor:
        """A copy on the device, without waiting for it."""
        table = torch.tensor(rows, dtype=torch.int64)
        return table if self.device.type == "cpu" else table.pin_memory().to(self.device, non_blocking=True)

    def work(self, extents: tuple[Extent, ...], size: int, block: int, *, rows: bool) -> Work:
        """Who walks what."""

        def make() -> Work:
            shares, counts = row_shares(extents, size) if rows else flat_shares(extents, size, block)
            return Work(self.upload(shares), len(shares) // 4, tuple(counts))

        return self.recall(("work", extents, size, block, rows), make)


def flat_shares(extents: Sequence[Extent], size: int, block: int) -> tuple[list[int], list[int]]:
    """Chunks of at most ``size`` elements (the shares, flattened; how many each tensor has)."""
    shares: list[int] = []
    counts: list[int] = []
    for t, extent in enumerate(extents):
        total = extent.rows * extent.length
        counts.append(-(-total // size))
        for begin in range(0, total, size):
            count = min(size, total - begin)
            shares += (t, begin, count, count // block * block if extent.aligned else 0)
    return shares, counts


def row_shares(extents: Sequence[Extent], size: int) -> tuple[list[int], list[int]]:
    """Whole rows, together about ``size`` elements, in whole tiles."""
    shares: list[int] = []
    counts: list[int] = []
    for t, extent in enumerate(extents):
        tile = next((rows for rows, columns in TILES if extent.length <= columns), TILES[-1][0])
        at_once = max(size // max(extent.length, 1) // tile, 1) * tile
        rows = extent.rows if extent.length else 0
        counts.append(-(-rows // at_once))
        for begin in range(0, rows, at_once):
            shares += (t, begin, min(at_once, rows - begin), extent.aligned and extent.length % REGULAR == 0)
    return shares, counts
