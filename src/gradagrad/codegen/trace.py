"""Turns a rule into source text: runs it on symbols and records the operations it asks for.

A rule never branches on data, so one run on symbols covers all of it; asking a symbol for its truth raises. There are
two kinds of number: *wide* ones (settings and shared blocks, computed once, in double) and the *values* of elements in
their own precision. A wide number that meets values is narrowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gradagrad.rules.rule import Rule

Kind = Literal["wide", "value", "wide mask", "mask"]


def _operator(op: str) -> tuple[Callable[[Symbol, Any], Symbol], Callable[[Symbol, Any], Symbol]]:
    """A symbol's operator, and its reflected form."""
    return lambda a, b: a.tape.add(op, a, b), lambda b, a: b.tape.add(op, a, b)


class Symbol:
    """A number of a traced function, with the rule's operators."""

    __slots__ = ("kind", "name", "tape")

    def __init__(self, tape: Tape, name: str, kind: Kind) -> None:
        self.tape, self.name, self.kind = tape, name, kind

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")

    def __neg__(self) -> Symbol:
        return self.tape.add("neg", self)

    def __bool__(self) -> bool:
        raise TypeError(f"the rule branches on {self.name}, which is data; use ops.where.")


@dataclass(frozen=True)
class Operation:
    """One line of a traced function: ``target = op(arguments)``; arguments are symbols or constants."""

    target: Symbol
    op: str
    arguments: tuple[Any, ...]


