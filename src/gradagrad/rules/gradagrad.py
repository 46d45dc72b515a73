"""The rule of GradaGrad (Defazio, Zhou, Xiao, arXiv 2206.06900, Algorithm 2), with three state tensors and few roots.

====================  =============================================================================================
here                  meaning
====================  =============================================================================================
``x``, ``g``          parameter and its gradient
``m``                 previous momentum gradient m_{k-1}; the previous gradient itself when β = 0
``growth``            γ_k / γ₀: what the method has multiplied the learning rate's numerator by; starts at 1
``alpha``             α_k: the sum under the root (field "accumulator")
``gg``, ``gm``        Σ g² and Σ g·m over a *block*, the elements that share a step size
``travelled``         x − x₀, kept only where it caps γ; ``far`` is its square, summed over the block
``rho``, ``beta``     adaptivity ρ and momentum β
``A``                 (√α + ε) / growth: the metric of the step, before the learning rate
``rate``, ``carry``   the factors: 1/A' and β·A'/A
====================  =============================================================================================

Three things differ from the paper's listing, none of them in exact arithmetic. z is not stored, because
z_k = x_k − β/(1−β) · m_{k-1}/A_k. m is carried by a recursion instead of by subtracting iterates, which in float32
returns zero for a small γ₀ and would end all adaptation. And one root serves two cases: where v < 0 only γ changes and
A'/A = γ/γ' needs the root of 1 − v/α; where v ≥ 0 only α changes and A'/A = √α'/√α needs √α.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gradagrad.rules.rule import Array, Block, Field, Ops, Reduction, Rule, Values, settings_of
from gradagrad.rules.scope import SINGLE


class Settings(NamedTuple):
    """The numbers of one step of one param group."""

    lr: Array = 1.0  # γ₀, times whatever a schedule made of it
    rho: Array = 2.0
    beta: Array = 0.0
    eps: Array = 1e-10
    weight_decay: Array = 0.0  # decoupled; coupled decay is part of g
    gamma_max: Array | None = None  # D∞
    travelled: bool = False  # γ stays below γ₀ + ρ/2·|x − x₀|
    growth_limit: Array | None = None  # √(1 + r), Algorithm 1's fixed clip
    grad_bound: Array | None = None  # G∞
    initial_accumulator_value: Array = 0.0  # what α starts from
    lazy: bool = False
    project: Callable[[Array, Array], Array] | None = None


GROWTH_LIMIT = "growth_limit"
"""The option whose default is a number where many elements share a step size, so that it must be cheap there."""


def limit_of_growth(given: Array | None, scope: str) -> Array | None:
    """√(1 + r): the user's value. The default is 2 (r = 3) where a whole tensor or more shares a step size.

    Without it a tiny lr, as in a warm-up, lets a shared γ take off while all gradients agree.
    """
    return 2.0 if given is None and scope in SINGLE else given


def settings_from(given: Mapping[str, Any], scope: str, **others: Any) -> Settings:
    """The settings from the user's arguments; ``others`` come on top."""
    limit, word = limit_of_growth(given["growth_limit"], scope), isinstance(given["gamma_max"], str)
    others |= {"beta": given["momentum"], "growth_limit": limit, "travelled": word}
    return settings_of(Settings, {**given, "gamma_max": math.inf} if word else given, **others)


