"""The shared numbers as a tensor in the state, and judging them: with plain floats on the CPU, else with 0-d tensors.

On the CPU nothing waits for a device, and floats take a fiftieth of the time. Elsewhere, and inside torch.compile,
nothing is read back to the host. The lines run are the rule's in both cases, and the results agree but for the last bit
of a square root, which torch does not always round to nearest.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import torch
from torch import Tensor

from gradagrad.auto import rule
from gradagrad.rule import Ops
from gradagrad.steps.ops import tensor_ops


class FloatOps:
    """The rule's `Ops` for plain floats, NaN included."""

    tiny = sys.float_info.min
    largest = sys.float_info.max

    def sqrt(self, a: float) -> float:
        return math.sqrt(a) if a >= 0.0 else math.nan

    def maximum(self, a: float, b: float) -> float:
        return a if a > b or a != a else b

    def minimum(self, a: float, b: float) -> float:
        return a if a < b or a != a else b

    def where(self, condition: bool, a: float, b: float) -> float:
        return a if condition else b

    def less(self, a: float, b: float) -> bool:
        return a < b


_FLOATS = FloatOps()


class Numbers:
    """The shared numbers, read from a state tensor; `judged` gives those after a step."""

    def __init__(self, values: rule.Shared, *, plain: bool, device: torch.device) -> None:
        self.values = values
        self.device = device
        self._plain = plain
        self._ops: Ops = _FLOATS if plain else tensor_ops(torch.float64)

    @staticmethod
    def of(stored: Tensor) -> Numbers:
        plain = stored.device.type == "cpu" and not torch.compiler.is_compiling() and not torch.is_grad_enabled()
        # A copy, since `store` overwrites what autograd may have saved of the numbers.
        return Numbers(
            rule.Shared(*(stored.tolist() if plain else stored.clone().unbind())), plain=plain, device=stored.device
        )

    def weight(self, settings: rule.Settings, dtype: torch.dtype) -> Any:
        """What the squared gradients of the coming step count."""
        return _as(rule.weight(self.values.step + 1.0, settings), dtype)

    def judged(self, sums: Tensor, settings: rule.Settings) -> Numbers:
        measured = rule.Sums(*(sums.tolist() if self._plain else sums.to(self.device).unbind()))
        after = rule.judge(measured, self.values, settings, self._ops)
        return Numbers(after, plain=self._plain, device=self.device)

    def pace(
        self, lr: Any, weight_decay: float, eps: float, momentum: float, settings: rule.Settings, dtype: torch.dtype
    ) -> rule.Pace:
        if isinstance(lr, Tensor):
            lr = float(lr) if self._plain else lr.to(device=self.device, dtype=torch.float64)
        pace = rule.pace(self.values, lr, weight_decay, eps, momentum, settings, self._ops)
        return rule.Pace(*(_as(value, dtype) for value in pace))

    def store(self, stored: Tensor) -> None:
        """Writes them back into the state."""
        if self._plain:
            stored.copy_(torch.tensor(self.values, dtype=stored.dtype))
        else:
            stored.copy_(torch.stack([torch.as_tensor(v, device=self.device) for v in self.values]))


def _as(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, Tensor) else value
