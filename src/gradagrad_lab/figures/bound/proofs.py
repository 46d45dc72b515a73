"""The paper's statements and the steps of their proofs, on runs that are followed exactly, in double precision.

Theorems and lemmas have the paper's numbers, which share one counter: Lemma 1 (the hyper-gradient term), Theorem 2 (the
telescoped bound), Theorem 3 (the rate), Lemma 4 (the clip), and in the appendix Lemma 5 (Lemma 1 with momentum), 6 (one
step), 7 (iterates), 8 (the clip with momentum), 9 and 10 (errors of gradients). Letters are the paper's as well:

    g_k gradient · m_k = A_{k+1}(x_k − x_{k+1}) · A = √α/γ · z_k = (x_k − β·x_{k−1})/(1 − β) · q = 2·√(2+ρ)·γ²

`PathOf` holds what the optimizer did, with α, γ and A shifted as in the paper: ``alpha[k]`` is α_{k+1}. Without noise
every statement is an inequality between numbers, so each can be checked at every step.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Parameter

from gradagrad import GradaGrad, LargeFirstStepWarning
from gradagrad.projections import Box
from gradagrad_lab.problems.toy import BoxRegression, Loss

Floats = NDArray[np.float64]
DIAMETER = 2.0
"""D∞ of the box [−1, 1]."""


@dataclass(frozen=True)
class Settings:
    """The settings of one run; ``cap`` is D∞, the bound on γ."""

    initial: float = 1.0
    rho: float = 2.0
    momentum: float = 0.0
    cap: float = math.inf


@dataclass(frozen=True)
class PathOf:
    """A run: g_0 … g_n, and after each step α, γ; x_0 … x_{n+1}. Arrays are (steps, coordinates)."""

    settings: Settings
    gradients: Floats
    alpha: Floats
    gamma: Floats
    x: Floats

    @cached_property
    def A(self) -> Floats:  # noqa: N802
        return np.sqrt(self.alpha) / self.gamma

    @cached_property
    def m(self) -> Floats:
        return self.A * (self.x[:-1] - self.x[1:])

    @cached_property
    def z(self) -> Floats:
        beta = self.settings.momentum
        return (self.x - beta * np.concatenate([self.x[:1], self.x[:-1]])) / (1 - beta)

    @cached_property
    def v(self) -> Floats:
        """What was added, or would have been: g² at the start and at the cap, else g² − ρ·g·m."""
        g, rho = self.gradients, self.settings.rho
        v = g**2
        free = self.gamma[:-1] < self.settings.cap * (1 - 1e-12)
        v[1:] -= np.where(free, rho * g[1:] * self.m[:-1], 0.0)
        return v

    @cached_property
    def error_terms(self) -> Floats:
        """g_k²/A_{k+1} − ρ·g_k·m_{k−1}/A_k, m_{−1} being 0."""
        terms = self.gradients**2 / self.A
        terms[1:] -= self.settings.rho * self.gradients[1:] * self.m[:-1] / self.A[:-1]
        return terms


def follow(
    gradient: Callable[[int, Floats], Floats | float],
    steps: int,
    settings: Settings,
    start: Sequence[float] = (0.0,),
    *,
    box: bool = False,
) -> PathOf:
    """The library's own optimizer on the gradients that ``gradient(k, x_k)`` gives, with G∞ = 1."""
    point = Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = GradaGrad(
        [point],
        lr=settings.initial,
        rho=settings.rho,
        momentum=settings.momentum,
        grad_bound=1.0,
        gamma_max=settings.cap,
        projection=Box(-1.0, 1.0) if box else None,
    )
    rows: list[tuple[Floats, ...]] = []
    x = [point.detach().numpy().copy()]
    for k in range(steps):
        g = np.broadcast_to(np.asarray(gradient(k, x[-1]), dtype=np.float64), x[-1].shape).copy()
        point.grad = torch.from_numpy(g.copy())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LargeFirstStepWarning)  # γ₀ = 1 is the example's, not a choice
            optimizer.step()
        state = optimizer.state[point]
        shared = [np.broadcast_to(state[key].numpy(), g.shape).copy() for key in ("accumulator", "growth")]
        rows.append((g, *shared))
        x.append(point.detach().numpy().copy())
    g, alpha, growth = (np.stack(column) for column in zip(*rows, strict=True))
    return PathOf(settings, g, alpha, settings.initial * growth, np.stack(x))


# ---- The statements on convex problems without noise.


