"""Rules for arguments: one table for each optimizer, and one form of error message (name, rule, value, remedy).

No framework is imported, so the torch classes and `gradagrad.optax` share the tables and the messages. Arguments that
only one of them has (a tensor as lr, a schedule, dtypes) are checked in `gradagrad.checks.torch` and
`gradagrad.optax.arguments`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from itertools import islice
from numbers import Real
from typing import Any, ParamSpec

from gradagrad.rules.scope import SCOPES

P = ParamSpec("P")
_LARGEST = (2.0 - 2.0**-23) * 2.0**127
"""The largest float32. A larger setting would become infinite in the middle of a step."""


@dataclass(frozen=True)
class Number:
    """What a numeric argument must be."""

    rule: str
    holds: Callable[[float], bool]
    remedy: str = ""
    optional: bool = False
    """Whether None is allowed."""
    word: str = ""
    """What is allowed besides numbers."""


@dataclass(frozen=True)
class Table:
    """All rules of one optimizer's arguments."""

    numeric: Mapping[str, Number]
    flags: tuple[str, ...]
    choices: Mapping[str, tuple[str | None, ...]]
    scope: str | None
    """The argument that sets the scope of a block, if there is one."""
    free: tuple[str, ...]
    """Arguments that may differ between groups that share a decision; they must agree on all others."""
    elsewhere: Mapping[str, str]
    """Arguments of other optimizers, and what to do instead."""


def _not_negative(remedy: str = "") -> Number:
    return Number("a finite number >= 0", lambda v: 0.0 <= v < math.inf, remedy)


_GAMMA_MAX = Number("a number > 0", lambda v: v > 0.0, "math.inf means no cap.")
_FLAGS = ("decoupled_weight_decay", "maximize", "differentiable", "capturable", "stochastic_rounding")

GRADAGRAD = Table(
    numeric={
        "lr": _not_negative("1.0 suits convex problems, 0.01 neural nets."),
        "rho": _not_negative("0 is AdaGrad, 2 the paper's default."),
        "momentum": Number("in [0, 1)", lambda v: 0.0 <= v < 1.0, "0.9 is a common choice, 0 means none."),
        "weight_decay": _not_negative(),
        "lr_decay": _not_negative(),
        "initial_accumulator_value": _not_negative(),
        "eps": _not_negative(),
        "grad_bound": Number(
            "None or a number > 0 whose square is finite",
            lambda v: v > 0.0 and v * v < math.inf,
            "It is the largest gradient entry you expect; None uses the first gradient.",
            optional=True,
        ),
        "gamma_max": replace(_GAMMA_MAX, rule='a number > 0 or "travelled"', word="travelled"),
        "growth_limit": Number(
            "None or a number >= 1",
            lambda v: v >= 1.0,
            "It limits the factor by which γ grows in one step; math.inf means no limit.",
            optional=True,
        ),
    },
    flags=(*_FLAGS, "lazy"),
    choices={"granularity": SCOPES},
    scope="granularity",
    free=("lr", "weight_decay", "lr_decay", *_FLAGS),
    elsewhere={
        "betas": "momentum plays the role of the first one, and there is no second one.",
        "gamma0": "γ starts at lr.",
        "guard": "Only AutoGradaGrad has it.",
    },
)
_NO_WARMUP = "Leave it out: γ starts low and finds its own pace."
AUTOGRADAGRAD = Table(
    numeric={
        "lr": _not_negative("It multiplies the learning rate that the optimizer finds: 1.0, or less for a slow group."),
        "gamma0": Number("a finite number > 0", lambda v: 0.0 < v < math.inf, "It is γ in a tensor's first step."),
        "momentum": Number(
            "in (0, 1)", lambda v: 0.0 < v < 1.0, "It is the part of the average in the parameters; 0.6 is the default."
        ),
        "weight_decay": _not_negative(),
        "eps": _not_negative(),
        "gamma_max": _GAMMA_MAX,
    },
    flags=(*_FLAGS, "guard"),
    choices={"mode": ("train", "eval")},  # state dicts have it
    scope=None,
    free=("lr", "momentum", "weight_decay", "eps", "gamma_max", "guard", *_FLAGS),
    elsewhere={
        "betas": "momentum plays the role of the first one. None is needed for squares, which count over all steps.",
        "d0": "Leave it out: γ starts at a share of each tensor's size.",
        "d_coef": "Leave it out: γ needs no factor, and lr counts only relative to the largest lr so far.",
        "decouple": "decoupled_weight_decay plays this role, and is True by default.",
        "growth_rate": "Leave it out: what γ changes by in one step is limited anyway. gamma_max caps it.",
        "rho": "Leave it out: only GradaGrad has it.",
        "granularity": "Leave it out: each tensor has its own γ.",
        "lr_decay": "Use a scheduler of torch.optim.lr_scheduler.",
        **dict.fromkeys(("use_bias_correction", "safeguard_warmup", "warmup_steps"), _NO_WARMUP),
        **dict.fromkeys(("weight_lr_power", "r"), "Leave it out: γ sets the weights of the average."),
    },
)


def error_text(name: str, rule: str, value: object, remedy: str = "") -> str:
    """The one form of every message about an argument."""
    return f"{name} must be {rule}, got {_shown(value)}.{' ' if remedy else ''}{remedy}"


