"""Choosing the baselines' learning rates on a half-decade grid, in their favour.

A coarse pass trains the grid from the first seeds and goes on while the best lies at an end. Then the best rate and
its two neighbours are trained from every seed, until the rate with the lowest mean final training loss over all
seeds has both neighbours trained too. The averaged iterate is tuned by itself: it often wants a larger rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gradagrad_lab.suite.catalogue import Entry
from gradagrad_lab.suite.evaluate import DIVERGED, Outcome
from gradagrad_lab.suite.methods import TUNED
from gradagrad_lab.suite.runs import Finished, Plan, Run, Trainer

# Learning rates are 10^(place/2). Where each search begins, and where any gives up.
START: dict[str, tuple[int, ...]] = {
    "sgd": (-4, -3, -2, -1, 0),
    "adagrad": (-3, -2, -1, 0, 1),
    "adam": (-6, -5, -4, -3, -2),
}
LOWEST, HIGHEST = -24, 8
_FURTHER = 2


def rate(place: int) -> float:
    """10^(place/2), to six digits: the same text in every record."""
    return float(f"{10 ** (place / 2):.6g}")


def loss_of(outcome: Outcome, averaged: bool) -> float:
    """The final training loss; at most `DIVERGED` times the loss at the start, which is what a diverged run gets."""
    value = outcome.averaged_train if averaged else outcome.train
    limit = DIVERGED * abs(outcome.initial)
    return min(value, limit) if math.isfinite(value) else limit


def extension(places: Iterable[int], scores: dict[int, float], hopeless: float) -> list[int]:
    """Further places to try where the best lies at an end of the grid; none where it lies inside.

    Where every run diverged (score ≥ ``hopeless``) the way is down.
    """
    known = sorted(places)
    best = min(known, key=lambda place: (scores[place], place))
    if best == known[0] or scores[best] >= hopeless:
        return [place for place in range(known[0] - _FURTHER, known[0]) if place >= LOWEST]
    if best == known[-1]:
        return [place for place in range(known[-1] + 1, known[-1] + _FURTHER + 1) if place <= HIGHEST]
    return []


@dataclass(frozen=True)
class Choice:
    """The learning rate tuning arrived at, and the grid it was chosen from."""

    lr: float
    place: int
    grid: tuple[float, ...]
    losses: tuple[float, ...]
    """Mean final training loss for each rate of the grid, over the tuning seeds."""


class Tuner:
    """Tunes one baseline on one problem; reads records, and says which runs it still needs."""

    def __init__(
        self, plan: Plan, finished: Finished, entry: Entry, key: str, seeds: Sequence[int], tuning: int
    ) -> None:
        self._plan, self._finished, self.entry, self._key = plan, finished, entry, key
        self._seeds, self._tuning_seeds = tuple(seeds), tuple(seeds[:tuning])

    def run(self, place: int, seed: int) -> Run:
        _, optimizer, extra = TUNED[self._key]
        return self._plan.run(self.entry, optimizer, {**extra, "lr": rate(place)}, seed)

    def first(self) -> list[Run]:
        """The runs every search begins with."""
        return [self.run(place, seed) for seed in self._tuning_seeds for place in START[self._key]]

    def needed(self) -> list[Run]:
        """What is still missing before a choice can be made; empty when there is nothing."""
        more = [place for averaged in (False, True) for place in self._search(averaged)]
        if more:
            return [self.run(place, seed) for seed in self._tuning_seeds for place in dict.fromkeys(more)]
        wanted = {place for averaged in (False, True) for place in self._around(averaged)}
        runs = [self.run(place, seed) for seed in self._seeds for place in sorted(wanted)]
        return [run for run in runs if self._finished.find(run) is None]

    def choice(self, averaged: bool) -> Choice:
        scores = self._coarse(averaged)
        best = self._best(averaged)
        grid = sorted(scores)
        return Choice(rate(best), best, tuple(map(rate, grid)), tuple(scores[place] for place in grid))

    def _mean(self, place: int, seeds: Sequence[int], averaged: bool) -> float | None:
        outcomes = [self._finished.find(self.run(place, seed)) for seed in seeds]
        losses = [loss_of(outcome, averaged) for outcome in outcomes if outcome is not None]
        return sum(losses) / len(losses) if len(losses) == len(seeds) else None

    def _scores(self, seeds: Sequence[int], averaged: bool) -> dict[int, float]:
        found: dict[int, float] = {}
        start = START[self._key]
        for places in (start, range(start[0] - 1, LOWEST - 1, -1), range(start[-1] + 1, HIGHEST + 1)):
            for place in places:
                mean = self._mean(place, seeds, averaged)
                if mean is not None:
                    found[place] = mean
                elif places is not start and seeds == self._tuning_seeds:
                    break  # the coarse grid has no gaps
        return found

    def _coarse(self, averaged: bool) -> dict[int, float]:
        return self._scores(self._tuning_seeds, averaged)

    def _search(self, averaged: bool) -> list[int]:
        scores = self._coarse(averaged)
        missing = [place for place in START[self._key] if place not in scores]
        return missing or extension(scores, scores, self._hopeless())

    def _hopeless(self) -> float:
        outcome = self._finished.find(self.run(START[self._key][0], self._tuning_seeds[0]))
        return math.inf if outcome is None else DIVERGED * abs(outcome.initial) * 0.999

    def _best(self, averaged: bool) -> int:
        complete = self._scores(self._seeds, averaged)
        scores = complete or self._coarse(averaged)
        return min(scores, key=lambda place: (scores[place], place))

    def _around(self, averaged: bool) -> list[int]:
        """The best and its neighbours, which must be trained from every seed; first those of the coarse grid's best."""
        coarse = self._coarse(averaged)
        centres = {min(coarse, key=lambda place: (coarse[place], place))}
        if self._scores(self._seeds, averaged):
            centres.add(self._best(averaged))
        around = {place + side for place in centres for side in (-1, 0, 1)}
        return sorted(place for place in around if LOWEST <= place <= HIGHEST)


def tune(trainer: Trainer, tuners: Sequence[Tuner], description: Callable[[int], str]) -> None:
    """Train until every tuner can choose."""
    round_number = 0
    while needed := [run for tuner in tuners for run in tuner.needed()]:
        round_number += 1
        trainer.train(needed, description(round_number))
