"""How consecutive gradients agree, the only signal GradaGrad uses: sign of g·g′, size of v, effect of noise.

Independent gradients of mean μ and variance σ² have E[g²] = μ² + σ² and E[g·g′] = μ², so that per coordinate

    E[v] = E[g² − ρ·g·g′] = σ² − (ρ − 1)·μ²,     and γ grows only where μ²/σ² > 1/(ρ − 1).
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Parameter

from gradagrad import GradaGrad
from gradagrad_lab.figures.bound.proofs import Noiseless, Settings
from gradagrad_lab.problems.toy import BoxRegression

Floats = NDArray[np.float64]
STEPS = 1000
LOOKS = (1, 10, 100, STEPS)
"""Steps at which |v|/α is shown."""
INITIAL = (1e-4, 1e-2, 1.0, 10.0)
BATCHES = (0, 16)
"""Rows per step of the 200; 0: all of them."""


class Agreement(NamedTuple):
    """One run: mean cosine of consecutive gradients over its last half, and |v|/α at `LOOKS`."""

    cosine: float
    sizes: list[float]


def observe(initial: float, batch: int, seed: int = 0, steps: int = STEPS) -> Agreement:
    """Logistic regression by the scalar variant, ρ = 2, every step on ``batch`` random rows."""
    problem = BoxRegression("logistic")
    point = Parameter(torch.zeros(problem.dimension, dtype=torch.float64))
    optimizer = GradaGrad([point], lr=initial, granularity="group")
    random = np.random.default_rng(seed)
    before = torch.zeros_like(point)
    alpha, growth = math.nan, 1.0
    cosines: list[float] = []
    sizes: list[float] = []
    for _ in range(steps + 1):
        rows = random.integers(problem.rows, size=batch) if batch else slice(None)
        g = torch.from_numpy(problem.gradients(point.detach().numpy())[rows].mean(axis=0))
        point.grad = g
        optimizer.step()
        state = optimizer.state[point]
        now = float(state["accumulator"].max()), float(state["growth"].max())
        # v < 0 shows in γ, since γ′² = γ²·(1 − v/α), and v ≥ 0 in α.
        sizes.append((now[1] / growth) ** 2 - 1 if now[1] > growth else now[0] / alpha - 1)
        cosines.append(float(g @ before / (g.norm() * before.norm())))
        before, (alpha, growth) = g.clone(), now
    return Agreement(float(np.mean(cosines[steps // 2 :])), [sizes[look] for look in LOOKS])


class Noise(NamedTuple):
    """One signal-to-noise ratio μ²/σ² at one ρ: E[v] by the formula and measured (σ = 1), and how far γ came."""

    ratio: float
    rho: float
    predicted: float
    measured: float
    error: float
    growth: float


GROWN = tuple((rho, initial) for rho in (1.0, 2.0) for initial in (1e-3, 0.1, 1.0))
"""ρ and γ₀ of the runs that show how little ρ = 1 grows."""
RATIOS = (0.01, 0.1, 1.0, 10.0)
NOISY_RHO = (2.0, 10.0, 100.0)


def noise(ratio: float, rho: float, *, coordinates: int = 4096, steps: int = 200) -> Noise:
    """Independent coordinates with gradients μ + ξ, ξ of variance 1; the element variant's median γ/γ₀ at the end."""
    random = np.random.default_rng(int(1e4 * ratio + rho))
    mean = math.sqrt(ratio)
    point = Parameter(torch.zeros(coordinates, dtype=torch.float64))
    optimizer = GradaGrad([point], lr=1e-6, rho=rho)
    v: list[Floats] = []
    before: Floats | None = None
    for _ in range(steps):
        g = mean + random.standard_normal(coordinates)
        point.grad = torch.from_numpy(g)
        optimizer.step()
        if before is not None:
            v.append(g**2 - rho * g * before)
        before = g
    per_coordinate = np.mean(v, axis=0)  # consecutive v share a gradient; coordinates are independent
    error = float(per_coordinate.std(ddof=1) / math.sqrt(coordinates))
    growth = float(optimizer.state[point]["growth"].median())
    return Noise(ratio, rho, 1 - (rho - 1) * ratio, float(per_coordinate.mean()), error, growth)


def signal(batch: int) -> Floats:
    """μ²/σ² of every coordinate of the box's logistic regression at its start, for mini-batches of this size."""
    problem = BoxRegression("logistic")
    gradients = problem.gradients(np.ones(problem.dimension))
    return gradients.mean(axis=0) ** 2 / (gradients.var(axis=0) / batch)


def growth_of(rho: float, initial: float, *, capped: bool) -> float:
    """γ/γ₀ after 400 noiseless steps of logistic regression; capped: ``gamma_max`` is γ₀ itself, which is AdaGrad."""
    settings = Settings(initial, rho, cap=initial if capped else math.inf)
    return float(Noiseless("logistic").follow(settings, 400).gamma[-1].max() / initial)
