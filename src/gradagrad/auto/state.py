"""What is kept under each parameter, as it is before its first step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed, rounding
from gradagrad.auto import rule
from gradagrad.steps.ops import computing_dtype, real_view


def fresh(group: Mapping[str, Any], parameter: Tensor, shared: Tensor | None) -> dict[str, Tensor]:
    """A parameter's state before its first step; ``shared`` is what all parameters share, None if there is none yet."""
    device = distributed.local(parameter.detach()).device
    step_device = device if group["capturable"] else torch.device("cpu")
    state = {
        "step": torch.zeros((), dtype=torch.float32, device=step_device),
        "accumulator": made(group, parameter),
        "momentum": made(group, parameter),
    }
    if group["averaging"] is not None:
        state["average"] = made(group, parameter, at_its_point=True)
    if shared is None:
        shared = torch.tensor(rule.start(group["gamma0"], group["certainty"]), dtype=torch.float64, device=device)
    return state | {"shared": shared}


def made(group: Mapping[str, Any], parameter: Tensor, *, at_its_point: bool = False) -> Tensor:
    """A new state tensor, laid out and sharded as its parameter: zeros, or the parameter's values."""
    values = real_view(distributed.local(parameter.detach()))
    dtype = rounding.stored_dtype(computing_dtype(parameter.dtype), group["state_dtype"], "element")
    tensor = torch.zeros_like(values, dtype=dtype, memory_format=torch.preserve_format)
    return distributed.as_shard(tensor.copy_(values) if at_its_point else tensor, parameter, "element")
