"""The only tuner: a learning rate from a grid that grows until the best has a worse neighbour on both sides.

`best_place` is the search. `Tuning` uses it for runs with records: a coarse pass trains the grid from the scouting
seeds. If there are more seeds, the best rate and its neighbours are then trained from every seed, until the rate that
is best over all seeds has both neighbours trained too. Every goal (accuracy, loss, the loss of the averaged iterate) is
tuned by itself, on the same runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradagrad_lab.records import Record, RecordStore
from gradagrad_lab.study import Method, Run

Goal = Callable[[Record], float]


def rate(place: int) -> float:
    """The learning rate of a place on the grid of half-decades."""
    return float(f"{10 ** (place / 2):.3g}")


def best_place(losses: Mapping[int, float], start: Sequence[int], grid: range) -> tuple[int | None, list[int]]:
    """The place with the least loss, or None and what is to be tried first: places to start from, then neighbours."""
    if missing := [place for place in start if place not in losses]:
        return None, missing
    best = lowest(losses)
    around = (best - 1, best + 1)
    if len(set(losses.values())) == 1:  # equal losses say nothing, so smaller rates are tried
        around = (min(losses) - 1,)
    missing = [place for place in around if place in grid and place not in losses]
    return (None, missing) if missing else (best, [])


def lowest(losses: Mapping[int, float]) -> int:
    """Among equals, the place nearest to the middle: a flat optimum is no reason to extend the grid."""
    middle = (min(losses) + max(losses)) / 2
    return min(losses, key=lambda place: (losses[place], abs(place - middle), place))


@dataclass(frozen=True, eq=False)
class Tuning:
    """A tuning: a method, its grid, and the goal. Rates are ``base ** place``.

    ``goals``: by name, a score of a finished run, where lower is better. ``also``: more goals, read from the same grid,
    which does not grow for them. ``scouts``: how many seeds the coarse pass uses (by default all). ``limits``: the
    places beyond which no grid grows.
    """

    problem: Any
    method: Method
    seeds: tuple[int, ...]
    size: int
    goals: Mapping[str, Goal]
    places: tuple[int, ...] = tuple(range(-12, 7))
    base: float = 2.0
    scouts: int | None = None
    limits: tuple[int, int] = (-30, 20)
    also: Mapping[str, Goal] = field(default_factory=dict)

    def rate(self, place: int) -> float:
        """Powers of two are exact; others are rounded to six digits, the same text in every record."""
        return self.base**place if self.base == 2 else float(f"{self.base**place:.6g}")

    def run(self, place: int, seed: int) -> Run:
        return Run(self.problem, self.method.but(lr=self.rate(place)), seed, self.size)

    @property
    def scouting(self) -> tuple[int, ...]:
        return self.seeds[: self.scouts]

    def first(self) -> list[Run]:
        """The runs every search begins with."""
        return [self.run(place, seed) for place in self.places for seed in self.scouting]


@dataclass(frozen=True)
class Choice:
    """The learning rate that tuning chose, and the grid it was chosen from, with the coarse pass's mean scores."""

    method: Method
    place: int
    lr: float
    grid: tuple[float, ...]
    scores: tuple[float, ...]
    extended: bool


def needed(tuning: Tuning, records: RecordStore) -> list[Run]:
    """The runs that are missing before every goal has a choice."""
    search = _Search(tuning, records)
    more = sorted({place for goal in tuning.goals for place in search.further(goal)})
    if more:
        return [tuning.run(place, seed) for place in more for seed in tuning.scouting]
    around = sorted({place for goal in tuning.goals for place in search.around(goal)})
    wanted = [tuning.run(place, seed) for place in around for seed in tuning.seeds]
    return [run for run in wanted if records.find(run) is None]


def choose(tuning: Tuning, records: RecordStore, goal: str = "") -> Choice:
    """The choice for one goal (the first, unless named), from records."""
    goal = goal or next(iter(tuning.goals))
    search = _Search(tuning, records)
    coarse = search.scores(goal, tuning.scouting)
    best = search.best(goal)
    grid = sorted(coarse)
    return Choice(
        tuning.method.but(lr=tuning.rate(best)),
        best,
        tuning.rate(best),
        tuple(tuning.rate(place) for place in grid),
        tuple(coarse[place] for place in grid),
        len(grid) > len(tuning.places),
    )


class _Search:
    def __init__(self, tuning: Tuning, records: RecordStore) -> None:
        self._tuning, self._records = tuning, records
        self._known: dict[Any, dict[int, float]] = {}

    def scores(self, goal: str, seeds: Sequence[int]) -> dict[int, float]:
        """Mean score of every place that is trained from all these seeds; the coarse grid has no gaps."""
        if (goal, seeds) not in self._known:
            low, high = self._tuning.limits
            start = self._tuning.places
            found: dict[int, float] = {}
            score = {**self._tuning.also, **self._tuning.goals}[goal]
            for places in (start, range(start[0] - 1, low - 1, -1), range(start[-1] + 1, high + 1)):
                for place in places:
                    records = [self._records.find(self._tuning.run(place, seed)) for seed in seeds]
                    whole = [record for record in records if record is not None]
                    if len(whole) == len(seeds):
                        mean = float(np.mean([score(record) for record in whole]))
                        found[place] = np.inf if np.isnan(mean) else mean
                    elif places is not start and seeds == self._tuning.scouting:
                        break
            self._known[goal, seeds] = found
        return self._known[goal, seeds]

    def further(self, goal: str) -> list[int]:
        """Places that the coarse pass lacks."""
        low, high = self._tuning.limits
        return best_place(self.scores(goal, self._tuning.scouting), self._tuning.places, range(low, high + 1))[1]

    def best(self, goal: str) -> int:
        tuning = self._tuning
        return lowest(self.scores(goal, tuning.seeds) or self.scores(goal, tuning.scouting))

    def around(self, goal: str) -> list[int]:
        """The best and its neighbours, which must be trained from every seed: of the coarse pass, and of all seeds."""
        tuning = self._tuning
        if tuning.scouting == tuning.seeds:
            return []
        centres = {lowest(self.scores(goal, tuning.scouting)), self.best(goal)}
        low, high = tuning.limits
        return [place for centre in centres for place in (centre - 1, centre, centre + 1) if low <= place <= high]
