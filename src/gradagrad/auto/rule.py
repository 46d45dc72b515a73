"""Shared growth, in one place: one learning rate for all parameters that finds its own size. Not the paper's.

AdaGrad keeps its denominator for each element; all of them share one numerator γ, which grows while consecutive
gradients agree more than their noise explains. Agreement is measured in the norm of the step. As `gradagrad.rule`,
these are pure functions over anything with arithmetic, and no framework is imported: the loop, foreach, sparse,
distributed and compiled steps drive these lines with tensors, and what is shared is decided with plain floats or 0-d
tensors. Only the loops over elements of the fused kernel restate a part (`measure` and `move`).

====================  =============================================================================================
here                  meaning
====================  =============================================================================================
``x``, ``g``, ``h``   parameter, its gradient, and its momentum: the mean of the gradients before, zeros left out
``B``                 sum of squared gradients: of ``k·g²`` ("linear" weighting) or of ``g²`` ("uniform")
``alpha``             what AdaGrad takes the root of: ``2B/(k+1)`` (linear) or ``B``
``k``                 the number of this step, counted from 1, the same for all parameters
``S``, ``P``          Σ w·g² and Σ w·g·h with w = 1/√α before this step: gradient and agreement in the step's norm
``Q``, ``N``          Σ (w·g²)² and Σ (w·g·h)²: the variance of P if coordinates were independent
``A``, ``D``          certificate: sum of P's sign (P/√N where that is less) over the last steps, and of its square
``E``, ``F``          agreement added up since it was last negative, and its variance
``E_``, ``F_``        disagreement added up since it was last positive, and its variance
``R``                 Σ √α, the size of the step's norm; ``R_`` is the same without what growth steps added
====================  =============================================================================================
"""

from collections.abc import Callable
from typing import NamedTuple

from gradagrad.rule import Array, Ops

POWER = 8  # of the average's weights: the i-th of k points counts as about i^8

# Q and N take coordinates for independent. Noise that moves many of them together then looks like agreement, and γ
# would run away where the loss is flat. So they are trusted while that can do no harm (in the first steps, and below a
# step that is small for any model, where only trying tells a plateau from noise), and for a while once a test that
# assumes nothing about coordinates, the sign of P over the last steps, has certified that there is a signal, be it
# agreement or overshoot. Otherwise evidence is judged by P's own size, and must be clear. Far below any useful step
# nothing can be learnt at all: there γ doubles blindly.
WINDOW = 128.0  # steps over which signs are added up
EXPIRY = 1000.0  # steps a certificate is good for
GRACE = 32.0  # steps in which Q and N are trusted
FREE_GAMMA = 1e-2  # below it they are trusted; or below FREE_GROWTH·γ₀, since from a larger start the ramp is too short
FREE_GROWTH = 1e3  # for a certificate, and whoever chose it holds such steps for small; but never beyond LARGE_GAMMA
LARGE_GAMMA = 1.0  # beyond it a step is large for most models, and evidence over steps must be SURE
CLEAR = 1.6  # standard deviations of evidence where they are not
SURE = 3.0
BLIND_GAMMA = 1e-5
CERTAIN = 1e9  # a test passed by so much that only the limits on growth count


class Settings(NamedTuple):
    """What all parameters share: the numbers of the test, and how squares are weighted."""

    strictness: float = 3.0  # c: growth begins where P exceeds its noise / c
    overshoot: float = 8.0  # τ: start-up ends with a disagreement of this many standard deviations
    certainty: float = 4.0  # ζ: standard deviations that certify a signal; 0 believes in one from the start
    free_gamma: float = 1e-2  # below it Q and N are trusted
    r_max: float = 1.0  # γ² grows at most by this share in one step
    linear: bool = True


class Shared(NamedTuple):
    """What all parameters share: one number each, kept in float64."""

    step: Array  # k
    gamma: Array
    roots: Array  # Σ √B
    reference: Array  # R_
    agreement: Array  # E
    agreement_noise: Array  # F
    disagreement: Array  # E_
    disagreement_noise: Array  # F_
    starting: Array  # 1 until the first significant overshoot, then 0
    certificate: Array  # A
    certificate_noise: Array  # D
    certified: Array  # for how many steps the certificate is still good; 0: there is none
    growth_steps: Array  # how many steps let γ grow
    coordinates: Array  # S²/Q of the last step: how many coordinates the gradient is spread over


