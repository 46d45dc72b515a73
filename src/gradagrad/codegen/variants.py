"""The forms in which the kernel runs the rules, and the settings as it takes them.

Options that add or remove operations make *variants*. Within a variant, an option that is off is a number without
effect. There are few variants, because each is compiled for every precision and instruction set.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any

from gradagrad.codegen import trace
from gradagrad.codegen.trace import Function, Symbol, Tape
from gradagrad.rules import auto, gradagrad
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import Array, Block, Ops, Reduction, Rule, Values
from gradagrad.rules.scope import SINGLE


class _BoundedGradaGrad(gradagrad.GradaGradRule):
    """GradaGrad with options chosen at run time for all elements alike: a cap on γ, and a projection onto a box."""

    def decide(
        self, sums: Sequence[Array], block: Block, s: Any, ops: Ops
    ) -> tuple[dict[str, Array], tuple[Array, ...]]:
        free, free_factors = super().decide(sums, block, s._replace(gamma_max=None), ops)
        if s.travelled:
            return free, free_factors
        capped, factors = super().decide(sums, block, s, ops)
        # An infinite cap would not do, because a growth of NaN is not below it either.
        chosen = ops.less(s.gamma_max, sys.float_info.max)
        after = {key: ops.where(chosen, capped[key], free[key]) for key in free}
        return after, tuple(ops.where(chosen, a, b) for a, b in zip(factors, free_factors, strict=True))

    def move(
        self, values: Values, factors: Sequence[Array], s: Any, sums: Reduction, ops: Ops, touched: Array = None
    ) -> tuple[dict[str, Array], tuple[()]]:
        lower, upper, projects = (Symbol(ops, name, "wide") for name in ("lower", "upper", "projects"))  # pyright: ignore[reportArgumentType]
        free, _ = super().move(values, factors, s, sums, ops, touched)

        def project(point: Array, metric: Array) -> Array:
            return ops.minimum(ops.maximum(point, lower), upper)

        box = s._replace(project=project)
        bounded, _ = super().move(values, factors, box, sums, ops, touched)
        chosen = ops.less(0.0, projects)
        return {key: ops.where(chosen, bounded[key], free[key]) for key in free}, ()


@dataclass(frozen=True)
class Variant:
    """One form of a rule: ``static`` settings say which operations there are, ``variable`` are names of numbers."""

    name: str
    rule: Rule
    static: Any
    variable: tuple[str, ...]
    order: tuple[str, ...]
    """All settings of the rule's variants, as the kernel is given them."""
    elementwise: bool
    """Whether blocks may be elements or rows; otherwise they are tensors, groups or all."""

    @property
    def static_lazy(self) -> bool:
        """Whether rows without a gradient stay."""
        return bool(getattr(self.static, "lazy", False))


def _numeric(settings: Any) -> tuple[str, ...]:
    """The settings that are numbers; None marks an option that is off. The host tells the kernel what moves."""
    names = settings._asdict().items()
    return tuple(name for name, a in names if not isinstance(a, bool) and name not in ("project", "moved"))


_OPTIONS = tuple(name for name, a in gradagrad.Settings()._asdict().items() if a is None)
_BOX = ("lower", "upper", "projects")
GRADAGRAD_ORDER = (*_numeric(gradagrad.Settings()), *_BOX)
AUTO_ORDER = _numeric(auto.Settings())


def _gradagrad(options: str, *, momentum: bool) -> Variant:
    full = "full" in options
    left_out = () if full else (*(name for name in _OPTIONS if name != gradagrad.GROWTH_LIMIT), *_BOX)
    static = gradagrad.Settings(lazy="lazy" in options, beta=0.9 if momentum else 0.0, travelled="capped" in options)
    return Variant(
        f"gradagrad_{options}{'_momentum' if momentum else ''}",
        _BoundedGradaGrad() if full else gradagrad.RULE,
        static,
        tuple(name for name in GRADAGRAD_ORDER if name not in left_out and (momentum or name != "beta")),
        GRADAGRAD_ORDER,
        True,
    )


def _auto(options: str) -> Variant:
    left_out = () if "full" in options else ("eps", "weight_decay")
    static = auto.Settings(guard="guard" in options)
    variable = tuple(name for name in AUTO_ORDER if name not in left_out)
    return Variant(f"auto_{options}", auto.RULE, static, variable, AUTO_ORDER, False)


VARIANTS: tuple[Variant, ...] = (
    *(
        _gradagrad(options, momentum=momentum)
        for options in ("plain", "full", "full_capped", "lazy", "lazy_full", "lazy_full_capped")
        for momentum in (False, True)
    ),
    *map(_auto, ("plain", "full", "guard", "guard_full")),
)
_PLACES = {variant.name: i for i, variant in enumerate(VARIANTS)}


