"""Checks of AutoGradaGrad's arguments, in the form of `gradagrad.arguments`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradagrad.arguments import Rule, check_flags, check_number, complaint

_NOT_NEGATIVE: Rule = ("a finite number >= 0", lambda v: 0.0 <= v < math.inf, "")
_NUMBERS: dict[str, Rule] = {
    "lr": (
        "a finite number >= 0 (or a tensor with one element)",
        lambda v: 0.0 <= v < math.inf,
        "It multiplies the learning rate that the optimizer finds; leave it at 1.0 and let schedulers lower it.",
    ),
    "gamma0": (
        "a finite number > 0",
        lambda v: 0.0 < v < math.inf,
        "It is the learning rate to start from; too small costs a few steps, too large cannot be undone.",
    ),
    "strictness": ("a finite number > 0", lambda v: 0.0 < v < math.inf, "3 is the default."),
    "overshoot": ("a number > 0", lambda v: v > 0.0, "8 is the default; math.inf means that start-up never ends."),
    "certainty": (
        "a finite number >= 0",
        lambda v: 0.0 <= v < math.inf,
        "4 is the default; 0 takes coordinates' noise for independent from the start.",
    ),
    "momentum": (
        "a number in [0, 1)",
        lambda v: 0.0 <= v < 1.0,
        "It is β of h = β·h + (1 − β)·g, which x moves along; 0.7 is the default, 0 moves along the gradient.",
    ),
    "growth_limit": (
        "a finite number >= 1",
        lambda v: 1.0 <= v < math.inf,
        "It is the largest factor γ may grow by in one step.",
    ),
    "weight_decay": _NOT_NEGATIVE,
    "eps": _NOT_NEGATIVE,
}
_FLAGS = ("decoupled_weight_decay", "maximize", "differentiable", "capturable")
# One test over all parameters decides for all of them, so that these cannot differ from group to group.
SHARED = ("gamma0", "strictness", "overshoot", "certainty", "growth_limit", "weighting")
_CHOICES: dict[str, tuple[Any, ...]] = {"weighting": ("linear", "uniform"), "averaging": ("polynomial", None)}


def checked(group: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A copy of a param group whose values obey every rule, numbers as plain floats; raises otherwise."""
    result = dict(group)
    for name, rule in _NUMBERS.items():
        result[name] = check_number(name, group[name], rule)
    check_flags(group, _FLAGS)
    for name, choices in _CHOICES.items():
        if group[name] not in choices:
            raise ValueError(complaint(name, " or ".join(map(repr, choices)), group[name]))
    for other in others:
        for name in SHARED:
            if result[name] != other[name]:
                remedy = "One test over all parameters decides; to scale a group's steps, give it an lr."
                raise ValueError(complaint(name, f"{other[name]!r} as in the other param groups", result[name], remedy))
    return result
