"""The average of the points, x̄: kept beside the parameters, which always hold the point where gradients are taken.

Rows that a sparse gradient does not touch rest, and the average of a resting point moves towards it by a factor known
in closed form (`rule.fade`). So their averages are not written at every step but brought up to date when the row is
touched next, or when the average is asked for; each row remembers the step its average belongs to.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed, rounding
from gradagrad.auto import rule
from gradagrad.steps.ops import computing_dtype, real_view

STREAM = 1 << 31  # random bits of the average are numbered apart from those of the other state


def row_clocks(state: dict[str, Any], dims: int, step: Any) -> Tensor:
    """For each row (an entry of the first ``dims`` dimensions), the step its average belongs to."""
    average = state["average"]
    clocks = state.get("row_steps")
    if clocks is None:
        # All have been averaged at every step so far, or have just been brought up to date.
        clocks = torch.zeros(average.shape[:dims], dtype=torch.int32, device=average.device)
        state["row_steps"] = clocks.add_(torch.as_tensor(step).to(clocks))
    return clocks


def caught_up(mean: Tensor, x: Tensor, clocks: Tensor, step: Any) -> Tensor:
    """The average at ``step`` of rows that have rested since ``clocks``."""
    now = torch.as_tensor(step, dtype=torch.float64, device=mean.device).clamp(min=1.0)
    left = rule.fade(clocks.to(torch.float64), now).to(mean.dtype)
    left = left.reshape(*left.shape, *(1 for _ in range(mean.dim() - left.dim())))
    return mean * left + x * (1.0 - left)  # in this form a row that is up to date stays exactly as it is


@torch.no_grad()
def bring_up_to_date(parameter: Tensor, state: dict[str, Any], step: Any) -> None:
    """Makes every row's average that of ``step``; no clocks are needed then until the next sparse gradient."""
    clocks = state.pop("row_steps", None)
    if clocks is None:
        return
    dtype = computing_dtype(parameter.dtype)
    average = state["average"]
    mean = caught_up(average.to(dtype), real_view(parameter.detach()).to(dtype), clocks, step)
    if average.dtype == torch.bfloat16:
        # Rows that are up to date are representable and stay as they are; the others are rounded to nearest, once.
        average.copy_(mean.to(torch.bfloat16))
    else:
        average.copy_(mean)


def rest(parameter: Tensor, average: Tensor, share: Any, bits: Tensor | None) -> None:
    """Averages a parameter that has no gradient at this step and therefore rests."""
    dtype = computing_dtype(parameter.dtype)
    mean = rule.average(real_view(parameter).to(dtype), average.to(dtype), share)
    rounding.store(average, mean, bits)


@contextmanager
def swapped(parameters: Mapping[Tensor, Tensor]) -> Generator[None]:
    """Puts averages in the place of parameters, and the very same values back, whatever happens in between."""
    kept = {p: distributed.local(p.detach()).clone() for p in parameters}
    try:
        for parameter, average in parameters.items():
            _write(parameter, average)
        yield
    finally:
        with torch.no_grad():
            for parameter, value in kept.items():
                distributed.local(parameter.detach()).copy_(value)


def _write(parameter: Tensor, average: Tensor) -> None:
    with torch.no_grad():
        real_view(distributed.local(parameter.detach())).copy_(distributed.local(average))
