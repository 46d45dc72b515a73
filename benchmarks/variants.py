"""AutoGradaGrad with something changed around its rule, for `benchmarks.hardening`; no line of the rule is restated.

`Growth` takes the product's step for many runs at once, each a row of a matrix. A variant has other options of the
optimizer, other constants of `gradagrad.auto.rule`, or other gradients, sums or γ through a subclass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import Parameter

from gradagrad import AutoGradaGrad
from gradagrad.auto import rule
from gradagrad.steps.ops import tensor_ops

Total = Callable[[Tensor], Tensor]


class Problem(Protocol):
    """Runs as rows of a matrix; several copies of all runs may be asked about at once, one below the other."""

    start: Tensor
    tensor_of: Tensor
    """To which tensor of the model each column belongs."""

    def gradient(self, x: Tensor, step: int) -> Tensor: ...


@dataclass(frozen=True)
class Variant:
    """What differs from the product: options, constants of its rule, or a driver of its own with its number."""

    options: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    driver: Callable[..., Growth] | None = None
    number: float = 0.0

    def on(self, problem: Problem) -> Growth:
        return (self.driver or Growth)(self, problem)

    def changed(self) -> AbstractContextManager[Any]:
        """Inside, the rule has this variant's constants."""
        return patch.multiple(rule, **self.constants) if self.constants else nullcontext()


class Growth:
    """AutoGradaGrad for each row of a matrix by itself. Subclasses change what goes into the rule or comes out."""

    def __init__(self, variant: Variant, problem: Problem) -> None:
        with variant.changed():
            optimizer = AutoGradaGrad([Parameter(torch.zeros(1))], **variant.options)
            self.settings, self.group = optimizer._settings(), optimizer.param_groups[0]
        self.variant, self.number, self._tensor_of = variant, variant.number, problem.tensor_of
        self.x = self.mean = problem.start
        self.h = self.B = torch.zeros_like(self.x)
        self.shared = self.begun(len(self.x))
        self.ops, self.wide = tensor_ops(self.x.dtype), tensor_ops(torch.float64)

    def begun(self, *shape: int) -> rule.Shared:
        numbers = rule.start(self.group["gamma0"], self.group["certainty"])
        return rule.Shared(*(torch.full(shape, number, dtype=torch.float64) for number in numbers))

    @property
    def gamma(self) -> Tensor:
        return self.shared.gamma

    def step(self, g: Tensor) -> None:
        with self.variant.changed():
            g = self.incoming(g)
            self.shared = self.judge(self.measure(g, self.h, self.over_all))
            pace = self.pace()
            self.x, self.h, self.B = rule.move(self.x, g, self.h, self.B, pace, self.ops)
            self.mean = rule.average(self.x, self.mean, pace.share)

    def incoming(self, g: Tensor) -> Tensor:
        return g

    def measure(self, g: Tensor, h: Tensor, total: Total) -> rule.Sums:
        weight = self.column(rule.weight(self.shared.step + 1.0, self.settings))
        return rule.measure(g, h, self.B, weight, total, self.ops)

    def judge(self, sums: rule.Sums) -> rule.Shared:
        return rule.judge(sums, self.shared, self.settings, self.wide)

    def pace(self) -> rule.Pace:
        group = self.group
        pace = rule.pace(self.shared, 1.0, 0.0, group["eps"], group["momentum"], self.settings, self.wide)
        return rule.Pace(*map(self.column, pace))

    def column(self, number: Any) -> Any:
        """A number of each run, in the precision of the points."""
        return number.unsqueeze(1).to(self.x.dtype) if isinstance(number, Tensor) else number

    @staticmethod
    def over_all(a: Tensor) -> Tensor:
        return a.sum(1, dtype=torch.float64)

    def over_tensors(self, a: Tensor) -> Tensor:
        found = torch.zeros(len(a), int(self._tensor_of[-1]) + 1, dtype=torch.float64)
        return found.index_add_(1, self._tensor_of, a.double())


class Clipped(Growth):
    """Gradients of at most this norm."""

    def incoming(self, g: Tensor) -> Tensor:
        return g * (self.number / g.norm(dim=1, keepdim=True).clamp(min=1e-30)).clamp(max=1.0)


class Blocks(Growth):
    """Noise is that of whole tensors: Q and N are sums of the squares of their sums."""

    def measure(self, g: Tensor, h: Tensor, total: Total) -> rule.Sums:
        each = super().measure(g, h, self.over_tensors)
        S, P, roots = (a.sum(1) for a in (each.S, each.P, each.roots))
        return rule.Sums(S, P, each.S.square().sum(1), each.P.square().sum(1), roots)


class Tilted(Growth):
    """Tests with w = α^−number instead of α^−½; the size of a growth step keeps S."""

    def measure(self, g: Tensor, h: Tensor, total: Total) -> rule.Sums:
        alpha = self.B * self.column(rule.scale(self.shared.step, self.settings))
        tilt = torch.where(alpha > 0.0, alpha, 1.0) ** (0.25 - 0.5 * self.number)
        tilted = super().measure(g * tilt, h * tilt, total)
        return super().measure(g, h, total)._replace(P=tilted.P, Q=tilted.Q, N=tilted.N)


