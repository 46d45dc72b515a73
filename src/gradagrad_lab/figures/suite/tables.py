"""The suite's tables, from records."""

import math

import numpy as np

from gradagrad_lab.figures.suite.catalogue import ROLE_MEANING, Entry
from gradagrad_lab.figures.suite.methods import DEFAULT_GAMMA0, OURS, Contestant, Side
from gradagrad_lab.figures.suite.results import FLOOR, Standings
from gradagrad_lab.figures.suite.statistics import geometric_mean
from gradagrad_lab.problems.training import ACCURACY, LOSS
from gradagrad_lab.report.content import Table
from gradagrad_lab.report.style import power as _power
from gradagrad_lab.study import count

TREATMENT = (
    f"Losses below {FLOOR:g} of the loss at the start count as {FLOOR:g} of it, on both sides of a ratio; a diverged "
    "run (a number that is not finite, or a final loss above 10 × the loss at the start) counts as that limit."
)


def number(value: float) -> str:
    """A number to four digits."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def power(value: float) -> str:
    """A learning rate to three digits: half-decades are 0.316, 3.16."""
    return _power(float(f"{value:.3g}"))


def factor(value: float) -> str:
    """A ratio, with two decimals if they matter."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def summary(standings: Standings) -> Table:
    """Every method: geometric mean and worst case, first on the problems that conclusions are drawn on."""
    held_out, every = standings.entries(True), standings.entries()
    more = len(every) > len(held_out)  # If all are judged, one pair of columns is enough.
    rows: list[list[str]] = []
    for method in standings.size.contestants:
        there, here = standings.standing(method, True), standings.standing(method)
        diverged = sum(standings.diverged(entry, method) for entry in every)
        found = [(there, held_out), (here, every)][: 1 + more]
        cells = [
            (one.mean.text(), f"{factor(one.worst.value)} ({entries[one.worst_place].problem.title})")
            for one, entries in found
        ]
        rows.append([method.title, *(text for pair in cells for text in pair), f"{diverged}"])
    return Table(
        "Final training loss relative to the best tuned baseline",
        [
            "method",
            f"{standings.judged}: geometric mean",
            f"{standings.judged}: worst",
            *(["all: geometric mean", "all: worst"] if more else []),
            "diverged runs",
        ],
        rows,
        note=f"Below 1 is better than the best of tuned SGD, AdaGrad and Adam (last iterate, chosen per problem after "
        f"the fact). {len(held_out)} problems {standings.judged}, {len(every)} in all, "
        f"{count(len(standings.size.seeds), 'seed')}. In brackets: 95 % bootstrap interval over seeds, paired; with so "
        f"few seeds rather narrow. {TREATMENT} "
        "“As documented”: lr = 1 for convex problems; for nets and tables lr = 0.01 (element, "
        "lazy for tables) or lr = 1e-4 with ρ = 100 (group). “Averaged”: AutoGradaGrad's own average x̄; for all "
        "others the average that DoG's authors recommend, kept beside them.",
    )


def by_problem(standings: Standings) -> Table:
    """Ours against the best tuned, problem by problem."""
    standing = standings.standing(OURS)
    rows: list[dict[str, str]] = []
    for entry, estimate in zip(standings.entries(), standing.intervals, strict=True):
        best = standings.best_tuned(entry)
        own, other = (float(standings.losses(entry, method).mean()) for method in (OURS, best))
        floored = min(own, other) < standings.floor(entry)
        choice = standings.choice(entry, best.key, False)
        rows.append(
            {
                "problem": entry.problem.title,
                "use before": entry.role,
                "best tuned": f"{best.title.removesuffix(', tuned')}, lr {power(choice.lr)}",
                "its loss": number(other),
                "ours": number(own),
                "ratio": estimate.text() + (f" (raw {factor(own / other)})" if floored and other > 0 else ""),
                "held out: best tuned": _measure(standings, entry, best),
                "held out: ours": _measure(standings, entry, OURS),
                "mean γ in the end": " … ".join(f"{end(standings.final_gammas(entry)):.2g}" for end in (min, max)),
            }
        )
    return Table.of(
        f"AutoGradaGrad at γ₀ = {power(DEFAULT_GAMMA0)} against the best tuned baseline, problem by problem",
        rows,
        note=f"{ROLE_MEANING} Held out: loss, and accuracy where there are classes, on rows never trained on; "
        "nothing was chosen by it. “Raw”: the ratio without the floor, where it matters.",
    )