class Check(NamedTuple):
    """A statement's two sides, step by step; it holds where left ≤ right."""

    left: Floats
    right: Floats

    @property
    def worst(self) -> float:
        """How far the left side passes the right one, in units of the larger of both sizes and 1e-3; ≤ 0: never."""
        scale = np.maximum(np.maximum(np.abs(self.left), np.abs(self.right)), 1e-3)
        return float(((self.left - self.right) / scale).max(initial=-1.0))


@dataclass(frozen=True)
class Noiseless:
    """A convex problem on the box under its whole gradient: `BoxRegression` without drawing rows."""

    loss: Loss

    @cached_property
    def problem(self) -> BoxRegression:
        return BoxRegression(self.loss)

    def follow(self, settings: Settings, steps: int) -> PathOf:
        start = [1.0] * self.problem.dimension
        return follow(lambda k, x: self.problem.gradients(x).mean(axis=0), steps, settings, start, box=True)

    def statements(self, path: PathOf) -> dict[str, Check]:
        """Every numbered statement with both its sides."""
        least, best = self.problem.minimum
        f = np.array([self.problem.value(x) for x in path.x]) - least
        s, g, A, m, z = path.settings, path.gradients, path.A, path.m, path.z
        weight = 2 * s.momentum / (1 - s.momentum) + s.rho
        count = np.arange(1, len(g) + 1)
        iterates = np.concatenate([A[:1], A[1:] - A[:-1]]) * (z[:-1] - best) ** 2
        iterate_sum = iterates.sum(axis=1).cumsum()
        error_sum = path.error_terms.cumsum(axis=0)
        q = 2 * math.sqrt(2 + s.rho) * path.gamma**2
        root = np.sqrt(path.alpha)
        negative = path.v[1:] < 0
        positive = ~negative
        average = path.x[:-1].cumsum(axis=0) / count[:, None]
        gap = np.array([self.problem.value(x) for x in average]) - least
        rate = 3 * math.sqrt(2 + s.rho) * g.shape[1] * DIAMETER**2 / (s.initial * np.sqrt(count))
        return {
            "Lemma 1": Check((g[1:] * m[:-1] / A[:-1]).sum(axis=1), f[:-2] - f[1:-1]),
            "Theorem 2": Check(2 * f[:-1].cumsum(), iterate_sum + weight * f[0] + error_sum.sum(axis=1)),
            "Theorem 3": Check(gap, weight * f[0] / (2 * count) + rate),
            "Lemma 4": Check(path.error_terms[1:][negative], np.zeros(int(negative.sum()))),
            "Lemma 7": Check(iterate_sum, DIAMETER**2 / s.initial * root.sum(axis=1)),
            "Lemma 9": Check((q[1:] * A[:-1] + path.error_terms[1:])[positive], (q * A)[1:][positive]),
            "Lemma 10": Check(error_sum, q * A[:1] + q / s.initial * root),
        }


# ---- Theorem 3's constant.

FORMS = ("printed", "sum corrected", "cap corrected")


def constant(rho: float, form: str) -> float:
    """The factor of d·G∞·D∞²/(γ₀·√(n+1)): as printed; with √(1+ρ) more, which is safe for the sum α; and with
    1 + ρ for √(2+ρ) as well, which is safe also where γ has reached D∞."""
    root = max(math.sqrt(2 + rho), 1 + rho) if form == "cap corrected" else math.sqrt(2 + rho)
    return 3 * root * (1.0 if form == "printed" else math.sqrt(1 + rho))


def constant_needed(rho: float, n: float = math.inf) -> float:
    """The least constant that the proof yields below the cap when it uses α_{n+1} ≤ (1 + (1 + ρ)·n)·G∞²."""
    root = math.sqrt(2 + rho)
    growth = 1 + rho if math.isinf(n) else (1 + (1 + rho) * n) / (n + 1)
    return (0.5 + root) * math.sqrt(growth) + (0.0 if math.isinf(n) else root / math.sqrt(n + 1))


def largest_rho(*, every: bool = True) -> float:
    """Up to which ρ the printed constant survives the true bound on α: for every n, or as n → ∞."""
    low, high = 1.0, 20.0
    lengths = (*range(200), math.inf) if every else (math.inf,)
    while high - low > 1e-9:
        middle = (low + high) / 2
        fine = all(constant_needed(middle, n) <= constant(middle, "printed") for n in lengths)
        low, high = (middle, high) if fine else (low, middle)
    return low
