"""The optimizers that are compared, and the rows of the tables."""

import functools
import hashlib
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn, optim

from gradagrad import AutoGradaGrad, GradaGrad

Parameters = list[nn.Parameter]
Make = Callable[[Parameters, Parameters, float], list[Any]]  # of dense parameters, tables and the number varied
OURS = "AutoGradaGrad"
GRID = range(-14, 5)  # places of learning rates: 10^(place/2)


class Method(NamedTuple):
    """``default`` is the documented value, ``start`` the places where the search for a better one begins."""

    make: Make
    default: float
    start: tuple[int, ...] = ()
    sparse: bool = True


def _pair(kind: Any, of_tables: Any, **options: float) -> Make:
    """Tables have sparse gradients, and an optimizer of their own."""
    return lambda dense, tables, lr: [kind(dense, lr, **options), *([of_tables(tables, lr)] if tables else [])]


def _gradagrad(dense: Parameters, tables: Parameters, lr: float) -> list[Any]:
    by_row = {"params": tables, "lr": 10 * lr, "granularity": "row", "lazy": True}
    return [GradaGrad([{"params": dense}, *([by_row] if tables else [])], lr)]


def _peer(module: str, name: str) -> Make:
    return lambda dense, tables, lr: [getattr(importlib.import_module(module), name)(dense, lr)]


_adamw, _sgd = _pair(optim.AdamW, optim.SparseAdam), _pair(optim.SGD, optim.SGD, momentum=0.9)
_free, _prodigy = _peer("schedulefree", "AdamWScheduleFree"), _peer("prodigyopt", "Prodigy")
METHODS = {
    "AdamW": Method(_adamw, 1e-3, (-8, -6, -4)),
    "AdamW, cosine": Method(_adamw, 1e-3, (-8, -6, -4)),
    "SGD": Method(_sgd, 1e-3, (-4, -2, 0)),
    "SGD, cosine": Method(_sgd, 1e-3, (-4, -2, 0)),
    "Schedule-Free AdamW": Method(_free, 2.5e-3, (-6, -4), sparse=False),
    "Prodigy": Method(_prodigy, 1.0, sparse=False),
    "Prodigy, cosine": Method(_prodigy, 1.0, (-1, 0, 1), sparse=False),
    "Adagrad": Method(lambda dense, tables, lr: [optim.Adagrad([*dense, *tables], lr)], 1e-2, (-6, -4, -2)),
    "GradaGrad": Method(_gradagrad, 1e-2),
    OURS: Method(lambda dense, tables, lr: [AutoGradaGrad([*dense, *tables], lr)], 1.0),
    f"{OURS}, γ₀": Method(lambda dense, tables, gamma: [AutoGradaGrad([*dense, *tables], gamma0=gamma)], 1e-4),
}
DENSE = (*METHODS,)
METHODS["GradaGrad by element"] = Method(lambda dense, tables, lr: [GradaGrad([*dense, *tables], lr, lazy=True)], 1e-2)
SWEEPS = {name: range(-12, 1) for name in DENSE if name not in ("SGD", "Prodigy, cosine", "GradaGrad")}  # 1e-6 to 1
SWEEPS[OURS] = range(-12, 1, 2)  # level by construction
FIRST_SCREEN = (1e-5, 1e-4, 1e-3, 1e-2)  # AdamW's learning rates in the README's picture


class Row(NamedTuple):
    """A row of a table: a method at its default or at its best learning rate, at the last iterate or averaged."""

    method: str
    tuned: bool = False
    averaged: bool = False

    @property
    def label(self) -> str:
        words = ", tuned" if self.tuned else ", as documented" if self.method.startswith("Grada") else ", default"
        name = self.method.replace(OURS, f"**{OURS}**").replace(", ", " + ")
        return name + words * (self.method != OURS) + ", averaged" * self.averaged


REFERENCE, FREE, AVERAGED = Row("AdamW, cosine", tuned=True), Row("Schedule-Free AdamW"), Row(OURS, averaged=True)
_ADAMW = (Row("AdamW", tuned=True), Row("AdamW", tuned=True, averaged=True), Row("AdamW"))
_SGD = (Row("SGD, cosine", tuned=True), Row("SGD", tuned=True), Row("SGD", tuned=True, averaged=True))
_FREE = (Row("Schedule-Free AdamW", tuned=True), FREE, Row("Prodigy, cosine", tuned=True), Row("Prodigy"))
_GRADAGRAD = (Row("GradaGrad"), Row("GradaGrad by element"), Row(OURS), AVERAGED)
ROWS = (REFERENCE, *_ADAMW, *_SGD, *_FREE, Row("Adagrad", tuned=True), *_GRADAGRAD)

COMPARED = (REFERENCE, _FREE[0], FREE, Row("Prodigy"))  # with AutoGradaGrad's average, in the summary


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
    found = torch.cat((*tensors,)).tolist()
    with optimizer.averaged():
        found += torch.cat((*tensors,)).tolist()
    return hashlib.sha256(" ".join(f"{value:.4g}" for value in found).encode()).hexdigest()[:12]
