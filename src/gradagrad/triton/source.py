"""The text of the Triton kernels for one `Spec`: a rule, the options that are on, the scope, the dtypes.

The arithmetic is traced from the rule; this file only adds how memory is read and written. Three kernels correspond to
the phases of a step, and one launch of each serves any number of tensors: ``measure`` adds up over chunks, ``move``
computes its block's factors from those sums and moves, ``write_shared`` writes the block. What a rule learns from all
tensors together is computed by torch operations. Where a block is an element, one kernel ``step`` does
everything. Programs never wait for each other, nothing is added atomically, and the order of every sum depends on
shapes alone.

A program takes one chunk of a tensor, full aligned tiles of it without a mask (128 bits at a time) and the remainder
with one. Programs find their tensors in a table of addresses made by `launch`.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

from gradagrad.codegen import trace
from gradagrad.codegen.trace import Function
from gradagrad.codegen.variants import changing
from gradagrad.rules.rule import Rule
from gradagrad.rules.scope import SINGLE
from gradagrad.triton import language
from gradagrad.triton.language import define

PIECE = 16
"""How many tiles are added up in the precision of the values before the sum continues in double."""
# Triton would otherwise compile a kernel again when one of these is 1 or a multiple of 16.
_JIT = '@triton.jit(do_not_specialize=["n", "first", "step", "ahead"])'


class Spec(NamedTuple):
    """Everything that the text depends on; tensors with equal specs share kernels."""

    rule: Rule
    settings: Any
    """The rule's settings; numbers that may change without a new text are replaced by 1."""
    variable: tuple[str, ...]
    """The names of those numbers, which are float64 arguments of the kernels."""
    scope: str
    dtypes: tuple[tuple[str, str], ...]
    """The dtypes of ``x``, ``g`` and the fields, by key."""
    coupled: bool = False
    maximize: bool = False
    in_memory: tuple[str, ...] = ()
    """The numbers that are read from device memory, such as a learning rate that is a tensor."""
    counter: Literal["", "argument", "device"] = ""
    """Where the number of the step comes from, if the text needs it."""
    stochastic: bool = False
    """Whether bf16 parameters are rounded stochastically."""


@dataclass
class Tile:
    """A device function that reads one tile of elements, calls a traced function, and writes the results."""

    name: str
    texts: list[str]
    addresses: list[str]
    extras: list[str]
    """Arguments besides addresses, places and the mask; callers use the same names."""
    results: list[str]
    """The results that are summed."""

    def call(self, at: str, i: str, mask: str, *, masked: bool) -> str:
        """A call for the elements i."""
        addresses = [f"{at}{key}" for key in self.addresses]
        return f"{self.name}({', '.join([*addresses, i, mask, *self.extras])}, MASKED={masked})"