def variant_of(s: Any, scope: str = "element") -> int | None:
    """The place in `VARIANTS` of the form that serves these settings for blocks of a scope; None if there is none."""
    if isinstance(s, auto.Settings):
        plain = is_off(s.eps) and is_off(s.weight_decay)
        form = ("guard" if plain else "guard_full") if s.guard else ("plain" if plain else "full")
        return _PLACES[f"auto_{form}"]
    if not isinstance(s, gradagrad.Settings):
        return None
    plain = all(getattr(s, name) is None or (name == gradagrad.GROWTH_LIMIT and scope in SINGLE) for name in _OPTIONS)
    form = ("lazy" if plain else "lazy_full") if s.lazy else ("plain" if plain else "full")
    form = f"{'lazy_' if s.lazy else ''}full_capped" if s.travelled else form
    return _PLACES[f"gradagrad_{form}{'' if is_off(s.beta) else '_momentum'}"]


# An option that is None becomes a number without effect: an infinite limit, or NaN, with which comparisons are false.
_NEUTRAL = {name: math.nan if name == "grad_bound" else math.inf for name in _OPTIONS}
_GRADAGRAD, _AUTO = attrgetter(*_numeric(gradagrad.Settings())), attrgetter(*AUTO_ORDER)


def kernel_settings(s: Any, bounds: tuple[float, float] | None = None) -> list[float]:
    """The settings as the kernel takes them; ``bounds`` are those of a projection onto a box."""
    if isinstance(s, auto.Settings):
        given, order = list(_AUTO(s if s.top_lr is not None else s._replace(top_lr=s.lr))), AUTO_ORDER
    else:
        given, order = [*_GRADAGRAD(s), *(bounds or (-math.inf, math.inf)), bounds is not None], GRADAGRAD_ORDER
    return [
        a if type(a) is float else _NEUTRAL[name] if a is None else float(a)
        for a, name in zip(given, order, strict=True)
    ]


@dataclass(frozen=True)
class Phases:
    """A variant's traced functions by name (None where it needs none), and how many numbers they hand on."""

    functions: dict[str, Function | None]
    sums: int
    factors: int
    statistics: int
    totals: int


@cache
def phases_of(place: int) -> Phases:
    """Traces a variant, given by its place in `VARIANTS`."""
    variant = VARIANTS[place]
    rule, s, variable = variant.rule, variant.static, variant.variable
    elements = ["x", *(f.key for f in rule.fields(s) if f.at == "element")]
    blocks = [f.key for f in rule.fields(s) if f.at != "element"]
    # Every variant has a limit on growth, except for the step of single elements, which is kept short.
    short = variable if "projects" in variable else tuple(name for name in variable if name != gradagrad.GROWTH_LIMIT)
    # Limits are double, as settings are, so that numbers computed from both equal those of Python's floats.
    measure = trace.measure(rule, s, variable, tape=Tape(wide=True)) if rule.measures else None
    sums = len(measure.results) if measure else 0
    decide = trace.decide(rule, s, variable, sums, wide=False, tape=Tape(wide=True))
    factors = sum(name.startswith("factor") for name in decide.results)
    move = trace.move(rule, s, variable, factors, tape=Tape(wide=True), sums=trace.Unfiltered)
    statistics = sum(name.startswith("statistic") for name in move.results)
    report = trace.report(rule, s, variable, statistics) if rule.learns else None
    totals = len(report.results) if report else 0
    idle = trace.idle(rule, s, variable, tape=Tape(wide=True)) if rule.needs_catch_up(s) else None
    # A field that the move only copies is written while measuring, which saves reading it again; lazy rows may stay.
    copied = {} if variant.static_lazy or not measure else copies(move, elements)
    late = {key: a for key, a in move.results.items() if key not in copied}
    brief = {key: a for key, a in move.results.items() if key in ("statistic0", *elements)}
    functions = {
        "step": trace.element_step(rule, s, short, tape=Tape(wide=True)) if variant.elementwise else None,
        "measure": measure,
        "decide": decide,
        "move": move,
        "idle": idle and changing(idle, elements),
        "idle_blocks": idle and changing(idle, blocks),
        "measure_early": measure and replace(measure, results={**measure.results, **copied}) if copied else None,
        "move_late": replace(move, results=late) if copied else None,
        "move_brief": replace(move, results=brief) if len(brief) < len(move.results) else None,
        "report": report,
        "learn": trace.learn(rule, s, variable, statistics, totals) if rule.learns else None,
    }
    return Phases({name: f and changing(f) for name, f in functions.items()}, sums, factors, statistics, totals)


def changing(function: Function, keys: Sequence[str] | None = None) -> Function:
    """The function without the results of ``keys`` that equal the input of the same name."""
    results = {
        key: result
        for key, result in function.results.items()
        if (keys is None or key in keys) and not (isinstance(result, Symbol) and result.name == key)
    }
    return replace(function, results=results)


def copies(function: Function, keys: Sequence[str]) -> dict[str, Any]:
    """The keys whose result is another input, unchanged."""
    found = {key: function.results[key] for key in keys if key in function.results}
    inputs = {"g", *keys}
    return {key: a for key, a in found.items() if isinstance(a, Symbol) and a.name in inputs and a.name != key}
