"""The suite's losses by problem, contestant and seed, read from records; their ratios, means and worst cases, with
intervals by bootstrap over seeds."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data import CATALOGUE
from gradagrad_lab.figures.suite.catalogue import Entry, Role, problems_at_hand
from gradagrad_lab.figures.suite.plan import AVERAGED, BY_KEY, LAST, TUNED, Contestant, Size
from gradagrad_lab.single import Outcome, has_diverged, loss_of, outcome_of
from gradagrad_lab.study import Floats, Frame, Run
from gradagrad_lab.tune import Choice

RESAMPLES, LEVEL = 4000, 0.95
# Losses below this share of the loss at the start count as this share.
FLOOR = 1e-3


def factor(value: float) -> str:
    """A ratio, with two decimals if they matter."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, drawn: Floats) -> "Estimate":
        return cls(float(value), *map(float, np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])))

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Pairing:
    """A method's final losses and those of what it is compared with, seed by seed, on one problem.

    Means below ``floor`` count as ``floor``: whether a net ends at 1e-5 or 1e-6 decides nothing.
    """

    own: Floats
    other: Floats
    floor: float

    def ratio(self) -> float:
        return float(self.ratios(np.arange(len(self.own))))

    def ratios(self, seeds: NDArray[np.int64]) -> Floats:
        """The ratio of mean losses for every sample of seeds (…, seeds): both means over the same seeds."""
        own, other = self.own[seeds].mean(axis=-1), self.other[seeds].mean(axis=-1)
        return np.asarray(np.maximum(own, self.floor) / np.maximum(other, self.floor))


@dataclass(frozen=True)
class Standing:
    """One method over several problems."""

    ratios: Floats
    intervals: list[Estimate]
    mean: Estimate
    worst: Estimate

    @property
    def worst_place(self) -> int:
        return int(np.argmax(self.ratios))


def standing(pairings: Sequence[Pairing], resamples: int = RESAMPLES) -> Standing:
    """Ratios per problem, their geometric mean and the largest, each with a percentile interval.

    Seeds are drawn with replacement, for each problem by itself; a method and its reference keep the same seeds.
    """
    random = np.random.default_rng(0)
    drawn = np.stack(
        [pairing.ratios(random.integers(len(pairing.own), size=(resamples, len(pairing.own)))) for pairing in pairings]
    )
    ratios = np.array([pairing.ratio() for pairing in pairings])
    return Standing(
        ratios,
        [Estimate.of(ratio, row) for ratio, row in zip(ratios, drawn, strict=True)],
        Estimate.of(geometric_mean(ratios), np.exp(np.log(drawn).mean(axis=0))),
        Estimate.of(float(ratios.max()), drawn.max(axis=0)),
    )


def geometric_mean(values: Floats) -> float:
    """exp of the mean logarithm."""
    return float(np.exp(np.log(values).mean()))


def profile(losses: Mapping[str, Floats], factors: Floats) -> dict[str, Floats]:
    """Dolan and Moré's performance profile: the share of problems on which a method ends within a factor of the best.

    ``losses``: for each method, problem by problem, in any unit that all methods share.
    """
    best = np.min(np.stack(list(losses.values())), axis=0)
    # A hair of slack: the best itself must be within a factor of 1 whatever the rounding.
    return {
        name: np.array([(values <= factor * best * (1 + 1e-12)).mean() for factor in factors])
        for name, values in losses.items()
    }


