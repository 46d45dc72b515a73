"""Algorithms 1 and 2 of the paper (arXiv 2206.06900), transcribed literally in plain floats. Imports nothing of ours.

Each function follows its listing line by line: branches stay branches, z and m are formed as printed
(m_k = A_{k+1}(x_k − x_{k+1})), one coordinate at a time, with the listing's options r, G∞, D∞ and proj_X.
``eps`` is added to √α, where torch.optim.Adagrad has it; 0 is the paper.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Vector = list[float]
Gradient = Callable[[int, Vector], Vector]


@dataclass
class Trace:
    """Everything a run went through; index k is the value the paper writes with subscript k."""

    x: list[Vector] = field(default_factory=list)
    gamma: list[Vector] = field(default_factory=list)
    alpha: list[Vector] = field(default_factory=list)
    m: list[Vector] = field(default_factory=list)
    g: list[Vector] = field(default_factory=list)
    A: list[Vector] = field(default_factory=list)


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(s * t for s, t in zip(a, b, strict=True))


def lemma_r(rho: float) -> Callable[[Vector, Vector], float]:
    """The explicit r of Lemma 4 for the scalar variant."""
    return lambda g, previous: (rho * dot(g, previous) / dot(g, g)) ** 2 - 1


def algorithm_1(
    gradient: Gradient,
    x_0: Vector,
    n: int,
    *,
    gamma_0: float = 1.0,
    rho: float = 2.0,
    r: float | Callable[[Vector, Vector], float],
    alpha_0: float = 0.0,
    eps: float = 0.0,
    travelled: bool = False,
) -> Trace:
    """GradaGrad, simplified scalar variant. ``r`` is a number as printed, or formed from (g_k, g_{k-1}) by Lemma 4.

    ``travelled``: docs/theory.md's cap on γ, which needs no D∞, at γ_0 + ρ/2·|x − x_0|.
    """
    d = len(x_0)
    x, g_previous, alpha, gamma = list(x_0), [0.0] * d, alpha_0, gamma_0
    trace = Trace(x=[list(x)], gamma=[[gamma]], alpha=[[alpha]])
    for k in range(n):
        g = gradient(k, x)
        v = dot(g, g) - rho * dot(g, g_previous)
        if v >= 0:
            alpha = alpha + v
        else:
            limit = r(g, g_previous) if callable(r) else r
            v = max(v, -limit * alpha)
            cap = gamma_0 + rho / 2 * math.dist(x, x_0) if travelled else math.inf
            gamma = max(gamma, min(gamma * math.sqrt(1 - v / alpha), cap))
        a = (math.sqrt(alpha) + eps) / gamma
        if a > 0:
            x = [x[i] - g[i] / a for i in range(d)]
        g_previous = g
        trace.x.append(list(x))
        trace.gamma.append([gamma])
        trace.alpha.append([alpha])
        trace.g.append(g)
        trace.m.append(g)
        trace.A.append([a])
    return trace


def algorithm_2(
    gradient: Gradient,
    x_0: Vector,
    n: int,
    *,
    gamma_0: float = 1.0,
    rho: float = 2.0,
    beta: float = 0.0,
    G: float | None = None,
    D: float = math.inf,
    proj: Callable[[Vector, Vector], Vector] | None = None,
    r: float = math.inf,
    alpha_0: float = 0.0,
    eps: float = 0.0,
    travelled: bool = False,
) -> Trace:
    """GradaGrad. Without ``G``, v_0 = g_0²; ``r`` bounds r_{i,k} as in Algorithm 1; ``proj`` is given (z', A_{k+1})."""
    d = len(x_0)
    x, z = list(x_0), list(x_0)
    m = [0.0] * d
    gamma, alpha = [gamma_0] * d, [alpha_0] * d
    trace = Trace(x=[list(x)], gamma=[list(gamma)], alpha=[list(alpha)])
    for k in range(n):
        g = gradient(k, x)
        A = [0.0] * d
        for i in range(d):
            if k == 0:
                v = g[i] ** 2 if G is None else G**2
            elif gamma[i] == D:
                v = g[i] ** 2
            else:
                v = g[i] ** 2 - rho * g[i] * m[i]
            if v >= 0:
                alpha[i] = alpha[i] + v
            else:
                r_i = min((rho * m[i] / g[i]) ** 2 - 1, r)
                v = max(v, -r_i * alpha[i])
                cap = gamma_0 + rho / 2 * abs(x[i] - x_0[i]) if travelled else D
                gamma[i] = max(gamma[i], min(gamma[i] * math.sqrt(1 - v / alpha[i]), cap))
            A[i] = (math.sqrt(alpha[i]) + eps) / gamma[i]
        z = [z[i] - g[i] / A[i] if A[i] > 0 else z[i] for i in range(d)]
        if proj is not None:
            z = proj(z, A)
        x_next = [beta * x[i] + (1 - beta) * z[i] for i in range(d)]
        m = [A[i] * (x[i] - x_next[i]) for i in range(d)]
        x = x_next
        trace.x.append(list(x))
        trace.gamma.append(list(gamma))
        trace.alpha.append(list(alpha))
        trace.g.append(g)
        trace.m.append(list(m))
        trace.A.append(A)
    return trace
