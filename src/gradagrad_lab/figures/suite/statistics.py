"""Ratios of losses, their geometric mean and worst case, intervals by bootstrap over seeds, performance profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 4000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


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
        [_estimate(ratio, row) for ratio, row in zip(ratios, drawn, strict=True)],
        _estimate(geometric_mean(ratios), np.exp(np.log(drawn).mean(axis=0))),
        _estimate(float(ratios.max()), drawn.max(axis=0)),
    )


def geometric_mean(values: Floats) -> float:
    """exp of the mean logarithm."""
    return float(np.exp(np.log(values).mean()))


def _estimate(value: float, drawn: Floats) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))


def profile(ratios: Mapping[str, Floats], factors: Floats) -> dict[str, Floats]:
    """Dolan and Moré's performance profile: the share of problems on which a method ends within a factor of the best.

    ``ratios``: for each method its losses, problem by problem, in any unit that all methods share.
    """
    best = np.min(np.stack(list(ratios.values())), axis=0)
    # A hair of slack: the best itself must be within a factor of 1 whatever the rounding.
    return {
        name: np.array([(values <= factor * best * (1 + 1e-12)).mean() for factor in factors])
        for name, values in ratios.items()
    }