class GradaGradRule(Rule):
    """Measure → decide → move."""

    name = "gradagrad"
    numerator = "growth"
    denominator = "accumulator"
    measures = True
    decay_remedy = "use decoupled_weight_decay=True with lazy=True, which decays the touched rows."

    def fields(self, s: Settings) -> tuple[Field, ...]:
        travelled = (Field("travelled", "element", lane=2),) if s.travelled else ()
        return (
            Field("momentum", "element"),
            *travelled,
            Field("growth", "block", start=1.0, least=1.0, lane=1),
            # Both use one lane, because never both change in the same step.
            Field("accumulator", "block", start="initial_accumulator_value", least="initial_accumulator_value", lane=1),
        )

    def measure(self, values: Values, s: Settings, sums: Reduction, ops: Ops) -> tuple[Array, ...]:
        """Σ g² and Σ g·m, and Σ (x − x₀)² where it caps γ."""
        g, m = values["g"], values["momentum"]
        far = (sums.dot(values["travelled"], values["travelled"]),) if s.travelled else ()
        return sums.dot(g, g), sums.dot(g, m), *far

    def decide(
        self, sums: Sequence[Array], block: Block, s: Settings, ops: Ops
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """γ rises where v < 0, α where v > 0; ``surplus`` is −v."""
        (gg, gm, *far), growth, alpha = sums, block["growth"], block["accumulator"]
        if is_off(s.rho):
            surplus = -gg
        else:
            # Finite gradients can have infinite products: 0·inf and inf − inf must not arise.
            agreement = gm * s.rho
            if not isinstance(s.rho, int | float):
                agreement = ops.where(ops.less(0.0, s.rho), agreement, 0.0)
            surplus = ops.minimum(agreement, ops.largest) - gg
        cap: Array = ops.largest
        if s.gamma_max is not None:
            cap = s.gamma_max / ops.maximum(s.lr, ops.tiny)
            surplus = ops.where(ops.less(growth, cap), surplus, -gg)  # at the cap: plain AdaGrad
        if far:
            reach = ops.sqrt(ops.maximum(far[0], ops.tiny)) * (s.rho * 0.5) / ops.maximum(s.lr, ops.tiny)
            cap = ops.minimum(reach + 1.0, cap)  # α stays where it binds
        if s.grad_bound is not None:
            # α still at its start marks a block's first step; a lazy block's first step is its first non-zero gradient.
            square = s.grad_bound * s.grad_bound
            first = ops.less(alpha, s.initial_accumulator_value + square * 0.5)
            bounded = ops.where(ops.less(0.0, gg), -square, surplus) if s.lazy else -square
            surplus = ops.where(first, bounded, surplus)
        # Both divisors can be 0: no gradient yet, or a square that underflowed. With a floor 0/0 is 0 and x/0 is large,
        # and the minimum takes the other one.
        floored = ops.maximum(alpha, ops.tiny)
        positive = ops.maximum(surplus, 0.0) if is_off(s.beta) else surplus  # The other case selects by sign.
        clip = positive / ops.maximum(gg, ops.tiny) + 1.0  # restricted increase: √(1+r) = ρ·gm/gg
        if s.growth_limit is not None:
            clip = ops.minimum(clip, s.growth_limit)
        grows = root = None
        if is_off(s.beta):
            increase = ops.minimum(clip, ops.sqrt(positive / floored + 1.0))
        else:
            grows = ops.less(0.0, surplus)
            root = ops.sqrt(ops.where(grows, surplus / floored + 1.0, floored))
            increase = ops.where(grows, ops.minimum(clip, root), 1.0)
        new_growth = ops.minimum(growth * increase, cap)
        if far or s.gamma_max is not None:
            new_growth = ops.maximum(new_growth, growth)  # a schedule or a way back lowers the cap; growth never falls
        unlimited = alpha - ops.minimum(surplus, 0.0)
        new_alpha = ops.minimum(unlimited, ops.largest)
        after = {"growth": new_growth, "accumulator": new_alpha}
        # A gradient whose square overflows must not move x by g/√largest. As in torch's Adagrad, x stays.
        if root is None:
            return after, (new_growth / (ops.sqrt(ops.maximum(unlimited, ops.tiny)) + s.eps),)
        new_root = ops.sqrt(ops.maximum(new_alpha, ops.tiny)) + s.eps
        # m outlasts the gradient, so x stays for as long as α is at its limit. A NaN in α is not less and passes.
        rate = ops.where(ops.less(ops.largest * 0.5, new_alpha), 0.0, new_growth / new_root)
        change = ops.where(grows, growth, new_root) / ops.where(grows, new_growth, root + s.eps)  # A'/A
        return after, (rate, change * s.beta)

    def move(
        self, values: Values, factors: Sequence[Array], s: Settings, sums: Reduction, ops: Ops, touched: Array = None
    ) -> tuple[dict[str, Array], tuple[()]]:
        """x' = x − lr·m'/A' with m' = β·(A'/A)·m + (1−β)·g, or the projection of it."""
        x, g, m = values["x"], values["g"], values["momentum"]
        rate, *carried = (ops.narrow(number) for number in factors)
        start = x if is_off(s.weight_decay) else x * (1.0 - s.lr * s.weight_decay)
        share = 1.0 - s.beta
        new_m = m * carried[0] + g * share if carried else g
        if s.project is None:
            new_x = start - new_m * rate * s.lr
        else:
            z = start - new_m * (rate * s.lr / share)
            # The metric stays finite where lr or the rate is 0, and p is x.
            floor = ops.sqrt(ops.tiny)
            metric = 1.0 / (ops.maximum(rate, floor) * ops.maximum(s.lr, floor))
            p = s.project(z, metric)
            # Adding (z − p)·A to m would cancel where the step leads far beyond the set.
            moved = (start - p) * (metric * share)
            new_m = ops.where(ops.less(p, z), moved, ops.where(ops.less(z, p), moved, new_m))
            new_x = start + (p - start) * share if carried else p
        if touched is not None:
            new_x, new_m = ops.where(touched, new_x, x), ops.where(touched, new_m, m)
        travelled = {"travelled": values["travelled"] + (new_x - x)} if s.travelled else {}
        return {"x": new_x, "momentum": new_m, **travelled}, ()

    def rates(self, values: Values, block: Block, s: Settings, ops: Ops) -> tuple[Array, Array, Array]:
        growth, alpha = block["growth"], block["accumulator"]
        gamma = growth * s.lr
        return gamma, growth, gamma / (ops.sqrt(alpha) + s.eps)

    def effective_lr(self, gamma: float, steps: int) -> float:
        return gamma / math.sqrt(max(steps, 1))  # The root of a sum is √k times Adam's root of a mean.

    def unfit_for_rows(self, s: Settings) -> str | None:
        if s.lazy:
            return None
        if not is_off(s.beta):
            return (
                f"momentum must be 0 with sparse gradients and lazy=False, got {s.beta}, since every row would go on "
                "moving; pass lazy=True, which leaves untouched rows alone."
            )
        if not is_off(s.weight_decay):
            return (
                f"weight_decay must be 0 with sparse gradients and lazy=False, got {s.weight_decay}, since it would "
                "touch every row; pass lazy=True, which decays the touched rows."
            )
        return None

    def needs_catch_up(self, s: Settings) -> bool:
        return not s.lazy

    def idle(self, values: Values, block: Block, since: Array, now: Array, s: Settings, ops: Ops) -> dict[str, Array]:
        """With β = 0 a zero gradient clears m, and G∞ counts at the first step whatever its gradient."""
        idle = ops.less(since, now)
        result = {"momentum": ops.where(idle, 0.0, values["momentum"])}
        if s.grad_bound is not None:
            square = s.grad_bound * s.grad_bound
            alpha = block["accumulator"]
            first = ops.less(alpha, s.initial_accumulator_value + square * 0.5)
            result["accumulator"] = ops.where(idle, ops.where(first, alpha + square, alpha), alpha)
        return result


def is_off(number: Array) -> bool:
    """Whether an option is a plain zero. A traced or symbolic number never counts as one."""
    return isinstance(number, int | float) and number == 0


RULE = GradaGradRule()
