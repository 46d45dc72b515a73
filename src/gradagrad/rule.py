"""The update rule of GradaGrad, in one place: measure → adapt → move.

Pure functions over anything that has ``+ - * /`` and for which a namespace (`Ops`) supplies square root, maximum,
minimum and selection. No framework is imported, so torch tensors, lists of tensors, JAX arrays and plain floats all
run these same lines. Loop, foreach, sparse, compiled and distributed steps are drivers around them.

Letters follow the paper (Defazio, Zhou, Xiao, arXiv 2206.06900, Algorithm 2):

====================  =============================================================================================
here                  meaning
====================  =============================================================================================
``x``, ``g``          parameter and its gradient
``m``                 previous momentum gradient m_{k-1}; the previous gradient itself when β = 0
``growth``            γ_k / γ₀: what the method has multiplied the learning rate's numerator by; starts at 1
``alpha``             α_k: the sum under the root
``gg``, ``gm``        Σ g² and Σ g·m over whoever shares a step size (a *slot*, see `gradagrad.granularity`)
``rho``, ``beta``     adaptivity ρ and momentum β
``A``                 (√α + ε) / growth: the metric of the step, before the learning rate
====================  =============================================================================================

Two things differ from the paper's listing, neither in exact arithmetic. The point z is not stored, because
z_k = x_k − β/(1−β) · m_{k-1}/A_k; and m is carried by a recursion instead of by subtracting iterates, which in float32
returns zero for a small γ₀ and would end all adaptation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

# Arrays of any framework; the rule asks only for arithmetic.
Array = Any


class Ops(Protocol):
    """What the rule needs beyond arithmetic, and the range of the numbers it computes in."""

    tiny: float
    """Smallest positive normal number: the floor of every divisor that may be zero."""
    largest: float
    """Largest finite number: neither growth nor α may become infinite."""

    def sqrt(self, a: Array, /) -> Array: ...
    def maximum(self, a: Array, b: Array, /) -> Array: ...
    def minimum(self, a: Array, b: Array, /) -> Array: ...
    def where(self, condition: Array, a: Array, b: Array, /) -> Array: ...
    def less(self, a: Array, b: Array, /) -> Array: ...


class Settings(NamedTuple):
    """The numbers of one step of one param group."""

    lr: Array  # γ₀, times whatever a schedule made of it
    rho: float = 2.0
    beta: float = 0.0
    eps: float = 1e-10
    weight_decay: float = 0.0  # decoupled; coupled decay is part of g
    gamma_max: float | None = None  # D∞
    growth_limit: float | None = None  # √(1 + r), Algorithm 1's fixed clip
    grad_bound: float | None = None  # G∞
    alpha_0: float = 0.0  # what the accumulator starts from
    lazy: bool = False
    project: Callable[[Array, Array], Array] | None = None


def measure(g: Array, m: Array, total: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Σ g² and Σ g·m over each slot; ``total`` decides who shares one."""
    return total(g * g), total(g * m)


def adapt(gg: Array, gm: Array, growth: Array, alpha: Array, s: Settings, ops: Ops) -> tuple[Array, Array]:
    """The slot's new ``growth`` and ``alpha``: γ rises where v < 0, α where v > 0."""
    agreement = s.rho * gm
    v = gg - agreement
    cap = ops.largest
    if s.gamma_max is not None:
        cap = ops.minimum(s.gamma_max / ops.maximum(s.lr, ops.tiny), ops.largest)
        v = ops.where(ops.less(growth, cap), v, gg)  # at the cap: plain AdaGrad
    if s.grad_bound is not None:
        # α still at its start marks a slot's first step; a lazy slot's first step is its first non-zero gradient.
        first = ops.less(alpha, s.alpha_0 + 0.5 * s.grad_bound**2)
        bounded = ops.where(ops.less(-gg, 0.0), s.grad_bound**2, v) if s.lazy else s.grad_bound**2
        v = ops.where(first, bounded, v)
    # Both divisors can be 0 (no gradient yet, or a square that underflowed). Floored, 0/0 is 0 and x/0 is large, and
    # the minimum keeps whichever of the two is sane.
    by_sum = ops.sqrt(1.0 + ops.maximum(-v, 0.0) / ops.maximum(alpha, ops.tiny))
    by_clip = ops.maximum(agreement / ops.maximum(gg, ops.tiny), 1.0)  # restricted increase: √(1+r) = ρ·gm/gg
    factor = ops.minimum(by_sum, by_clip)
    if s.growth_limit is not None:
        factor = ops.minimum(factor, s.growth_limit)
    new_growth = ops.minimum(growth * factor, cap)
    if s.gamma_max is not None:
        new_growth = ops.maximum(new_growth, growth)  # a schedule may lower the cap; growth never falls
    new_alpha = ops.minimum(alpha + ops.maximum(v, 0.0), ops.largest)
    return new_growth, new_alpha


def move(
    x: Array,
    g: Array,
    m: Array,
    before: tuple[Array, Array],
    after: tuple[Array, Array],
    s: Settings,
    ops: Ops,
    touched: Array | None = None,
) -> tuple[Array, Array]:
    """The new ``x`` and ``m``, given (growth, alpha) before and after `adapt`; both stay where ``touched`` is false."""
    growth, alpha = before
    new_growth, new_alpha = after
    root = ops.sqrt(ops.maximum(alpha, ops.tiny)) + s.eps if s.beta else 1.0
    new_root = ops.sqrt(ops.maximum(new_alpha, ops.tiny)) + s.eps
    gamma = new_growth * s.lr
    rate = gamma / new_root  # 1/A', learning rate included
    start = x * (1.0 - s.lr * s.weight_decay) if s.weight_decay else x
    new_m = g  # β = 0, where β·(A'/A)·m could be 0·inf
    if s.beta:
        # A'/A as a product of ratios: √(α'/α) overflows float32 when α is tiny.
        new_m = m * (s.beta * (new_root / root) * (growth / new_growth)) + g * (1.0 - s.beta)
    if s.project is None:
        new_x = start - new_m * rate
    else:
        z = start - g * rate
        if s.beta:
            z = z - m * (growth * s.lr / root * (s.beta / (1.0 - s.beta)))
        metric = 1.0 / (ops.maximum(gamma, ops.tiny**0.5) / new_root)  # stays finite at lr = 0, where z − p is 0
        p = s.project(z, metric)
        new_m = new_m + (z - p) * (metric * (1.0 - s.beta))
        new_x = start + (p - start) * (1.0 - s.beta) if s.beta else p
    if touched is not None:
        new_x = ops.where(touched, new_x, x)
        new_m = ops.where(touched, new_m, m)
    return new_x, new_m
