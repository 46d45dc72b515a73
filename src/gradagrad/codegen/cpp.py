"""The rules as C++ for the CPU kernel: ``python -m gradagrad.codegen.cpp`` rewrites csrc/rules_generated.h.

Each traced function becomes a loop over *streams*, arrays of equal length: ``x``, ``g``, the rule's fields, and what
the phases pass on (sums, factors, statistics). Numbers that depend on settings alone are computed before the loop.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradagrad.codegen.trace import Function, Kind, Language, Operation, Symbol, Tape
from gradagrad.codegen.variants import VARIANTS, Variant, phases_of
from gradagrad.rules.rule import PARAMETER_LANE, Field

STREAMS = {"x": 0, "element": 2, "block": 6, "sum": 21, "total": 21, "factor": 26, "statistic": 34}
"""The first index of each kind of stream, as in csrc/rules.h. Equal indices let variants share functions."""
GIVEN = ("since", "now", "elements")
"""Follow the settings of every rule, for `idle` and `report`."""


def _constant(number: float, kind: Kind) -> str:
    text = repr(number)
    return f"T({text})" if kind == "value" else text


def _statement(target: Symbol, text: str) -> str:
    return f"const {_KINDS[target.kind]} {target.name} = {text};"


_KINDS = {"value": "T", "wide": "double", "mask": "bool", "wide mask": "bool"}


CPP = Language(
    {
        "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
        "sqrt": "std::sqrt({0})", "exp": "std::exp({0})", "log": "std::log({0})",
        "max": "at_least({0}, {1})", "min": "at_most({0}, {1})", "narrow": "T({0})",
        "where": "select({0}, {1}, {2})", "less": "{0} < {1}", "unequal": "{0} != {1}",
        "where uniform": "choose({0}, {1}, {2})",
    },
    _constant,
    _statement,
)  # fmt: skip


LOOP_ARGUMENTS = "const Streams& streams, int64_t size, [[maybe_unused]] double* totals"


class _Writer:
    """Writes one traced function as a loop over streams.

    Sums are added up in the loop instead of stored, statistics piece by piece (csrc/streams.h).
    """

    def __init__(
        self, function: Function, streams: Mapping[str, int], words: Mapping[str, int], order: Sequence[str]
    ) -> None:
        self.function, self.streams, self.words = function, streams, words
        self.settings = {name: i for i, name in enumerate((*order, *GIVEN))}
        self.factors = {name: int(name[6:]) for name in function.inputs if name.startswith("factor")}
        self.totals = [name for name in function.results if name.startswith("sum")]
        self.uniform = {"TINY", "LARGEST", *self.settings, *self.factors}
        self.before: list[str] = []
        self.inside: list[str] = []
        self.hidden: dict[str, str] = {}
        self.kinds: dict[str, str] = dict.fromkeys(("TINY", "LARGEST", *self.settings), "double")
        self.kinds |= dict.fromkeys(self.factors, "T")

    def text(self) -> str:
        """The body of the struct: the streams it reads and writes, the code before the loop, and the loop."""
        for operation in self.function.needed():
            self._add(operation)
        used = self.function.used()
        read = [name for name in used if name not in self.uniform]
        stored = [name for name in self.function.results if name not in self.totals]
        written = [name for name in stored if not name.startswith("statistic")]
        masks = [sum(1 << self.streams[name] for name in names) for names in (read, written)]
        loop = self._loop(read, stored)
        in_loop = set(re.findall(r"\w+", "\n".join(loop)))
        constants = [name for name in self.kinds if name in in_loop]  # computed before the loop
        masks.append(sum({1 << self.words[name] for name in written if name in self.words and name != "x"}))
        lines = ["static constexpr uint64_t reads = {:#x}, writes = {:#x}, words = {:#x};".format(*masks)]
        lines += [f"static constexpr int statistics = {len(stored) - len(written)};", "template <class P>"]
        # Products that are summed are computed in double, where products of floats are exact.
        lines += ["struct Body {", f"  using T = {'double' if 'sum0' in self.totals else 'P'};"]
        for kind in dict.fromkeys(self.kinds[name] for name in constants):
            lines.append(f"  {kind} {', '.join(name for name in constants if self.kinds[name] == kind)};")
        lines += [
            "  GRADAGRAD_INLINE Body([[maybe_unused]] const double* settings, [[maybe_unused]] const P* factors) {"
        ]
        lines += ["    " + line for line in self._beginning(used, constants)] + ["  }"]
        lines += ["  template <class Streams>", f"  GRADAGRAD_INLINE void loop({LOOP_ARGUMENTS}) const {{"]
        return "\n".join("  " + line for line in [*lines, *("    " + line for line in loop), "  }", "};"])

    def _beginning(self, used: Sequence[str], constants: Sequence[str]) -> list[str]:
        lines = [f"const double {name} = settings[{i}];" for name, i in self.settings.items() if name in used]
        lines += [f"const T {name} = factors[{i}];" for name, i in self.factors.items() if name in used]
        for limit, call in (("TINY", "min"), ("LARGEST", "max")):
            if limit in constants or any(re.search(rf"\b{limit}\b", line) for line in self.before):
                lines.append(f"const double {limit} = opaque<double>(std::numeric_limits<T>::{call}());")
        lines += self.before
        local = re.compile(rf"^const \S+ ({'|'.join(constants)}) =") if constants else re.compile("(?!)")
        return [local.sub(r"\1 =", line) for line in lines]

    def _loop(self, read: Sequence[str], stored: Sequence[str]) -> list[str]:
        results = self.function.results
        names = ", ".join(f"total_{name}" for name in self.totals)
        lines = [f"double {', '.join(f'total_{name} = 0.0' for name in self.totals)};"] if names else []
        lines += [f"#pragma omp simd reduction(+ : {names})" if names else "GRADAGRAD_VECTORS"]
        lines += ["for (int64_t i = 0; i < size; ++i) {"]
        lines += [
            f"  [[maybe_unused]] const T {name} = streams.template read<{self.streams[name]}>(i);" for name in read
        ]
        lines += ["  " + line for line in self.inside]
        for name in stored:
            to, text = f"{self.streams[name]}, {self.words.get(name, 0)}", CPP.text(results[name], "value")
            if text in self.streams:  # A stream that is only copied keeps its precision.
                lines.append(f"  streams.template copy<{to}, {self.streams[text]}>(i);")
            else:
                lines.append(f"  streams.template write<{to}>(i, {text});")
        lines += [f"  total_{name} += {self._bounded(results[name])};" for name in self.totals]
        return [*lines, "}", *(f"totals[{i}] += total_{name};" for i, name in enumerate(self.totals))]

    def _bounded(self, result: Symbol) -> str:
        """A result as it is added up. Squares may be infinite, because their sum has no inf − inf."""
        made = next((o for o in self.function.operations if o.target is result), None)
        is_square = made is not None and made.op == "mul" and made.arguments[0] is made.arguments[1]
        return result.name if is_square else f"bounded<P>({CPP.text(result, 'value')})"

    def _is_uniform(self, a: Any) -> bool:
        return not isinstance(a, Symbol) or a.name in self.uniform

    def _add(self, operation: Operation) -> None:
        target, op, arguments = operation.target, operation.op, operation.arguments
        if all(map(self._is_uniform, arguments)):
            self.uniform.add(target.name)
            self.kinds[target.name] = _KINDS[target.kind]
            self.before.append(CPP.line(operation))
            return
        if op in ("max", "min") and any(map(self._is_uniform, arguments)):
            bound, value = sorted(arguments, key=self._is_uniform, reverse=True)
            operation = Operation(target, op, (value, self._hidden(bound)))
        elif op == "where" and self._is_uniform(arguments[0]):
            name = f"mask_{arguments[0].name}"
            if name not in self.kinds:
                self.kinds[name] = "mask_t<T>"
                self.before.append(f"const mask_t<T> {name} = mask_of<T>({arguments[0].name});")
            operation = Operation(target, "where uniform", (Symbol(target.tape, name, "wide mask"), *arguments[1:]))
        self.inside.append(CPP.line(operation))

    def _hidden(self, bound: Any) -> Symbol:
        """Hides a constant from the compiler, which would otherwise compare and select with several instructions."""
        if isinstance(bound, Symbol):
            return bound
        if bound not in self.hidden:
            self.hidden[bound] = f"c{len(self.hidden)}"
            self.kinds[self.hidden[bound]] = "T"
            self.before.append(f"const T {self.hidden[bound]} = opaque<T>({_constant(bound, 'wide')});")
        return Symbol(Tape(), self.hidden[bound], "value")


class _Header:
    """Collects the functions of all variants; equal ones are written once."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.structs: list[str] = []
        self.rules: list[str] = []

    def add(self, place: int) -> None:
        """Writes the functions of a variant and enters it in the table."""
        variant, phases = VARIANTS[place], phases_of(place)
        fields = variant.rule.fields(variant.static)
        blocks = {"element": [f.key for f in fields if f.at == "element"]}
        blocks["block"] = [f.key for f in fields if f.at != "element"]
        counts = {name: getattr(phases, f"{name}s") for name in ("sum", "factor", "statistic", "total")}
        blocks = {"x": ["x", "g"], **blocks, **{kind: [f"{kind}{i}" for i in range(n)] for kind, n in counts.items()}}
        streams = {name: STREAMS[block] + i for block, names in blocks.items() for i, name in enumerate(names)}
        words = {"x": PARAMETER_LANE, **{f.key: f.lane for f in fields}}
        structs: dict[str, str] = {}
        for name, function in phases.functions.items():
            structs[name] = "None"
            if function and function.results:
                text = _Writer(function, streams, words, variant.order).text()
                if text not in self.known:
                    self.known[text] = f"{variant.name}_{name}"
                    self.structs.append(f"struct {self.known[text]} {{\n{text}\n}};\n")
                structs[name] = self.known[text]
        own = sum(f.at == "block" for f in fields)
        sizes = (len(blocks["element"]), own, len(blocks["block"]), *counts.values())
        self._enter(variant, fields, sizes, structs)

    def _enter(self, variant: Variant, fields: Sequence[Field], counts: Sequence[int], structs: dict[str, str]) -> None:
        words = ["{" + ", ".join(str(f.lane) for f in fields if (f.at == "element") == e) + "}" for e in (True, False)]
        head = [*map(str, counts), str(len(variant.order)), str(variant.static_lazy).lower(), *words]
        phases = ["step", "measure", "decide", "move", "measure_early", "move_late", "move_brief"]
        phases += ["idle", "idle_blocks"]
        tables = {
            "double": [structs[phase] for phase in phases],
            # Blocks of many elements are decided in double.
            "float": ["None" if phase == "decide" and not variant.elementwise else structs[phase] for phase in phases],
        }
        loops = [f"     loops_of<{kind},\n              {', '.join(tables[kind])}>()," for kind in ("float", "double")]
        learn = f"     loop_of<{structs['report']}, double>(), loop_of<{structs['learn']}, double>()}},"
        self.rules += [f"    // {variant.name}", f"    {{{', '.join(head)},", *loops, learn]

    def text(self) -> str:
        """The whole header."""
        return (
            "// Generated from gradagrad/rules by `python -m gradagrad.codegen.cpp`; edit the rules instead.\n\n"
            "namespace gradagrad {\n\nnamespace {\n\n"
            + "\n".join(self.structs)
            + "\n}  // namespace\n\nconst Rule rules[] = {\n"
            + "\n".join(self.rules)
            + "\n};\nconst int64_t rule_count = sizeof(rules) / sizeof(rules[0]);\n\n}  // namespace gradagrad\n"
        )


def header() -> str:
    """The text of rules_generated.h. Its last string is a digest of all sources, which a kernel then contains."""
    result = _Header()
    for place in range(len(VARIANTS)):
        result.add(place)
    sources = [path.read_bytes() for path in sorted(PATH.parent.glob("*.*")) if path != PATH]
    digest = hashlib.sha256(b"".join([result.text().encode(), *sources])).hexdigest()
    return f'{result.text()}\n[[gnu::used]] static const char sources[] = "{digest}";\n'


PATH = Path(__file__).parent.parent / "kernel" / "csrc" / "rules_generated.h"

if __name__ == "__main__":
    PATH.write_text(header(), encoding="utf-8")
