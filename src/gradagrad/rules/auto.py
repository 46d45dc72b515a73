"""The rule of AutoGradaGrad, ours: log γ is one more parameter, trained by the AdaGrad that trains the others.

AdaGrad keeps its denominator for each element; all of them share one numerator γ. The gradient of log γ is the
agreement of the new gradient with the displacement so far, and log γ moves along it by AdaGrad's own step::

    P   = √γ · c · Σ g·Y                agreement of this gradient with the displacement, one sum over all parameters
    B  += k·g²,   h += (1−β)(g − h)     linearly weighted sum of squares, and momentum
    d   = h / √(2B/(k+1))               AdaGrad's direction
    x  −= lr·γ·d
    Y  += (lr₀·√γ/c) · d                the displacement is y = c·Y; lr₀ is the group's lr without its schedule
    c  ← c·(1 − w/(k+1))                an old step fades, by one number that all share
    v  += (P² − v)·r,  r = 2/(k+1)      the same weighted mean of squares, for log γ …
    γ  ← γ·(1 + P/(2√(k·v)))            … and its AdaGrad step at rate ½, for the next step

====================  =============================================================================================
here                  meaning
====================  =============================================================================================
``B``                 Σ i·g_i² (field "accumulator"); from step ``LONG`` on old squares fade from it instead
``h``, ``Y``          momentum and displacement (fields "momentum", "displacement")
``k``                 how many steps the block has seen (field "clock")
``c``, ``v``          fields "displacement_scale" and "agreement_square"
``weight``            of the newest square: k, and ``LONG`` at most
``r``                 weight over the total of the weights, 1 + 2 + … + k
``damp``              the guard: a factor so that no gradient weighs more than all before it together
``pull``              λ/√k: decoupled decay in the step's own units; it counts in P and Y as part of the step
====================  =============================================================================================

Block numbers are kept in double, because float32 cannot multiply by 1 − 5e-9. An element whose gradient is exactly zero
is idle: it and its fields stay, so sparse and dense gradients give the same numbers. A NaN or infinity spoils its
element and is left out of the sums from then on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import CLOCK, PARAMETER, Array, Block, Field, Ops, Reduction, Rule, Values

FORGET = 2.0**-20
"""Smallest r, the share of the newest square: float32 cannot add less to a sum."""
LONG = 2.0 / FORGET - 1.0
"""From this step on r is ``FORGET``: weights stay, and B fades by that much whenever its element moves. An idle
element keeps its B, so B needs no clock."""
FADE = 0.5
"""w: an old displacement fades as k^−w. With w = 1 it would be the distance to the mean of all iterates."""
RATE = 0.5
"""AdaGrad's rate for log γ: at most a factor of 1 ± ½ in one step."""
POWER = 8
"""Of the average's weights: the i-th of k iterates counts as about i⁸."""


class Settings(NamedTuple):
    """The numbers of one step of one param group."""

    lr: Array = 1.0
    steady_lr: Array = 1.0  # lr₀: lr as it was before any scheduler
    gamma0: Array = 1e-4
    beta: Array = 0.7
    eps: Array = 0.0
    weight_decay: Array = 0.0  # decoupled; coupled decay is part of g
    gamma_max: Array | None = None
    guard: bool = True
    averaging: bool = False


def _scale(k: Array, weight: Array) -> Array:
    """k over the total of the weights of the squares: B times this is what AdaGrad takes the root of."""
    return k / (weight * (weight + 1.0)) * 2.0


