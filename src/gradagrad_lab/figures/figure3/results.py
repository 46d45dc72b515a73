"""The numbers and tables of Figure 3, read from records. Pictures and claims read them here."""

import functools
from dataclasses import dataclass

import numpy as np

from gradagrad_lab.average import POWER
from gradagrad_lab.data import CATALOGUE
from gradagrad_lab.figures.figure3.plan import (
    ENDS,
    FULL_EPOCHS,
    FULL_SEEDS,
    HEADLINES,
    INITIAL_RATES,
    OURS,
    RHOS,
    SCALAR_BASELINE,
    SCALAR_RHOS,
    Trial,
    setting,
)
from gradagrad_lab.methods import BASELINES, OPTIMIZERS, power_of_two
from gradagrad_lab.problems.logistic import AVERAGED
from gradagrad_lab.report.content import Table
from gradagrad_lab.report.style import power
from gradagrad_lab.study import Floats, Frame, Method, count
from gradagrad_lab.tune import Choice

POINT = 0.01
"""One percentage point of accuracy: what a reader would call a difference."""
TWO_ERRORS = 2.0


def percent(value: float, digits: int = 2) -> str:
    """A share in %."""
    return f"{100 * value:.{digits}f}" if np.isfinite(value) else "diverged"


def signed(value: float, digits: int = 2) -> str:
    """A difference in percentage points."""
    return f"{100 * value:+.{digits}f}".replace("-", "−") if np.isfinite(value) else "–"


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
        """The standard error of the difference; NaN for a single seed."""
        found = self.own - self.others[name]
        return float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")

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
        """A sentence on what was left out of the paper's protocol; empty if nothing was."""
        said: list[str] = []
        seeds = len(self.trials[0].seeds)
        short = [f"{trial.label} {trial.epochs}" for trial in self.trials if trial.epochs != FULL_EPOCHS]
        if seeds != FULL_SEEDS:
            said.append(f"{count(seeds, 'seed')} instead of {FULL_SEEDS}")
        if short:
            said.append(f"fewer epochs than {FULL_EPOCHS} ({', '.join(short)})")
        if len(self.missing) == len(CATALOGUE):
            said.append("scikit-learn's bundled data sets as replacements, because none of the paper's six was found")
        elif self.missing:
            said.append(f"without {' and '.join(self.missing)}, not found here")
        size = "Quick size" if self.context.quick else "Differences to the paper's protocol"
        return f" {size}: {'; '.join(said)}." if said else ""


def _name(results: Results, trial: Trial, optimizer: str, goal: str = "accuracy") -> str:
    return f"{OPTIMIZERS[optimizer].title}, lr {power_of_two(results.choice(trial, optimizer, goal).lr)}"


def main(results: Results) -> Table:
    """GradaGrad at both β against the best and the lowest of three tuned methods."""
    found, trials = results.contests, results.trials
    columns = ["data set", "best tuned", "accuracy", "lowest tuned", "accuracy"]
    for beta in found:
        columns += [beta, "to the best", "to the lowest", "± 2 SE", "match"]
    rows: list[list[str]] = []
    for place, trial in enumerate(trials):
        first = found["β = 0"][place]
        row = [trial.label]
        for name in (first.best, first.lowest):
            row += [_name(results, trial, name), percent(float(first.others[name].mean()))]
        for one in (group[place] for group in found.values()):
            row += [percent(float(one.own.mean())), *(signed(one.difference(name)) for name in (one.best, one.lowest))]
            row.append(percent(TWO_ERRORS * one.error(one.lowest)) if np.isfinite(one.error(one.lowest)) else "–")
            row.append({True: "yes", False: "no", None: "one seed"}[one.matches])
        rows.append(row)
    lengths = "; ".join(f"{trial.label} {trial.epochs} epochs, last {trial.window}" for trial in trials)
    return Table(
        "GradaGrad untuned against the best and the lowest of three tuned methods: accuracy in %",
        columns,
        rows,
        note=f"Batch 16, {count(len(trials[0].seeds), 'seed')}; {lengths}. Differences are taken seed by seed (both "
        "see the same mini-batches). Match: not below the lowest of the three tuned methods by more than 2 standard "
        "errors, and within one point of the best. The best of three was picked after seeing the results, in its "
        "favour.",
    )


def ours(results: Results) -> Table:
    """AutoGradaGrad beside the best tuned method, with and without averaging on both sides."""
    rows: list[dict[str, str]] = []
    for place, trial in enumerate(results.trials):
        plain, averaged, beside = (group[place] for group in results.ours)
        rows.append(
            {
                "data set": trial.label,
                "best tuned": _name(results, trial, plain.best),
                "accuracy": percent(float(plain.others[plain.best].mean())),
                "best tuned, averaged": _name(results, trial, beside.best, AVERAGED),
                "its accuracy": percent(float(beside.others[beside.best].mean())),
                "AutoGradaGrad, y": percent(results.final(trial, OURS)),
                "x̄": percent(results.final(trial, OURS, AVERAGED)),
                "y to the best": signed(plain.difference(plain.best)),
                "x̄ to the best": signed(averaged.difference(averaged.best)),
                "x̄ to the best averaged": signed(beside.difference(beside.best)),
            }
        )
    return Table.of(
        "Ours: AutoGradaGrad untuned beside the best of three tuned methods: accuracy in %",
        rows,
        note="AutoGradaGrad runs at its defaults and is read twice: at its parameters y, and at its average x̄, inside "
        f"`with optimizer.averaged()`. The tuned three keep the average x̄ += {POWER + 1}/(k + {POWER})·(x − x̄) beside "
        "them, with the weights that AutoGradaGrad's has while γ is constant, and are tuned for it on the same grid.",
    )


def variants(results: Results) -> Table:
    """Smaller γ₀, adaptivity, momentum, and the scalar variant beside its counterpart."""
    shown = {
        **{f"γ₀ = {power(lr)}": setting(lr=lr) for lr in INITIAL_RATES},
        **{f"ρ = {rho:g}, γ₀ = {power(lr)}": setting(lr=lr, rho=rho) for lr in ENDS for rho in RHOS if rho != 2},
        **{f"β = {beta:g}": setting(momentum=beta) for beta in (0.5, 0.9)},
        "β = 0.9, γ₀ = 1e-6": setting(lr=1e-6, momentum=0.9),
        **{
            f"scalar, ρ = {rho:g}, γ₀ = {power(lr)}": setting(lr=lr, rho=rho, granularity="group")
            for lr in ENDS
            for rho in SCALAR_RHOS
        },
    }
    trials = results.trials
    rows = [[words, *(percent(results.final(trial, method), 1) for trial in trials)] for words, method in shown.items()]
    norm = [percent(float(results.tuned(trial, SCALAR_BASELINE).mean()), 1) for trial in trials]
    return Table(
        "Variants of GradaGrad: training accuracy in %",
        ["setting", *(trial.label for trial in trials)],
        [*rows, ["AdaGrad-norm, tuned", *norm]],
        note="Unless stated: per element (Algorithm 2), γ₀ = 1, ρ = 2, no momentum. Scalar: one step size for the "
        "model, Algorithm 1 plus Lemma 4's clip (the printed one violates the inequality the analysis needs); its "
        "counterpart is AdaGrad-norm, which has one step size too.",
    )


def all_tables(results: Results) -> list[Table]:
    """In the order of the page."""
    return [table(results) for table in (main, ours, variants)]