class Tape:
    """The rule's `Ops`, recording operations instead of computing them. Equal operations are recorded once."""

    def __init__(self, *, wide: bool = False) -> None:
        # The limits of the arithmetic are symbols too, because one text serves float and double.
        kind: Kind = "wide" if wide else "value"
        self.tiny: Any = Symbol(self, "TINY", kind)
        self.largest: Any = Symbol(self, "LARGEST", kind)
        self.operations: list[Operation] = []
        self._known: dict[tuple[Any, ...], Symbol] = {}

    def add(self, op: str, *arguments: Any) -> Symbol:
        arguments = tuple(a if isinstance(a, Symbol) else float(a) for a in arguments)
        kind = _kind(op, arguments)
        if kind in ("value", "mask"):
            arguments = tuple(map(self.narrow, arguments))
        return self._noted(op, arguments, kind)

    def _noted(self, op: str, arguments: tuple[Any, ...], kind: Kind) -> Symbol:
        key = (op, *(a.name if isinstance(a, Symbol) else a for a in arguments))
        if key not in self._known:
            target = self._known[key] = Symbol(self, f"t{len(self.operations)}", kind)
            self.operations.append(Operation(target, op, arguments))
        return self._known[key]

    def sqrt(self, a: Any) -> Any:
        return self.add("sqrt", a) if isinstance(a, Symbol) else float(a) ** 0.5

    def exp(self, a: Any) -> Any:
        return self.add("exp", a)

    def log(self, a: Any) -> Any:
        return self.add("log", a)

    def maximum(self, a: Any, b: Any) -> Any:
        return self.add("max", a, b) if _symbolic(a, b) else max(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return self.add("min", a, b) if _symbolic(a, b) else min(a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return self.add("where", condition, a, b)

    def less(self, a: Any, b: Any) -> Any:
        return self.add("less", a, b)

    def indicator(self, a: Any) -> Any:
        return self.where(self.unequal(a, 0.0), 1.0, 0.0)

    def unequal(self, a: Any, b: Any) -> Any:
        return self.add("unequal", a, b)

    def narrow(self, a: Any) -> Any:
        return self._noted("narrow", (a,), "value") if isinstance(a, Symbol) and a.kind == "wide" else a


def _symbolic(*arguments: Any) -> bool:
    return any(isinstance(a, Symbol) for a in arguments)


def _kind(op: str, arguments: Sequence[Any]) -> Kind:
    kinds = {a.kind for a in arguments if isinstance(a, Symbol)}
    values = bool(kinds & {"value", "mask"})
    if op in ("less", "unequal"):
        return "mask" if values else "wide mask"
    if op == "where" and arguments[0].kind == "mask":
        return "value"
    return "value" if values else "wide"


@dataclass
class Function:
    """A traced piece of a rule: named inputs, straight-line operations, named results."""

    name: str
    inputs: dict[str, Symbol]
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    operations: list[Operation] = field(default_factory=list[Operation])

    def needed(self) -> list[Operation]:
        """The operations that some result depends on, in order."""
        wanted = {r.name for r in self.results.values() if isinstance(r, Symbol)}
        found: list[Operation] = []
        for operation in reversed(self.operations):
            if operation.target.name in wanted:
                found.append(operation)
                wanted.update(a.name for a in operation.arguments if isinstance(a, Symbol))
        return found[::-1]

    def used(self) -> list[str]:
        """The inputs that some result depends on, in order."""
        names = {a.name for o in self.needed() for a in o.arguments if isinstance(a, Symbol)}
        names |= {r.name for r in self.results.values() if isinstance(r, Symbol)}
        return [name for name in self.inputs if name in names]


@dataclass(frozen=True)
class Language:
    """How a language writes operations: a template for each, by kind where it matters, and its constants."""

    templates: Mapping[str, str]
    constant: Callable[[float, Kind], str]
    statement: Callable[[Symbol, str], str]

    def line(self, operation: Operation) -> str:
        """One statement."""
        # A constant takes the kind of the other arguments.
        symbols = [a for a in (*operation.arguments, operation.target) if isinstance(a, Symbol)]
        kind: Kind = "value" if any(a.kind in ("value", "mask") for a in symbols) else "wide"
        texts = [self.text(a, kind) for a in operation.arguments]
        template = self.templates.get(f"{operation.op} {kind}", self.templates.get(operation.op, ""))
        return self.statement(operation.target, template.format(*texts))

    def text(self, a: Any, kind: Kind = "value") -> str:
        """A symbol's name or a constant."""
        return a.name if isinstance(a, Symbol) else self.constant(float(a), kind)

    def body(self, function: Function, indent: str = "  ") -> str:
        """All statements of a function."""
        return "\n".join(indent + self.line(operation) for operation in function.needed())


# A rule's fields and settings become inputs under their own names, so that callers can pass them by name.
def _inputs(tape: Tape, names: Sequence[str], kind: Kind) -> dict[str, Symbol]:
    return {name: Symbol(tape, name, kind) for name in names}


def _settings(tape: Tape, s: Any, variable: Sequence[str]) -> tuple[Any, dict[str, Symbol]]:
    symbols = _inputs(tape, variable, "wide")
    return s._replace(**{name: symbol for name, symbol in symbols.items() if name in s._fields}), symbols


def _block_keys(rule: Rule, s: Any) -> list[str]:
    return [f.key for f in rule.fields(s) if f.at != "element"]


def _element_keys(rule: Rule, s: Any) -> list[str]:
    return [f.key for f in rule.fields(s) if f.at == "element"]


class Contribution:
    """What one element adds to the sums of its block. The generated loop widens the arguments of products first."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def dot(self, a: Any, b: Any) -> Any:
        return a * b

    def total(self, a: Any) -> Any:
        # a·0 is 0 unless a is NaN or infinite.
        return self._tape.where(self._tape.unequal(a * 0.0, 0.0), 0.0, a)


class Unfiltered(Contribution):
    """The sums of a block for a loop that leaves out what is not finite."""

    def total(self, a: Any) -> Any:
        return a


def element_step(rule: Rule, s: Any, variable: Sequence[str], *, tape: Tape | None = None) -> Function:
    """Traces a whole step in which every element is a block. ``variable`` names the settings that stay inputs."""
    tape = tape or Tape()
    values = _inputs(tape, ["x", "g", *_element_keys(rule, s)], "value")
    block = _inputs(tape, _block_keys(rule, s), "value")
    s, settings = _settings(tape, s, variable)
    touched = tape.unequal(values["g"], 0.0) if getattr(s, "lazy", False) else None
    sums = rule.measure(values, s, Contribution(tape), tape) if rule.measures else ()
    after, factors = rule.decide(sums, block, s, tape)
    new, _ = rule.move(values, factors, s, Contribution(tape), tape, touched)
    return Function("step", {**values, **block, **settings}, {**new, **after}, tape.operations)


class Bounded(Contribution):
    """What one element adds to the sums, without widening: products stop at the largest number, except for squares."""

    def dot(self, a: Any, b: Any) -> Any:
        tape = self._tape
        return a * b if a is b else tape.maximum(tape.minimum(a * b, tape.largest), -tape.largest)


def measure(
    rule: Rule, s: Any, variable: Sequence[str], *, tape: Tape | None = None, blocks: type[Contribution] = Contribution
) -> Function:
    """What one element adds to the sums of its block; to be compiled in double, where products of floats are exact."""
    tape = tape or Tape()
    values = _inputs(tape, ["x", "g", *_element_keys(rule, s)], "value")
    s, settings = _settings(tape, s, variable)
    sums = rule.measure(values, s, blocks(tape), tape)
    return Function("measure", {**values, **settings}, {f"sum{i}": a for i, a in enumerate(sums)}, tape.operations)


def decide(
    rule: Rule, s: Any, variable: Sequence[str], sums: int, *, wide: bool = True, tape: Tape | None = None
) -> Function:
    """Traces `decide` with ``sums`` inputs. The arithmetic is float64 unless each row is a block."""
    tape = tape or Tape(wide=wide)
    kind: Kind = "wide" if wide else "value"
    given = _inputs(tape, [f"sum{i}" for i in range(sums)], kind)
    block = _inputs(tape, _block_keys(rule, s), kind)
    s, settings = _settings(tape, s, variable)
    after, factors = rule.decide(list(given.values()), block, s, tape)
    results = {**after, **{f"factor{i}": a for i, a in enumerate(factors)}}
    return Function("decide", {**given, **block, **settings}, results, tape.operations)


def move(
    rule: Rule,
    s: Any,
    variable: Sequence[str],
    factors: int,
    *,
    tape: Tape | None = None,
    sums: type[Contribution] = Contribution,
) -> Function:
    """Traces `move` with ``factors`` inputs from `decide`."""
    tape = tape or Tape()
    values = _inputs(tape, ["x", "g", *_element_keys(rule, s)], "value")
    given = _inputs(tape, [f"factor{i}" for i in range(factors)], "value")
    s, settings = _settings(tape, s, variable)
    new, statistics = rule.move(values, list(given.values()), s, sums(tape), tape)
    results = {**new, **{f"statistic{i}": a for i, a in enumerate(statistics)}}
    return Function("move", {**values, **given, **settings}, results, tape.operations)


def report(rule: Rule, s: Any, variable: Sequence[str], statistics: int) -> Function:
    """Traces `report`: what a block of ``elements`` elements adds to the totals over all blocks."""
    tape = Tape(wide=True)
    given = _inputs(tape, [f"statistic{i}" for i in range(statistics)], "wide")
    block, size = _inputs(tape, _block_keys(rule, s), "wide"), _inputs(tape, ["elements"], "wide")
    s, settings = _settings(tape, s, variable)
    totals = rule.report(list(given.values()), block, size["elements"], s, tape)
    results = {f"total{i}": a for i, a in enumerate(totals)}
    return Function("report", {**given, **block, **size, **settings}, results, tape.operations)


def learn(rule: Rule, s: Any, variable: Sequence[str], statistics: int, totals: int) -> Function:
    """Traces `learn` with ``statistics`` of a block and ``totals`` over all blocks as inputs."""
    tape = Tape(wide=True)
    given = _inputs(tape, [f"statistic{i}" for i in range(statistics)], "wide")
    sums = _inputs(tape, [f"total{i}" for i in range(totals)], "wide")
    block = _inputs(tape, _block_keys(rule, s), "wide")
    s, settings = _settings(tape, s, variable)
    results = rule.learn(list(given.values()), list(sums.values()), block, s, tape)
    return Function("learn", {**given, **sums, **block, **settings}, results, tape.operations)


def idle(rule: Rule, s: Any, variable: Sequence[str], *, tape: Tape | None = None) -> Function:
    """Traces `idle`, which brings a row from the time ``since`` to the time ``now``. Both inputs are float64."""
    tape = tape or Tape()
    values = _inputs(tape, ["x", *_element_keys(rule, s)], "value")
    block = _inputs(tape, _block_keys(rule, s), "value")
    clocks = _inputs(tape, ["since", "now"], "wide")
    s, settings = _settings(tape, s, variable)
    results = rule.idle(values, block, clocks["since"], clocks["now"], s, tape)
    return Function("idle", {**values, **block, **clocks, **settings}, results, tape.operations)
