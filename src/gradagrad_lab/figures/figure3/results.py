"""The numbers of Figure 3, read from records. Pictures, tables and claims read them here."""

import functools
from dataclasses import dataclass

import numpy as np

from gradagrad_lab.data import CATALOGUE
from gradagrad_lab.figures.figure3.plan import FULL_EPOCHS, FULL_SEEDS, HEADLINES, OURS, Trial
from gradagrad_lab.methods import BASELINES
from gradagrad_lab.problems.logistic import AVERAGED
from gradagrad_lab.study import Floats, Frame, Method, count
from gradagrad_lab.tune import Choice

POINT = 0.01
"""One percentage point of accuracy: what a reader would call a difference."""
TWO_ERRORS = 2.0


def standard_error(values: Floats) -> float:
    """The standard error of the mean of independent values. NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


@dataclass(frozen=True)
class Contest:
    """One untuned method against three tuned ones on one data set: values per seed, over the same mini-batches."""

    trial: Trial
    own: Floats
    others: dict[str, Floats]

    @property
    def best(self) -> str:
        return max(self.others, key=lambda name: float(np.nan_to_num(self.others[name].mean(), nan=-1.0)))

    @property
    def lowest(self) -> str:
        return min(self.others, key=lambda name: float(np.nan_to_num(self.others[name].mean(), nan=2.0)))

    def difference(self, name: str) -> float:
        return float((self.own - self.others[name]).mean())

    def error(self, name: str) -> float:
        return standard_error(self.own - self.others[name])

    @property
    def matches(self) -> bool | None:
        """Not below the lowest of the three by more than two standard errors, and within one point of the best."""
        error = self.error(self.lowest)
        if not np.isfinite(error):
            return None
        return bool(self.difference(self.lowest) >= -TWO_ERRORS * error and self.difference(self.best) >= -POINT)


def mean_difference(group: list[Contest]) -> float:
    """The mean difference to the best of three, over the data sets."""
    return float(np.mean([one.difference(one.best) for one in group]))


class Results:
    """The results of all runs of the figure."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.context = frame, frame.context
        self.trials: list[Trial] = frame.details

    @functools.cached_property
    def contests(self) -> dict[str, list[Contest]]:
        """GradaGrad against the tuned three on every data set, for both β."""
        return {
            beta: [Contest(trial, self.finals(trial, method), self.tuned_three(trial)) for trial in self.trials]
            for beta, method in HEADLINES.items()
        }

    @functools.cached_property
    def ours(self) -> list[list[Contest]]:
        """AutoGradaGrad at its parameters y and at its average x̄ against the tuned three as they are, and x̄ against
        the tuned three with an average."""
        return [
            [Contest(trial, self.finals(trial, OURS, own), self.tuned_three(trial, other)) for trial in self.trials]
            for own, other in (("accuracy", "accuracy"), (AVERAGED, "accuracy"), (AVERAGED, AVERAGED))
        ]

    def tuned_three(self, trial: Trial, metric: str = "accuracy") -> dict[str, Floats]:
        return {name: self.tuned(trial, name, metric) for name in BASELINES}

    def choice(self, trial: Trial, optimizer: str, goal: str = "accuracy") -> Choice:
        return trial.choice(self.frame, optimizer, goal)

    def curves(self, trial: Trial, method: Method, metric: str = "accuracy") -> Floats:
        """(seeds, epochs)."""
        return trial.curves(self.frame, method, metric)

    @functools.cache  # noqa: B019 — lives as long as the command
    def finals(self, trial: Trial, method: Method, metric: str = "accuracy") -> Floats:
        """(seeds,): means over the last epochs."""
        return trial.finals(self.frame, method, metric)

    def final(self, trial: Trial, method: Method, metric: str = "accuracy") -> float:
        """The mean of `finals`."""
        return float(self.finals(trial, method, metric).mean())

    def tuned(self, trial: Trial, optimizer: str, metric: str = "accuracy") -> Floats:
        """The results of a baseline tuned for this metric, (seeds,)."""
        return self.finals(trial, self.choice(trial, optimizer, metric).method, metric)

    @functools.cached_property
    def missing(self) -> list[str]:
        """The paper's data sets that were looked for and not found."""
        if self.context.only or self.context.files:
            return []
        return [name for name in CATALOGUE if name not in {trial.name for trial in self.trials}]

    @property
    def lacks(self) -> list[tuple[str, str]]:
        """The paper's data sets that are missing, or of which only another copy than LIBSVM's was found."""
        others = [one for one in self.trials if one.label != one.name in CATALOGUE]
        return [(name, name) for name in self.missing] + [(one.name, one.label) for one in others]

    @functools.cached_property
    def reduction(self) -> str:
        """What was left out of the paper's protocol, in a sentence; empty where nothing was."""
        said: list[str] = []
        seeds = len(self.trials[0].seeds)
        short = [trial for trial in self.trials if trial.epochs != FULL_EPOCHS]
        if seeds != FULL_SEEDS:
            said.append(f"{count(seeds, 'seed')} instead of {FULL_SEEDS}")
        if short:
            said.append(f"fewer epochs than {FULL_EPOCHS} ({', '.join(f'{one.label} {one.epochs}' for one in short)})")
        if len(self.missing) == len(CATALOGUE):
            said.append(
                "scikit-learn's bundled data sets as stand-ins, because none of the paper's six data sets was found"
            )
        elif self.missing:
            said.append(f"without {' and '.join(self.missing)}, not found here")
        size = "Quick size" if self.context.quick else "Differences to the paper's protocol"
        return f" {size}: {'; '.join(said)}." if said else ""