def _measure(standings: Standings, entry: Entry, method: Contestant) -> str:
    loss, accuracy = (standings.held_out(entry, method, metric) for metric in (LOSS, ACCURACY))
    if not math.isfinite(loss):
        return "–"
    return number(loss) + (f", {100 * accuracy:.1f} %" if math.isfinite(accuracy) else "")


_BESIDE: dict[str, tuple[Side, ...]] = {
    "Every tuned method": ("tuned",),
    "Every untuned method": ("peer", "gradagrad", "ours"),
}


def every_ratio(standings: Standings, which: str) -> Table:
    """Some of the methods on all problems, ours beside them."""
    others = [m for m in standings.size.contestants if m.side in _BESIDE[which] and m is not OURS]
    methods = [OURS, *others]
    rows = [
        [entry.problem.title, *(_ratio_cell(standings, entry, method) for method in methods)]
        for entry in standings.entries()
    ]
    return Table(
        f"{which} on every problem: ratio to the best tuned baseline",
        ["problem", *(method.title for method in methods)],
        rows,
        note="“div.”: diverged runs.",
    )


def _ratio_cell(standings: Standings, entry: Entry, method: Contestant) -> str:
    diverged = standings.diverged(entry, method)
    return factor(standings.pairing(entry, method).ratio()) + (f" ({diverged} div.)" if diverged else "")


def sweep(standings: Standings) -> Table:
    """The final loss from every γ₀, relative to the default's."""
    size = standings.size
    default = size.sweep.index(DEFAULT_GAMMA0)
    rows = [
        [entry.problem.title, *(factor(value) for value in losses / losses[default])]
        for entry in standings.entries()
        if len(losses := standings.sweep(entry))
    ]
    ratios = np.array([standings.sweep(entry) / standings.sweep(entry)[default] for entry in standings.entries()])
    rows.append(["geometric mean", *(factor(geometric_mean(column)) for column in ratios.T)])
    return Table(
        f"AutoGradaGrad from other γ₀: final training loss relative to γ₀ = {power(DEFAULT_GAMMA0)}",
        ["problem", *(f"γ₀ = {power(gamma0)}" for gamma0 in size.sweep)],
        rows,
        note=f"Last iterate, {count(len(size.sweep_seeds), 'seed')}. Diverged: {_sweep_diverged(standings)}.",
    )


def _sweep_diverged(standings: Standings) -> str:
    """How many runs of the sweep diverged, and from which γ₀."""
    counts = {
        gamma0: sum(
            standings.outcome(standings.size.sweep_run(entry, gamma0, seed)).diverged
            for entry in standings.entries()
            for seed in standings.size.sweep_seeds
        )
        for gamma0 in standings.size.sweep
    }
    return ", ".join(f"{count} from γ₀ = {power(gamma0)}" for gamma0, count in counts.items() if count) or "none"


def descriptions(standings: Standings) -> Table:
    """What the problems are."""
    rows = [
        {
            "problem": entry.problem.title,
            "use before": entry.role,
            "what it is": entry.problem.describe,
            "steps": f"{standings.size.steps or entry.problem.steps:,}",
            "batch": str(entry.problem.batch),
        }
        for entry in standings.entries()
    ]
    return Table.of("The problems", rows, note=ROLE_MEANING)


def all_tables(standings: Standings) -> list[Table]:
    """In the order of the page."""
    return [
        summary(standings),
        by_problem(standings),
        *(every_ratio(standings, which) for which in _BESIDE),
        sweep(standings),
        descriptions(standings),
    ]
