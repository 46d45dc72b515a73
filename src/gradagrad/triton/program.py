"""What kernels of one kind need: the plan that tells one kind from another, and the rule's functions, traced for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

from gradagrad.codegen import trace
from gradagrad.codegen.trace import Function, Symbol
from gradagrad.rules.rule import CLOCK, Rule
from gradagrad.rules.scope import SINGLE
from gradagrad.triton import language

SIZE = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


class Plan(NamedTuple):
    """All that the text depends on: whoever has an equal plan shares its kernels."""

    rule: Rule
    settings: Any
    """The rule's settings, every number that may change without a new text replaced by 1."""
    variable: tuple[str, ...]
    """Those numbers: arguments of the kernels, in double."""
    scope: str
    layout: Literal["flat", "rows", "sparse"]
    dtypes: tuple[tuple[str, str], ...]
    """Of ``x``, ``g`` and the fields, by key."""
    coupled: bool = False
    maximize: bool = False
    lr_decay: bool = False
    lr: str = ""
    """The dtype of a learning rate in device memory; empty: it is an argument."""
    counter: Literal["", "argument", "device"] = ""
    """Where the steps are counted, if the text needs to know them."""
    box: tuple[float, float] | None = None
    stochastic: bool = False
    """Whether bf16 parameters are rounded at random."""


class Program:
    """What a plan's kernels consist of: traced functions, and the rows of the table that they go by."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.rule = plan, plan.rule
        self.s = plan.settings if plan.box is None else plan.settings._replace(project=_box(*plan.box))
        self.types = dict(plan.dtypes)
        self.computing = "float64" if self.types["x"] == "float64" else "float32"
        self.fields = self.rule.fields(self.s)
        self.single = plan.scope in SINGLE
        self.clock = CLOCK in [f.key for f in self.fields]  # a slot that counts its own steps
        # Keys that are stored one number for each element, and those of slots that are not.
        self.element = ["x", "g", *(f.key for f in self.fields if f.at == "element" or plan.scope == "element")]
        self.slots = [f.key for f in self.fields if f.key not in self.element]
        self.sums = len(trace.measure(self.rule, self.s, ()).results) if self.rule.measures(self.s) else 0
        self.lazy = bool(getattr(self.s, "lazy", False))
        self.rests = plan.layout == "sparse" and self.rule.needs_catch_up(self.s)
        rounded = {k for k in self.element if k not in ("x", "g") and self.types[k] == "bfloat16"}
        rounded |= {"x"} if plan.stochastic and self.types["x"] == "bfloat16" else set()
        self.words = {key: word for key, word in language.words(self.fields).items() if key in rounded}
        self.keys = sorted({number for number, _ in self.words.values()})
        self.rows = [*self.element, *self.slots]
        self.rows += ["step"] if plan.counter == "device" else []
        self.rows += ["stream"] if self.words else []
        self.rows += ["block"] if plan.scope == "tensor" else []
        if plan.layout != "flat":
            self.rows += ["length"]
        if plan.layout == "sparse":
            self.rows += ["index", *(["row_steps"] if self.rests else [])]
        self._functions()

    def _functions(self) -> None:
        plan, rule, s, variable = self.plan, self.rule, self.s, self.plan.variable
        products = trace.Contribution if self.single and self.computing == "float32" else trace.Bounded
        self.measure = trace.measure(rule, s, variable, slots=products) if self.sums else None
        self.step = trace.element_step(rule, s, variable) if plan.scope == "element" else None
        decide = trace.decide(rule, s, variable, self.sums, wide=self.single)
        factors = [key for key in decide.results if key.startswith("factor")]
        touched = self.lazy and plan.layout != "flat" and plan.scope != "element"
        self.move = trace.move(rule, s, variable, len(factors), touched=touched)
        after = {key: a for key, a in decide.results.items() if key not in factors and not unchanged(a, key)}
        used = {key: a for key, a in decide.results.items() if key in self.move.used()}
        self.factors = replace(decide, name="factors", results=used)
        self.after = replace(decide, name="decide", results=after)
        self.decide = replace(decide, results=used | after)
        self.traces = [key for key in self.move.results if key.startswith("trace")]
        self.rest = trace.idle(rule, s, variable, wide=self.single) if self.rests else None
        self.learn: Function | None = None
        if rule.learns(s):
            learned = trace.learn(rule, s, variable, len(self.traces))
            self.learn = replace(learned, results={k: a for k, a in learned.results.items() if not unchanged(a, k)})

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels of this plan, in the order of a step."""
        return (*(("measure",) if self.sums else ()), "move", "settle") if self.single else ("step",)

    def row(self, key: str) -> int:
        """Where a key's addresses or numbers stand in the table."""
        return self.rows.index(key)

    def pointer(self, key: str, maker: str = "pointer") -> str:
        """The address of a tensor of this key."""
        dtype = {"step": "int64", "index": "int64", "row_steps": "int32"}.get(key) or self.types[key]
        return f"{maker}(table, {self.row(key)}, tensor, n, tl.{dtype})"

    def resting(self, keys: list[str]) -> Function | None:
        """What brings these fields up to date in a row that was left out for a while."""
        results = {key: a for key, a in self.rest.results.items() if key in keys} if self.rest else {}
        return replace(self.rest, results=results) if self.rest and results else None

    def used_settings(self, name: str) -> list[str]:
        """The rule's numbers that a kernel needs."""
        inside = {"measure": [self.measure], "move": [self.factors, self.move], "settle": [self.after, self.learn]}
        inside["step"] = [self.step] if self.step else [self.measure, self.decide, self.move]
        functions = [f for f in (*inside[name], self.rest if name != "settle" else None) if f]
        names = {key for f in functions for key in f.used()} | ({"lr"} if self.plan.lr_decay else set())
        return [number for number in self.plan.variable if number in names]


def unchanged(result: Any, key: str) -> bool:
    """Whether a function only passes this key on."""
    return isinstance(result, Symbol) and result.name == key


def _box(lower: float, upper: float) -> Any:
    """`Box` for symbols."""

    def project(point: Symbol, metric: Symbol) -> Any:
        tape, inside = point.tape, point
        if lower > -float("inf"):
            inside = tape.where(tape.less(inside, lower), lower, inside)
        return inside if upper == float("inf") else tape.where(tape.less(upper, inside), upper, inside)

    return project
