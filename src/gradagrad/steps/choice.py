"""Which way of stepping a param group gets: what its arguments ask for, and torch's convention where they do not."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach


def wants_kernel(group: Mapping[str, Any]) -> bool:
    """Whether the compiled kernel is to be tried."""
    wanted = group["fused"] is not False and not group["foreach"] and not group["differentiable"]
    return wanted and not torch.compiler.is_compiling()


def wants_foreach(group: Mapping[str, Any], params: Sequence[Tensor]) -> bool:
    """Whether torch operations take many tensors at once."""
    if group["foreach"] is None:
        return _default_to_fused_or_foreach(list(params), group["differentiable"], use_fused=False)[1]
    return bool(group["foreach"])
