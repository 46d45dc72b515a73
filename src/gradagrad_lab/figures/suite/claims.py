"""The suite's goals and whether they are met: judged on the held-out problems first, then on all."""

import numpy as np

from gradagrad_lab.figures.suite.methods import (
    BY_KEY,
    DEFAULT_GAMMA0,
    FLAT_FROM,
    FLAT_TO,
    OURS,
    OURS_AVERAGED,
    Contestant,
)
from gradagrad_lab.figures.suite.results import Standings
from gradagrad_lab.figures.suite.tables import factor
from gradagrad_lab.report.content import Claim, Verdict
from gradagrad_lab.report.style import power

MEAN_GOAL, LAST_GOAL, WORST_GOAL = 0.92, 1.05, 1.5
LEVEL = 1.02  # ours is level with another where its mean is at most this many times the other's
FLAT_GOAL, FLAT_SHARE = 0.15, 0.9


CRITERION = "Met on the problems that conclusions are drawn on, and on all; in part: on one of the two"


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


def _mean(standings: Standings, one: Contestant, goal: float) -> Claim:
    there, here = standings.standing(one, True).mean, standings.standing(one).mean
    point = "the averaged iterate" if one.averaged else "the last iterate"
    return Claim(
        f"Untuned, AutoGradaGrad's final training loss at {point} is at most {goal:g} of the best tuned baseline's, in "
        "the geometric mean.",
        f"{standings.words(True)}: {there.text()}; all problems: {here.text()}.",
        verdict_of(there.value <= goal, here.value <= goal),
        whose="ours",
        number=f"{there.value:.2f}",
        criterion=CRITERION,
    )


def _level(standings: Standings) -> Claim:
    """With Adam, tuned for each problem and averaged: the strongest of the baselines."""
    sentences: list[str] = []
    met: list[bool] = []
    for held_out in (True, False):
        own, other = (standings.standing(one, held_out).mean for one in (OURS_AVERAGED, BY_KEY["adam-averaged"]))
        met.append(own.value <= LEVEL * other.value)
        sentences.append(f"{standings.words(held_out)}: {own.text()} against {other.text()}")
    return Claim(
        "Untuned and averaged, it is level with Adam, tuned for each problem and averaged.",
        f"{'; '.join(sentences)}.",
        verdict_of(met[0], met[1]),
        whose="ours",
        number=sentences[0].partition(": ")[2],
        criterion=f"{CRITERION}. Level: a mean of at most {LEVEL:g} times the other's",
    )


def _worst(standings: Standings) -> Claim:
    sentences: list[str] = []
    met: list[bool] = []
    for held_out in (True, False):
        standing, entries = standings.standing(OURS_AVERAGED, held_out), standings.entries(held_out)
        above = [
            f"{entries[place].problem.title} {factor(ratio)}"
            for place, ratio in sorted(enumerate(standing.ratios), key=lambda pair: -pair[1])
            if ratio > WORST_GOAL
        ]
        met.append(not above)
        words = f"worst {standing.worst.text()} ({entries[standing.worst_place].problem.title})"
        if above:
            words += f", above the goal on {len(above)} of {len(entries)}: {', '.join(above)}"
        sentences.append(f"{standings.words(held_out)}: {words}")
    return Claim(
        f"Untuned and averaged, it is nowhere worse than {WORST_GOAL:g} times the best tuned baseline.",
        f"{'. '.join(sentences)}.",
        verdict_of(met[0], met[1]),
        whose="ours",
        number=f"worst {factor(standings.standing(OURS_AVERAGED, True).worst.value)}",
        criterion=CRITERION,
    )


def _diverged(standings: Standings) -> Claim:
    counts = {
        held_out: sum(standings.diverged(entry, OURS) for entry in standings.entries(held_out))
        for held_out in (True, False)
    }
    runs = {held_out: len(standings.entries(held_out)) * len(standings.size.seeds) for held_out in (True, False)}
    return Claim(
        "No run of AutoGradaGrad diverges.",
        f"Diverged: {counts[True]} of {runs[True]} runs on problems {standings.judged}, {counts[False]} of "
        f"{runs[False]} on all.",
        verdict_of(counts[True] == 0, counts[False] == 0),
        whose="ours",
        number=f"{counts[False]} of {runs[False]} runs",
        criterion=CRITERION,
    )


