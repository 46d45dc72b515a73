"""The suite's runs and their records: one record per problem, optimizer, setting and seed; trained on all cores."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import multiprocessing
import signal
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import gradagrad.auto.rule
import gradagrad.rule
from gradagrad_lab import data
from gradagrad_lab.context import Bar, Context, usable_cores
from gradagrad_lab.data import libsvm
from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.records import Record, RecordStore, prepare
from gradagrad_lab.suite.catalogue import Entry, problem_of
from gradagrad_lab.suite.evaluate import Outcome, evaluate
from gradagrad_lab.suite.methods import build

PROTOCOL = 1  # raised when a change of a problem makes old records incomparable


@dataclass(frozen=True)
class Run:
    """One training, fully told; ``options`` as sorted pairs, so that runs can be compared and hashed."""

    problem: str
    optimizer: str
    options: tuple[tuple[str, Any], ...]
    seed: int
    steps: int
    edition: str = ""

    def config(self) -> dict[str, Any]:
        return {
            "experiment": "suite",
            "protocol": PROTOCOL,
            "problem": self.problem,
            "edition": self.edition,
            "steps": self.steps,
            "optimizer": self.optimizer,
            "options": dict(self.options),
            **({"rule": _rule(self.optimizer)} if self.optimizer in _RULES else {}),
        }


_RULES = {"gradagrad": gradagrad.rule, "autogradagrad": gradagrad.auto.rule}


@functools.cache
def _rule(optimizer: str) -> str:
    """Which version of our own rule a run follows: a hash of its code without words, so that no record outlives it."""
    tree = ast.parse(inspect.getsource(_RULES[optimizer]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


class Plan:
    """Makes runs: it knows the data folder and how many steps each problem takes."""

    def __init__(self, data_dir: Path | None, steps: int | None = None) -> None:
        self.data_dir = data_dir
        self._steps = steps

    def run(self, entry: Entry, optimizer: str, options: dict[str, Any], seed: int) -> Run:
        edition = _edition(entry.needs, self.data_dir) if entry.needs else ""
        pairs = tuple(sorted(options.items()))
        return Run(entry.name, optimizer, pairs, seed, self._steps or entry.problem.steps, edition)


@functools.cache
def _edition(name: str, data_dir: Path | None) -> str:
    """Which copy of a LIBSVM set this is, by the hash of its file."""
    found = libsvm.find(name, data.folders(data_dir))
    return hashlib.sha256(found.path.read_bytes()).hexdigest()[:16] if found else ""


class Finished:
    """The runs that have ended, each read from its record once."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        self._known: dict[Run, Outcome] = {}

    def find(self, run: Run) -> Outcome | None:
        """What a run ended with, if it has been trained."""
        if run not in self._known:
            record = self._records.find(run.config(), [run.seed])
            if record is None:
                return None
            self._known[run] = Outcome(**record.curves)
        return self._known[run]


def train(run: Run, data_dir: Path | None) -> Record:
    """One run and its record."""
    outcome = evaluate(
        problem_of(run.problem).problem,
        lambda parameters: build(run.optimizer, dict(run.options), parameters),
        run.seed,
        steps=run.steps,
        data_dir=data_dir,
    )
    return Record(
        run.config(),
        [run.seed],
        "diverged" if outcome.diverged else "done",
        asdict(outcome),
        seconds=outcome.seconds,
        diverged=[run.seed] if outcome.diverged else [],
    )


class Trainer:
    """Keeps the worker processes, one thread each, from one group of runs to the next."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.finished = Finished(context.records)
        self._pool: ProcessPoolExecutor | None = None
        prepare(context.out)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is None:
            return
        processes = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        if error[0] is not None:  # nobody wants the results any more; finished records are on disk
            for process in processes:
                process.terminate()
        for process in processes:
            process.join()

    def train(self, wanted: Iterable[Run], description: str) -> None:
        """Train what has no record yet."""
        missing = [run for run in dict.fromkeys(wanted) if self.finished.find(run) is None]
        if not missing:
            return
        workers = min(self.context.workers or usable_cores(), len(missing))
        with self.context.progress(sum(run.steps for run in missing), description) as bar:
            if workers == 1:
                self._train_here(missing, bar)
            else:
                self._train_in_pool(missing, bar, workers)

    def _train_here(self, runs: Sequence[Run], bar: Bar) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for run in runs:
                self._save(run, train(run, self.context.data_dir), bar)
        finally:
            torch.set_num_threads(threads)

    def _train_in_pool(self, runs: Sequence[Run], bar: Bar, workers: int) -> None:
        if self._pool is None:
            # "spawn": forking a process whose torch threads are running can hang.
            spawning = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, mp_context=spawning, initializer=_begin_worker)
        left: dict[Future[Record], Run] = {self._pool.submit(train, run, self.context.data_dir): run for run in runs}
        while left:
            done, _ = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                self._save(left.pop(future), _result(future), bar)

    def _save(self, run: Run, record: Record, bar: Bar) -> None:
        self.context.records.save(record)
        bar.advance(run.steps)


def _result(future: Future[Record]) -> Record:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise UserError(
            "A worker process ended before its work was done (out of memory, or killed); run the same command again, "
            "finished runs are kept.",
            OUTPUT,
        ) from error


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
