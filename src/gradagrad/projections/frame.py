"""The common part of projections onto sets that couple coordinates; see `gradagrad.projections`."""

from abc import ABC, abstractmethod
from math import copysign, inf
from typing import ClassVar

import torch
from torch import Tensor

from gradagrad.projections.arguments import require


class Coupled(ABC):
    """Frame of the sets that couple coordinates: lays vectors along the last dimension and moves only those outside.

    It computes in double precision (where the device has it), so that a float32 point in a metric that spans forty
    decades is still projected to float32 rounding. ``own`` is the tensor of the set itself: a centre, a normal.
    """

    elementwise: ClassVar[bool] = False

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        """Nearest member of the set in the norm Σ metric_i (p_i − point_i)²."""
        if point.numel() == 0:
            return point.clone()
        dim: int | None = getattr(self, "dim", None)
        name, shape = type(self).__name__, tuple(point.shape)
        fits = dim is None or -point.dim() <= dim < point.dim()
        require(fits, f"{name}: dim", f"a dimension of the parameter of shape {shape}", dim, "None: one vector.")
        precise = point.to(torch.float32 if point.device.type == "mps" else torch.float64)

        def lay(what: str, value: float | Tensor) -> Tensor:
            """Vectors along the last dimension; it has size 1 where `value` does not vary along it."""
            own = like(precise, f"{name}: {what}", value)
            if dim is None:
                return own.reshape(1) if own.numel() == 1 else own.expand(shape).reshape(-1)
            return own[(None,) * (point.dim() - own.dim())].movedim(dim, -1)

        z, a, own = lay("point", precise), lay("metric", metric), lay(*self._own())
        # Rounding a member to the nearest point of the dtype takes it out of the set by half of this at most.
        outside = self._violated(z, own, torch.finfo(point.dtype).eps)
        outside = outside & z.isfinite().all(-1, keepdim=True) & a.isfinite().all(-1, keepdim=True)
        # Vectors that stay are replaced by harmless ones, so that their NaNs cannot reach a gradient through `where`.
        # Only ratios of the metric matter. With 1 as its largest entry neither A nor 1/A overflows.
        a = torch.where(outside, a, 1.0)
        a = (a / a.detach().amax(-1, keepdim=True)).clamp(min=_tiny(a))
        result = torch.where(outside, self._nearest(torch.where(outside, z, 1.0), own, a), z)
        return (result if dim is None else result.movedim(-1, dim)).reshape(shape).to(point.dtype)

    def _own(self) -> tuple[str, float | Tensor]:
        return "", 0.0

    @abstractmethod
    def _violated(self, z: Tensor, own: Tensor, rounding: float) -> Tensor:
        """Which vectors lie outside by more than rounding."""

    @abstractmethod
    def _nearest(self, z: Tensor, own: Tensor, a: Tensor) -> Tensor:
        """Project vectors that lie outside, in a metric 0 < a ≤ 1."""


def norm(vectors: Tensor) -> Tensor:
    """Euclidean norm of each vector, without overflow of the squares."""
    scale = scale_of(vectors)
    return scale * (vectors / scale).norm(dim=-1, keepdim=True)


def scale_of(vectors: Tensor) -> Tensor:
    """Largest entry of each vector, as a positive divisor that carries no gradient."""
    return vectors.detach().abs().amax(-1, keepdim=True).clamp(min=_tiny(vectors))


def _tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny


def like(point: Tensor, name: str, value: float | Tensor) -> Tensor:
    """`value` on the point's device and in its dtype, checked to broadcast to its shape."""
    if not isinstance(value, Tensor):
        # torch refuses numbers beyond the range of the dtype; as bounds they mean the same as infinity.
        return point.new_full((), value if abs(value) <= torch.finfo(point.dtype).max else copysign(inf, value))
    sizes = zip(reversed(value.shape), reversed(point.shape), strict=False)
    fits = value.dim() <= point.dim() and all(own in (1, size) for own, size in sizes)
    rule = f"of a shape that broadcasts to the parameter's {tuple(point.shape)}"
    require(fits, name, rule, tuple(value.shape), "Reshape it.")
    return value.to(device=point.device, dtype=point.dtype)
