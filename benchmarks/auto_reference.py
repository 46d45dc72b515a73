"""AutoGradaGrad's rule for many runs at once, each a row of a matrix, with the choices that were open left open.

The product holds one setting and is the place to read the rule; this holds every setting that
`benchmarks.auto_choices` compares, so that the comparison stays reproducible after the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Guard = Literal["off", "norm", "tensor", "element"]
# float32 cannot add smaller shares than this: from step 2^21 on, the mean of squares forgets instead of stopping.
LEAST_SHARE = 2.0**-20


@dataclass(frozen=True)
class Setting:
    """One way to fill in the rule. ``guard``: over what the size of a gradient is limited."""

    gamma0: float = 1e-4
    w: float = 0.5
    guard: Guard = "off"
    momentum: float = 0.7
    rate: float = 0.5
    exponent: float = 0.5
    decay: float = 0.0
    rest: bool = True
    """An element whose gradient is exactly zero keeps x, h and Y."""
    schedule_in_way: bool = False
    decay_in_way: bool = True


class AutoRows:
    """The rule on ``x`` (runs, elements); row r follows ``settings[r]``. ``tensor_of``: which tensor owns a column."""

    def __init__(self, x: Tensor, settings: Sequence[Setting], tensor_of: Tensor | None = None) -> None:
        self.x, self.settings = x, list(settings)
        self.a, self.h, self.Y = (torch.zeros_like(x) for _ in range(3))
        self.k = 0
        self.gamma = self._column("gamma0")
        self.v, self.c = torch.zeros_like(self.gamma), torch.ones_like(self.gamma)
        self._w, self._momentum, self._rate = (self._column(name) for name in ("w", "momentum", "rate"))
        self._exponent, self._decay = self._column("exponent"), self._column("decay")
        self._rests = torch.tensor([[setting.rest] for setting in settings])
        self._scheduled = torch.tensor([[setting.schedule_in_way] for setting in settings])
        self._felt = torch.tensor([[setting.decay_in_way] for setting in settings])
        self._guards = {kind: self._rows(kind) for kind in ("norm", "tensor", "element")}
        self._tensor_of = torch.zeros(x.shape[1], dtype=torch.int64) if tensor_of is None else tensor_of
        self._decays = any(setting.decay for setting in settings)
        self._all_rest = all(setting.rest for setting in settings)

    def _column(self, name: str) -> Tensor:
        return torch.tensor([[float(getattr(setting, name))] for setting in self.settings], dtype=torch.float64)

    def _rows(self, kind: str) -> Tensor:
        return torch.tensor(
            [row for row, setting in enumerate(self.settings) if setting.guard == kind], dtype=torch.int64
        )

    def guarded(self, g: Tensor) -> Tensor:
        """No gradient weighs more than all before it together: k|g|² ≤ ΣB, and B = a·k(k−1)/2 before the step."""
        if self.k < 2:
            return g
        for kind, rows in self._guards.items():
            if not len(rows):
                continue
            own, mass = g[rows], self.a[rows] * (0.5 * (self.k - 1))
            factor = (self._over(kind, mass) / self._over(kind, own.square()).clamp_min(1e-300)).sqrt().clamp_max(1.0)
            # Where nothing came before, there is nothing to compare with.
            factor = torch.where(self._over(kind, mass) > 0, factor, 1.0).to(g.dtype)
            g = g.index_copy(0, rows, own * (factor if kind != "tensor" else factor[:, self._tensor_of]))
        return g

    def _over(self, kind: str, a: Tensor) -> Tensor:
        if kind == "norm":
            return a.sum(1, keepdim=True, dtype=torch.float64)
        if kind == "tensor":
            found = torch.zeros(len(a), int(self._tensor_of.max()) + 1, dtype=torch.float64)
            return found.index_add_(1, self._tensor_of, a.double())
        return a.double()

    @torch.no_grad()
    def step(self, g: Tensor, schedule: float = 1.0) -> None:
        """One step for every run; ``schedule`` multiplies the move, as a scheduler's factor of lr would."""
        self.k += 1
        k, dtype = self.k, self.x.dtype
        share = max(2.0 / (k + 1), LEAST_SHARE)
        g = self.guarded(g)
        live = torch.ones_like(g) if not self._rests.any() else ((g != 0) | ~self._rests).to(dtype)
        self.a.lerp_(g.square(), share)
        root = self.a.sqrt()
        felt = g
        if self._decays:
            felt = g + torch.where(self._felt, self._decay, 0.0).to(dtype) * root * self.x
        P = self.gamma**self._exponent * self.c * (felt * self.Y).sum(1, keepdim=True, dtype=torch.float64)
        self.h += (1 - self._momentum).to(dtype) * (g - self.h) * live
        d = self.h * live / (root * k**0.5).clamp_min_(1e-30)
        way = d
        if self._decays:
            pull = (self._decay / k**0.5).to(dtype) * self.x
            way = torch.where(self._felt, d + pull, d)
            d = d + pull
        self.x -= (schedule * self.gamma).to(dtype) * d
        counted = torch.where(self._scheduled, schedule, 1.0) * self.gamma ** (1 - self._exponent) / self.c
        self.Y += counted.to(dtype) * way
        self.c *= 1 - self._w / (k + 1)
        usable = P.square().isfinite()
        P = torch.where(usable, P, 0.0)
        self.v += torch.where(usable, (P.square() - self.v) * share, 0.0)
        step = self._rate * P / (k * self.v).sqrt().clamp_min(1e-300)
        self.gamma *= 1 + step
