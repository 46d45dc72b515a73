"""An average of the iterates, for optimizers that do not keep their own."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

AVERAGED = "averaged "
"""The prefix of measures taken at the average."""
POWER, OWN = 4, 6
"""Baselines are averaged with weights k⁴; in the evidence k⁶, which are AutoGradaGrad's own while γ is constant."""


class Average:
    """x̄ += (p + 1)/(k + p)·(x − x̄), kept beside any optimizer; p is ``power``."""

    def __init__(self, parameters: Sequence[Tensor], power: int) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._average: list[Tensor] = [parameter.detach().clone() for parameter in parameters]
        self._steps, self._power = 0, power

    @torch.no_grad()
    def update(self) -> None:
        self._steps += 1
        torch._foreach_lerp_(self._average, self._parameters, (self._power + 1) / (self._steps + self._power))

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Puts the averages in place of the parameters inside the block."""
        kept = [parameter.detach().clone() for parameter in self._parameters]
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, self._average)
        yield
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, kept)


def has_average(optimizer: Optimizer) -> bool:
    """Whether the optimizer has an average: AutoGradaGrad has its own, and Schedule-Free evaluates at one."""
    return hasattr(optimizer, "averaged") or hasattr(optimizer, "eval")
