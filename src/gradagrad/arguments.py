"""Checks of arguments: one table of rules, one way to say what is wrong (name, rule, value, remedy)."""

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from gradagrad.granularity import GRANULARITIES

Rule = tuple[str, Callable[[float], bool], str]

_NOT_NEGATIVE: Rule = ("a finite number >= 0", lambda v: 0.0 <= v < math.inf, "")
_NUMBERS: dict[str, Rule] = {
    "lr": (
        "a finite number >= 0 (or a tensor with one element)",
        lambda v: 0.0 <= v < math.inf,
        "1.0 suits convex problems, 0.01 neural nets.",
    ),
    "rho": ("a finite number >= 0", lambda v: 0.0 <= v < math.inf, "0 is AdaGrad, 2 the paper's default."),
    "momentum": ("in [0, 1)", lambda v: 0.0 <= v < 1.0, "0.9 is a common choice, 0 means none."),
    "weight_decay": _NOT_NEGATIVE,
    "lr_decay": _NOT_NEGATIVE,
    "initial_accumulator_value": _NOT_NEGATIVE,
    "eps": _NOT_NEGATIVE,
    "grad_bound": (
        "None or a finite number > 0",
        lambda v: 0.0 < v < math.inf,
        "It is the largest gradient entry you expect; None uses the first gradient.",
    ),
    "gamma_max": ("a number > 0", lambda v: v > 0.0, "math.inf means no cap."),
    "growth_limit": (
        "a number >= 1",
        lambda v: v >= 1.0,
        "It is the largest factor γ may grow by in one step; math.inf means no limit.",
    ),
}
_FLAGS = ("decoupled_weight_decay", "lazy", "maximize", "differentiable", "capturable")


def complaint(name: str, rule: str, value: object, remedy: str = "") -> str:
    """The one form of every message about an argument."""
    return f"{name} must be {rule}, got {value!r}.{' ' if remedy else ''}{remedy}"


def checked(group: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a param group whose values obey every rule, numbers as plain floats; raises otherwise."""
    result = dict(group)
    for name in _NUMBERS:
        value = group[name]
        result[name] = None if name == "grad_bound" and value is None else check_number(name, value, _NUMBERS[name])
    check_flags(group, _FLAGS)
    if group["granularity"] not in GRANULARITIES:
        choices = ", ".join(repr(g) for g in GRANULARITIES)
        raise ValueError(complaint("granularity", f"one of {choices}", group["granularity"]))
    if not (group["projection"] is None or callable(group["projection"])):
        raise TypeError(
            complaint("projection", "None or a callable (point, metric) -> point", group["projection"], _PROJECTIONS)
        )
    _check_together(result)
    return result


_PROJECTIONS = "gradagrad.projections has Box, NonNegative, Ball, Simplex, L1Ball, Hyperplane and HalfSpace."


def check_number(name: str, value: Any, wanted: Rule) -> Any:
    """The value as a float, or a tensor lr as it is; raises if it breaks the rule."""
    rule, holds, remedy = wanted
    if name == "lr" and isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got shape {tuple(value.shape)}. Pass a 0-d tensor.")
        if not _is_traced(value) and not holds(float(value.detach())):
            raise ValueError(complaint(name, rule, float(value.detach()), remedy))
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(complaint(name, rule, value, remedy))
    number = float(value)
    if not holds(number):
        raise ValueError(complaint(name, rule, number, remedy))
    return number


def check_flags(group: Mapping[str, Any], flags: Sequence[str]) -> None:
    """Raises unless the named flags are booleans and the ways of stepping and storing, which optimizers share, fit."""
    for name in flags:
        if not isinstance(group[name], bool):
            raise TypeError(complaint(name, "True or False", group[name]))
    if not (group["foreach"] is None or isinstance(group["foreach"], bool)):
        raise TypeError(complaint("foreach", "None, True or False", group["foreach"], "None lets torch's rule decide."))
    if not (group["fused"] is None or isinstance(group["fused"], bool)):
        remedy = "None uses the compiled kernel wherever it can."
        raise TypeError(complaint("fused", "None, True or False", group["fused"], remedy))
    if group["state_dtype"] not in (torch.float32, torch.bfloat16):
        remedy = "float32 means the precision of the computation: float64 for float64 parameters."
        raise ValueError(complaint("state_dtype", "torch.float32 or torch.bfloat16", group["state_dtype"], remedy))
    for other in ("foreach", "differentiable", "capturable"):
        if group["fused"] and group[other]:
            raise ValueError(f"fused=True cannot be combined with {other}=True; pass fused=None or False.")
    if group["differentiable"] and group["state_dtype"] == torch.bfloat16:
        raise ValueError("differentiable=True needs state_dtype=torch.float32, since rounding has no derivative.")
    if group["foreach"] and group["differentiable"]:
        raise ValueError("foreach=True cannot be combined with differentiable=True; pass foreach=False or None.")


def _is_traced(value: Tensor) -> bool:
    return torch.compiler.is_compiling() or value.is_meta


def _check_together(group: Mapping[str, Any]) -> None:
    """Rules that concern several arguments."""
    if group["lazy"] and group["weight_decay"] and not group["decoupled_weight_decay"]:
        raise ValueError(
            complaint("weight_decay", "0 or decoupled with lazy=True", group["weight_decay"])
            + " Coupled decay gives every coordinate a gradient, so none is lazy; pass decoupled_weight_decay=True."
        )
    if group["projection"] is not None and group["weight_decay"] and group["decoupled_weight_decay"]:
        raise ValueError(
            "decoupled_weight_decay=True cannot be combined with a projection, since decay moves the parameters out "
            "of the set; use coupled weight_decay."
        )
    lr, gamma_max = group["lr"], group["gamma_max"]
    if not isinstance(lr, Tensor) and gamma_max < lr:
        raise ValueError(complaint("gamma_max", f"at least lr = {lr}", gamma_max, "γ starts at lr and never falls."))
    bound, start = group["grad_bound"], group["initial_accumulator_value"]
    if bound is not None and not start + 0.5 * bound**2 > start * (1.0 + 1e-6):
        raise ValueError(
            complaint("grad_bound", f"large enough to matter beside initial_accumulator_value = {start}", bound)
            + " Its square is added at the first step and would be lost to rounding; drop one of the two."
        )
