"""Everything the tables and pictures of the suite need, read from records: losses by problem, method and seed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradagrad_lab.context import Context
from gradagrad_lab.errors import UserError
from gradagrad_lab.optimizers import entry_of
from gradagrad_lab.suite.catalogue import Entry, problems_at_hand
from gradagrad_lab.suite.evaluate import Outcome, has_diverged
from gradagrad_lab.suite.methods import (
    BY_KEY,
    DEFAULT_GAMMA0,
    METHODS,
    OURS,
    QUICK_SWEEP,
    SWEEP,
    TUNED,
    Method,
)
from gradagrad_lab.suite.runs import Finished, Plan, Run, Trainer
from gradagrad_lab.suite.statistics import Floats, Pairing, Standing, standing
from gradagrad_lab.suite.tuning import Choice, Tuner, loss_of, tune

FULL_SEEDS, QUICK_SEEDS = 5, 2
FULL_TUNING_SEEDS, QUICK_TUNING_SEEDS = 2, 1
FULL_SWEEP_SEEDS, QUICK_SWEEP_SEEDS = 3, 2
# Losses below this share of the loss at the start count as this share.
FLOOR = 1e-3


@dataclass
class Size:
    """How large the suite runs."""

    entries: list[Entry]
    seeds: tuple[int, ...]
    tuning_seeds: int
    sweep: tuple[float, ...]
    sweep_seeds: tuple[int, ...]
    steps: int | None = None
    methods: tuple[Method, ...] = METHODS
    missing: list[str] = field(default_factory=list)


def size_of(context: Context) -> Size:
    """What the quick or the full size trains; peers that are not installed are left out and named."""
    quick = context.quick
    seeds = context.seed_range(QUICK_SEEDS if quick else FULL_SEEDS)
    missing = sorted({method.optimizer for method in METHODS if not _installed(method.optimizer)})
    return Size(
        problems_at_hand(context.data_dir, quick=quick),
        seeds,
        min(len(seeds), QUICK_TUNING_SEEDS if quick else FULL_TUNING_SEEDS),
        QUICK_SWEEP if quick else SWEEP,
        seeds[: QUICK_SWEEP_SEEDS if quick else FULL_SWEEP_SEEDS],
        methods=tuple(method for method in METHODS if method.optimizer not in missing),
        missing=[entry_of(name).title for name in missing],
    )


@functools.cache
def _installed(optimizer: str) -> bool:
    try:
        entry_of(optimizer).factory()
    except UserError:
        return False
    return True


class Standings:
    """Reads the records of one size of the suite."""

    def __init__(self, context: Context, size: Size, finished: Finished | None = None) -> None:
        self.context, self.size = context, size
        self.plan = Plan(context.data_dir, size.steps)
        self.finished = finished or Finished(context.records)

    def tuner(self, entry: Entry, key: str) -> Tuner:
        return Tuner(self.plan, self.finished, entry, key, self.size.seeds, self.size.tuning_seeds)

    @functools.cache  # noqa: B019 — lives as long as the command
    def choice(self, entry: Entry, key: str, averaged: bool) -> Choice:
        """What tuning chose for a baseline."""
        return self.tuner(entry, key).choice(averaged)

    def run(self, entry: Entry, method: Method, seed: int) -> Run:
        """The run behind one cell."""
        if method.role == "tuned":
            key = method.key.removesuffix("-averaged")
            return self.tuner(entry, key).run(self.choice(entry, key, method.averaged).place, seed)
        return self.plan.run(entry, method.optimizer, method.options_for(entry.problem.kind), seed)

    def sweep_run(self, entry: Entry, gamma0: float, seed: int) -> Run:
        # The default is the default run itself, with nothing said about γ₀.
        options: dict[str, Any] = {} if gamma0 == DEFAULT_GAMMA0 else {"gamma0": gamma0}
        return self.plan.run(entry, OURS.optimizer, options, seed)

    def untuned_runs(self) -> list[Run]:
        """All runs that need no tuning, γ₀'s sweep included."""
        size = self.size
        runs = [
            self.run(entry, method, seed)
            for entry in size.entries
            for method in size.methods
            if method.role != "tuned"
            for seed in size.seeds
        ]
        sweep = [
            self.sweep_run(entry, gamma0, seed)
            for entry in size.entries
            for gamma0 in size.sweep
            for seed in size.sweep_seeds
        ]
        return list(dict.fromkeys([*runs, *sweep]))

    def outcome(self, run: Run) -> Outcome:
        found = self.finished.find(run)
        if found is None:
            raise ValueError(f"the run {run} has no record")
        return found

    def outcomes(self, entry: Entry, method: Method) -> list[Outcome]:
        return [self.outcome(self.run(entry, method, seed)) for seed in self.size.seeds]

    @functools.cache  # noqa: B019
    def losses(self, entry: Entry, method: Method) -> Floats:
        """Final training loss per seed; a diverged run gets ten times the loss at the start."""
        return np.array([loss_of(outcome, method.averaged) for outcome in self.outcomes(entry, method)])

    def held_out(self, entry: Entry, method: Method, metric: str) -> float:
        """Mean over seeds; NaN where a run has diverged or the problem has no such measure."""
        found = [o.averaged_held_out if method.averaged else o.held_out for o in self.outcomes(entry, method)]
        return float(np.mean([measures.get(metric, np.nan) for measures in found]))

    def diverged(self, entry: Entry, method: Method) -> int:
        found = self.outcomes(entry, method)
        return sum(has_diverged(o.averaged_train if method.averaged else o.train, o.initial) for o in found)

    @functools.cache  # noqa: B019
    def best_tuned(self, entry: Entry) -> Method:
        """The tuned baseline of lowest mean final training loss, at its last iterate: the reference of every ratio."""
        return min((BY_KEY[key] for key in TUNED), key=lambda method: float(self.losses(entry, method).mean()))

    def floor(self, entry: Entry) -> float:
        return FLOOR * abs(self.outcomes(entry, BY_KEY["adam"])[0].initial)

    def pairing(self, entry: Entry, method: Method) -> Pairing:
        reference = self.losses(entry, self.best_tuned(entry))
        return Pairing(self.losses(entry, method), reference, self.floor(entry))

    @functools.cache  # noqa: B019
    def standing(self, method: Method, held_out_only: bool = False) -> Standing:
        return standing([self.pairing(entry, method) for entry in self.entries(held_out_only)])

    def entries(self, held_out_only: bool = False) -> list[Entry]:
        return [entry for entry in self.size.entries if entry.status == "held out" or not held_out_only]

    def sweep(self, entry: Entry) -> Floats:
        """Mean final training loss (averaged iterate) for each γ₀, over the sweep's seeds, not below the floor."""
        means = [
            np.mean(
                [loss_of(self.outcome(self.sweep_run(entry, gamma0, seed)), True) for seed in self.size.sweep_seeds]
            )
            for gamma0 in self.size.sweep
        ]
        return np.maximum(np.array(means), self.floor(entry))

    def final_gammas(self, entry: Entry) -> list[float]:
        return [outcome.gamma for outcome in self.outcomes(entry, OURS)]


def train_suite(context: Context, size: Size) -> Standings:
    """Train whatever is missing, problem by problem of all sizes at once; the baselines tuned."""
    with Trainer(context) as trainer:
        standings = Standings(context, size, trainer.finished)
        tuners = [standings.tuner(entry, key) for entry in size.entries for key in TUNED]
        first = [run for tuner in tuners for run in tuner.first()]
        trainer.train(_mixed([*standings.untuned_runs(), *first], size.entries), "Suite: training")
        tune(trainer, tuners, lambda number: f"Suite: tuning, round {number}")
    return standings


def _mixed(runs: Sequence[Run], entries: Sequence[Entry]) -> list[Run]:
    """Problem by problem, so that an interrupted suite has finished some of them."""
    places = {entry.name: place for place, entry in enumerate(entries)}
    return sorted(runs, key=lambda run: places[run.problem])
