"""Projections onto convex sets.

A projection is any callable ``projection(point, metric)`` that returns

    argmin over p in X of Σ metric_i (p_i − point_i)²

where ``point`` is float32 or float64 and ``metric`` is positive and broadcasts to it. GradaGrad passes the metric A of
its step, because that is the norm in which the method's proof projects. For a box the metric makes no difference; for a
ball or a simplex it does: a coordinate with a large A (a small step size) moves less.
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
    so that the metric does not matter and some rows may be projected without the others. The default is False.
    """

    def __call__(self, point: Tensor, metric: Tensor, /) -> Tensor:
        """Nearest member of the set in the norm Σ metric_i (p_i − point_i)²."""
        ...


@dataclass(frozen=True)
class Box:
    """The box lower ≤ p ≤ upper: the nearest point is the given one clipped to the bounds, whatever the metric.

    Bounds are numbers or ±inf, and are rounded to the parameter's dtype. A point inside comes back bit for bit,
    and a NaN stays a NaN. For bounds of each coordinate pass ``lambda point, metric: point.clamp(lower, upper)``.
    """

    lower: float = -inf
    upper: float = inf
    elementwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if not isinstance(value, Real):  # pyright: ignore[reportUnnecessaryIsInstance]
                remedy = "Convert it with float(), or clamp in a function of your own: lambda point, metric: ..."
                raise TypeError(error_text(f"Box: {name}", "a number", value, remedy))
            object.__setattr__(self, name, float(value))
        _require(self.lower < inf, "lower", "below inf and not NaN", self.lower, "No bound is -inf.")
        _require(self.upper > -inf, "upper", "above -inf and not NaN", self.upper, "No bound is inf.")
        _require(self.lower <= self.upper, "lower", "<= upper", (self.lower, self.upper), "Exchange the two.")

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        """Nearest point of the box; the metric is not needed."""
        # torch refuses numbers beyond the range of the dtype; as bounds they mean the same as infinity.
        largest = torch.finfo(point.dtype).max
        bounds = (a if abs(a) <= largest else copysign(inf, a) for a in (self.lower, self.upper))
        lower, upper = (point.new_full((), a) for a in bounds)
        # Not clamp, which leaves open whether -0.0 becomes 0.0: members come back bit for bit.
        raised = torch.where(point < lower, lower, point)
        return torch.where(raised > upper, upper, raised)


def NonNegative() -> Box:  # noqa: N802
    """The orthant p ≥ 0: the nearest point has 0 in place of negative coordinates, whatever the metric."""
    return Box(0.0)


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