class Source:
    """Traces a spec's rule and writes the kernels around it."""

    def __init__(self, spec: Spec) -> None:
        self.spec, rule, s, variable = spec, spec.rule, spec.settings, spec.variable
        self.types = dict(spec.dtypes)
        self.computing = "float64" if self.types["x"] == "float64" else "float32"
        self.single = spec.scope in SINGLE
        fields = rule.fields(s)
        # Some keys store one number for each element, the others one for each block.
        self.element = ["x", "g", *(f.key for f in fields if f.at == "element" or spec.scope == "element")]
        self.block = [f.key for f in fields if f.key not in self.element]
        rounded = {k for k in self.element if k not in ("x", "g") and self.types[k] == "bfloat16"}
        rounded |= {"x"} if spec.stochastic and self.types["x"] == "bfloat16" else set()
        self.lanes = {key: lane for key, lane in language.lanes(fields).items() if key in rounded}
        # The table of addresses and numbers has these rows, and one column for each tensor.
        self.table = [*self.element, *self.block]
        self.table += ["step"] if spec.counter == "device" else []
        self.table += ["stream"] if self.lanes else []
        self.table += ["block"] if spec.scope == "tensor" else []
        products = trace.Contribution if self.single and self.computing == "float32" else trace.Bounded
        self.measure = trace.measure(rule, s, variable, blocks=products) if rule.measures else None
        self.sums = len(self.measure.results) if self.measure else 0
        self.step = trace.element_step(rule, s, variable) if spec.scope == "element" else None
        decide = trace.decide(rule, s, variable, self.sums)
        factors = [key for key in decide.results if key.startswith("factor")]
        self.move = trace.move(rule, s, variable, len(factors))
        self.factors = replace(decide, results={k: a for k, a in decide.results.items() if k in self.move.used()})
        self.after = changing(decide, [key for key in decide.results if key not in factors])
        self.statistics = sum(key.startswith("statistic") for key in self.move.results)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels in the order of a step."""
        if not self.single:
            return ("step",)
        written = () if self.spec.rule.learns else ("write_shared",)
        return (*(("measure",) if self.sums else ()), "move", *written)

    def text(self) -> str:
        """The module: imports, device functions, the traced rule and the kernels."""
        texts: list[str] = [language.BASICS]
        texts += [language.ADDING] if self.single else []
        texts += [language.ROUNDING] if self.lanes else []
        for name in self.kernels:
            texts += self._write_shared() if name == "write_shared" else self._walk(name)
        return "\n\n".join(texts)

    # Pieces of text that all kernels are made of.

    def _row(self, key: str) -> str:
        """The number of a key in the table, for this program's tensor."""
        return f"tl.load(table + {self.table.index(key)} * n + tensor)"

    def _pointer(self, key: str, maker: str = "pointer") -> str:
        """The address of a key's values, for this program's tensor."""
        dtype = "int64" if key == "step" else self.types[key]
        return f"{maker}(table, {self.table.index(key)}, tensor, n, tl.{dtype})"

    def _function(self, name: str, traced: Function, precision: str = "") -> str:
        precision = precision or self.computing
        return language.function(name, traced, language.language(precision), precision)

    def _precision(self, name: str) -> str:
        """Blocks kept in double are measured in double, where products of float32 numbers are finite and exact."""
        return "float64" if name == "measure" and self.single else self.computing

    def _tile(self, name: str, traced: Function) -> Tile:
        used = traced.used()
        results = [key for key in traced.results if key.startswith(("sum", "statistic"))]
        written = [key for key in self.element if key in changing(traced).results]
        wanted = {*used, *(["x"] if self.spec.coupled else [])}
        read = [key for key in self.element if key in wanted]
        extras = [key for key in used if key not in self.element]
        lines = [f"{key} = read(at_{key} + i, mask, MASKED, tl.{self.computing})" for key in read]
        lines += ["g = -g"] if self.spec.maximize else []
        if self.spec.coupled:
            extras.append("coupled_decay")
            lines.append(f"g = g + x * coupled_decay.to(tl.{self.computing})")
        precision = self._precision(name)
        lines += ["g = g.to(tl.float64)"] if precision != self.computing else []
        targets = ", ".join(f"new_{key}" if key in self.element else key for key in traced.results)
        lines.append(f"{targets} = rule_{name}({', '.join(used)})")
        rounded = {key: self.lanes[key] for key in written if key in self.lanes}
        if rounded:
            hashes = sorted({number for number, _ in rounded.values()})
            extras += ["begin", "key"]
            lines.append("place = (begin + i).to(tl.uint32)")
            lines += [f"bits{number} = random_bits(key, place + {number})" for number in hashes]
        for key in written:
            if key in rounded:
                bits = "bits{} {}".format(*rounded[key])
                lines.append(f"write_rounded(at_{key} + i, new_{key}, {bits}, mask, MASKED)")
            else:
                lines.append(f"write(at_{key} + i, new_{key}, mask, MASKED)")
        lines += [f"return {', '.join(results)}"] if results else []
        addresses = [key for key in self.element if key in read or key in written]
        arguments = [*(f"at_{key}" for key in addresses), "i", "mask", *extras, "MASKED: tl.constexpr"]
        texts = [self._function(f"rule_{name}", traced, precision), define(f"{name}_tile", arguments, lines)]
        return Tile(f"{name}_tile", texts, addresses, extras, results)

    def _numbers(self, name: str) -> list[str]:
        """The arguments of a kernel that are float64 numbers."""
        inside = {
            "measure": [self.measure],
            "move": [self.factors, self.move],
            "write_shared": [self.after],
            "step": [self.step],
        }
        used = {key for f in inside[name] if f for key in f.used()}
        numbers = [key for key in self.spec.variable if key in used]
        return [*numbers, *(["coupled_decay"] if self.spec.coupled else [])]

    def _kernel(self, name: str, lines: list[str], *sizes: str) -> str:
        """A kernel's text. An argument's name means the same in all kernels."""
        spec, arguments = self.spec, ["table", "n"]
        arguments += ["work"] if name != "write_shared" else []
        arguments += ["sums", "sum_spans"] if self.single and self.sums and name != "measure" else []
        arguments += ["partial", "first"] if name == "measure" or (name == "move" and self.statistics) else []
        arguments += [f"{n}_at" if n in spec.in_memory else f"{n}: tl.float64" for n in self._numbers(name)]
        arguments += {"argument": ["step"], "device": ["ahead"]}.get(spec.counter, [])
        sizes = (*sizes, *(["WIDTH"] if any("WIDTH" in line for line in lines) else []))
        return define(f"{name}_kernel", [*arguments, *(f"{size}: tl.constexpr" for size in sizes)], lines, _JIT)

    def _settings(self, name: str) -> list[str]:
        """Reads the numbers."""
        lines = [
            f"{n} = tl.load({n}_at).to(tl.float64)"
            if n in self.spec.in_memory
            else f"{n} = tl.full([], {n}, tl.float64)"
            for n in self._numbers(name)
        ]
        if self.spec.counter == "device":
            lines.append(f"step = tl.load({self._pointer('step')}) + ahead")
        elif self.spec.counter:
            lines.append("step = tl.full([], step, tl.int64)")
        return lines

    def _block(self, *functions: Function) -> list[str]:
        """Reads the block's fields and adds up its sums, as far as the functions need them."""
        used = {key for function in functions for key in function.used()}
        lines = [f"{key} = tl.load({self._pointer(key)})" for key in self.block if key in used]
        given = f"sums, sum_spans, {self._row('block') if self.spec.scope == 'tensor' else '0'}"
        wanted = [i for i in range(self.sums) if f"sum{i}" in used]
        return [*lines, *(f"sum{i} = add_up({given}, {i}, {self.sums}, WIDTH)" for i in wanted)]

    def _head(self, name: str, extras: list[str]) -> list[str]:
        """The beginning of every program: its share of the work, the settings, its block's factors, its random keys."""
        lines = ["program = tl.program_id(0).to(tl.int64)", "tensor = tl.load(work + 4 * program)"]
        lines += self._settings(name)
        if name == "move":
            factors = self.factors.results
            lines += [*self._block(self.factors), f"{', '.join(factors)} = rule_factors({_used(self.factors)})"]
            lines += [f"{key} = narrowed(tl.full([], {key}, tl.float64), tl.{self.computing})" for key in factors]
        lines += ["begin = tl.load(work + 4 * program + 1)", "count = tl.load(work + 4 * program + 2).to(tl.int32)"]
        if "key" in extras:
            lines.append(f"key = random_key(step, {self._row('stream')})")
        return lines

    def _store(self, results: list[str], form: str) -> list[str]:
        """Stores what a program has summed."""
        at = f"partial + (first + program) * {len(results)}"
        return [f"tl.store({at} + {i}, {form.format(key)})" for i, key in enumerate(results)]

    # The kernels.

    def _write_shared(self) -> list[str]:
        changed = self.after.results
        lines = ["tensor = tl.program_id(0).to(tl.int64)", *self._settings("write_shared"), *self._block(self.after)]
        lines += [f"{', '.join(changed)} = rule_decide({_used(self.after)})"]
        lines += [f"tl.store({self._pointer(key)}, {key})" for key in changed]
        return [self._function("rule_decide", self.after), self._kernel("write_shared", lines)]

    def _walk(self, name: str) -> list[str]:
        traced = {"step": self.step, "measure": self.measure, "move": self.move}[name]
        assert traced is not None
        tile = self._tile(name, traced)
        lines = self._head(name, tile.extras)
        lines += ["full = tl.load(work + 4 * program + 3).to(tl.int32)", "begin = begin >> 4 << 4"]
        lines += ["offset = tl.arange(0, TILE)"]
        lines += [f"total_{key} = tl.zeros([TILE], tl.float64)" for key in tile.results]
        for masked in (False, True):
            # The masked part must not use the aligned addresses: the compiler would assume the same alignment there.
            at, maker, start, end = ("any_", "pointer", "full", "count") if masked else ("at_", "aligned", "0", "full")
            lines += [f"{at}{key} = {self._pointer(key, maker)} + begin" for key in tile.addresses]
            call = tile.call(at, "i + offset", f"i + offset < {end}", masked=masked)
            if not tile.results:
                lines += [f"for i in range({start}, {end}, TILE):", f"    {call}"]
                continue
            lines.append(f"for piece in range({start}, {end}, TILE * {PIECE}):")
            lines += [f"    part_{key} = tl.zeros([TILE], tl.{self._precision(name)})" for key in tile.results]
            lines.append(f"    for i in range(piece, tl.minimum(piece + TILE * {PIECE}, {end}), TILE):")
            lines.append(f"        {', '.join(tile.results)} = {call}")
            lines += [f"        part_{key} += {key}" for key in tile.results]
            lines += [f"    total_{key} += widened(part_{key})" for key in tile.results]
        lines += self._store(tile.results, "tl.sum(total_{})")
        texts = [self._function("rule_factors", self.factors)] if name == "move" else []
        return [*texts, *tile.texts, self._kernel(name, lines, "TILE")]


@cache
def source_of(spec: Spec) -> Source:
    """A spec's source; the rule is traced once."""
    return Source(spec)


def _used(function: Function) -> str:
    return ", ".join(function.used())