class Sums(NamedTuple):
    """What is measured of the gradients, added over all parameters; linear weights' factor √(k/2) comes later."""

    S: Array
    P: Array
    Q: Array
    N: Array
    roots: Array  # change of Σ √B


def start(gamma0: float, certainty: float) -> Shared:
    """The shared numbers before the first step."""
    nothing = dict.fromkeys(Shared._fields, 0.0)
    return Shared(**(nothing | {"gamma": gamma0, "starting": 1.0, "certified": 0.0 if certainty else EXPIRY}))


def free_gamma(gamma0: float) -> float:
    """Up to which γ coordinates are taken for independent without a certificate."""
    return min(max(FREE_GAMMA, FREE_GROWTH * gamma0), LARGE_GAMMA)


def weight(k: Array, s: Settings) -> Array:
    """What a squared gradient of step k counts."""
    return k if s.linear else 1.0


def scale(k: Array, s: Settings) -> Array:
    """α/B after step k."""
    return 2.0 / (k + 1.0) if s.linear else 1.0


def measure(g: Array, h: Array, B: Array, k_weight: Array, total: Callable[[Array], Array], ops: Ops) -> Sums:
    """The sums over one tensor (or list of tensors), before it is moved."""
    root = ops.sqrt(B)
    squares = g * g
    divisor = ops.maximum(root, ops.tiny)
    seen = ops.less(-B, 0.0)  # an element without a gradient so far has no norm yet, and nothing to agree with
    gg = ops.where(seen, squares / divisor, 0.0)
    gh = ops.where(seen, g * h / divisor, 0.0)
    change = ops.sqrt(ops.minimum(B + squares * k_weight, ops.largest)) - root
    return Sums(total(gg), total(gh), total(gg * gg), total(gh * gh), total(change))


def judge(sums: Sums, before: Shared, s: Settings, ops: Ops) -> Shared:
    """The shared numbers after this step, γ among them: the significance test, and by how much γ grows.

    With a NaN or an infinity among the gradients γ stays where it is.
    """
    k = before.step + 1.0
    usable = ops.less(sums.S + sums.Q + sums.N + sums.roots, ops.largest)
    stretch = ops.sqrt(0.5 * k) if s.linear else 1.0  # w = stretch/√B
    S, P = (ops.where(usable, a * stretch, 0.0) for a in (sums.S, sums.P))
    Q, N = (ops.where(usable, a * (stretch * stretch), 0.0) for a in (sums.Q, sums.N))
    change = ops.where(usable, sums.roots, 0.0)

    # Divisors are floored because 0/0 stands there before there is anything to compare.
    whole = ops.maximum(N, P * P)  # P's variance, whatever moves together
    sign = P / ops.maximum(ops.sqrt(whole), ops.tiny)
    A = before.certificate * (1.0 - 1.0 / WINDOW) + sign
    D = before.certificate_noise * (1.0 - 1.0 / WINDOW) + sign * sign
    passes = ops.less(D * s.certainty**2, A * A)
    certified = ops.where(passes, EXPIRY, ops.maximum(before.certified - 1.0, 0.0))
    harmless = ops.where(ops.less(before.gamma, s.free_gamma), 1.0, ops.where(ops.less(GRACE, k), 0.0, 1.0))
    trusts = ops.less(-ops.maximum(harmless, before.certified), -0.5)

    E, F = _since_negative(before.agreement + P, before.agreement_noise + ops.where(trusts, N, whole), ops)
    # Steps that are small for any model do not overshoot: there a disagreement is noise.
    counts = ops.where(ops.less(before.gamma, FREE_GAMMA), ops.minimum(before.certified, 1.0), 1.0)
    opposite, F_ = _since_negative(-before.disagreement - P * counts, before.disagreement_noise + N * counts, ops)
    starting = ops.where(ops.less(ops.sqrt(F_) * s.overshoot, opposite), 0.0, before.starting)

    now = s.strictness * P / ops.maximum(ops.sqrt(Q), ops.tiny)
    so_far = s.strictness * E / ops.maximum(ops.sqrt(F), ops.tiny)
    if s.certainty:
        sure = ops.where(ops.less(F * SURE**2, E * E), so_far, 0.0)
        so_far = ops.where(ops.less(before.gamma, LARGE_GAMMA), so_far, sure)
    clear = ops.where(ops.less(F * CLEAR**2, E * E), so_far, 0.0)
    q = ops.where(trusts, ops.maximum(now, so_far * starting), clear)
    if s.certainty:
        blind = ops.where(ops.less(before.gamma, BLIND_GAMMA), ops.where(ops.less(-Q, 0.0), starting, 0.0), 0.0)
        q = ops.where(ops.less(-blind, -0.5), CERTAIN, q)
    grows = ops.less(-q, -1.0)
    r = ops.minimum((q - 1.0) * (S / ops.maximum(before.reference, ops.tiny)), ops.minimum(q * q - 1.0, s.r_max))
    r = ops.where(grows, r, 0.0)
    used = ops.where(trusts, 1.0 + r, ops.sqrt(1.0 + r))  # growth uses evidence up

    roots = before.roots + change
    R_grown = _norm(roots, k, s, ops) - _norm(before.roots, before.step, s, ops)
    reference = before.reference + ops.where(grows, 0.0, ops.maximum(R_grown, 0.0))
    return Shared(
        step=k,
        gamma=ops.minimum(before.gamma * ops.sqrt(1.0 + r), ops.largest),
        roots=roots,
        reference=reference,
        agreement=E / used,
        agreement_noise=F / used,
        disagreement=-opposite,
        disagreement_noise=F_,
        starting=starting,
        certificate=A,
        certificate_noise=D,
        certified=certified,
        growth_steps=before.growth_steps + ops.where(grows, 1.0, 0.0),
        coordinates=S * S / ops.maximum(Q, ops.tiny),
    )


