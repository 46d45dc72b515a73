"""AutoGradaGrad, number by number in plain Python floats, as its definition reads: nothing scaled, nothing shared.

The way y and the mean of squares a are kept as they are defined, where the rule keeps Y = y/c and B = a·k(k+1)/2.
From step 2²¹ on no square weighs more than those before it: the mean a forgets at the fixed rate 2⁻²⁰, and the a of an
element that rests stays, where before it was thinned by every step.
"""

from collections.abc import Sequence
from math import sqrt

LONG = 2**21 - 1
"""The largest weight of a square."""


class LearntLogGamma:
    """log γ is one more parameter, trained by the AdaGrad that trains the others."""

    def __init__(
        self,
        x: Sequence[float],
        *,
        gamma0: float,
        beta: float = 0.7,
        w: float = 0.5,
        decay: float = 0.0,
        guard: bool = True,
        lr: Sequence[float] | float = 1.0,
        gamma_max: float = float("inf"),
    ) -> None:
        n = len(x)
        self.x, self.h, self.a, self.y = list(x), [0.0] * n, [0.0] * n, [0.0] * n
        self.mean = list(x)
        self.lr = [lr] * n if isinstance(lr, float) else list(lr)
        largest = max(self.lr, default=1.0)
        self.k, self.gamma, self.v = 0, gamma0 / largest, 0.0
        self.beta, self.w, self.decay, self.guard, self.gamma_max = beta, w, decay, guard, gamma_max / largest
        self.mass = 0.0  # Σ i·‖g_i‖², of the gradients as the guard let them pass

    def step(self, gradient: Sequence[float], schedule: float = 1.0) -> None:
        """One step; ``schedule`` is what a scheduler makes of every lr."""
        if not any(gradient):
            return
        self.k += 1
        k, r, weight = self.k, max(2.0 / (self.k + 1), 2.0**-20), min(self.k, LONG)
        g = list(gradient)
        if self.guard:
            outweighs = weight * sum(slope * slope for slope in g) / self.mass if self.mass > 0.0 else 1.0
            g = [slope / sqrt(max(outweighs, 1.0)) for slope in g]
            self.mass *= 1.0 if k <= LONG else 1.0 - r
            self.mass += weight * sum(slope * slope for slope in g)
        agreement = 0.0
        for i, slope in enumerate(g):
            if slope != 0.0 or k <= LONG:
                self.a[i] += (slope * slope - self.a[i]) * r
            step = 0.0
            if slope != 0.0:
                agreement += (slope + self.decay * self.x[i] * sqrt(self.a[i])) * self.y[i]
                self.h[i] += (1.0 - self.beta) * (slope - self.h[i])
                d = self.h[i] / sqrt(k * self.a[i]) + self.decay * self.x[i] / sqrt(k)
                self.x[i] -= self.lr[i] * schedule * self.gamma * d
                step = self.lr[i] * sqrt(self.gamma) * d
            self.y[i] = (self.y[i] + step) * (1.0 - self.w / (k + 1))
            self.mean[i] += 9.0 / (k + 8) * (self.x[i] - self.mean[i])
        P = sqrt(self.gamma) * agreement
        self.v += (P * P - self.v) * r
        if self.v > 0.0:
            self.gamma = min(self.gamma * (1.0 + P / (2.0 * sqrt(k * self.v))), self.gamma_max)
