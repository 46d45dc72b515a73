"""The suite's goals and whether they are met: judged on the held-out problems first, then on all."""

from collections.abc import Callable

import numpy as np

from gradagrad_lab.figures.suite.plan import (
    BY_KEY,
    DEFAULT_GAMMA0,
    FLAT_FROM,
    FLAT_TO,
    OURS,
    OURS_AVERAGED,
    Contestant,
)
from gradagrad_lab.figures.suite.results import Standings, factor
from gradagrad_lab.report.content import Claim, Table, Verdict
from gradagrad_lab.report.style import power

MEAN_GOAL, LAST_GOAL, WORST_GOAL = 0.92, 1.05, 1.5
LEVEL = 1.02  # ours is level with another where its mean is at most this many times the other's
FLAT_GOAL, FLAT_SHARE = 0.15, 0.9
CRITERION = "Met on the problems that conclusions are drawn on, and on all; in part: on one of the two"
Cells = dict[str, str]


def verdict_of(held_out: bool, every: bool) -> Verdict:
    """Held-out problems decide whether anything holds; all of them whether it holds in full."""
    if held_out and every:
        return "holds"
    return "holds in part" if held_out or every else "does not hold"


def all_claims(standings: Standings) -> list[Claim]:
    """The goals, in the order in which they were set."""
    return [
        _mean(standings, OURS_AVERAGED, MEAN_GOAL),
        _mean(standings, OURS, LAST_GOAL),
        _level(standings),
        _worst(standings),
        _diverged(standings),
        _peers(standings, averaged=False),
        _peers(standings, averaged=True),
        _flat(standings),
    ]


def _claim(
    standings: Standings, text: str, evidence: str, look: Callable[[bool], tuple[bool, Cells]], more: str = ""
) -> Claim:
    """A goal, looked at on the judged problems and on all. The first cell is the number that decides."""
    found = {standings.words(judged): look(judged) for judged in (True, False)}
    rows = [{"problems": words, **cells} for words, (_, cells) in found.items()]
    met = [good for good, _ in found.values()]
    number = next(iter(found.values()))[1]
    return Claim(
        text,
        evidence,
        verdict_of(met[0], met[1]),
        whose="ours",
        number=next(iter(number.values())),
        criterion=CRITERION + more,
        table=Table.of("", rows),
    )


def _mean(standings: Standings, one: Contestant, goal: float) -> Claim:
    def look(judged: bool) -> tuple[bool, Cells]:
        mean = standings.standing(one, judged).mean
        return mean.value <= goal, {"geometric mean": f"×{mean.value:.2f}", "95 % interval": str(mean)}

    point = "the averaged iterate" if one.averaged else "the last iterate"
    text = (
        f"Untuned, AutoGradaGrad's final training loss at {point} is at most {goal:g} of the best tuned baseline's, in "
    )
    return _claim(standings, f"{text}the geometric mean.", "Its loss divided by the best tuned one.", look)


def _level(standings: Standings) -> Claim:
    """With Adam, tuned for each problem and averaged: the strongest of the baselines."""

    def look(judged: bool) -> tuple[bool, Cells]:
        own, other = (standings.standing(one, judged).mean for one in (OURS_AVERAGED, BY_KEY["adam-averaged"]))
        ratio = own.value / other.value
        return ratio <= LEVEL, {"ours / Adam": f"×{ratio:.2f}", "ours": str(own), "Adam, averaged": str(other)}

    return _claim(
        standings,
        "Untuned and averaged, it is level with Adam, tuned for each problem and averaged.",
        "Geometric means of the loss divided by the best tuned one.",
        look,
        f". Level: a mean of at most {LEVEL:g} times the other's",
    )


def _worst(standings: Standings) -> Claim:
    def look(judged: bool) -> tuple[bool, Cells]:
        found, entries = standings.standing(OURS_AVERAGED, judged), standings.entries(judged)
        above = int((found.ratios > WORST_GOAL).sum())
        title = entries[found.worst_place].problem.title
        return not above, {"worst": f"×{factor(found.worst.value)} ({title})", "above": f"{above} of {len(entries)}"}

    return _claim(
        standings,
        f"Untuned and averaged, it is nowhere worse than {WORST_GOAL:g} times the best tuned baseline.",
        f"The worst problem, and how many are above {WORST_GOAL:g}.",
        look,
    )


def _diverged(standings: Standings) -> Claim:
    def look(judged: bool) -> tuple[bool, Cells]:
        entries = standings.entries(judged)
        lost = sum(standings.diverged(entry, OURS) for entry in entries)
        return not lost, {"diverged": f"{lost} of {len(entries) * len(standings.size.seeds)} runs"}

    return _claim(standings, "No run of AutoGradaGrad diverges.", "At its last iterate.", look)


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

    return _claim(standings, text, "Loss divided by the best tuned one.", look)


def _flat(standings: Standings) -> Claim:
    sweep = standings.size.sweep
    inside = [place for place, gamma0 in enumerate(sweep) if FLAT_FROM <= gamma0 <= FLAT_TO]
    default = sweep.index(DEFAULT_GAMMA0)

    def look(judged: bool) -> tuple[bool, Cells]:
        entries = standings.entries(judged)
        ratios = np.array([standings.sweep(entry)[inside] / standings.sweep(entry)[default] for entry in entries])
        flat = np.abs(ratios - 1).max(axis=1) <= FLAT_GOAL
        row, column = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
        return float(flat.mean()) >= FLAT_SHARE, {
            "flat on": f"{int(flat.sum())} of {len(entries)}",
            "largest loss": f"×{factor(ratios[row, column])} ({entries[row].problem.title}, "
            f"γ₀ = {power(sweep[inside[column]])})",
        }

    return _claim(
        standings,
        f"The final loss is flat, within {100 * FLAT_GOAL:.0f} % of the default's, from γ₀ = {power(FLAT_FROM)} to "
        f"{power(FLAT_TO)} on {10 * FLAT_SHARE:.0f} of 10 problems.",
        "Losses divided by the default's.",
        look,
    )
