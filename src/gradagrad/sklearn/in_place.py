"""A rule's move over NumPy arrays in place: text made from the rule by tracing it, with as few arrays as will do.

Called with arrays a rule makes a new one in every line, and beyond the cache their allocation costs several times the
arithmetic. The text made here writes each line's result over what is no longer needed.

There are two texts: one for gradients without a zero, where no element rests, and one for the others. Both leave
numbers that are not finite to whoever adds up the statistics.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad.codegen import trace
from gradagrad.codegen.trace import Function, Symbol
from gradagrad.rules.rule import Rule
from gradagrad.sklearn.ops import LARGEST, TINY, Sums

Arrays = dict[str, NDArray[np.float64]]

UFUNCS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "sqrt": "sqrt",
    "max": "maximum", "min": "minimum", "neg": "negative",
}  # fmt: skip
SCOPE: dict[str, Any] = {
    **{name: getattr(np, name) for name in (*UFUNCS.values(), "not_equal", "copyto")},
    "TINY": TINY,
    "LARGEST": LARGEST,
}
SUMS = Sums()


class Line:
    """``target = op(arguments)``; arguments are names, or numbers."""

    def __init__(self, target: str, op: str, arguments: list[Any]) -> None:
        self.target, self.op, self.arguments = target, op, arguments


class InPlaceMove:
    """`Rule.move` for one block, with room of its own for what it works out on the way."""

    def __init__(self, rule: Rule, settings: Any, factors: int) -> None:
        self.keys, self.texts, self.room = _texts(rule, settings, factors)
        self.capacity = self.size = -1

    def __call__(self, values: Arrays, factors: Sequence[float]) -> tuple[float, ...]:
        """Overwrites x and the element fields in ``values``; g stays as it is. Returns the statistics."""
        g = values["g"]
        if g.size != self.size:
            self._make_room(g.size)
        rests = bool(np.count_nonzero(g) != g.size)  # NaN is not zero
        statistics = self.texts[rests](*[values[key].reshape(-1) for key in self.keys], *factors, *self.buffers)
        return tuple([SUMS.total(a) for a in statistics])

    def _make_room(self, size: int) -> None:
        if size > self.capacity:
            self.capacity = size
            self.whole = list(np.empty((self.room, size)))
        self.size, self.buffers = size, [buffer[:size] for buffer in self.whole]


@functools.cache
def _texts(rule: Rule, settings: Any, factors: int) -> tuple[list[str], list[Callable[..., Any]], int]:
    """(names of the arrays, the function for no zero and the one for some, how many buffers they need)."""
    function = trace.move(rule, settings, [], factors)
    state = ["x", *(field.key for field in rule.fields(settings) if field.at == "element")]
    texts = [_Text(function, state, factors, rests=rests) for rests in (False, True)]
    buffers = max(text.room for text in texts)
    return ["g", *state], [text.compile(buffers) for text in texts], buffers


class _Text:
    """The text of one function. Names of the traced function are kept; ``s0 …`` are buffers."""

    def __init__(self, function: Function, state: list[str], factors: int, *, rests: bool) -> None:
        self.state, self.inputs = state, ["g", *state, *(f"factor{i}" for i in range(factors))]
        self.same: dict[str, Any] = {}  # what a name turned out to be: another name, a number, or True or False
        lines = self._simplified(function, rests)
        results = function.results.items()
        self.results = {key: self._meaning(a.name if isinstance(a, Symbol) else a) for key, a in results}
        self.lines = self._needed(lines)
        self.text: list[str] = []
        self.room = self._write()

    def _meaning(self, a: Any) -> Any:
        while isinstance(a, str) and a in self.same:
            a = self.same[a]
        return a

    def _simplified(self, function: Function, rests: bool) -> list[Line]:
        """The operations that are left once it is known that all is finite and, unless something rests, moves."""
        lines: list[Line] = []
        zeroed: set[str] = set()  # products with 0: what tells whether a number is finite
        masks: set[str] = set()
        for operation in function.operations:
            target, op = operation.target.name, operation.op
            arguments = [self._meaning(a.name if isinstance(a, Symbol) else a) for a in operation.arguments]
            match op, arguments:
                case ("narrow", [a]) | ("add", [a, 0.0]) | ("mul", [a, 1.0]) | ("mul", [1.0, a]):
                    self.same[target] = a
                case "mul", [_, 0.0]:
                    zeroed.add(target)
                case "unequal", [str(a), 0.0] if a in zeroed:
                    self.same[target] = False
                case "unequal", ["g", 0.0] if not rests:
                    self.same[target] = True
                case "unequal", ["g", 0.0]:
                    masks.add(target)
                case "where", [bool(condition), a, b]:
                    self.same[target] = a if condition else b
                case "where", [str(a), 1.0, 0.0] if a in masks:
                    lines.append(Line(target, "indicator", ["g"]))
                case _ if op in UFUNCS:
                    lines.append(Line(target, op, arguments))
                case _:
                    raise TypeError(f"no text for {op}{tuple(arguments)}: a rule may choose by g ≠ 0 only.")
        return lines

    def _needed(self, lines: list[Line]) -> list[Line]:
        wanted, needed = {a for a in self.results.values() if isinstance(a, str)}, list[Line]()
        for line in reversed(lines):
            if line.target in wanted:
                needed.append(line)
                wanted.update(a for a in line.arguments if isinstance(a, str))
        return needed[::-1]

    def _write(self) -> int:
        """Fills the text. Returns how many buffers it needs."""
        last = {a: i for i, line in enumerate(self.lines) for a in line.arguments if isinstance(a, str)}
        homes = {a: key for key, a in self.results.items() if key in self.state and isinstance(a, str)}
        statistics = [a for key, a in self.results.items() if key not in self.state]
        place = {name: name for name in self.inputs}
        buffers: list[str] = []
        free: list[str] = []
        for i, line in enumerate(self.lines):
            operands = [place.get(a, a) if isinstance(a, str) else repr(a) for a in line.arguments]
            ending = [a for a in line.arguments if last.get(a) == i and a not in statistics]
            dying = {place[a] for a in ending if place.get(a) in buffers}
            home = homes.get(line.target)
            if home is not None and last.get(home, -1) <= i:
                out = home  # nobody wants the old value after this line
            elif dying:
                out = min(dying)
            elif free:
                out = free.pop()
            else:
                out = f"s{len(buffers)}"
                buffers.append(out)
            free += sorted(dying - {out})
            place[line.target] = out
            if line.op == "indicator":
                self.text.append(f"not_equal({operands[0]}, 0.0, out={out}, casting='unsafe')")
            else:
                self.text.append(f"{UFUNCS[line.op]}({', '.join(operands)}, out={out})")
        self.text += [f"copyto({key}, {place[a]})" for a, key in homes.items() if place[a] != key]
        self.text.append(f"return ({', '.join(place[a] for a in statistics)},)")
        return len(buffers)

    def compile(self, buffers: int) -> Callable[..., tuple[Any, ...]]:
        """The function; its arguments are the arrays, the factors and the buffers in order."""
        names = [*self.inputs, *(f"s{i}" for i in range(buffers))]
        source = "\n    ".join([f"def move({', '.join(names)}):", *self.text])
        scope = dict(SCOPE)
        exec(source, scope)
        return scope["move"]
