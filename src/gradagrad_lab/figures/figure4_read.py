"""Figure 4's numbers, read from records into arrays. Nothing here trains."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.context import Context
from gradagrad_lab.figures.figure4_runs import CLICK_RATE, DRAWN, INITIAL, RHO, SCALAR, Lane
from gradagrad_lab.figures.figure4_train import DIAGONAL_RHO, Plan, find
from gradagrad_lab.records import Record

Floats = NDArray[np.float64]


def comparable(losses: Floats) -> Floats:
    """Losses with those that are not finite, or absurd, at a large number: comparisons then need no special case."""
    return np.minimum(np.nan_to_num(losses, nan=np.inf, posinf=np.inf), 1e3)


@dataclass(frozen=True)
class Results:
    """All records of the figure. Losses that are not finite stay so: they are a result."""

    context: Context
    plan: Plan
    best: dict[str, float]
    """Each baseline's tuned learning rate."""
    _kept: dict[tuple[Lane, int, str], Record] = field(default_factory=dict, repr=False)

    def record(self, lane: Lane, seed: int, bias: str = DRAWN) -> Record:
        """One run's record, read from its file once: every table and picture asks for all of them."""
        key = lane, seed, bias
        if key not in self._kept:
            found = find(self.context, self.plan, lane, seed, bias)
            if found is None:
                raise ValueError(f"no record of {lane}, seed {seed}, last bias {bias}")
            self._kept[key] = found
        return self._kept[key]

    @cached_property
    def references(self) -> dict[str, float]:
        return self.record(Lane(SCALAR, INITIAL[0], RHO[0]), self.plan.seeds[0]).curves["references"]

    @property
    def has_teacher(self) -> bool:
        return not self.plan.setup.criteo

    def scalar(self, metric: str, bias: str = DRAWN) -> Floats:
        """(ρ, γ₀, seeds)."""
        return np.array(
            [
                [
                    [self.record(Lane(SCALAR, initial, rho), seed, bias).curves[metric] for seed in self.plan.seeds]
                    for initial in INITIAL
                ]
                for rho in RHO
            ],
            dtype=np.float64,
        )

    def diagonal(self, name: str, metric: str) -> Floats:
        """(ρ, γ₀, seeds) of the element or the row-wise variant."""
        return np.array(
            [
                [
                    [self.record(Lane(name, initial, rho), seed).curves[metric] for seed in self.plan.diagonal_seeds]
                    for initial in INITIAL
                ]
                for rho in DIAGONAL_RHO
            ],
            dtype=np.float64,
        )

    def baseline(self, name: str, metric: str) -> Floats:
        """(seeds,), or (seeds, points) for a curve, at the tuned learning rate."""
        lane = Lane(name, self.best[name])
        return np.array([self.record(lane, seed).curves[metric] for seed in self.plan.seeds], dtype=np.float64)

    def agreeing_steps(self, rho: float, initial: float, bias: str) -> Floats:
        """(seeds,): products before the first negative one, which are the steps in which γ could grow freely."""
        row, column = RHO.index(rho), INITIAL.index(initial)
        products = self.scalar("opening agreement", bias)[row, column]
        negative = products < 0
        return np.where(negative.any(axis=1), negative.argmax(axis=1), products.shape[1]).astype(np.float64)

    @cached_property
    def steps(self) -> Floats:
        lane = Lane(SCALAR, INITIAL[0], RHO[0])
        return np.array(self.record(lane, self.plan.seeds[0]).curves["steps"], dtype=np.float64)

    @cached_property
    def gain(self) -> float:
        """What tuned AdaGrad gains over always predicting the click rate: the scale of all comparisons."""
        return self.references["base rate"] - float(np.nanmean(self.baseline("adagrad", "held-out loss")))

    @property
    def alike(self) -> float:
        """What counts as alike; `figure4_claims` says why."""
        return 0.1 * self.gain

    def seconds(self) -> float:
        """Time the runs took, added up over processes."""
        runs = itertools.product((DRAWN, CLICK_RATE), self.plan.seeds, RHO, INITIAL)
        return sum(self.record(Lane(SCALAR, initial, rho), seed, bias).seconds for bias, seed, rho, initial in runs)
