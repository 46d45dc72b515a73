"""The inputs of `tools/fuzz.py`: random settings and hostile gradients."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.projections import Box, NonNegative


def options_of(dice: random.Random, auto: bool) -> dict[str, Any]:
    """Random settings. The optimizers refuse some combinations; those are counted too."""

    def maybe(chance: float, *choices: Any) -> Any:
        return dice.choice(choices) if dice.random() < chance else None

    drawn = {
        "momentum": dice.choice((0.1, 0.7, 0.7, 0.9, 0.999) if auto else (0.0, 0.0, 0.5, 0.9, 0.999)),
        "eps": maybe(0.3, 0.0, 1e-10, 1e-3, 1.0),
        "weight_decay": maybe(0.2, 1e-4, 0.1, 10.0),
        "decoupled_weight_decay": maybe(0.3, True, False),
        "gamma_max": maybe(0.2, 1.0, 1e3),
        "maximize": maybe(0.2, True),
        "state_dtype": maybe(0.3, torch.bfloat16),
        "stochastic_rounding": maybe(0.2, True),
    }
    if auto:
        drawn |= {
            "lr": maybe(0.2, 0.0, 1e-3, 10.0),
            "gamma0": maybe(0.5, 1e-12, 1e-6, 1e-2, 1.0),
            "guard": maybe(0.4, False),
        }
    else:
        drawn |= {
            "lr": dice.choice((0.0, 1e-12, 1e-3, 0.1, 1.0)),
            "rho": dice.choice((0.0, 0.5, 1.0, 2.0, 2.0, 10.0, 1e6)),
            "granularity": dice.choice(("element", "row", "tensor", "group", "all")),
            "lazy": maybe(0.3, True),
            "lr_decay": maybe(0.1, 0.5),
            "initial_accumulator_value": maybe(0.2, 1e-30, 1.0, 1e10),
            "grad_bound": maybe(0.2, 1e-10, 1.0, 1e15),
            "growth_limit": maybe(0.2, 1.0, 1.1, 1e6),
            "projection": maybe(0.2, Box(-0.5, 0.75), NonNegative()),
        }
    return {name: value for name, value in drawn.items() if value is not None}


class Gradients:
    """Gradients of one case. They remember the last ones, so that some agree and some alternate."""

    def __init__(
        self, dice: random.Random, params: Sequence[Tensor], *, sparse: bool, ruining: bool, largest: float
    ) -> None:
        self.generator = torch.Generator().manual_seed(dice.randrange(2**40))
        self.params, self.sparse, self.ruining, self.largest = params, sparse, ruining, largest
        self.last = [torch.ones(p.shape, dtype=torch.float64) for p in params]
        self.calm = dice.random() < 0.3  # only numbers of ordinary size

    def draw(self) -> list[Tensor]:
        return [self._one(i, p) for i, p in enumerate(self.params)]

    def _one(self, i: int, parameter: Tensor) -> Tensor:
        info, shape, g = torch.finfo(parameter.dtype), parameter.shape, self.generator
        kind = torch.rand(shape, generator=g)
        # Squares of larger doubles are infinite, and nothing is guaranteed then. The same holds where the product of a
        # gradient and AutoGradaGrad's displacement overflows, which may happen in one backend and not in the other.
        ends = (-150.0, 150.0) if parameter.dtype == torch.float64 else (math.log10(info.tiny), math.log10(info.max))
        ends = (ends[0], min(ends[1], self.largest))
        low, high = (-2.0, 2.0) if self.calm else ends
        size = 10.0 ** (low + (high - low) * torch.rand(shape, generator=g, dtype=torch.float64))
        new = size * torch.randn(shape, generator=g, dtype=torch.float64).sign()
        last = self.last[i]
        new = torch.where(kind < 0.35, last * (0.5 + torch.rand(shape, generator=g)), new)  # agrees with the last
        new = torch.where((kind > 0.35) & (kind < 0.45), -last, new)
        new = torch.where((kind > 0.45) & (kind < 0.6), 0.0, new)
        if not self.calm:
            extremes = torch.tensor([10.0**high, -(10.0**high), info.tiny, info.tiny / 8, -0.0], dtype=torch.float64)
            chosen = extremes[torch.randint(len(extremes), shape, generator=g)]
            new = torch.where((kind > 0.6) & (kind < 0.65), chosen, new)
        new = new.clamp(-(10.0 ** ends[1]), 10.0 ** ends[1])
        self.last[i] = torch.where(new == 0, last, new)
        if self.ruining:
            bad = torch.tensor([math.nan, math.inf, -math.inf], dtype=torch.float64)
            bad = bad[torch.randint(3, shape, generator=g)]
            new = torch.where(torch.rand(shape, generator=g) < 0.01, bad, new)
        gradient = new.to(parameter.dtype)
        if not self.sparse or parameter.dim() < 2:
            return gradient
        rows = torch.randperm(shape[0], generator=g)[: max(1, shape[0] // 2)]
        return torch.sparse_coo_tensor(rows.unsqueeze(0), gradient[rows], shape, check_invariants=False)
