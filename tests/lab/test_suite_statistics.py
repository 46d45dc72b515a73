"""Ratios, bootstrap intervals, performance profiles and tuning, on cases whose answers are known."""

import numpy as np
import pytest

from gradagrad_lab.suite.catalogue import PROBLEMS
from gradagrad_lab.suite.evaluate import Outcome
from gradagrad_lab.suite.runs import Plan
from gradagrad_lab.suite.statistics import Pairing, profile, standing
from gradagrad_lab.suite.tuning import START, Tuner, extension, loss_of, rate


def test_pairs_stay_together():
    reference = np.array([1.0, 5.0, 9.0])
    found = standing([Pairing(2 * reference, reference, 0.0), Pairing(0.5 * reference, reference, 0.0)])
    # Seeds differ ninefold, but the ratio does not: the interval has no width.
    assert (found.mean.low, found.mean.value, found.mean.high) == pytest.approx((1.0, 1.0, 1.0))
    assert (found.worst.low, found.worst.value, found.worst.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.worst_place == 0


def test_the_interval_of_two_seeds_is_known():
    # Resampling two seeds gives means 1, 2 and 3 with probability 1/4, 1/2, 1/4.
    found = standing([Pairing(np.array([1.0, 3.0]), np.array([1.0, 1.0]), 0.0)])
    assert (found.mean.low, found.mean.value, found.mean.high) == pytest.approx((1.0, 2.0, 3.0))
    drawn = Pairing(np.array([1.0, 3.0]), np.array([1.0, 1.0]), 0.0).ratios(np.array([[0, 0], [0, 1], [1, 1]]))
    assert drawn.tolist() == [1.0, 2.0, 3.0]


def test_the_interval_has_the_width_theory_gives():
    random = np.random.default_rng(1)
    own = 1 + 0.1 * random.standard_normal(200)
    found = standing([Pairing(own, np.ones(200), 0.0)]).mean
    half_width = 1.96 * own.std() / np.sqrt(200)
    assert (found.high - found.low) / 2 == pytest.approx(half_width, rel=0.1)


def test_near_zero_losses_count_as_the_floor():
    assert Pairing(np.array([1e-9]), np.array([1e-6]), 1e-3).ratio() == 1.0
    assert Pairing(np.array([2e-3]), np.array([1e-6]), 1e-3).ratio() == pytest.approx(2.0)


def test_geometric_mean_and_worst():
    found = standing([Pairing(np.array([value]), np.array([1.0]), 0.0) for value in (0.25, 1.0, 2.0)])
    assert found.mean.value == pytest.approx(0.5 ** (1 / 3))
    assert (found.worst.value, found.worst_place) == (2.0, 2)


def test_profile_of_a_known_table():
    losses = {"a": np.array([1.0, 2.0, 4.0, 1.0]), "b": np.array([2.0, 1.0, 1.0, 1.0])}
    curves = profile(losses, np.array([1.0, 1.9, 2.0, 4.0]))
    assert curves["a"].tolist() == [0.5, 0.5, 0.75, 1.0]
    assert curves["b"].tolist() == [0.75, 0.75, 1.0, 1.0]


@pytest.mark.parametrize(
    ("scores", "further"),
    [
        ({-1: 3.0, 0: 1.0, 1: 2.0}, []),
        ({-1: 1.0, 0: 2.0, 1: 3.0}, [-3, -2]),
        ({-1: 3.0, 0: 2.0, 1: 1.0}, [2, 3]),
        ({-1: 10.0, 0: 10.0, 1: 10.0}, [-3, -2]),
        ({7: 2.0, 8: 1.0}, []),
        ({-24: 1.0, -23: 2.0}, []),
    ],
    ids=["inside", "low end", "high end", "all diverged: down", "upper limit", "lower limit"],
)
def test_extension(scores, further):
    assert extension(scores, scores, hopeless=10.0) == further


class Landscape:
    """Runs that ended: a bowl over the logarithm of the learning rate, elsewhere for the averaged iterate."""

    def __init__(self, best, best_averaged, seed_shift=0.0):
        self.best, self.best_averaged, self.seed_shift = best, best_averaged, seed_shift
        self.trained = set()

    def find(self, run):
        if run not in self.trained:
            return None
        place = 2 * np.log10(dict(run.options)["lr"])
        shift = self.seed_shift * run.seed
        return Outcome(
            100.0, 1 + float((place - self.best - shift) ** 2), 1 + float((place - self.best_averaged - shift) ** 2)
        )


def tuned(landscape, seeds=5, tuning=2):
    tuner = Tuner(Plan(None), landscape, PROBLEMS["mlp"], "adam", range(seeds), tuning)
    rounds = 0
    landscape.trained |= set(tuner.first())
    while needed := tuner.needed():
        rounds += 1
        assert rounds < 20
        assert not set(needed) <= landscape.trained
        landscape.trained |= set(needed)
    return tuner


def test_tuning_follows_the_best_beyond_the_grid_for_each_iterate():
    landscape = Landscape(best=-9, best_averaged=1)
    tuner = tuned(landscape)
    plain, averaged = tuner.choice(False), tuner.choice(True)
    assert (plain.lr, averaged.lr) == (rate(-9), rate(1)) == (pytest.approx(10**-4.5, rel=1e-5), 3.16228)
    assert plain.grid[0] < plain.lr
    assert averaged.grid[-1] > averaged.lr
    # The best and its neighbours come from every seed, the rest of the grid from the tuning seeds only.
    seeds = {place: sum(tuner.run(place, seed) in landscape.trained for seed in range(5)) for place in range(-10, 3)}
    assert [seeds[place] for place in (-10, -9, -8, 0, 1, 2)] == [5] * 6
    assert seeds[-5] == 2


def test_tuning_ends_at_the_rate_that_is_best_over_all_seeds():
    # Seeds 0 and 1 prefer −4, all five together −2: the second pass must walk there.
    tuner = tuned(Landscape(best=-4, best_averaged=-4, seed_shift=1.0))
    assert tuner.choice(False).place == -2


def test_a_diverged_run_counts_as_ten_times_the_start():
    assert loss_of(Outcome(2.0, float("nan"), 1.0), averaged=False) == 20.0
    assert loss_of(Outcome(2.0, 1e9, 1.0), averaged=False) == 20.0
    assert loss_of(Outcome(2.0, 1e9, 1.0), averaged=True) == 1.0


def test_every_search_begins_with_half_decades():
    for places in START.values():
        assert list(places) == list(range(places[0], places[-1] + 1))
