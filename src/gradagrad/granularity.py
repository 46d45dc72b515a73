"""Who shares a step size: one entry (`element`), a first-dimension slice (`row`), a `tensor`, or a whole `group`.

Granularity decides only what *measure* sums over and the shape of the two state tensors that hold a slot's numbers.
Shapes are those of the real view: a complex parameter counts as real pairs.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

Granularity = Literal["element", "row", "tensor", "group"]
GRANULARITIES: tuple[str, ...] = get_args(Granularity)


def slot_shape(shape: torch.Size, granularity: Granularity) -> tuple[int, ...]:
    """Shape of ``growth`` and ``accumulator`` for a parameter of this shape; broadcasts against the parameter."""
    if granularity == "element":
        return tuple(shape)
    if granularity == "row":
        return (*shape[:1], *(1 for _ in shape[1:]))
    return ()


def total(granularity: Granularity) -> Callable[[Tensor], Tensor]:
    """The sum over each slot of one tensor. For `group` the caller adds up the tensors' sums."""
    if granularity == "element":
        return _identity
    if granularity == "row":
        return row_total
    return torch.sum


def row_total(a: Tensor) -> Tensor:
    """Sum over everything but the first dimension, which stays, so that the result broadcasts."""
    return a.sum(dim=tuple(range(1, a.dim())), keepdim=True) if a.dim() > 1 else a


def touched(gradient: Tensor, granularity: Granularity) -> Tensor:
    """Which entries (`element`) or rows (all others) have a non-zero gradient, broadcastable to it."""
    nonzero = gradient != 0
    if granularity == "element" or gradient.dim() < 2:
        return nonzero
    return nonzero.flatten(1).any(dim=1).reshape(slot_shape(gradient.shape, "row"))


def _identity(a: Tensor) -> Tensor:
    return a
