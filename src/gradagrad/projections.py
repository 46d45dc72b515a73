"""Projections onto convex sets.

A projection is any callable ``projection(point, metric)`` that returns

    argmin over p in X of Σ metric_i (p_i − point_i)²

where ``point`` is float32 or float64 and ``metric`` is positive and broadcasts to it. GradaGrad passes the metric A of
its step, because that is the norm in which the method's proof projects. For a box the metric makes no difference; for a
ball or a simplex it does: a coordinate with a large A (a small step size) gives way less.
"""

from dataclasses import dataclass
from math import copysign, inf
from numbers import Real
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from gradagrad.checks.arguments import error_text

__all__ = ["Box", "NonNegative", "Projection"]


class Projection(Protocol):
    """What the optimizer asks of a projection: see the top of this module.

    An attribute ``elementwise = True`` promises that each coordinate is projected by itself and all in the same way,
    so that the metric does not matter and some rows may be projected without the others. Absent, it counts as False.
    """

    def __call__(self, point: Tensor, metric: Tensor, /) -> Tensor:
        """Nearest member of the set in the norm Σ metric_i (p_i − point_i)²."""
        ...


@dataclass(frozen=True, eq=False)
class Box:
    """The box lower ≤ p ≤ upper: the nearest point is z cut off at the bounds, whatever the metric.

    Bounds are numbers (±inf allowed) or tensors that broadcast to the parameter, and are rounded to its dtype. A point
    inside comes back bit for bit, and a NaN stays a NaN.
    """

    lower: float | Tensor = -inf
    upper: float | Tensor = inf

    def __post_init__(self) -> None:
        lower, upper = _bound("lower", self.lower), _bound("upper", self.upper)
        low, high = torch.as_tensor(lower).cpu(), torch.as_tensor(upper).cpu()
        _require(bool((low < inf).all()), "lower", "below inf and not NaN", lower, "No bound is -inf.")
        _require(bool((high > -inf).all()), "upper", "above -inf and not NaN", upper, "No bound is inf.")
        try:
            ordered = bool((low <= high).all())
        except RuntimeError as error:
            raise ValueError(f"Box: lower and upper must broadcast together. {error}") from None
        _require(ordered, "lower", "<= upper everywhere", (lower, upper), "Exchange the two.")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def elementwise(self) -> bool:
        """True when all coordinates share their bounds, so that some rows may be projected without the others."""
        return not any(isinstance(bound, Tensor) and bound.dim() > 0 for bound in (self.lower, self.upper))

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        """Nearest point of the box; the metric is not needed."""
        lower, upper = _like(point, "lower", self.lower), _like(point, "upper", self.upper)
        # Not clamp, which leaves open whether -0.0 becomes 0.0: members come back bit for bit.
        raised = torch.where(point < lower, lower, point)
        return torch.where(raised > upper, upper, raised)


@dataclass(frozen=True)
class NonNegative:
    """The orthant p ≥ 0: the nearest point is max(z, 0), whatever the metric."""

    elementwise: ClassVar[bool] = True

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        """Nearest point without negative coordinates; the metric is not needed."""
        return torch.where(point < 0, 0.0, point)


class Checked:
    """Calls a user's projection and checks its result, so that a mistake in it is named where it happens.

    Values are checked only if asked, because that waits for the device.
    """

    def __init__(self, projection: Projection, *, values: bool = False) -> None:
        self.projection = projection
        self.values = values
        self.elementwise: bool = getattr(projection, "elementwise", False)

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        result: Any = self.projection(point, metric)
        if not isinstance(result, Tensor):
            raise TypeError(f"projection must return a tensor, got {type(result).__name__} from {self.projection!r}.")
        if result.shape != point.shape or result.dtype != point.dtype:
            raise ValueError(
                f"projection must return the shape and dtype it is given, {tuple(point.shape)} and {point.dtype}, got "
                f"{tuple(result.shape)} and {result.dtype} from {self.projection!r}."
            )
        if self.values and bool((~torch.isfinite(result) & torch.isfinite(point)).any()):
            raise ValueError(f"projection must return finite values, got NaN or inf from {self.projection!r}.")
        return result


def _require(holds: bool, name: str, rule: str, value: object, remedy: str) -> None:
    if not holds:
        raise ValueError(error_text(f"Box: {name}", rule, value, remedy))


def _bound(name: str, value: object) -> float | Tensor:
    """A plain float, or a real tensor that nobody else can change."""
    if isinstance(value, Tensor):
        if value.is_complex():
            remedy = "Complex parameters are projected as real pairs."
            raise TypeError(error_text(f"Box: {name}", "real", value.dtype, remedy))
        return value.detach().clone()
    if not isinstance(value, Real):
        raise TypeError(error_text(f"Box: {name}", "a number", value, "Convert it with float()."))
    return float(value)


def _like(point: Tensor, name: str, value: float | Tensor) -> Tensor:
    """A bound on the point's device and in its dtype, checked to broadcast to its shape."""
    if not isinstance(value, Tensor):
        # torch refuses numbers beyond the range of the dtype; as bounds they mean the same as infinity.
        return point.new_full((), value if abs(value) <= torch.finfo(point.dtype).max else copysign(inf, value))
    sizes = zip(reversed(value.shape), reversed(point.shape), strict=False)
    fits = value.dim() <= point.dim() and all(own in (1, size) for own, size in sizes)
    rule = f"of a shape that broadcasts to the parameter's {tuple(point.shape)}"
    _require(fits, name, rule, tuple(value.shape), "Reshape it.")
    return value.to(device=point.device, dtype=point.dtype)