class Halving(Growth):
    """Halves γ where the squared gradient is so many times its running mean."""

    def __init__(self, variant: Variant, problem: Problem) -> None:
        super().__init__(variant, problem)
        self.usual = torch.zeros_like(self.gamma)

    def judge(self, sums: rule.Sums) -> rule.Shared:
        size = sums.S * self.shared.step.square() / self.shared.roots.clamp(min=1e-300)  # steady gradients: constant
        spike = (size > self.number * self.usual) & (self.usual > 0.0)
        self.usual = 0.9 * self.usual + 0.1 * size
        after = super().judge(sums)
        return after._replace(gamma=torch.where(spike, 0.5 * self.gamma, after.gamma))


class OwnGamma(Growth):
    """A γ for each tensor, by the same rule; one that sees fewer coordinates than this grows as the shared γ does."""

    def __init__(self, variant: Variant, problem: Problem) -> None:
        super().__init__(variant, problem)
        self.own = self.begun(len(self.x), int(problem.tensor_of[-1]) + 1)

    @property
    def gamma(self) -> Tensor:
        return self.own.gamma.amax(1)

    def measure(self, g: Tensor, h: Tensor, total: Total) -> rule.Sums:
        self._each = super().measure(g, h, self.over_tensors)
        return rule.Sums(*(a.sum(1) for a in self._each))

    def judge(self, sums: rule.Sums) -> rule.Shared:
        after = super().judge(sums)
        own = rule.judge(self._each, self.own, self.settings, self.wide)
        borrowed = self.own.gamma * (after.gamma / self.shared.gamma).unsqueeze(1)
        self.own = own._replace(gamma=torch.where(self.borrows(own, after), borrowed, own.gamma))
        return after

    def borrows(self, own: rule.Shared, after: rule.Shared) -> Tensor:
        return own.coordinates < self.number

    def pace(self) -> rule.Pace:
        return super().pace()._replace(rate=self.own.gamma[:, self._tensor_of].to(self.x.dtype))


class OwnGammaLater(OwnGamma):
    """The same, but all borrow until the shared start-up is over."""

    def borrows(self, own: rule.Shared, after: rule.Shared) -> Tensor:
        return super().borrows(own, after) | (after.starting > 0.5).unsqueeze(1)


PROTOTYPE = {"certainty": 0.0, "momentum": 0.0}
VARIANTS: dict[str, Variant] = {
    "default": Variant(),
    "prototype (no certificate, β = 0)": Variant(PROTOTYPE),
    "prototype, τ = 4": Variant(PROTOTYPE | {"overshoot": 4.0}),
    "no certificate": Variant({"certainty": 0.0}),
    **{f"β = {beta:g}": Variant({"momentum": beta}) for beta in (0.0, 0.5, 0.8, 0.9)},
    "τ = 4": Variant({"overshoot": 4.0}),
    "c = 4": Variant({"strictness": 4.0}),
    "c = 6": Variant({"strictness": 6.0}),
    "ζ = 3": Variant({"certainty": 3.0}),
    **{f"γ₀ = {gamma0:g}": Variant({"gamma0": gamma0}) for gamma0 in (1e-12, 1e-8, 1e-4, 1e-3, 1e-2, 1e-1)},
    "uniform weighting": Variant({"weighting": "uniform"}),
    "r_max = 0.21": Variant({"growth_limit": 1.1}),
    "r_max = 3": Variant({"growth_limit": 2.0}),
    "trusts 64 steps": Variant(constants={"GRACE": 64.0}),
    "clear from 1.4": Variant(constants={"CLEAR": 1.4}),
    "clear from 2": Variant(constants={"CLEAR": 2.0}),
    "sure from 0 (nothing asked beyond γ = 1)": Variant(constants={"SURE": 0.0}),
    "sure from 2": Variant(constants={"SURE": 2.0}),
    "window of 64": Variant(constants={"WINDOW": 64.0}),
    "disagreement counts from 0.001": Variant(constants={"FREE_GAMMA": 1e-3}),  # trust still ends at 1000 γ₀ = 0.01
    "disagreement counts from and free below 0.001": Variant(constants={"FREE_GAMMA": 1e-3, "FREE_GROWTH": 100.0}),
    "γ₀ = 0.0001, free below 100 γ₀": Variant({"gamma0": 1e-4}, {"FREE_GROWTH": 100.0}),
    "γ₀ = 0.001, free below 100 γ₀": Variant({"gamma0": 1e-3}, {"FREE_GROWTH": 100.0}),
    "γ₀ = 1e-08, never blind": Variant({"gamma0": 1e-8}, {"BLIND_GAMMA": 0.0}),
    "Q and N over tensors": Variant(driver=Blocks),
    "tests with w = α^−0.6": Variant(driver=Tilted, number=0.6),
    "tests with w = α^−0.75": Variant(driver=Tilted, number=0.75),
    "gradients clipped at 0.1": Variant(driver=Clipped, number=0.1),
    "gradients clipped at 0.001": Variant(driver=Clipped, number=1e-3),
    "γ halved at spikes of 10 ×": Variant(driver=Halving, number=10.0),
    "γ per tensor from 64 coordinates": Variant(driver=OwnGamma, number=64.0),
    "γ per tensor after start-up": Variant(driver=OwnGammaLater, number=64.0),
    "certificate for 200 steps": Variant(constants={"EXPIRY": 200.0}),
    "certificate for good": Variant(constants={"EXPIRY": math.inf}),
}
