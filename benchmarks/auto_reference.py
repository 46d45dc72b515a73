"""AutoGradaGrad's rule for many runs at once: each run is a row of a matrix and has its own setting.

`gradagrad.rules.auto` is the place to read the rule. This copy exists because it trains many runs in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOMENTUM, RATE = 0.7, 0.5
# float32 cannot add smaller shares than this: from step 2^21 on, the mean of squares forgets instead of stopping.
LEAST_SHARE = 2.0**-20


@dataclass(frozen=True)
class Setting:
    """What the held-out comparison varies: γ₀, the fading of the displacement, and the guard."""

    gamma0: float = 1e-4
    w: float = 0.5
    guard: bool = False


class AutoRows:
    """The rule on ``x`` (runs, elements); row r follows ``settings[r]``."""

    def __init__(self, x: Tensor, settings: Sequence[Setting]) -> None:
        self.x = x
        self.a, self.h, self.Y = (torch.zeros_like(x) for _ in range(3))
        self.k = 0
        self.gamma = torch.tensor([[setting.gamma0] for setting in settings], dtype=torch.float64)
        self.v, self.c = torch.zeros_like(self.gamma), torch.ones_like(self.gamma)
        self._w = torch.tensor([[setting.w] for setting in settings], dtype=torch.float64)
        self._guard = torch.tensor([[setting.guard] for setting in settings])

    def guarded(self, g: Tensor) -> Tensor:
        """No gradient weighs more than all before it together: k|g|² ≤ ΣB, and B = a·k(k−1)/2 before the step."""
        if self.k < 2 or not self._guard.any():
            return g
        mass = (self.a * (0.5 * (self.k - 1))).sum(1, keepdim=True, dtype=torch.float64)
        size = g.square().sum(1, keepdim=True, dtype=torch.float64)
        factor = (mass / size.clamp_min(1e-300)).sqrt().clamp_max(1.0)
        return g * torch.where(self._guard & (mass > 0), factor, 1.0).to(g.dtype)

    @torch.no_grad()
    def step(self, g: Tensor) -> None:
        """Takes one step of every run. An element whose gradient is exactly zero keeps x, h and Y."""
        self.k += 1
        k, dtype = self.k, self.x.dtype
        share = max(2.0 / (k + 1), LEAST_SHARE)
        g = self.guarded(g)
        live = (g != 0).to(dtype)
        self.a.lerp_(g.square(), share)
        P = self.gamma.sqrt() * self.c * (g * self.Y).sum(1, keepdim=True, dtype=torch.float64)
        self.h += (1 - MOMENTUM) * (g - self.h) * live
        d = self.h * live / (self.a.sqrt() * k**0.5).clamp_min_(1e-30)
        self.x -= self.gamma.to(dtype) * d
        self.Y += (self.gamma.sqrt() / self.c).to(dtype) * d
        self.c *= 1 - self._w / (k + 1)
        usable = P.square().isfinite()
        P = torch.where(usable, P, 0.0)
        self.v += torch.where(usable, (P.square() - self.v) * share, 0.0)
        self.gamma *= 1 + RATE * P / (k * self.v).sqrt().clamp_min(1e-300)
