"""Everything the tables and pictures of the suite need, read from records: losses by problem, contestant and seed."""

import functools

import numpy as np

from gradagrad_lab import data
from gradagrad_lab.data import CATALOGUE, libsvm
from gradagrad_lab.figures.suite.catalogue import Entry, Role, problems_at_hand
from gradagrad_lab.figures.suite.methods import BY_KEY, OURS, TUNED, Contestant
from gradagrad_lab.figures.suite.plan import AVERAGED, LAST, Size
from gradagrad_lab.figures.suite.statistics import Floats, Pairing, Standing, standing
from gradagrad_lab.single import Outcome, has_diverged, loss_of, outcome_of
from gradagrad_lab.study import Frame, Run
from gradagrad_lab.tune import Choice

# Losses below this share of the loss at the start count as this share.
FLOOR = 1e-3


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
        return {"held out": "Held-out problems", "looked at": "Problems not chosen on"}[self.judged] * judged_only or (
            "All problems"
        )

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

    def final_gammas(self, entry: Entry) -> list[float]:
        return [outcome.gamma for outcome in self.outcomes(entry, OURS)]

    @functools.cached_property
    def reduction(self) -> str:
        """What this size leaves out, in a sentence; empty if nothing."""
        said: list[str] = []
        context, size = self.frame.context, self.size
        if context.on:
            said.append(
                f"{len(size.entries)} of {len(problems_at_hand(context.data_dir))} problems, seeds: {len(size.seeds)}"
            )
        elif context.quick:
            left_out = len(problems_at_hand(context.data_dir)) - len(size.entries)
            said.append(f"quick size: {left_out} problems left out, {len(size.seeds)} seeds, three γ₀ in the sweep")
        if size.missing:
            said.append(f"not installed, hence absent: {', '.join(size.missing)} (`pip install gradagrad[peers]`)")
        places = data.folders(context.data_dir)
        absent = [name for name in CATALOGUE if libsvm.find(name, places) is None]
        if len(absent) == len(CATALOGUE):
            said.append("scikit-learn's iris and digits stand in for the LIBSVM data sets, none of which was found")
        elif absent:
            said.append(f"without {' and '.join(absent)}, not found here")
        if not said:
            return ""
        text = "; ".join(said)
        return f" {text[0].upper()}{text[1:]}."
