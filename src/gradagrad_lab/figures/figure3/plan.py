"""The runs of Figure 3: data sets, epochs, settings, and the tuning of the baselines."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gradagrad_lab import data
from gradagrad_lab.context import Context
from gradagrad_lab.methods import BASELINES
from gradagrad_lab.problems.logistic import AVERAGED, Logistic
from gradagrad_lab.records import Record
from gradagrad_lab.study import Floats, Frame, Method, Plan, Run, runs_of
from gradagrad_lab.tune import Choice, Tuning

FULL_EPOCHS, FULL_SEEDS, QUICK_SEEDS = 100, 10, 5
_QUICK_STEPS, _QUICK_EPOCHS = 3000, 4

INITIAL_RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RHOS = (1.0, 2.0, 4.0, 10.0)
ENDS = (1.0, 1e-6)
SCALAR_RHOS = (2.0, 10.0)
SCALAR_BASELINE = "adagrad_norm"


def setting(lr: float = 1.0, rho: float = 2.0, momentum: float = 0.0, granularity: str = "element") -> Method:
    """GradaGrad, all of its options written out so that a record shows them."""
    return Method.of("gradagrad", lr=lr, rho=rho, momentum=momentum, granularity=granularity)


DEFAULT, MOMENTUM = setting(), setting(momentum=0.9)
HEADLINES = {"β = 0": DEFAULT, "β = 0.9": MOMENTUM}
"""The paper states no β and calls the full method Adam-style, so both are shown."""
OURS = Method.of("autogradagrad")


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
    def tuning(self, optimizer: str) -> Tuning:
        """A baseline's grid, tuned for accuracy as the paper does. The best rate for the average is read off the same
        grid."""
        accuracy = {"accuracy": lambda record: -self.final(record, "accuracy")}
        averaged = {AVERAGED: lambda record: -self.final(record, AVERAGED)}
        return Tuning(self.problem, Method.of(optimizer), self.seeds, self.epochs, accuracy, also=averaged)

    def choice(self, frame: Frame, optimizer: str, goal: str = "accuracy") -> Choice:
        return frame.choice(self.tuning(optimizer), goal)

    def curves(self, frame: Frame, method: Method, metric: str = "accuracy") -> Floats:
        """(seeds, epochs)."""
        return frame.curves(self.problem, method, self.seeds, self.epochs, metric)

    def finals(self, frame: Frame, method: Method, metric: str = "accuracy") -> Floats:
        """(seeds,): means over the last epochs."""
        return self.curves(frame, method, metric)[:, -self.window :].mean(axis=1)

    def runs(self, methods: Iterable[Method]) -> list[Run]:
        return runs_of(self.problem, methods, self.seeds, self.epochs)


def plan(context: Context) -> Plan:
    """Everything Figure 3 shows, at the size asked for; the details are its trials."""
    seeds = context.seed_range(QUICK_SEEDS if context.quick else FULL_SEEDS)
    loss = "softmax" if context.softmax else "one-vs-rest"
    problems = [Logistic(data.load(name, context.data_dir), loss=loss) for name in data_sets(context)]
    trials = [Trial(problem, _epochs(problem, context.quick), seeds) for problem in problems]
    runs = [run for trial in trials for run in trial.runs([*variants(), OURS])]
    tunings = [trial.tuning(name) for trial in trials for name in (*BASELINES, SCALAR_BASELINE)]
    return Plan(runs, tunings, trials)


def data_sets(context: Context) -> list[str]:
    """The files and names of the command line, or the paper's data sets that are at hand."""
    return [*context.only, *(str(path) for path in context.files)] or data.data_sets_at_hand(context.data_dir)


def _epochs(problem: Logistic, quick: bool) -> int:
    """The quick size shortens the larger data sets until all take about the same number of steps."""
    if not quick:
        return FULL_EPOCHS
    return min(FULL_EPOCHS, max(_QUICK_EPOCHS, _QUICK_STEPS // -(-problem.data.rows // problem.batch)))


def labels(trials: Sequence[Trial]) -> str:
    """Names in a row; "none" where there are none."""
    return ", ".join(trial.label for trial in trials) or "none"
