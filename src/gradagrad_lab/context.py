"""The settings of one command: where to write, where the data is, how large to run and how to show progress."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gradagrad_lab.records import RecordStore


class Size(StrEnum):
    """How much is trained. "paper" is Figure 4 at the paper's own size, and everything else at the full size."""

    QUICK = "quick"
    FULL = "full"
    PAPER = "paper"


class Bar:
    """A progress bar; the caller chooses the unit of work."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: float = 1.0) -> None:
        self._progress.advance(self._task, amount)

    def set(self, done: float, total: float | None) -> None:
        """Sets the amount done so far, for work that reports a total, such as a download."""
        # For rich, None means that the total stays.
        self._progress.update(self._task, completed=done, total=total)


@dataclass
class Context:
    """Settings of one command. ``gamma0`` is for Figure 2; ``softmax``, ``only`` (data sets by name) and ``files`` (the
    user's) for Figure 3; ``rows`` (at most) and ``rho`` for Figure 4.
    """

    out: Path
    data_dir: Path | None = None
    size: Size = Size.QUICK
    seeds: int | None = None
    resume: bool = True
    console: Console = field(default_factory=Console)
    workers: int | None = None
    first_seed: int | None = None
    rows: int | None = None
    softmax: bool = False
    only: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    gamma0: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()

    @property
    def quick(self) -> bool:
        return self.size is Size.QUICK

    def seed_range(self, count: int, first: int = 0) -> tuple[int, ...]:
        """The seeds of the command line, or by default ``count`` of them from ``first``."""
        begin = first if self.first_seed is None else self.first_seed
        return tuple(range(begin, begin + (self.seeds or count)))

    @functools.cached_property
    def records(self) -> RecordStore:
        """The finished runs of this output folder; with ``resume`` off, old ones are ignored and overwritten."""
        return RecordStore(self.out, reuse=self.resume)

    @property
    def cores(self) -> int:
        return self.workers or usable_cores()

    @contextmanager
    def progress(self, total: float | None, description: str) -> Iterator[Bar]:
        """A bar with the time left. Nothing is drawn if the output is not a terminal, so logs stay readable."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            # Work units differ in cost; a long averaging window keeps the estimate from jumping between them.
            TimeRemainingColumn(),
        )
        with Progress(
            *columns,
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
            speed_estimate_period=120,
        ) as progress:
            yield Bar(progress, progress.add_task(description, total=total))


def usable_cores() -> int:
    """Cores this process may use, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