def _peers(standings: Standings, averaged: bool) -> Claim:
    # DoG's authors recommend the average, so DoG takes part in both ways even at its defaults.
    ours = OURS_AVERAGED if averaged else OURS
    defaults = [m for m in standings.size.contestants if m.side == "peer" and (not m.averaged or m.optimizer == "dog")]
    peers = [m for m in standings.size.contestants if m.side == "peer" and m.averaged] if averaged else defaults
    text = "AutoGradaGrad is ahead of every parameter-free peer in the geometric mean and in the worst case"
    text += ", all of them averaged." if averaged else ", all as they come."
    if not peers:
        return Claim(
            text, "None of the peers is installed: `pip install 'gradagrad[peers]'`.", "not tested", whose="ours"
        )
    sentences: list[str] = []
    met: list[bool] = []
    for held_out in (True, False):
        ahead = [method for method in peers if _is_ahead(standings, ours, method, held_out)]
        met.append(not ahead)
        own = standings.standing(ours, held_out)
        best = min(peers, key=lambda method: standings.standing(method, held_out).mean.value)
        safest = min(peers, key=lambda method: standings.standing(method, held_out).worst.value)
        words = (
            f"mean and worst of ours {own.mean.value:.2f} and {factor(own.worst.value)}; lowest mean of a peer "
            f"{standings.standing(best, held_out).mean.value:.2f} ({best.title}), lowest worst case "
            f"{factor(standings.standing(safest, held_out).worst.value)} ({safest.title})"
        )
        if ahead:
            words += f"; ahead of ours in one of the two: {', '.join(method.title for method in ahead)}"
        sentences.append(f"{standings.words(held_out)}: {words}")
    return Claim(
        text,
        f"{'. '.join(sentences)}.",
        verdict_of(met[0], met[1]),
        whose="ours",
        number=f"{standings.standing(ours, True).mean.value:.2f}",
        criterion=CRITERION,
    )


def _is_ahead(standings: Standings, ours: Contestant, peer: Contestant, held_out: bool) -> bool:
    own, other = standings.standing(ours, held_out), standings.standing(peer, held_out)
    return other.mean.value < own.mean.value or other.worst.value < own.worst.value


def _flat(standings: Standings) -> Claim:
    size_of = standings.size
    inside = [place for place, gamma0 in enumerate(size_of.sweep) if FLAT_FROM <= gamma0 <= FLAT_TO]
    default = size_of.sweep.index(DEFAULT_GAMMA0)
    sentences: list[str] = []
    met: list[bool] = []
    for held_out in (True, False):
        entries = standings.entries(held_out)
        ratios = np.array([standings.sweep(entry)[inside] / standings.sweep(entry)[default] for entry in entries])
        flat = np.abs(ratios - 1).max(axis=1) <= FLAT_GOAL
        row, column = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
        met.append(float(flat.mean()) >= FLAT_SHARE)
        sentences.append(
            f"{standings.words(held_out)}: flat on {int(flat.sum())} of {len(entries)}; the largest "
            f"loss is {factor(ratios[row, column])} times the default's ({entries[row].problem.title}, "
            f"γ₀ = {power(size_of.sweep[inside[column]])})"
        )
    return Claim(
        f"The final loss is flat, within {100 * FLAT_GOAL:.0f} % of the default's, from γ₀ = {power(FLAT_FROM)} to "
        f"{power(FLAT_TO)} on {10 * FLAT_SHARE:.0f} of 10 problems.",
        f"{'. '.join(sentences)}.",
        verdict_of(met[0], met[1]),
        whose="ours",
        number=sentences[0].partition(": ")[2].partition(";")[0],
        criterion=CRITERION,
    )
