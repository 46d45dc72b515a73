"""What Figure 3 trains: which sets, how long, which settings; and the tuning of the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab import data
from gradagrad_lab.context import Context
from gradagrad_lab.optimizers import BASELINES, GRID, PEERS, extended
from gradagrad_lab.problems.logistic import Logistic
from gradagrad_lab.records import Record, RecordStore
from gradagrad_lab.run import Job, config_of
from gradagrad_lab.workers import train_missing

FULL_EPOCHS, FULL_SEEDS, QUICK_SEEDS = 100, 10, 5
_QUICK_STEPS, _QUICK_EPOCHS = 3000, 4

INITIAL_RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RHOS = (1.0, 2.0, 4.0, 10.0)
ENDS = (1.0, 1e-6)


def setting(lr: float = 1.0, rho: float = 2.0, momentum: float = 0.0, granularity: str = "element") -> dict[str, Any]:
    """Options of GradaGrad, all written out so that a record shows them."""
    return {"lr": lr, "rho": rho, "momentum": momentum, "granularity": granularity}


DEFAULT = setting()
MOMENTA = (0.5, 0.9)
SCALAR_RHOS = (2.0, 10.0)


def variants() -> list[dict[str, Any]]:
    """Every setting of GradaGrad in this experiment, each once."""
    wanted = [
        *(setting(lr=lr) for lr in INITIAL_RATES),
        *(setting(lr=lr, rho=rho) for lr in ENDS for rho in RHOS),
        *(setting(momentum=momentum) for momentum in MOMENTA),
        *(setting(lr=lr, rho=rho, granularity="group") for lr in ENDS for rho in SCALAR_RHOS),
    ]
    return [options for number, options in enumerate(wanted) if options not in wanted[:number]]


@dataclass(frozen=True)
class Panel:
    """One data set of the figure: the problem, how long it is trained and over which last epochs it is judged."""

    problem: Logistic
    epochs: int
    seeds: tuple[int, ...]

    @property
    def window(self) -> int:
        """The last epochs that are averaged: the paper's 10, or a fifth of a shortened run."""
        return 10 if self.epochs >= 50 else max(1, self.epochs // 5)

    @property
    def name(self) -> str:
        return self.problem.data.name

    @property
    def label(self) -> str:
        return self.problem.label

    def job(self, optimizer: str, lanes: Sequence[dict[str, Any]]) -> Job:
        return Job(self.problem, optimizer, tuple(lanes), self.seeds, self.epochs)

    def record(self, records: RecordStore, optimizer: str, options: dict[str, Any]) -> Record | None:
        return records.find(config_of(self.problem, optimizer, options, self.epochs), self.seeds)

    def final(self, record: Record, metric: str = "accuracy") -> NDArray[np.float64]:
        """Each seed's mean over the last epochs."""
        return np.asarray(record.curves[metric], dtype=np.float64)[:, -self.window :].mean(axis=1)


def panels(context: Context) -> list[Panel]:
    """The sets at hand, with the length and number of runs that the size asks for."""
    seeds = context.seed_range(QUICK_SEEDS if context.quick else FULL_SEEDS)
    chosen: list[Panel] = []
    for name in data.sets_at_hand(context.data_dir):
        problem = Logistic(data.load(name, context.data_dir))
        chosen.append(Panel(problem, _epochs(problem, context.quick), seeds))
    return chosen


def _epochs(problem: Logistic, quick: bool) -> int:
    """The quick size shortens the larger sets until all take about the same number of steps."""
    if not quick:
        return FULL_EPOCHS
    steps = -(-problem.data.rows // problem.batch)
    return min(FULL_EPOCHS, max(_QUICK_EPOCHS, _QUICK_STEPS // steps))


@dataclass(frozen=True)
class Tuned:
    """A baseline after tuning: its best learning rate, that run, and the whole grid that was tried."""

    optimizer: str
    lr: float
    record: Record
    grid: list[float]
    scores: list[float]

    @property
    def at_end(self) -> bool:
        return self.lr in (min(self.grid), max(self.grid))

    @property
    def extended(self) -> bool:
        return len(self.grid) > len(GRID)


def train_all(context: Context, chosen: Sequence[Panel]) -> None:
    """Train whatever is missing, baselines tuned."""
    train_tuned(context, chosen, BASELINES, [panel.job("gradagrad", variants()) for panel in chosen])
    if context.peers:
        peers = [panel.job(name, [{}]) for panel in chosen for name in PEERS]
        train_missing(peers, context, description="Training peers")


def train_tuned(context: Context, chosen: Sequence[Panel], names: Sequence[str], others: Sequence[Job] = ()) -> None:
    """Train the grids (and ``others`` beside them); extend a grid while its best value lies at an end."""
    jobs = [panel.job(name, [{"lr": lr} for lr in GRID]) for panel in chosen for name in names]
    train_missing([*jobs, *others], context, description="Training")
    while jobs := _extensions(context, chosen, names):
        train_missing(jobs, context, description="Extending grids")


def _extensions(context: Context, chosen: Sequence[Panel], names: Sequence[str]) -> list[Job]:
    jobs: list[Job] = []
    for panel in chosen:
        for name in names:
            tuned = tune(panel, context.records, name)
            more = extended(tuned.grid, tuned.lr)
            if more:
                jobs.append(panel.job(name, [{"lr": lr} for lr in more]))
    return jobs


def tune(panel: Panel, records: RecordStore, optimizer: str, metric: str = "accuracy") -> Tuned:
    """Choose the learning rate with the best mean over the last epochs, from all records of the growing grid."""
    found = {lr: record for lr in GRID if (record := panel.record(records, optimizer, {"lr": lr}))}
    for factor in (0.5, 2.0):
        lr = (min(GRID) if factor < 1 else max(GRID)) * factor
        while record := panel.record(records, optimizer, {"lr": lr}):
            found[lr] = record
            lr *= factor
    grid = sorted(found)
    sign = 1.0 if metric == "accuracy" else -1.0
    scores = [sign * float(panel.final(found[lr], metric).mean()) for lr in grid]
    ranked = [-np.inf if np.isnan(score) else score for score in scores]
    # Among equals the one nearest to the middle: a flat optimum is no reason to extend the grid.
    middle = (len(grid) - 1) / 2
    best = min(range(len(grid)), key=lambda number: (-ranked[number], abs(number - middle)))
    return Tuned(optimizer, grid[best], found[grid[best]], grid, [sign * score for score in scores])
