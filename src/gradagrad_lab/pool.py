"""Training on all cores: one process per core, each with one thread, kept from one study to the next."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Container, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.records import RecordStore, prepare
from gradagrad_lab.study import Run
from gradagrad_lab.train import Progress, group_key, train

if TYPE_CHECKING:
    from gradagrad_lab.context import Bar, Context

_WORTH_PROCESSES = 5.0  # seconds of work below which starting processes takes longer than it saves


class Pool:
    """Trains every run that has no record yet. Processes are started once there is enough work for them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._executor: ProcessPoolExecutor | None = None
        spawning = multiprocessing.get_context("spawn")  # forking a process with running torch threads can hang
        self._spawning = spawning
        self._done = spawning.Value("d", 0.0)

    def train(self, wanted: Iterable[Run], description: str) -> None:
        """Trains every run that has no record."""
        context = self._context
        prepare(context.out)
        context.records.finish_writing()
        wanted = list(dict.fromkeys(wanted))
        missing = {run for run in wanted if context.records.find(run) is None}
        for error_text in context.records.error_texts():
            context.console.print(error_text, highlight=False, markup=False)
        if not missing:
            return
        costs = sorted(
            (
                (group[0].problem.cost(group), place, group)
                for place, group in enumerate(_missing_groups(wanted, missing))
            )
        )
        groups = [(group, cost) for cost, _, group in reversed(costs)]  # the longest first
        if not context.resume:
            for group, _ in groups:
                _checkpoint(context.out, group).unlink(missing_ok=True)
        total = sum(cost for _, cost in groups)
        workers = min(context.cores, len(groups))
        with context.progress(total, description) as bar:
            if workers == 1 or (total < _WORTH_PROCESSES and self._executor is None):
                self._train_here(groups, bar)
            else:
                self._train_in_processes(groups, bar)

    def _train_here(self, groups: Sequence[tuple[list[Run], float]], bar: Bar) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for group, cost in groups:
                keys = _finish(group, self._context.out, lambda part, cost=cost: bar.advance(part * cost))
                self._context.records.mark_written(keys)
        finally:
            torch.set_num_threads(threads)

    def _train_in_processes(self, groups: Sequence[tuple[list[Run], float]], bar: Bar) -> None:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self._context.cores, mp_context=self._spawning, initializer=_begin_worker, initargs=(self._done,)
            )
        self._done.value = 0.0
        left = {self._executor.submit(_work, group, cost, self._context.out) for group, cost in groups}
        try:
            while left:
                finished, left = wait(left, timeout=0.3, return_when=FIRST_COMPLETED)
                bar.set(self._done.value, None)
                for future in finished:
                    self._context.records.mark_written(_result(future))
        except BaseException:
            # Finished work is on the disk, and unfinished work is lost in any case.
            for process in getattr(self._executor, "_processes", {}).values():
                process.terminate()
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs in the groups that their problem trains together."""
    by_problem: dict[int, list[Run]] = {}
    for run in runs:
        by_problem.setdefault(id(run.problem), []).append(run)
    return [group for own in by_problem.values() for group in own[0].problem.together(own)]


def _missing_groups(wanted: Sequence[Run], missing: Container[Run]) -> list[list[Run]]:
    """The runs that are still to be trained, in the groups that an uninterrupted command would use, because the size of
    a stack can change the last digits. If some runs of a group are finished, the others form a group."""
    whole: list[list[Run]] = []
    rests: list[Run] = []
    for group in _groups(wanted):
        left = [run for run in group if run in missing]
        if len(left) == len(group):
            whole.append(group)
        else:
            rests += left
    return whole + _groups(rests)


def _checkpoint(out: Path, group: Sequence[Run]) -> Path:
    return out / "partial" / f"{group_key(group)}.pt"


def _finish(group: Sequence[Run], out: Path, progress: Progress) -> list[str]:
    """Trains, writes the records, then deletes the checkpoint. In this order nothing can be lost."""
    checkpoint = _checkpoint(out, group)
    keys = RecordStore(out).save_together(train(group, progress, checkpoint))
    checkpoint.unlink(missing_ok=True)
    return keys


_worker: dict[str, Any] = {}


def _begin_worker(done: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    torch.set_num_threads(1)
    _worker["done"] = done


def _work(group: Sequence[Run], cost: float, out: Path) -> list[str]:
    def progress(part: float) -> None:
        with _worker["done"].get_lock():
            _worker["done"].value += part * cost

    return _finish(group, out, progress)


def _result(future: Future[list[str]]) -> list[str]:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise UserError(
            "A worker process ended before its work was done (out of memory, or killed). Run the same command again; "
            "finished runs are kept.",
            OUTPUT,
        ) from error
