"""The rows Figure 4 trains on: Criteo's or the synthetic stream's; kept in memory, or read when needed."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradagrad_lab.data.clicks.stream import BLOCK, HELD_OUT, TRAINING, ClickStream, Rows, joined, log_loss, raw_block
from gradagrad_lab.data.criteo import cache as criteo_cache
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.problems.clicks.batched import Batch
from gradagrad_lab.problems.clicks.dlrm import Size

WINDOWS, WINDOW = 40, 10  # points of a training curve, and the fewest steps in one: fewer would show mostly noise
_EVALUATED = 256  # held-out rows at a time: more no longer fit into the caches


@dataclass(frozen=True)
class Setup:
    """The data and the model: everything that the runs of a figure share. ``rows``: as many as there are."""

    rows: int
    held_out: int
    batch: int = 128
    cap: int = 100_000
    bottom: tuple[int, ...] = (64,)
    top: tuple[int, ...] = (64,)
    criteo: str = ""
    """Path of a Criteo file whose cache is read; empty for the synthetic stream."""
    version: str = ""
    """What distinguishes this file from another of the same name."""
    paper: bool = False
    """The paper's size: a row for every id, runs one by one."""

    @property
    def steps(self) -> int:
        return self.rows // self.batch

    @property
    def every(self) -> int:
        """Steps in one point of a curve."""
        return max(min(max(self.steps // WINDOWS, WINDOW), self.steps), 1)

    @property
    def points(self) -> NDArray[np.float64]:
        """Steps done at each point of a curve."""
        return self.every * np.arange(1, self.steps // self.every + 1, dtype=np.float64)

    @property
    def size(self) -> Size:
        return Size(2**31 if self.paper else self.cap, 16, self.bottom, self.top)

    def config(self) -> dict[str, Any]:
        described = {key: value for key, value in asdict(self).items() if key not in ("criteo", "version")}
        source = "Criteo" if self.criteo else "synthetic Criteo-shaped stream"
        return {"kind": "DLRM", "data": source, **described, **({"version": self.version} if self.criteo else {})}

    def settings(self) -> criteo_cache.Settings:
        return criteo_cache.Settings(every_id=True) if self.paper else criteo_cache.Settings(cap=self.cap)


class Cut(NamedTuple):
    """Some rows as a batch, with the teacher's probabilities; real rows have none."""

    batch: Batch
    clicks: NDArray[np.float32]
    teacher: NDArray[np.float32] | None

    @staticmethod
    def of(rows: Rows) -> "Cut":
        return Cut(Batch.of(rows), rows.clicks, rows.teacher)

    @property
    def teacher_loss(self) -> float:
        """What is subtracted from a training loss; 0 without a teacher."""
        return 0.0 if self.teacher is None else float(log_loss(self.teacher, self.clicks).mean())


class Clicks:
    """Batches of a setup: made once and kept, their distinct table rows found once for all runs; or, at the paper's
    size, made as they are needed, from a file that does not fit in memory."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.sizes = _cache(setup).table_sizes if setup.criteo else ClickStream(TRAINING, setup.size.cap).table_sizes
        self.used: Tensor | None = None
        self.training: list[Cut] = []
        self._held_out: Rows | None = None
        if setup.paper:
            if setup.criteo:
                self.click_rate = float(_cache(setup).clicks / len(_cache(setup)))
            else:
                self.click_rate = float(rows_of(setup, TRAINING, 0, BLOCK).clicks.mean())
            return
        training, held_out = rows_of(setup, TRAINING, 0, setup.rows), rows_of(setup, HELD_OUT, 0, setup.held_out)
        self.click_rate = float(training.clicks.mean())
        # Half of the tables' rows never occur. A stack without them takes half the memory and half the time to make.
        used = np.unique(np.concatenate([training.ids.ravel(), held_out.ids.ravel()]))
        self.used = torch.from_numpy(used.astype(np.int64))
        training, self._held_out = (r._replace(ids=np.searchsorted(used, r.ids)) for r in (training, held_out))
        size = setup.batch
        self.training = [Cut.of(training.cut(step * size, (step + 1) * size)) for step in range(setup.steps)]

    def batches(self, begin: int) -> Iterator[Cut]:
        """Training batches from a step on."""
        size = self.setup.batch
        if self.training:
            yield from itertools.islice(self.training, begin, None)
            return
        for step in range(begin, self.setup.steps):
            yield Cut.of(rows_of(self.setup, TRAINING, step * size, (step + 1) * size))

    def held_out(self) -> Iterator[Cut]:
        """Batches to evaluate on."""
        for begin in range(0, self.setup.held_out, _EVALUATED):
            end = min(begin + _EVALUATED, self.setup.held_out)
            kept = self._held_out
            yield Cut.of(kept.cut(begin, end) if kept is not None else rows_of(self.setup, HELD_OUT, begin, end))


def rows_of(setup: Setup, part: int, begin: int, end: int) -> Rows:
    """Rows [begin, end) to train on, or held out."""
    if setup.criteo:
        cache = _cache(setup)
        first = cache.span("train" if part == TRAINING else "validation")[0]
        return cache.rows(first + begin, first + end)
    numbers = range(begin // BLOCK, (end - 1) // BLOCK + 1)
    first = numbers[0] * BLOCK
    return joined([_block(part, setup.size.cap, number) for number in numbers]).cut(begin - first, end - first)


@lru_cache(maxsize=4)
def _block(seed: int, cap: int, number: int) -> Rows:
    return ClickStream(seed, cap).prepared(raw_block(seed, number))


@lru_cache(maxsize=1)
def clicks_of(setup: Setup) -> Clicks:
    """The rows of a setup, made once in each process."""
    return Clicks(setup)


@lru_cache(maxsize=1)
def _cache(setup: Setup) -> criteo_cache.CriteoCache:
    """The cache of the setup's file, which must have been built."""
    cache = criteo_cache.open_cache(Path(setup.criteo), setup.settings())
    if cache is None:
        raise UserError(
            f"{setup.criteo} has no up-to-date cache; build one with `gradagrad data criteo {setup.criteo}`.",
            DATA,
        )
    return cache
