"""The rule of AutoGradaGrad: AdaGrad trains log γ of every tensor as one more parameter.

Three sequences move together: a fast iterate z, the average x̄ of all z, and y between them, where gradients are taken.
The parameters hold y. Neither z nor x̄ is stored: one offset e = z − y per element gives both::

    z = y + e,   x̄ = y − e·(1 − β)/β

One step, for each tensor with its own γ and for all of them with the shared numbers k, c, W, G, V::

    g   clipped to ±√(B/k)                      no gradient counts more than all earlier ones of its element
    P   = √γ · c · h · Σ g·D                    agreement of this gradient with the displacement of y
    B  += k·g²                                  so that a = 2B/(k(k+1)) is a linearly weighted mean of squares
    δ   = lr·γ · g/√a                           z moves by −δ; lr counts relative to the largest lr so far
    W  += w,   w = k⁶·G²                        x̄ moves towards z by the share w/W
    e'  = (1 − w/W)·(e − β·δ)                   what both moves leave of z − y
    y' = y − (δ − e + e')
    h   = min(1, √(k·w/(7W)))                   how far G has fallen below its root mean square
    q   = y + λ·(x̄ − y),   λ = 0.3              the point that the votes are about
    D  += (q − q')/(√γ·c·h)   where g ≠ 0       what a gradient moved
    v  += r·(P² − v),   r = 2/(k+1)
    u   = 0.85·P/√(k·v), clipped to ±s          a tensor's own vote, s = max(0.1, 1/√k) …
    V, U likewise from Σ P·G/γ                  … and the common vote
    log γ ← log(γ·(1 + (u + U)/2)) + (log G − log γ)·½/(k+1)
    log γ ← log γ − 0.2·o·max(0, log γ − log L)  a γ above its limit L is drawn back …
    L   = 0.06·max(0.03, s)/rms(g/√a)           … where a step would move a tensor by 6 % of its own size
    s   = max(rms y', 0.9·the s before)         a size falls slowly, so crossing 0 does not stop a tensor
    S   = G·F,   F = Σ g·g/√a of all tensors    what a step takes off the loss to first order
    t  += (2·Σ P·G/γ / S − t)/100               the trend: how strongly gradients agree, each clipped to ±1 …
    o   = 2 − 4·t, clipped to [0, 1]            … and from a trend of a half on limits do not hold
    c  ← c·(1 − ½/(k+1))                        an old displacement fades as k^−½

The root mean squares (rms) are over the elements where g ≠ 0, and that of g/√a counts as at least 0.3 and at most 1.
L, s and F are measured in each of the first steps, and later in every fifteenth. γ₀ serves until a tensor's L is
first measured, which its first gradient does. Then γ starts at 0.03·L.

G is the geometric mean of γ over all elements. w uses that of the step before, so that all a step needs is known before
it, and tensors can be stepped one by one.

====================  =============================================================================================
here                  meaning
====================  =============================================================================================
``B``, ``e``, ``D``   fields "accumulator", "offset" and "displacement", one number for each element
``gamma``, ``v``      fields "gamma" and "agreement_square", for each tensor
``L``, ``s``          fields "limit", 0 while it is not known, and "size", for each tensor
``t``, ``F``          fields "trend" and "slope", shared by all tensors
``k``, ``c``, ``W``   fields "clock", "displacement_scale" and "weight_total", shared by all tensors
``G``, ``V``          fields "common_gamma" and "common_square", shared by all tensors
"measured"            the step in which limits were last measured, shared by all tensors
"limited"             the share of elements whose γ is above its limit, a mean over up to 1,000 steps, shared
"largest_lr"          the largest lr of any group so far, shared
``weight``, ``fade``  the newest square counts k, and from step ``LONG`` on ``LONG``, while B fades
====================  =============================================================================================

Numbers of tensors and shared ones are kept in double, because float32 cannot multiply by 1 − 5e-9. Where a gradient is
exactly zero, e and y go on as x̄ does and everything else stays, so a row without a gradient can catch up later by the
factor W_then/W_now. A step in which every gradient is zero changes nothing.

A NaN makes its element NaN, and the sums leave it out from then on. An infinity does the same as an element's first
gradient or without the guard; otherwise it is clipped. A finite gradient whose square overflows moves nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import Array, Block, Field, Ops, Reduction, Rule, Values

FORGET = 2.0**-20
"""Smallest r, the share of the newest square: float32 cannot add less to a sum."""
LONG = 2.0 / FORGET - 1.0
"""From this step on r is ``FORGET``: weights stay, and B fades by this share whenever its element moves. An idle
element keeps its B, so B needs no clock."""
FADE = 0.5
"""An old displacement fades as k^−½: with a constant γ it is the distance of y to a mean of all y. Faster fading keeps
γ too small on nets, and slower fading keeps it too small on noisy quadratics."""
RATE = 0.85
"""AdaGrad's rate for log γ."""
START = 0.03
"""The share of its limit at which γ starts. A pretrained model needs a start this small."""
LARGEST_VOTE = 0.1
"""The largest change of γ in one step is a tenth, or 1/√k early in a run, because short runs need it. Faster growth
overshoots: if γ grows by the factor 1 + s in each step, a step has s times the distance covered before."""
PULL = 0.5
"""The strength with which log γ of a tensor is pulled to the mean. Without it one tensor runs ahead of the others."""

