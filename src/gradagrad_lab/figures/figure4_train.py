"""Training whatever Figure 4 still lacks, on all cores, and choosing the learning rates of the baselines."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import torch

from gradagrad_lab.context import Bar, Context, usable_cores
from gradagrad_lab.figures import figure4_runs as runs
from gradagrad_lab.figures.figure4_runs import CLICK_RATE, DRAWN, INITIAL, RHO, SCALAR, Clicks, Lane, Setup, Stack
from gradagrad_lab.optimizers import extended
from gradagrad_lab.records import Record, prepare

# Where each baseline's search begins; it goes on while the best lies at an end.
GRIDS: dict[str, tuple[float, ...]] = {
    "sgd": (2.0**-3, 2.0**-2, 2.0**-1, 1.0),
    "adagrad": (2.0**-7, 2.0**-6, 2.0**-5, 2.0**-4),
    "row-wise adagrad": (2.0**-7, 2.0**-6, 2.0**-5, 2.0**-4),
    "adam": (2.0**-11, 2.0**-10, 2.0**-9, 2.0**-8),
}
# The diagonal variants, for which the paper recommends ρ = 2.
DIAGONAL = ("gradagrad element", "gradagrad row")
DIAGONAL_RHO = (2.0, 10.0, 50.0)


@dataclass(frozen=True)
class Plan:
    """How large the figure is."""

    setup: Setup
    seeds: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    diagonal_seeds: tuple[int, ...]


def scalar_lanes() -> list[Lane]:
    """The figure's grid."""
    return [Lane(SCALAR, initial, rho) for rho in RHO for initial in INITIAL]


def diagonal_lanes() -> list[Lane]:
    """The grid of the element and the row-wise variant."""
    return [Lane(name, initial, rho) for name in DIAGONAL for rho in DIAGONAL_RHO for initial in INITIAL]


def find(context: Context, plan: Plan, lane: Lane, seed: int, bias: str = DRAWN) -> Record | None:
    """The record of one run, or None."""
    return context.records.find(lane.config(plan.setup, bias), [seed])


def ensure(context: Context, plan: Plan) -> dict[str, float]:
    """Make sure every record exists; returns each baseline's best learning rate."""
    prepare(context.out)
    with _Trainer(context, plan) as trainer:
        # In one go, since at the end of each some core has nothing to do.
        trainer.train(
            [
                *((lane, seed, bias) for bias in (DRAWN, CLICK_RATE) for seed in plan.seeds for lane in scalar_lanes()),
                *((lane, seed, DRAWN) for seed in plan.diagonal_seeds for lane in diagonal_lanes()),
                *trainer.grid_runs(GRIDS),
            ],
            "Figure 4: GradaGrad, and the baselines' first grid",
        )
        best = trainer.tune()
        trainer.train(
            [(Lane(name, rate), seed, DRAWN) for name, rate in best.items() for seed in plan.seeds],
            "Figure 4: baselines at their best",
        )
    return best


Wanted = tuple[Lane, int, str]


class _Trainer:
    """Keeps the worker processes, and the rows they hold, from one group of runs to the next."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self.context = context
        self.plan = plan
        self._pool: ProcessPoolExecutor | None = None
        self._clicks: Clicks | None = None

    def __enter__(self) -> _Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            processes = list((getattr(self._pool, "_processes", None) or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            if error[0] is not None:  # nobody wants the results any more; finished records are on disk
                for process in processes:
                    process.terminate()
            for process in processes:
                process.join()

    def train(self, wanted: Iterable[Wanted], description: str) -> None:
        """Train what has no record yet."""
        missing = [item for item in wanted if find(self.context, self.plan, *item) is None]
        stacks: list[Stack] = []
        for bias in dict.fromkeys(bias for _, _, bias in missing):
            stacks += runs.stacks_of([(lane, seed) for lane, seed, b in missing if b == bias], bias)
        if not stacks:
            return
        workers = self.context.workers or usable_cores()
        with self.context.progress(sum(len(stack.lanes) for stack in stacks), description) as bar:
            if workers == 1:
                self._train_here(stacks, bar)
            else:
                self._train_in_pool(stacks, bar, workers)

    def _train_here(self, stacks: Sequence[Stack], bar: Bar) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self._clicks = self._clicks or Clicks(self.plan.setup)
            for stack in stacks:
                self._save(runs.train(stack, self._clicks), bar)
        finally:
            torch.set_num_threads(threads)

    def _train_in_pool(self, stacks: Sequence[Stack], bar: Bar, workers: int) -> None:
        if self._pool is None:
            # "spawn": forking a process whose torch threads are running can hang.
            spawning = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                workers, mp_context=spawning, initializer=_begin_worker, initargs=(self.plan.setup,)
            )
        left: set[Future[list[Record]]] = {self._pool.submit(_train_in_worker, stack) for stack in stacks}
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                self._save(future.result(), bar)

    def _save(self, records: Sequence[Record], bar: Bar) -> None:
        for record in records:
            self.context.records.save(record)
        bar.advance(len(records))

    def tune(self) -> dict[str, float]:
        """Each baseline's learning rate of lowest mean held-out loss over the tuning seeds, in its favour, as the paper
        tunes its baselines on what it reports; a search whose best lies at an end is extended."""
        grids = {name: list(grid) for name, grid in GRIDS.items()}
        best: dict[str, float] = {}
        unsettled = list(grids)
        while unsettled:
            self.train(self.grid_runs({name: grids[name] for name in unsettled}), "Figure 4: tuning the baselines")
            for name in list(unsettled):
                best[name] = min(grids[name], key=lambda rate, name=name: self._tuning_loss(Lane(name, rate)))
                more = extended(grids[name], best[name], by=2)
                grids[name] += more
                if not more:
                    unsettled.remove(name)
        return best

    def grid_runs(self, grids: Mapping[str, Sequence[float]]) -> list[Wanted]:
        """Every rate of the baselines' grids from the tuning seeds."""
        return [
            (Lane(name, rate), seed, DRAWN)
            for seed in self.plan.tuning_seeds
            for name, grid in grids.items()
            for rate in grid
        ]

    def _tuning_loss(self, lane: Lane) -> float:
        losses: list[float] = []
        for seed in self.plan.tuning_seeds:
            record = find(self.context, self.plan, lane, seed)
            losses.append(float("inf") if record is None or record.status != "done" else held_out_loss(record))
        return sum(losses) / len(losses)


def held_out_loss(record: Record) -> float:
    """A record's final held-out log-loss."""
    return float(record.curves["held-out loss"])


_worker: dict[str, Any] = {}


def _begin_worker(setup: Setup) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    _worker["setup"] = setup


def _train_in_worker(stack: Stack) -> list[Record]:
    if "clicks" not in _worker:  # not in the initializer, whose errors would only break the pool
        _worker["clicks"] = Clicks(_worker["setup"])
    return runs.train(stack, _worker["clicks"])