def _shown(value: object) -> str:
    """The value's repr, shortened to one line; an integer of thousands of digits has no repr."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:60]} … {text[-20:]}"


def check_number(name: str, value: Any, wanted: Number) -> Any:
    """The value as a plain float, or None where that is allowed; raises if it breaks the rule."""
    if (value is None and wanted.optional) or (isinstance(value, str) and value == wanted.word != ""):
        return value
    # numpy's bool is no Real; Python's is.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(error_text(name, wanted.rule, value, wanted.remedy))
    try:
        number = float(value)
    except OverflowError:  # an integer or fraction beyond every float
        raise ValueError(error_text(name, wanted.rule, value, wanted.remedy)) from None
    if not wanted.holds(number):
        raise ValueError(error_text(name, wanted.rule, number, wanted.remedy))
    if _LARGEST < number < math.inf:
        raise ValueError(
            error_text(name, f"{wanted.rule}, and at most {_LARGEST:.2g}, because steps are in float32", number)
        )
    return number


def checked(
    table: Table,
    group: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]] = (),
    *,
    number: Callable[[str, Any, Number], Any] = check_number,
    lr_name: str = "lr",
) -> dict[str, Any]:
    """A copy of a param group whose values obey every rule, numbers as plain floats; raises otherwise.

    Missing arguments are not checked. ``others`` are the param groups before it. ``number`` checks a number and returns
    the value to keep; frameworks with their own kinds of numbers pass their own.
    """
    result = dict(group)
    for name, wanted in table.numeric.items():
        if name in group:
            result[name] = number(lr_name if name == "lr" else name, group[name], wanted)
    for name in table.flags:
        if name in group and not isinstance(group[name], bool):
            raise TypeError(error_text(name, "True or False", group[name]))
    for name, choices in table.choices.items():
        if name in group:
            check_one_of(name, group[name], choices)
    _check_together(result, lr_name)
    _check_agreement(table, result, others)
    return result


def check_one_of(name: str, value: Any, choices: Sequence[str | None]) -> None:
    """Raises unless the value is one of the choices. Only strings are compared: arrays compare entry by entry."""
    if not (value is None and None in choices) and not (isinstance(value, str) and value in choices):
        rule = " or ".join(map(repr, choices)) if len(choices) < 3 else f"one of {', '.join(map(repr, choices))}"
        raise ValueError(error_text(name, rule, value, _did_you_mean(value, choices)))


def _did_you_mean(value: object, known: Iterable[str | None]) -> str:
    near = get_close_matches(str(value), [name for name in known if name], 1)
    return f"Did you mean {near[0]!r}?" if near else ""


def explains_unknown(elsewhere: Mapping[str, str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Has a constructor explain arguments that only others have, and misspelt ones."""

    def explaining(init: Callable[P, None]) -> Callable[P, None]:
        known = [*signature(init).parameters]

        @wraps(init)
        def checking(*args: P.args, **kwargs: P.kwargs) -> None:
            for name in kwargs.keys() - known:
                if remedy := elsewhere.get(name) or _did_you_mean(name, known):
                    raise TypeError(f"{type(args[0]).__name__} has no argument {name}. {remedy}")
            init(*args, **kwargs)

        return checking

    return explaining


def check_projection(value: Any, remedy: str) -> None:
    """Raises unless the value is None or can be called."""
    if not (value is None or callable(value)):
        raise TypeError(error_text("projection", "None or a callable (point, metric) -> point", value, remedy))


def _check_together(group: Mapping[str, Any], lr_name: str) -> None:
    """Rules that concern several arguments. Numbers that a framework traces are not compared."""
    decay = group.get("weight_decay", 0.0)
    decays = not (isinstance(decay, float) and decay == 0.0)
    if group.get("lazy") and decays and not group["decoupled_weight_decay"]:
        remedy = "Coupled decay gives every coordinate a gradient, so none is lazy; pass decoupled_weight_decay=True."
        raise ValueError(error_text("weight_decay", "0 or decoupled with lazy=True", decay, remedy))
    if group.get("projection") is not None and decays and group["decoupled_weight_decay"]:
        remedy = "Decay moves the parameters out of the set; use coupled weight_decay."
        raise ValueError(error_text("decoupled_weight_decay", "False with a projection", True, remedy))
    lr, gamma_max = group.get("lr"), group.get("gamma_max")
    if "granularity" in group and isinstance(lr, float) and isinstance(gamma_max, float) and gamma_max < lr:
        remedy = f"γ starts at {lr_name} and never falls."
        raise ValueError(error_text("gamma_max", f"at least {lr_name} = {lr}", gamma_max, remedy))
    gamma0 = group.get("gamma0")
    if isinstance(gamma0, float) and isinstance(gamma_max, float) and gamma_max < gamma0:
        raise ValueError(error_text("gamma_max", f"at least gamma0 = {gamma0}", gamma_max, "γ starts there."))
    bound, start = group.get("grad_bound"), group.get("initial_accumulator_value")
    if (
        isinstance(bound, float)
        and isinstance(start, float)
        and not start + 0.5 * (bound * bound) > start * (1.0 + 1e-6)
    ):
        rule = f"large enough to matter beside initial_accumulator_value = {start}"
        remedy = "Its square is added at the first step and would be lost to rounding; drop one of the two."
        raise ValueError(error_text("grad_bound", rule, bound, remedy))


def _check_agreement(table: Table, group: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Raises where param groups that share a decision differ in an argument of it."""
    sharing = (o for o in others if table.scope is None or group.get(table.scope) == o[table.scope] == "all")
    for other in islice(sharing, 1):  # The others agree with one another.
        for name in (*table.numeric, *table.flags):
            if name not in table.free and group[name] != other[name]:
                because = f'With {table.scope}="all", all' if table.scope else "All"
                remedy = f"{because} groups share it; to scale a group's steps, give it an lr."
                rule = f"{other[name]!r} as in the other param groups"
                raise ValueError(error_text(name, rule, group[name], remedy))
