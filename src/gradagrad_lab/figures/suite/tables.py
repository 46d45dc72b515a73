"""The suite's tables, from records."""

import math

import numpy as np

from gradagrad_lab.figures.suite.catalogue import ROLE_MEANING, Entry
from gradagrad_lab.figures.suite.plan import DEFAULT_GAMMA0, OURS, Contestant
from gradagrad_lab.figures.suite.results import FLOOR, Standings, factor, geometric_mean
from gradagrad_lab.problems.training import ACCURACY, LOSS
from gradagrad_lab.report.content import Table
from gradagrad_lab.report.style import power
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


def summary(standings: Standings) -> Table:
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
        f"few seeds rather narrow. {TREATMENT} "
        "“As documented”: lr = 1 for convex problems; for nets and tables lr = 0.01 (element, "
        "lazy for tables) or lr = 1e-4 with ρ = 100 (group). “Averaged”: AutoGradaGrad's own average x̄; for all "
        "others the average that DoG's authors recommend, kept beside them.",
    )


def by_problem(standings: Standings) -> Table:
    """Ours against the best tuned, problem by problem."""
    rows: list[dict[str, str]] = []
    for entry, estimate in zip(standings.entries(), standings.standing(OURS).intervals, strict=True):
        best = standings.best_tuned(entry)
        own, other = (float(standings.losses(entry, method).mean()) for method in (OURS, best))
        rate = float(f"{standings.choice(entry, best.key, False).lr:.3g}")
        rows.append(
            {
                "problem": entry.problem.title,
                "use before": entry.role,
                "best tuned": f"{best.title.removesuffix(', tuned')}, lr {power(rate)}",
                "its loss": number(other),
                "ours": number(own),
                "ratio": str(estimate),
                "held out: best tuned": _measure(standings, entry, best),
                "held out: ours": _measure(standings, entry, OURS),
                "steps × batch": f"{standings.size.steps or entry.problem.steps:,} × {entry.problem.batch}",
                "what it is": entry.problem.describe,
            }
        )
    return Table.of(
        f"AutoGradaGrad at γ₀ = {power(DEFAULT_GAMMA0)} against the best tuned baseline, problem by problem",
        rows,
        note=f"{ROLE_MEANING} Held out: loss, and accuracy where there are classes, on rows never trained on; "
        "nothing was chosen by it.",
    )


def _measure(standings: Standings, entry: Entry, method: Contestant) -> str:
    loss, accuracy = (standings.held_out(entry, method, metric) for metric in (LOSS, ACCURACY))
    return number(loss) + (f", {100 * accuracy:.1f} %" if math.isfinite(accuracy) else "")


def every_ratio(standings: Standings, words: str, tuned: bool) -> Table:
    """The tuned or the untuned methods on all problems, ours beside them."""
    others = [m for m in standings.size.contestants if (m.side == "tuned") == tuned and m is not OURS]
    rows = [
        {"problem": entry.problem.title}
        | {
            method.title: factor(standings.pairing(entry, method).ratio())
            + (f" ({diverged} div.)" if (diverged := standings.diverged(entry, method)) else "")
            for method in (OURS, *others)
        }
        for entry in standings.entries()
    ]
    return Table.of(f"{words} on every problem: ratio to the best tuned baseline", rows, "“div.”: diverged runs.")


def sweep(standings: Standings) -> Table:
    """The final loss from every γ₀, relative to the default's."""
    size = standings.size
    default = size.sweep.index(DEFAULT_GAMMA0)
    losses = {entry.problem.title: standings.sweep(entry) for entry in standings.entries()}
    ratios = {title: found / found[default] for title, found in losses.items()}
    ratios["geometric mean"] = np.array([geometric_mean(column) for column in np.array(list(ratios.values())).T])
    return Table(
        f"AutoGradaGrad from other γ₀: final training loss relative to γ₀ = {power(DEFAULT_GAMMA0)}",
        ["problem", *(f"γ₀ = {power(gamma0)}" for gamma0 in size.sweep)],
        [[title, *map(factor, found)] for title, found in ratios.items()],
        note=f"Last iterate, {count(len(size.sweep_seeds), 'seed')}.",
    )


def all_tables(standings: Standings) -> list[Table]:
    """In the order of the page."""
    return [
        summary(standings),
        by_problem(standings),
        every_ratio(standings, "Every tuned method", True),
        every_ratio(standings, "Every untuned method", False),
        sweep(standings),
    ]