class AutoRule(Rule):
    """Move → learn; the guard measures first."""

    name = "auto"
    numerator = "gamma"
    denominator = "accumulator"
    decay_remedy = "use decoupled_weight_decay=True, which decays the touched rows."

    def fields(self, s: Settings) -> tuple[Field, ...]:
        average = (Field("average", "element", start=PARAMETER, lane=3),) if s.averaging else ()
        guard = (Field("square_total", "block", least=0.0),) if s.guard else ()
        return (
            Field("momentum", "element"),
            Field("accumulator", "element", least=0.0, lane=1),
            Field("displacement", "element", lane=2),
            *average,
            Field(CLOCK, "block", least=0.0),
            Field("gamma", "block", start="gamma0", least=0.0),
            Field("agreement_square", "block", least=0.0),
            Field("displacement_scale", "block", start=1.0, least=0.0),
            *guard,
        )

    def measures(self, s: Settings) -> bool:
        return s.guard or s.averaging

    def learns(self, s: Settings) -> bool:
        return True

    def measure(self, values: Values, s: Settings, sums: Reduction, ops: Ops) -> tuple[Array, ...]:
        """Σ g², for the guard, and for the average, which stays where every gradient is zero."""
        return (sums.total(values["g"] * values["g"]),)

    def decide(
        self, sums: Sequence[Array], block: Block, s: Settings, ops: Ops
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """Counts the step and computes the factors of the move."""
        k = block["clock"] + 1.0
        weight = ops.minimum(k, LONG)
        fade = ops.minimum(k - weight, 1.0) * FORGET
        after = {**block, "clock": k}
        damp: Array = 1.0
        if s.guard:
            gg = sums[0]
            before = block["square_total"]
            # No gradient may weigh more than all before it together: weight·g² ≤ ΣB. The first one is not limited.
            square = weight * gg
            damp_square = ops.minimum(before / ops.maximum(square, ops.tiny), 1.0)
            damp_square = ops.where(ops.less(before, ops.tiny), 1.0, damp_square)
            damp = ops.sqrt(damp_square)
            after["square_total"] = ops.where(ops.less(0.0, gg), before * (1.0 - fade) + square * damp_square, before)
        gamma = block["gamma"]
        onward = ops.sqrt(gamma) / block["displacement_scale"] * s.steady_lr
        pull = 0.0 if is_off(s.weight_decay) else s.weight_decay / ops.sqrt(k)
        average_share: Array = 0.0
        if s.averaging:
            average_share = ops.where(ops.less(0.0, sums[0]), (POWER + 1.0) / (k + POWER), 0.0)
        return after, (weight, fade, _scale(k, weight), gamma * s.lr, onward, pull, damp, average_share)

    def move(
        self,
        values: Values,
        factors: Sequence[Array],
        s: Settings,
        sums: Reduction,
        ops: Ops,
        touched: Array | None = None,
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """AdaGrad with momentum, the displacement it adds to, and the agreement of g with the displacement before."""
        x, g, h, B, Y = (values[key] for key in ("x", "g", "momentum", "accumulator", "displacement"))
        weight, fade, scale, rate, onward, pull, damp, average_share = (ops.narrow(number) for number in factors)
        moves = ops.indicator(g)  # 1 where the element moves, 0 where it is idle
        if s.guard:
            g = g * damp
        new_B = ops.minimum(B + (g * g * weight - B * fade) * moves, ops.largest)
        new_h = h + (g - h) * (moves * (1.0 - s.beta))
        root = ops.sqrt(ops.maximum(new_B * scale, ops.tiny))
        root = root if is_off(s.eps) else root + s.eps
        direction, felt = new_h / root, g
        if not is_off(s.weight_decay):
            direction, felt = direction + x * pull, g + x * root * (moves * pull)
        direction = direction * moves
        new = {
            "x": x - direction * rate,
            "momentum": new_h,
            "accumulator": new_B,
            "displacement": Y + direction * onward,
        }
        if s.averaging:
            mean = values["average"]
            new["average"] = mean + (new["x"] - mean) * average_share
        return new, (sums.total(felt * Y), sums.total(moves))

    def learn(self, statistics: Sequence[Array], block: Block, s: Settings, ops: Ops) -> dict[str, Array]:
        """One AdaGrad step of log γ. γ at most halves or grows by half, since k·v ≥ P².

        A step in which every gradient is zero is taken back: frameworks take one to have state made.
        """
        k, gamma, c, v = block["clock"], block["gamma"], block["displacement_scale"], block["agreement_square"]
        agreement = ops.sqrt(gamma) * c * statistics[0]
        length = ops.minimum(k, LONG) * 0.5 + 0.5  # 1/r, the length of the mean in steps
        new_v = ops.minimum(v + (agreement * agreement - v) / length, ops.largest)
        change = agreement / ops.sqrt(ops.maximum(new_v * k, ops.tiny)) * RATE
        new_gamma = ops.maximum(gamma * (change + 1.0), ops.tiny)
        if s.gamma_max is not None:
            new_gamma = ops.minimum(new_gamma, s.gamma_max)
        moved = ops.less(0.0, statistics[1])
        return {
            **block,
            "clock": ops.where(moved, k, k - 1.0),
            "gamma": ops.where(moved, new_gamma, gamma),
            "agreement_square": ops.where(moved, new_v, v),
            "displacement_scale": ops.where(moved, c - c * FADE / (k + 1.0), c),
        }

    def rates(self, values: Values, block: Block, s: Settings, ops: Ops) -> tuple[Array, Array, Array]:
        gamma = block["gamma"] * s.lr
        k = ops.maximum(block["clock"], 1.0)
        root = ops.sqrt(values["accumulator"] * ops.narrow(_scale(k, ops.minimum(k, LONG)))) + s.eps
        return gamma, block["gamma"] / s.gamma0, ops.narrow(gamma) / root

    def needs_catch_up(self, s: Settings) -> bool:
        return s.averaging

    def idle(self, values: Values, block: Block, since: Array, now: Array, s: Settings, ops: Ops) -> dict[str, Array]:
        """Only the average changes: it moves towards x by the product of all 1 − share in between."""
        x, mean = values["x"], values["average"]
        left, now = 1.0, ops.maximum(now, 1.0)
        since = ops.minimum(since, now)  # A step that was taken back may have touched the row.
        for t in range(POWER + 1):
            left = left * ((since + float(t)) / (now + float(t)))
        left = ops.narrow(left)
        return {"average": mean * left + x * (1.0 - left)}  # A row that is up to date stays exactly as it is.


RULE = AutoRule()
