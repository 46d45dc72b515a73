"""Tuning, on records whose best learning rates are known."""

import numpy as np
import pytest

from gradagrad_lab.problems.toy import AbsoluteValue
from gradagrad_lab.records import Record
from gradagrad_lab.study import Method
from gradagrad_lab.tune import Tuning, choose, needed

START = (-6, -5, -4, -3, -2)


@pytest.mark.parametrize(
    ("scores", "further"),
    [
        ({-1: 3.0, 0: 1.0, 1: 2.0}, []),
        ({-1: 1.0, 0: 2.0, 1: 3.0}, [-2]),
        ({-1: 3.0, 0: 2.0, 1: 1.0}, [2]),
        ({-1: 10.0, 0: 10.0, 1: 10.0}, [-2]),
        ({7: 2.0, 8: 1.0}, []),
        ({-24: 1.0, -23: 2.0}, []),
    ],
    ids=["inside", "low end", "high end", "all diverged: down", "upper limit", "lower limit"],
)
def test_extension(scores, further):
    tuning = a_tuning(tuple(sorted(scores)), seeds=1, scouts=1)
    landscape = Landscape(lambda place, seed: (scores[place], scores[place]))
    landscape.trained |= {run.key for run in tuning.first()}
    assert [round(2 * np.log10(run.method["lr"])) for run in needed(tuning, landscape)] == further


def a_tuning(places, seeds=5, scouts=2):
    goals = {"last": lambda record: record.curves["loss"][0], "averaged": lambda record: record.curves["averaged"][0]}
    problem, method = AbsoluteValue(), Method.of("adam")
    return Tuning(problem, method, tuple(range(seeds)), 10, goals, places, 10**0.5, scouts, (-24, 8))


class Landscape:
    """Records of runs that ended: what they end with is a function of place and seed, at both points."""

    def __init__(self, ends):
        self.ends = ends
        self.trained = set()

    def find(self, run):
        if run.key not in self.trained:
            return None
        last, averaged = self.ends(round(2 * np.log10(run.method["lr"])), run.seed)
        return Record("made", run.config, run.seed, {"loss": [last], "averaged": [averaged]})


def bowl(best, best_averaged, seed_shift=0.0):
    """A bowl over the logarithm of the learning rate, elsewhere for the averaged iterate."""
    return lambda place, seed: tuple(
        1 + float((place - centre - seed_shift * seed) ** 2) for centre in (best, best_averaged)
    )


def tuned(landscape):
    tuning = a_tuning(START)
    rounds = 0
    landscape.trained |= {run.key for run in tuning.first()}
    while more := {run.key for run in needed(tuning, landscape)}:
        rounds += 1
        assert rounds < 20
        assert not more <= landscape.trained
        landscape.trained |= more
    return tuning


def test_tuning_follows_the_best_beyond_the_grid_for_each_iterate():
    landscape = Landscape(bowl(best=-9, best_averaged=1))
    tuning = tuned(landscape)
    plain, averaged = (choose(tuning, landscape, goal) for goal in ("last", "averaged"))
    assert (plain.place, averaged.place) == (-9, 1)
    assert (plain.lr, averaged.lr) == (pytest.approx(10**-4.5, rel=1e-5), 3.16228)
    assert plain.grid[0] < plain.lr
    assert averaged.grid[-1] > averaged.lr
    # The best and its neighbours come from every seed, the rest of the grid from the tuning seeds only.
    places = (-10, -9, -8, 0, 1, 2, -5)
    seeds = [sum(tuning.run(place, seed).key in landscape.trained for seed in range(5)) for place in places]
    assert seeds == [5] * 6 + [2]


def test_tuning_ends_at_the_rate_that_is_best_over_all_seeds():
    # Seeds 0 and 1 prefer −4, all five together −2: the second pass must walk there.
    landscape = Landscape(bowl(best=-4, best_averaged=-4, seed_shift=1.0))
    assert choose(tuned(landscape), landscape, "last").place == -2
