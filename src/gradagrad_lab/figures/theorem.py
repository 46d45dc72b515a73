"""GradaGrad's rule step by step on NumPy arrays, and the sums of Theorem D (docs/theory.md).

Every element of an array is a coordinate with its own step size, so one run covers all seeds and settings at once.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gradagrad.rules.gradagrad import RULE, Settings
from gradagrad.sklearn.ops import ArrayOps
from gradagrad_lab.study import Floats


class Step(NamedTuple):
    """One step in the paper's notation: γ and α before it, and after it; ``rise`` is δ, by how much √α rises."""

    x: Floats
    z: Floats
    g: Floats
    m: Floats
    gamma: Floats
    alpha: Floats
    next_gamma: Floats
    next_alpha: Floats
    rise: Floats


def follow(
    gradient: Callable[[int, Floats], Floats], x: Floats, steps: int, settings: Settings, far: Any = None
) -> Iterator[Step]:
    """Steps with eps = 0, as in the paper. ``far`` of the point x is the square of what counts as travelled."""
    s = settings._replace(eps=0.0)
    m, growth, alpha = np.zeros(x.shape), np.ones(x.shape), np.zeros(x.shape)
    for k in range(steps):
        lag = s.beta / (1.0 - s.beta) * m * s.lr * growth / np.sqrt(alpha) if k else 0.0
        g = gradient(k, x)
        seen = (g * g, g * m) if far is None else (g * g, g * m, far(x))
        with np.errstate(over="ignore"):  # α is 0 before the first step
            after, factors = RULE.decide(seen, {"growth": growth, "accumulator": alpha}, s, ArrayOps())
        new, sums = after["growth"], after["accumulator"]
        moved, _ = RULE.move({"x": x, "g": g, "momentum": m}, factors, s, None, ArrayOps())  # pyright: ignore[reportArgumentType]
        yield Step(x, x - lag, g, m, s.lr * growth, alpha, s.lr * new, sums, np.sqrt(sums) - np.sqrt(alpha))
        x, m, growth, alpha = moved["x"], moved["momentum"], new, sums


class TheoremD:
    """The sums of Theorem D, element by element; ``capped`` marks the elements with the paper's cap, for β = 0."""

    def __init__(self, settings: Settings, distance: Any, capped: Any = False) -> None:
        self.rho, self.distance, self.capped = settings.rho, distance, capped
        self.bound: Any = settings.grad_bound
        self.inverse: Any = 0.0
        self.noise: Any = 0.0
        self.product: Any = 0.0  # M·G∞, the largest |g·m|

    def add(self, step: Step) -> tuple[Floats, Floats]:
        """Counts a step, and returns the bounds (i) on the error sum and (ii) on the iterate sum so far."""
        at_cap = np.logical_and(self.capped, step.gamma >= self.distance)
        self.inverse = self.inverse + step.rise / step.gamma
        self.noise = self.noise + np.where(at_cap, 1.0 + self.rho, 1.0) * step.gamma * step.rise
        self.product = np.maximum(self.product, np.abs(step.g * step.m))
        rest = np.where(at_cap, 2.0 * self.bound, self.product / self.bound)
        return 2.0 * self.noise + self.rho * rest * step.gamma, self.distance**2 * self.inverse