LEAD = 0.3
"""Votes are about a point this far from y to the average. At y they would count noise that the average does not have,
which keeps γ too small late in training. With 0.4 and a larger share, a long run broke down (commit e7c0287)."""
SHARE = 0.06
"""A step may move a tensor by this share of its own size. Nothing votes γ down once units or a loss saturate."""
SMALL = 0.03
"""The smallest size that a tensor counts with, because its weights may have to grow first."""
FALL = 0.9
"""The least that is left of a size at its next measurement. A tensor that crosses zero would otherwise lose its γ for
long, because the displacement from before votes it down."""
SLOWEST = 0.3
"""The smallest rms of g/√a that counts, so that small gradients raise the limit at most by 1/0.3."""
BACK = 0.2
"""The share of its excess over the limit, in logarithms, that γ loses in a step."""
SELDOM = 15
"""Steps from one measurement of the limits to the next: the size of a tensor changes slowly. It is odd, so that tensors
with a gradient in every second step are measured too."""
FREE = 0.5
"""Limits let go while the trend rises to this, from half of it on. The weights of a linear model must grow many-fold,
and gradients agree while they do. Behind saturated units they do not."""
TREND = 100
"""The trend is a mean over this many steps, because deep nets agree as strongly in their first thirty."""
STAY = 1000
"""Diagnostics average over this many steps how much was above its limit."""

LEAST = 1e-307
"""Below every sum of weights but 0, in double."""


class Settings(NamedTuple):
    """The numbers of one step of one param group."""

    lr: Array = 1.0
    top_lr: Array | None = None  # the largest lr of all groups; None: there is one group
    gamma0: Array = 1e-4
    beta: Array = 0.6
    eps: Array = 0.0
    weight_decay: Array = 0.0  # decoupled; coupled decay is part of g
    gamma_max: Array | None = None
    guard: bool = True
    moved: Array | None = None  # 0 if every gradient of the step is zero; None: the host knows that one is not


