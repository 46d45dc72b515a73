"""The optimizers that are compared, and the rows of the tables."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.rules import auto

Parameters = Sequence[nn.Parameter]
OURS = "AutoGradaGrad"
LOWEST, HIGHEST = -14, 4  # places of learning rates: 10^(place/2)
SWEPT = range(-12, 1)  # 1e-6 to 1


@dataclass(frozen=True)
class Method:
    """``make`` gets dense parameters, embedding tables with sparse gradients, and the number that is varied.

    ``default`` is the documented value, ``start`` the places where the search for a better one begins.
    """

    make: Callable[[Parameters, Parameters, float], list[Optimizer]]
    default: float
    start: tuple[int, ...] = ()
    cosine: bool = False
    sparse: bool = True


def _adamw(dense: Parameters, tables: Parameters, lr: float) -> list[Optimizer]:
    return [torch.optim.AdamW(dense, lr), *([torch.optim.SparseAdam(list(tables), lr)] if tables else [])]


def _sgd(dense: Parameters, tables: Parameters, lr: float) -> list[Optimizer]:
    groups: list[dict[str, Any]] = [{"params": dense, "momentum": 0.9}, {"params": tables}]
    return [torch.optim.SGD([group for group in groups if group["params"]], lr)]


def _adagrad(dense: Parameters, tables: Parameters, lr: float) -> list[Optimizer]:
    return [torch.optim.Adagrad([*dense, *tables], lr)]


def _schedule_free(dense: Parameters, _: Parameters, lr: float) -> list[Optimizer]:
    from schedulefree import AdamWScheduleFree

    return [AdamWScheduleFree(dense, lr)]


def _prodigy(dense: Parameters, _: Parameters, lr: float) -> list[Optimizer]:
    from prodigyopt import Prodigy

    return [Prodigy(dense, lr)]


def _gradagrad(dense: Parameters, tables: Parameters, lr: float) -> list[Optimizer]:
    groups: list[dict[str, Any]] = [{"params": dense}, {"params": tables, "granularity": "row", "lazy": True}]
    return [GradaGrad([group for group in groups if group["params"]], lr)]


def _auto(dense: Parameters, tables: Parameters, lr: float) -> list[Optimizer]:
    return [AutoGradaGrad([*dense, *tables], lr)]


def _auto_from(dense: Parameters, tables: Parameters, gamma0: float) -> list[Optimizer]:
    return [AutoGradaGrad([*dense, *tables], gamma0=gamma0)]


METHODS = {
    "AdamW": Method(_adamw, 1e-3, (-8, -6, -4)),
    "AdamW, cosine": Method(_adamw, 1e-3, (-8, -6, -4), cosine=True),
    "SGD": Method(_sgd, 1e-3, (-4, -2, 0)),
    "SGD, cosine": Method(_sgd, 1e-3, (-4, -2, 0), cosine=True),
    "Schedule-Free AdamW": Method(_schedule_free, 2.5e-3, (-6, -4), sparse=False),
    "Prodigy": Method(_prodigy, 1.0, sparse=False),
    "Prodigy, cosine": Method(_prodigy, 1.0, (-1, 0, 1), cosine=True, sparse=False),
    "Adagrad": Method(_adagrad, 1e-2, (-6, -4, -2)),
    "GradaGrad": Method(_gradagrad, 1e-2),
    OURS: Method(_auto, 1.0),
    f"{OURS}, γ₀": Method(_auto_from, 1e-4),
}
SWEEPS = ("AdamW", "AdamW, cosine", "SGD, cosine", "Schedule-Free AdamW", "Prodigy", "Adagrad", OURS, f"{OURS}, γ₀")


@dataclass(frozen=True)
class Row:
    """A row of a table: a method at its default or at the best of its learning rates, at one of two points."""

    label: str
    method: str
    tuned: bool = False
    averaged: bool = False
    main: bool = False  # trained first


ROWS = (
    Row("AdamW + cosine, tuned", "AdamW, cosine", tuned=True, main=True),
    Row("AdamW, tuned", "AdamW", tuned=True, main=True),
    Row("AdamW, tuned, averaged", "AdamW", tuned=True, averaged=True, main=True),
    Row("AdamW, default", "AdamW", main=True),
    Row("SGD + cosine, tuned", "SGD, cosine", tuned=True),
    Row("SGD, tuned", "SGD", tuned=True),
    Row("SGD, tuned, averaged", "SGD", tuned=True, averaged=True),
    Row("Schedule-Free AdamW, tuned", "Schedule-Free AdamW", tuned=True),
    Row("Schedule-Free AdamW, default", "Schedule-Free AdamW", main=True),
    Row("Prodigy + cosine, tuned", "Prodigy, cosine", tuned=True),
    Row("Prodigy, default", "Prodigy", main=True),
    Row("Adagrad, tuned", "Adagrad", tuned=True),
    Row("GradaGrad, as documented", "GradaGrad", main=True),
    Row("**AutoGradaGrad**", OURS, main=True),
    Row("**AutoGradaGrad**, averaged", OURS, averaged=True, main=True),
)


def rate(place: int) -> float:
    """The learning rate of a place on the grid of half-decades."""
    return float(f"{10 ** (place / 2):.3g}")


def rule_digest() -> str:
    """A digest of AutoGradaGrad's rule without comments and docstrings; records of another rule are outdated."""
    tree = ast.parse(Path(auto.__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12]
