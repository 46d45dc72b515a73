"""Checks of what convex sets are made of, for `gradagrad.projections`."""

from collections.abc import Callable
from math import inf
from numbers import Real

import torch
from torch import Tensor

from gradagrad.checks.arguments import error_text


def require(holds: bool, name: str, rule: str, value: object, remedy: str) -> None:
    """Raises with the one form of message unless the rule holds."""
    if not holds:
        raise ValueError(error_text(name, rule, value, remedy))


def number(name: str, value: object) -> float:
    """A plain float."""
    if not isinstance(value, Real):
        raise TypeError(error_text(name, "a number", value, "Convert it with float()."))
    return float(value)


def radius_of(owner: str, value: object) -> float:
    """A finite, non-negative number."""
    radius = number(f"{owner}: radius", value)
    require(0 <= radius < inf, f"{owner}: radius", "a finite number >= 0", radius, "Without limit, use no projection.")
    return radius


def number_or_tensor(name: str, value: object) -> float | Tensor:
    """A plain float, or a real tensor that nobody else can change."""
    if not isinstance(value, Tensor):
        return number(name, value)
    if value.is_complex():
        raise TypeError(error_text(name, "real", value.dtype, "Complex parameters are projected as real pairs."))
    return value.detach().clone()


def dimension(owner: str, value: object) -> int | None:
    """A dimension to slice along, or None for the whole tensor."""
    if value is not None and not isinstance(value, int):
        raise TypeError(error_text(f"{owner}: dim", "an integer or None", value, "None: one vector."))
    return value


def everywhere(condition: Callable[[Tensor], Tensor], value: float | Tensor) -> bool:
    """Whether a condition holds for a number, or for every entry of a tensor."""
    return bool(condition(torch.as_tensor(value)).all())


def freeze(instance: object, **fields: object) -> None:
    """Store checked fields in a frozen dataclass, the way its own ``__init__`` does."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