class Standings:
    """Reads the records of one size of the suite."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.size: Size = frame.details
        self._outcomes: dict[str, Outcome] = {}

    @property
    def judged(self) -> Role:
        """The problems that conclusions are drawn on: held-out ones, or, where there are none, those looked at."""
        return "held out" if any(entry.role == "held out" for entry in self.size.entries) else "looked at"

    def entries(self, judged_only: bool = False) -> list[Entry]:
        return [entry for entry in self.size.entries if entry.role == self.judged or not judged_only]

    def words(self, judged_only: bool) -> str:
        """The name of the judged problems in tables and claims."""
        judged = "Held-out problems" if self.judged == "held out" else "Problems not chosen on"
        return judged if judged_only else "All problems"

    def choice(self, entry: Entry, key: str, averaged: bool) -> Choice:
        """What tuning chose for a baseline."""
        return self.frame.choice(self.size.tuning(entry, key), AVERAGED if averaged else LAST)

    def run(self, entry: Entry, one: Contestant, seed: int) -> Run:
        """The run behind one cell."""
        if one.side == "tuned":
            return self.size.run(entry, self.choice(entry, one.tuned, one.averaged).method, seed)
        return self.size.run(entry, one.method(entry.problem.kind), seed)

    def outcome(self, run: Run) -> Outcome:
        if run.key not in self._outcomes:
            self._outcomes[run.key] = outcome_of(self.frame.record(run).curves)
        return self._outcomes[run.key]

    @functools.cache  # noqa: B019 — lives as long as the command
    def outcomes(self, entry: Entry, one: Contestant) -> list[Outcome]:
        return [self.outcome(self.run(entry, one, seed)) for seed in self.size.seeds]

    @functools.cache  # noqa: B019
    def losses(self, entry: Entry, one: Contestant) -> Floats:
        """Final training loss per seed; a diverged run gets ten times the loss at the start."""
        return np.array([loss_of(outcome, one.averaged) for outcome in self.outcomes(entry, one)])

    def held_out(self, entry: Entry, one: Contestant, metric: str) -> float:
        """Mean over seeds; NaN where a run has diverged or the problem has no such measure."""
        found = [o.averaged_held_out if one.averaged else o.held_out for o in self.outcomes(entry, one)]
        return float(np.mean([measures.get(metric, np.nan) for measures in found]))

    def diverged(self, entry: Entry, one: Contestant) -> int:
        found = self.outcomes(entry, one)
        return sum(has_diverged(o.averaged_train if one.averaged else o.train, o.initial) for o in found)

    @functools.cache  # noqa: B019
    def best_tuned(self, entry: Entry) -> Contestant:
        """The tuned baseline of lowest mean final training loss, at its last iterate: the reference of every ratio."""
        return min((BY_KEY[key] for key in TUNED), key=lambda one: float(self.losses(entry, one).mean()))

    def floor(self, entry: Entry) -> float:
        return FLOOR * abs(self.outcomes(entry, BY_KEY["adam"])[0].initial)

    def pairing(self, entry: Entry, one: Contestant) -> Pairing:
        return Pairing(self.losses(entry, one), self.losses(entry, self.best_tuned(entry)), self.floor(entry))

    @functools.cache  # noqa: B019
    def standing(self, one: Contestant, judged_only: bool = False) -> Standing:
        return standing([self.pairing(entry, one) for entry in self.entries(judged_only)])

    def sweep(self, entry: Entry) -> Floats:
        """Mean final training loss for each γ₀, over the sweep's seeds, not below the floor."""
        size = self.size
        means = [
            np.mean([loss_of(self.outcome(size.sweep_run(entry, gamma0, seed)), False) for seed in size.sweep_seeds])
            for gamma0 in size.sweep
        ]
        return np.maximum(np.array(means), self.floor(entry))

    @functools.cached_property
    def reduction(self) -> str:
        """What this size leaves out, in sentences; empty if nothing."""
        context, size, said = self.frame.context, self.size, ""
        every, here = problems_at_hand(context.data_dir), {entry.set_name for entry in self.size.entries}
        if len(size.entries) < len(every):
            said += f" {len(size.entries)} of {len(every)} problems, seeds: {len(size.seeds)}."
        if size.missing:
            said += f" Not installed, hence absent: {', '.join(size.missing)} (`pip install gradagrad[peers]`)."
        if not here & set(CATALOGUE):
            said += " Scikit-learn's iris and digits stand in for the LIBSVM data sets, none of which was found."
        return said