class AutoRule(Rule):
    """Decide → move → learn."""

    name = "auto"
    numerator = "gamma"
    denominator = "accumulator"
    common = "common_gamma"
    clock = "weight_total"
    learns = True
    decay_remedy = "use decoupled_weight_decay=True, which decays the touched rows."

    def fields(self, s: Settings) -> tuple[Field, ...]:
        return (
            Field("accumulator", "element", least=0.0),
            Field("offset", "element", lane=1),
            Field("displacement", "element", lane=2),
            Field("gamma", "block", start="gamma0", least=0.0),
            Field("agreement_square", "block", least=0.0),
            Field("limit", "block", least=0.0),
            Field("size", "block", least=0.0),
            Field("clock", "shared", least=0.0),
            Field("displacement_scale", "shared", start=1.0, least=0.0),
            Field("weight_total", "shared", least=0.0),
            Field("common_gamma", "shared", start="gamma0", least=0.0),
            Field("common_square", "shared", least=0.0),
            Field("measured", "shared", least=0.0),
            Field("trend", "shared"),
            Field("slope", "shared"),
            Field("limited", "shared", least=0.0),
            Field("largest_lr", "shared", least=0.0),
        )

    def weight(self, k: Array, block: Block, ops: Ops) -> Array:
        """w of step k."""
        root = k * k * k * block["common_gamma"]
        return ops.maximum(root * root, ops.tiny)

    def decide(
        self, sums: Sequence[Array], block: Block, s: Settings, ops: Ops
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """Counts the step and computes the factors of the move."""
        k, gamma = block["clock"] + 1.0, block["gamma"]
        newest = self.weight(k, block, ops)
        total = block["weight_total"] + newest
        weight = ops.minimum(k, LONG)
        fade = ops.minimum(k - weight, 1.0) * FORGET
        scale = 2.0 / (weight * (weight + 1.0))
        onward = 1.0 / (ops.sqrt(gamma) * block["displacement_scale"] * _fallen(newest, k, total, ops))
        bound = ops.sqrt((weight + 1.0) / (4.0 - 2.0 * fade))
        largest = ops.maximum(block["largest_lr"], s.lr if s.top_lr is None else s.top_lr)
        rate = gamma * s.lr / ops.maximum(largest, ops.tiny)
        new = (k, total, largest, weight, fade, rate, block["weight_total"] / total)
        still = (block["clock"], block["weight_total"], block["largest_lr"], 0.0, 0.0, 0.0, 1.0)  # Not by decay either.
        k, total, largest, weight, fade, rate, left = _if_moved(new, still, s, ops)
        measures = ops.where(ops.less(0.0, block["limit"]), self.is_due(k, block, ops), 1.0)
        factors = (weight, fade, scale, bound, rate, left, onward, measures)
        return {**block, "clock": k, "weight_total": total, "largest_lr": largest}, factors

    def is_due(self, k: Array, block: Block, ops: Ops) -> Array:
        """1 where step k measures all limits, else 0."""
        return ops.where(ops.less(ops.minimum(k / 8.0, SELDOM), k - block["measured"] + 0.5), 1.0, 0.0)

    def move(
        self, values: Values, factors: Sequence[Array], s: Settings, sums: Reduction, ops: Ops, touched: Array = None
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """The step of y, and the agreement of the gradient with the displacement before it."""
        y, g, B, e, D = (values[key] for key in ("x", "g", "accumulator", "offset", "displacement"))
        weight, fade, scale, bound, rate, left, onward = (ops.narrow(number) for number in factors[:-1])
        moves = ops.indicator(g)
        square, first = g * g * weight, ops.less(B, ops.tiny)
        if s.guard:  # An element's first gradient is not limited.
            square = ops.where(first, square, ops.minimum(square, B))
        total = B + (square - B * fade) * moves
        new_B = ops.minimum(total, 1.0 / ops.tiny)  # A power of two, which bfloat16 holds. 2B is finite.
        # Where the square of a finite gradient overflows the root is infinite and z stays, as with torch's Adagrad.
        root = ops.sqrt(ops.maximum(total * scale, ops.tiny))
        if s.guard:
            # Where k·g² exceeds B the new sum is 2B, and √(B/k) is its root times √(k+1)/2. Elsewhere that exceeds |g|.
            limit = root * bound
            g = ops.where(first, g, ops.maximum(ops.minimum(g, limit), -limit))
        divisor = root if is_off(s.eps) else root + s.eps
        direction, felt = g / divisor, g
        if not is_off(s.weight_decay):
            pull = y * moves * s.weight_decay
            direction, felt = direction + pull, g + pull * ops.minimum(divisor, ops.largest)
        delta = direction * rate
        new_e = (e - delta * s.beta) * left
        step = delta - e + new_e
        lead = LEAD * (1.0 - s.beta) / s.beta
        new_D = D + (step * (onward * (lead + 1.0)) - delta * (onward * lead)) * moves
        new_y = y - step
        new = {"x": new_y, "accumulator": new_B, "offset": new_e, "displacement": new_D}
        count = moves + new_y * 0.0  # Sums leave out what is not finite, so this one counts what the others contain.
        measured = (felt * D, new_y * new_y * moves, direction * direction, felt * direction, count)
        return new, tuple(map(sums.total, measured))

    def report(
        self, statistics: Sequence[Array], block: Block, size: Array, s: Settings, ops: Ops
    ) -> tuple[Array, ...]:
        """A tensor's part of the common agreement, of the means of log γ and of what is limited, and of S."""
        gamma, limit = block["gamma"], block["limit"]
        above = ops.where(ops.less(0.0, limit), ops.where(ops.less(limit, gamma), size, 0.0), 0.0)
        return statistics[0] / ops.sqrt(gamma), ops.log(gamma) * size, size, above, statistics[3]

    def learn(
        self, statistics: Sequence[Array], totals: Sequence[Array], block: Block, s: Settings, ops: Ops
    ) -> dict[str, Array]:
        """One AdaGrad step of log γ by the mean of both votes, the pull to the mean of log γ, and the limit."""
        k, c, gamma = block["clock"], block["displacement_scale"], block["gamma"]
        size = ops.maximum(totals[2], 1.0)
        mean, above = totals[1] / size, totals[3] / size
        common_gamma = ops.exp(mean)
        unit = c * _fallen(self.weight(k, block, ops), k, block["weight_total"], ops)
        own_vote, own_square = _vote(ops.sqrt(gamma) * unit * statistics[0], block["agreement_square"], k, ops)
        common_vote, common_square = _vote(common_gamma * unit * totals[0], block["common_square"], k, ops)
        pulled = ops.exp((mean - ops.log(gamma)) * (PULL / (k + 1.0)))
        new_gamma = gamma * ((own_vote + common_vote) * 0.5 + 1.0) * pulled
        due = self.is_due(k, block, ops)
        limit, extent = self.limit(statistics, block, due, ops)
        known = ops.where(ops.less(0.0, limit), limit, ops.largest)
        excess = ops.maximum(ops.log(new_gamma / known), 0.0)
        slope = ops.where(ops.less(0.0, due), totals[4], block["slope"])
        agrees = ops.maximum(ops.minimum(unit * totals[0] / ops.maximum(slope * FREE, ops.tiny), 1.0), -1.0)
        trend = block["trend"] + (agrees - block["trend"]) / TREND
        held = ops.maximum(ops.minimum(2.0 - trend * (2.0 / FREE), 1.0), 0.0)
        new_gamma = ops.maximum(new_gamma * ops.exp(excess * held * -BACK), ops.tiny)
        begins = ops.where(ops.less(0.0, block["limit"]), 0.0, limit)
        new_gamma = ops.where(ops.less(0.0, begins), begins * START, new_gamma)
        if s.gamma_max is not None:
            new_gamma = ops.minimum(new_gamma, s.gamma_max)
        learned = {
            "gamma": new_gamma,
            "agreement_square": own_square,
            "limit": limit,
            "size": extent,
            "measured": ops.where(ops.less(0.0, due), k, block["measured"]),
            "trend": trend,
            "slope": slope,
            "limited": block["limited"] + (above - block["limited"]) / ops.minimum(k, STAY),
            "displacement_scale": c - c * FADE / (k + 1.0),
            "common_gamma": common_gamma,
            "common_square": common_square,
        }
        values = _if_moved([*learned.values()], [block[key] for key in learned], s, ops)
        return {**block, **dict(zip(learned, values, strict=True))}

    def limit(self, statistics: Sequence[Array], block: Block, due: Array, ops: Ops) -> tuple[Array, Array]:
        """The largest γ that a tensor's size allows, and the size. They stay where all gradients are 0."""
        moved = ops.maximum(statistics[4], 1.0)
        size = ops.maximum(ops.sqrt(statistics[1] / moved), block["size"] * FALL)
        pace = ops.sqrt(statistics[2] / moved)
        new = ops.maximum(size, SMALL) * SHARE / ops.maximum(ops.minimum(pace, 1.0), SLOWEST)
        due = ops.where(ops.less(0.0, block["limit"]), due, 1.0)
        renewed = ops.less(0.5, due * statistics[4])
        return ops.where(renewed, new, block["limit"]), ops.where(renewed, size, block["size"])

    def rates(self, values: Values, block: Block, s: Settings, ops: Ops) -> tuple[Array, Array, Array]:
        largest = ops.maximum(block["largest_lr"], s.lr if s.top_lr is None else s.top_lr)
        gamma = block["gamma"] * s.lr / ops.maximum(largest, ops.tiny)
        weight = ops.maximum(ops.minimum(block["clock"], LONG), 1.0)
        root = ops.sqrt(values["accumulator"] * ops.narrow(2.0 / (weight * (weight + 1.0)))) + s.eps
        return gamma, block["gamma"] / s.gamma0, ops.narrow(gamma) / root

    def limited(self, shared: Mapping[str, float]) -> tuple[float, str]:
        share = shared["limited"]
        if shared["clock"] < STAY or share < 0.5:
            return share, ""
        return share, (
            f"γ was above its limit for {share:.0%} of the elements over the last {STAY:,} steps: each step moves "
            f"these tensors by {SHARE:.0%} of their size or more, and they still move the same way. If training is "
            "slow, bring the inputs to unit spread, so that smaller weights are enough."
        )

    def effective_lr(self, gamma: float, steps: int) -> float:
        return gamma  # The root is of a mean, as Adam's is.

    def average(self, values: Values, s: Settings) -> Array:
        """x̄."""
        return values["x"] - values["offset"] * ((1.0 - s.beta) / s.beta)

    def needs_catch_up(self, s: Settings) -> bool:
        return True

    def idle(self, values: Values, block: Block, since: Array, now: Array, s: Settings, ops: Ops) -> dict[str, Array]:
        """The factors (1 − w/W) of all steps in between multiply to W_then/W_now."""
        y, e = values["x"], values["offset"]
        # A step inside the backward pass that turned out to have no gradients may have touched the row.
        left = ops.narrow(ops.minimum(since, now) / ops.maximum(now, LEAST))
        return {"x": y + e * (1.0 - left), "offset": e * left}


def _fallen(newest: Array, k: Array, total: Array, ops: Ops) -> Array:
    """h: G over its root mean square so far, with weights k⁶ that sum to k⁷/7. 1 if G has not fallen.

    It scales down the displacement that a larger γ has caused. Otherwise a corrected overshoot would keep voting
    against growth and hold γ down.
    """
    return ops.minimum(ops.sqrt(newest * k / (total * 7.0)), 1.0)


def _if_moved(new: Sequence[Array], old: Sequence[Array], s: Settings, ops: Ops) -> Sequence[Array]:
    if s.moved is None:
        return new
    moved = ops.less(0.0, s.moved)
    return [ops.where(moved, a, b) for a, b in zip(new, old, strict=True)]


def _vote(agreement: Array, square: Array, k: Array, ops: Ops) -> tuple[Array, Array]:
    """AdaGrad's step of log γ, clipped, and the mean square of the agreement."""
    length = ops.minimum(k, LONG) * 0.5 + 0.5  # 1/r, the length of the mean in steps
    new_square = ops.minimum(square + (agreement * agreement - square) / length, ops.largest)
    vote = agreement / ops.sqrt(ops.maximum(new_square * k, ops.tiny)) * RATE
    largest = ops.maximum(1.0 / ops.sqrt(k), LARGEST_VOTE)
    return ops.maximum(ops.minimum(vote, largest), -largest), new_square


RULE = AutoRule()
