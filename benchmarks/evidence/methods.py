"""The optimizers that are compared, and the rows of the tables."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn, optim

from gradagrad import AutoGradaGrad, GradaGrad

Parameters = list[nn.Parameter]
OURS = "AutoGradaGrad"
LOWEST, HIGHEST = -14, 4  # places of learning rates: 10^(place/2)
SWEPT = range(-12, 1)  # 1e-6 to 1


@dataclass(frozen=True)
class Method:
    """``make`` gets dense parameters, embedding tables with sparse gradients, and the number that is varied.

    ``default`` is the documented value, ``start`` the places where the search for a better one begins.
    """

    make: Callable[[Parameters, Parameters, float], list[Any]]
    default: float
    start: tuple[int, ...] = ()
    cosine: bool = False
    sparse: bool = True


def _adamw(dense: Parameters, tables: Parameters, lr: float) -> list[Any]:
    return [optim.AdamW(dense, lr), *([optim.SparseAdam(tables, lr)] if tables else [])]


def _sgd(dense: Parameters, tables: Parameters, lr: float) -> list[Any]:
    return [optim.SGD(dense, lr, momentum=0.9), *([optim.SGD(tables, lr)] if tables else [])]


def _gradagrad(dense: Parameters, tables: Parameters, lr: float) -> list[Any]:
    by_row = {"params": tables, "granularity": "row", "lazy": True}
    return [GradaGrad([{"params": dense}, *([by_row] if tables else [])], lr)]


def _peer(module: str, name: str) -> Callable[[Parameters, Parameters, float], list[Any]]:
    return lambda dense, tables, lr: [getattr(importlib.import_module(module), name)(dense, lr)]


_free, _prodigy = _peer("schedulefree", "AdamWScheduleFree"), _peer("prodigyopt", "Prodigy")
METHODS = {
    "AdamW": Method(_adamw, 1e-3, (-8, -6, -4)),
    "AdamW, cosine": Method(_adamw, 1e-3, (-8, -6, -4), cosine=True),
    "SGD": Method(_sgd, 1e-3, (-4, -2, 0)),
    "SGD, cosine": Method(_sgd, 1e-3, (-4, -2, 0), cosine=True),
    "Schedule-Free AdamW": Method(_free, 2.5e-3, (-6, -4), sparse=False),
    "Prodigy": Method(_prodigy, 1.0, sparse=False),
    "Prodigy, cosine": Method(_prodigy, 1.0, (-1, 0, 1), cosine=True, sparse=False),
    "Adagrad": Method(lambda dense, tables, lr: [optim.Adagrad([*dense, *tables], lr)], 1e-2, (-6, -4, -2)),
    "GradaGrad": Method(_gradagrad, 1e-2),
    OURS: Method(lambda dense, tables, lr: [AutoGradaGrad([*dense, *tables], lr)], 1.0),
    f"{OURS}, γ₀": Method(lambda dense, tables, gamma: [AutoGradaGrad([*dense, *tables], gamma0=gamma)], 1e-4),
}
SWEEPS = ("AdamW", "AdamW, cosine", "SGD, cosine", "Schedule-Free AdamW", "Prodigy", "Adagrad", OURS, f"{OURS}, γ₀")


@dataclass(frozen=True)
class Row:
    """A row of a table: a method at its default or at its best learning rate, at the last iterate or averaged."""

    label: str
    method: str
    tuned: bool = False
    averaged: bool = False
    main: bool = False  # trained first


ROWS = (
    Row("AdamW + cosine, tuned", "AdamW, cosine", tuned=True, main=True),
    Row("AdamW, tuned", "AdamW", tuned=True),
    Row("AdamW, tuned, averaged", "AdamW", tuned=True, averaged=True),
    Row("AdamW, default", "AdamW", main=True),
    Row("SGD + cosine, tuned", "SGD, cosine", tuned=True),
    Row("SGD, tuned", "SGD", tuned=True),
    Row("SGD, tuned, averaged", "SGD", tuned=True, averaged=True),
    Row("Schedule-Free AdamW, tuned", "Schedule-Free AdamW", tuned=True),
    Row("Schedule-Free AdamW, default", "Schedule-Free AdamW", main=True),
    Row("Prodigy + cosine, tuned", "Prodigy, cosine", tuned=True),
    Row("Prodigy, default", "Prodigy", main=True),
    Row("Adagrad, tuned", "Adagrad", tuned=True),
    Row("GradaGrad, as documented", "GradaGrad"),
    Row("**AutoGradaGrad**", OURS, main=True),
    Row("**AutoGradaGrad**, averaged", OURS, averaged=True, main=True),
)


def rate(place: int) -> float:
    """The learning rate of a place on the grid of half-decades."""
    return float(f"{10 ** (place / 2):.3g}")


@functools.cache
def rule_digest() -> str:
    """A digest of what AutoGradaGrad does in forty steps with noise, zeros and an outlier.

    Records of a rule that does something else are outdated; those of a rule that is written differently are not.
    """
    random = torch.Generator().manual_seed(0)
    tensors = [nn.Parameter(torch.ones(size, dtype=torch.float64)) for size in (1, 5)]
    optimizer = AutoGradaGrad(tensors, foreach=False, fused=False)
    for step in range(40):
        for tensor in tensors:
            noise = torch.randn(tensor.shape, generator=random, dtype=torch.float64)
            tensor.grad = (tensor.detach() + noise * (1000 if step == 20 else 1)) * (noise > -1)
        optimizer.step()
    found = [value for tensor in tensors for value in tensor.tolist()]
    with optimizer.averaged():
        found += [value for tensor in tensors for value in tensor.tolist()]
    return hashlib.sha256(" ".join(f"{value:.4g}" for value in found).encode()).hexdigest()[:12]