def _since_negative(total: Array, variance: Array, ops: Ops) -> tuple[Array, Array]:
    """Both, or zeros where the total is negative."""
    positive = ops.less(-total, ops.tiny)
    return ops.where(positive, total, 0.0), ops.where(positive, variance, 0.0)


def _norm(roots: Array, k: Array, s: Settings, ops: Ops) -> Array:
    """R = Σ √α after step k."""
    return roots * ops.sqrt(scale(k, s)) if s.linear else roots


class Pace(NamedTuple):
    """What `move` needs of the shared numbers and of a param group, in the precision of its parameters."""

    weight: Array  # of a squared gradient
    scale: Array  # α/B
    rate: Array  # γ times the group's lr
    keep: Array  # 1 − decoupled weight decay
    share: Array  # of the new point in the average
    eps: float
    momentum: float  # β


def pace(after: Shared, lr: Array, weight_decay: float, eps: float, momentum: float, s: Settings, ops: Ops) -> Pace:
    """γ/√k is what others call the learning rate, √α being about √k gradients: decoupled decay is scaled by it."""
    rate = after.gamma * lr
    keep = 1.0 - rate * weight_decay / ops.sqrt(after.step) if weight_decay else 1.0
    share = (POWER + 1.0) / (after.step + POWER)
    return Pace(weight(after.step, s), scale(after.step, s), rate, keep, share, eps, momentum)


def move(x: Array, g: Array, h: Array, B: Array, pace: Pace, ops: Ops) -> tuple[Array, Array, Array]:
    """The new ``x``, ``h`` and ``B``. Where g is 0 nothing moves, so that a row without a gradient can be left out."""
    new_B = ops.minimum(B + g * g * pace.weight, ops.largest)
    root = ops.sqrt(ops.maximum(new_B * pace.scale, ops.tiny)) + pace.eps
    moves = ops.less(-ops.maximum(g, -g), 0.0)
    mean = h * pace.momentum + g * (1.0 - pace.momentum)
    new_x = x * pace.keep - ops.where(moves, mean, g) * pace.rate / root  # a NaN is passed on
    return new_x, ops.where(moves, mean, h), new_B


def average(x: Array, mean: Array, share: Array) -> Array:
    """The polynomially weighted mean of the points so far, given the newest."""
    return mean + (x - mean) * share


def fade(j: Array, k: Array) -> Array:
    """How much of ``mean − x`` of step j is left at step k while x rests: the product of all 1 − share in between."""
    left = 1.0
    for t in range(POWER + 1):
        left = left * ((j + float(t)) / (k + float(t)))
    return left
