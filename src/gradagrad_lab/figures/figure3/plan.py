"""What Figure 3 trains: which data sets, how long, which settings, and how the baselines are tuned."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradagrad_lab import data
from gradagrad_lab.problems.logistic import LR_DROPS, Logistic
from gradagrad_lab.runs.context import Context
from gradagrad_lab.runs.optimizers import BASELINES, PEERS
from gradagrad_lab.runs.records import Record
from gradagrad_lab.runs.study import Floats, Frame, Method, Plan, Run, runs_of
from gradagrad_lab.runs.tuning import Choice, Tuning

FULL_EPOCHS, FULL_SEEDS, QUICK_SEEDS = 100, 10, 5
_QUICK_STEPS, _QUICK_EPOCHS = 3000, 4

INITIAL_RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RHOS = (1.0, 2.0, 4.0, 10.0)
ENDS = (1.0, 1e-6)
SCALAR_RHOS = (2.0, 10.0)
SCALAR_BASELINE = "adagrad_norm"
# D-Adaptation's paper prints Adam's accuracy on these data sets, in %.
PRINTED = {"glass": 72.0, "vehicle": 82.1, "vowel": 77.4}
PLAIN: dict[str, Any] = {"betas": (0.0, 0.999)}
"""Adam without momentum, as that paper ran it."""
# Its second reading needs fewer rates; the grid grows where the best lies at an end.
_READING_PLACES = tuple(range(-8, 3))


def setting(lr: float = 1.0, rho: float = 2.0, momentum: float = 0.0, granularity: str = "element") -> Method:
    """GradaGrad, all of its options written out so that a record shows them."""
    return Method.of("gradagrad", lr=lr, rho=rho, momentum=momentum, granularity=granularity)


DEFAULT, MOMENTUM = setting(), setting(momentum=0.9)
HEADLINES = {"β = 0": DEFAULT, "β = 0.9": MOMENTUM}
"""The paper states no β and calls the full method Adam-style, so both are shown."""


def variants() -> list[Method]:
    """Every setting of GradaGrad in this experiment, each once."""
    wanted = [
        *(setting(lr=lr) for lr in INITIAL_RATES),
        *(setting(lr=lr, rho=rho) for lr in ENDS for rho in RHOS),
        *(setting(momentum=momentum) for momentum in (0.5, 0.9)),
        setting(lr=1e-6, momentum=0.9),
        *(setting(lr=lr, rho=rho, granularity="group") for lr in ENDS for rho in SCALAR_RHOS),
    ]
    return list(dict.fromkeys(wanted))


@dataclass(frozen=True, eq=False)
class Trial:
    """One data set: the problem, how long it is trained, from which seeds and over which last epochs it is judged."""

    problem: Logistic
    epochs: int
    seeds: tuple[int, ...]
    places: tuple[int, ...] = tuple(range(-12, 7))

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

    def final(self, record: Record, metric: str) -> float:
        """A run's mean over the last epochs."""
        return float(np.mean(np.asarray(record.curves[metric], dtype=np.float64)[-self.window :]))

    @functools.cache  # noqa: B019 — lives as long as the command
    def tuning(self, optimizer: str, **options: Any) -> Tuning:
        """A baseline's grid, tuned for accuracy as the paper does; the loss is read off the same grid."""
        accuracy = {"accuracy": lambda record: -self.final(record, "accuracy")}
        loss = {"loss": lambda record: self.final(record, "loss")}
        method = Method.of(optimizer, **options)
        return Tuning(self.problem, method, self.seeds, self.epochs, accuracy, self.places, also=loss)

    def choice(self, frame: Frame, optimizer: str, goal: str = "accuracy", **options: Any) -> Choice:
        return frame.choice(self.tuning(optimizer, **options), goal)

    def curves(self, frame: Frame, method: Method, metric: str = "accuracy") -> Floats:
        """(seeds, epochs)."""
        return frame.curves(self.problem, method, self.seeds, self.epochs, metric)

    def finals(self, frame: Frame, method: Method, metric: str = "accuracy") -> Floats:
        """(seeds,): means over the last epochs."""
        return self.curves(frame, method, metric)[:, -self.window :].mean(axis=1)

    def runs(self, methods: Iterable[Method]) -> list[Run]:
        return runs_of(self.problem, methods, self.seeds, self.epochs)


@dataclass(frozen=True)
class Details:
    """The data sets, and the second reading of some."""

    trials: list[Trial]
    softmax: list[Trial]
    softmax_dropped: list[Trial]
    lr_drops: list[Trial]
    """One-vs-rest under the schedule."""


def plan(context: Context) -> Plan:
    """Everything Figure 3 shows, at the size asked for."""
    seeds = context.seed_range(QUICK_SEEDS if context.quick else FULL_SEEDS)
    loss = "softmax" if context.softmax else "one-vs-rest"
    sets = [data.load(name, context.data_dir) for name in data.data_sets_at_hand(context.data_dir)]
    trials = [
        Trial(problem, _epochs(problem, context.quick), seeds) for problem in (Logistic(one, loss=loss) for one in sets)
    ]
    again = [trial for trial in trials if trial.name in PRINTED]

    def reading(loss: str, lr_drops: tuple[float, ...]) -> list[Trial]:
        changed = [replace(trial.problem, loss=loss, lr_drops=lr_drops) for trial in again]
        return [Trial(problem, FULL_EPOCHS, seeds, _READING_PLACES) for problem in changed]

    details = Details(trials, reading("softmax", ()), reading("softmax", LR_DROPS), reading("one-vs-rest", LR_DROPS))
    runs = [run for trial in trials for run in trial.runs(variants())]
    runs += [run for trial in details.softmax for run in trial.runs(HEADLINES.values())]
    if context.peers:
        runs += [run for trial in trials for run in trial.runs(Method.of(name) for name in PEERS)]
    tunings = [trial.tuning(name) for trial in trials for name in (*BASELINES, SCALAR_BASELINE)]
    tunings += [trial.tuning(name) for trial in details.softmax for name in BASELINES]
    tunings += [trial.tuning("adam") for trial in details.softmax_dropped]
    tunings += [trial.tuning("adam", **PLAIN) for trial in (*details.softmax_dropped, *details.lr_drops)]
    return Plan(runs, tunings, details)


def _epochs(problem: Logistic, quick: bool) -> int:
    """The quick size shortens the larger data sets until all take about the same number of steps."""
    if not quick:
        return FULL_EPOCHS
    steps = -(-problem.data.rows // problem.batch)
    return min(FULL_EPOCHS, max(_QUICK_EPOCHS, _QUICK_STEPS // steps))


def labels(trials: Sequence[Trial]) -> str:
    """Names in a row; "none" where there are none."""
    return ", ".join(trial.label for trial in trials) or "none"
