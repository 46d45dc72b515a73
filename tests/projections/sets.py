"""One set of each kind, its members, and how far a point lies outside, told without the projections' own code."""

import math
from typing import Any

import torch
from torch import Tensor

from gradagrad.projections import Ball, Box, L1Ball, NonNegative, Projection, Simplex

F64 = torch.float64
inf, nan = math.inf, math.nan


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def metric_spanning(decades: float, *shape: int, seed: int = 1) -> Tensor:
    """Entries spread evenly on the logarithmic scale around 1."""
    return 10 ** (decades * (torch.rand(shape, dtype=F64, generator=torch.Generator().manual_seed(seed)) - 0.5))


def sets(n: int) -> dict[str, Projection]:
    """One of each kind, sized so that standard normal points of dimension n mostly lie outside."""
    return {
        "box": Box(-0.3, 0.4),
        "box of tensors": Box(-normal(n, seed=2).abs(), normal(n, seed=3).abs()),
        "orthant": NonNegative(),
        "ball": Ball(0.7),
        "ball elsewhere": Ball(0.7, center=normal(n, seed=4)),
        "simplex": Simplex(),
        "large simplex": Simplex(total=float(n)),
        "l1 ball": L1Ball(0.9),
    }


NAMES = list(sets(2))
COUPLED = [name for name in NAMES if name not in ("box", "box of tensors", "orthant")]


def violation(projection: Any, p: Tensor) -> float:
    """Distance by which p breaks the set's rule, measured in float64 and independently of the projection's code."""
    p = p.double()
    match projection:
        case Box(lower=lower, upper=upper):
            # The bounds, as the float32 or float64 point sees them.
            return float(torch.maximum(torch.as_tensor(lower) - p, p - torch.as_tensor(upper)).amax().clamp(min=0))
        case NonNegative():
            return float((-p).amax().clamp(min=0))
        case Ball(radius=radius, center=center):
            return max(float((p - center).norm()) - radius, 0.0)
        case Simplex(total=total):
            return max(abs(math.fsum(p.tolist()) - total), float((-p).amax()))
        case L1Ball(radius=radius):
            return max(math.fsum(p.abs().tolist()) - radius, 0.0)
    raise AssertionError(projection)


def member(projection: Any, raw: Tensor) -> Tensor:
    """Some member of the set, made out of `raw` without projecting it."""
    match projection:
        case Box(lower=lower, upper=upper):
            return lower + (upper - lower) * raw.sigmoid()
        case NonNegative():
            return raw.abs()
        case Ball(radius=radius, center=center):
            return center + raw * (radius / max(float(raw.norm()), 1.0))
        case Simplex(total=total):
            return total * raw.softmax(0)
        case L1Ball(radius=radius):
            return raw * (radius / max(float(raw.abs().sum()), 1.0))
    raise AssertionError(projection)
