"""The text of the Triton kernels of one plan: a rule, its options that are on, who shares a decision, dtypes.

The arithmetic is traced from the rule; what stands here is how memory is walked. Three kernels follow the three things
a backend does, each one launch for any number of tensors: ``measure`` adds up over chunks, ``move`` works out its
slot's factors from those sums and moves, ``settle`` writes the slots. Where slots are elements or rows, ``step`` does
all of it at once. No program waits for another, nothing is added atomically, and the order of every sum follows from
shapes alone.

Dense tensors whose slots need no rows are walked ``flat``: a program has a chunk of one tensor, whole aligned blocks of
it without a mask (128 bits at a time), the rest with one. ``rows`` and ``sparse`` walk tiles of whole rows, ``sparse``
through an index. All of it goes by a table of 64-bit integers that `gradagrad.triton.tables` makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gradagrad.codegen.trace import Function
from gradagrad.triton import language
from gradagrad.triton.language import define
from gradagrad.triton.program import SIZE, Plan, Program, unchanged

PIECE = 16
"""Blocks that a lane adds up in the values' own precision before it goes on in double."""
_JIT = (
    '@triton.jit(do_not_specialize=["n", "first", "step", "ahead"])'  # none of these is worth a compilation of its own
)


@cache
def writer(plan: Plan) -> Writer:
    """What writes a plan's text, and knows what it says."""
    return Writer(plan)


@cache
def source(plan: Plan) -> str:
    """The module's text."""
    return writer(plan).text()


class Writer(Program):
    """Writes one plan's text."""

    @property
    def traffic(self) -> int:
        """Bytes of memory that a step moves for each element, rows that are read twice counted once."""
        moved = self.block("step" if self.step else "move", self.step or self.move).size
        return moved + (self.block("measure", self.measure).size if self.measure and self.single else 0)

    def text(self) -> str:
        """Imports, what the rule says, and the kernels around it."""
        from gradagrad.triton import rows as triton_rows  # tiles of rows are a file of their own

        texts: list[str] = [language.BASICS]
        texts += [language.ADDING] if self.single else []
        texts += [language.ROUNDING] if self.words else []
        for name in self.kernels:
            if name == "settle":
                texts += self._settle()
            elif self.plan.layout == "flat":
                texts += self._flat(name)
            else:
                texts += triton_rows.kernel(self, name)
        return "\n\n".join(texts)

    def function(self, name: str, traced: Function, precision: str = "") -> str:
        """A traced function's text, with values of the plan's or another precision."""
        precision = precision or self.computing
        return language.function(name, traced, language.language(precision), precision)

    def precision(self, name: str) -> str:
        """A slot in double is measured in double, where products of float32 numbers are finite and exact."""
        return "float64" if name == "measure" and self.single else self.computing

    def block(self, name: str, traced: Function) -> Block:
        """Reads one block of elements, takes it through a traced function, and writes what came of it."""
        used, results = traced.used(), [key for key in traced.results if key.startswith(("sum", "trace"))]
        written = [key for key in self.element if key in traced.results and not unchanged(traced.results[key], key)]
        wanted = {*used, *(["x"] if self.plan.coupled else [])}
        rest = self.resting([key for key in self.element if key in wanted])
        wanted.update(rest.used() if rest else [])
        read = [key for key in self.element if key in wanted]
        extras = [key for key in _once([*used, *(rest.used() if rest else [])]) if key not in self.element]
        rounded = {key: self.words[key] for key in written if key in self.words}
        keys = sorted({number for number, _ in rounded.values()})
        lines = [f"{k} = read(at_{k} + {'j' if k == 'g' else 'i'}, mask, MASKED, tl.{self.computing})" for k in read]
        lines += ["g = -g"] if self.plan.maximize else []
        if self.plan.coupled:
            extras.append("coupled_decay")
            lines.append(f"g = g + x * coupled_decay.to(tl.{self.computing})")
        lines += [f"{', '.join(rest.results)} = rule_rest_{name}({', '.join(rest.used())})"] if rest else []
        precision = self.precision(name)
        lines += ["g = g.to(tl.float64)"] if precision != self.computing else []
        targets = ", ".join(f"new_{key}" if key in self.element else key for key in traced.results)
        lines.append(f"{targets} = rule_{name}({', '.join(used)})")
        if rounded:
            extras += ["begin", *(f"key{number}" for number in keys)]
            lines.append("place = (begin + i).to(tl.uint32)")
            lines += [f"bits{number} = random_bits(key{number}, place)" for number in keys]
        for key in written:
            if key in rounded:
                bits = "bits{} {}".format(*rounded[key])
                lines.append(f"write_rounded(at_{key} + i, new_{key}, {bits}, mask, MASKED)")
            else:
                lines.append(f"write(at_{key} + i, new_{key}, mask, MASKED)")
        lines += [f"return {', '.join(results)}"] if results else []
        addresses = [key for key in self.element if key in read or key in written]
        size = sum(SIZE[self.types[key]] for key in (*read, *written))
        arguments = [*(f"at_{key}" for key in addresses), "i", "j", "mask", *extras, "MASKED: tl.constexpr"]
        texts = [self.function(f"rule_rest_{name}", rest)] if rest else []
        texts += [self.function(f"rule_{name}", traced, precision), define(f"{name}_block", arguments, lines)]
        return Block(f"{name}_block", texts, addresses, extras, results, size)

    def arguments(self, name: str) -> list[str]:
        """A kernel's arguments; a name means the same in all of them."""
        plan, result = self.plan, ["table", "n"]
        result += ["work"] if name != "settle" else []
        result += ["sums", "sum_spans"] if self.single and self.sums and name != "measure" else []
        result += ["traces", "trace_spans"] if name == "settle" and self.learn else []
        result += ["partial", "first"] if name == "measure" or (name == "move" and self.traces) else []
        doubles = [number for number in self.used_settings(name) if number != "lr" or not plan.lr]
        doubles += [*(["coupled_decay"] if plan.coupled else []), *(["lr_decay"] if plan.lr_decay else [])]
        result += [f"{number}: tl.float64" for number in doubles]
        result += ["lr_at"] if plan.lr else []
        return [*result, *({"argument": ["step"], "device": ["ahead"]}.get(plan.counter, []))]

    def settings(self, name: str) -> list[str]:
        """Reads the arguments that are numbers."""
        given = [a.removesuffix(": tl.float64") for a in self.arguments(name) if a.endswith(": tl.float64")]
        lines = [f"{number} = tl.full([], {number}, tl.float64)" for number in given]
        lines += ["lr = tl.load(lr_at).to(tl.float64)"] if self.plan.lr else []
        if self.plan.counter:
            device = self.plan.counter == "device"
            read = f"step = tl.load({self.pointer('step')}) + ahead" if device else "step = tl.full([], step, tl.int64)"
            lines.append(read)
        return [*lines, *(["lr = lr / ((step - 1).to(tl.float64) * lr_decay + 1.0)"] if self.plan.lr_decay else [])]

    def head(self, name: str, *, rounds: bool) -> list[str]:
        """What every program starts with: its share of the work, the numbers, its slot's factors."""
        lines = [
            "program = tl.program_id(0).to(tl.int64)",
            "tensor = tl.load(work + 4 * program)",
            *self.settings(name),
        ]
        if name == "move":
            lines += [
                *self._slot(self.factors),
                f"{', '.join(self.factors.results)} = rule_factors({', '.join(self.factors.used())})",
            ]
            lines += [f"{key} = tl.full([], {key}, tl.float64).to(tl.{self.computing})" for key in self.factors.results]
        lines += ["begin = tl.load(work + 4 * program + 1)", "count = tl.load(work + 4 * program + 2).to(tl.int32)"]
        if rounds:
            lines.append(f"stream = tl.load(table + {self.row('stream')} * n + tensor)")
            lines += [f"key{number} = random_key(step, stream, {number})" for number in self.keys]
        return lines

    def _slot(self, *functions: Function) -> list[str]:
        """Reads a slot's numbers and adds up its sums, as far as functions need them."""
        used = {key for function in functions for key in function.used()}
        lines = [f"{key} = tl.load({self.pointer(key)})" for key in self.slots if key in used]
        slot = f"tl.load(table + {self.row('slot')} * n + tensor)" if self.plan.scope == "tensor" else "0"
        for kind, number in (("sum", self.sums), ("trace", len(self.traces))):
            rest = f"{kind}s, {kind}_spans, {slot}"
            lines += [
                f"{kind}{i} = add_up({rest}, {i}, {number}, LANES)" for i in range(number) if f"{kind}{i}" in used
            ]
        return lines

    def _flat(self, name: str) -> list[str]:
        traced = {"step": self.step, "measure": self.measure, "move": self.move}[name]
        assert traced is not None
        block = self.block(name, traced)
        lines = self.head(name, rounds=any(extra.startswith("key") for extra in block.extras))
        lines += ["full = tl.load(work + 4 * program + 3).to(tl.int32)", "begin = begin >> 4 << 4"]
        lines += [
            "lane = tl.arange(0, BLOCK)",
            *(f"total_{key} = tl.zeros([BLOCK], tl.float64)" for key in block.results),
        ]
        for masked in (False, True):
            # Addresses are made anew for the masked part, since what is promised of the others need not hold for it.
            at, maker, start, end = ("any_", "pointer", "full", "count") if masked else ("at_", "aligned", "0", "full")
            lines += [f"{at}{key} = {self.pointer(key, maker)} + begin" for key in block.addresses]
            call = block.call(at, "i + lane", "i + lane", f"i + lane < {end}", masked=masked)
            if not block.results:
                lines += [f"for i in range({start}, {end}, BLOCK):", f"    {call}"]
                continue
            lines.append(f"for piece in range({start}, {end}, BLOCK * {PIECE}):")
            lines += [f"    part_{key} = tl.zeros([BLOCK], tl.{self.precision(name)})" for key in block.results]
            lines.append(f"    for i in range(piece, tl.minimum(piece + BLOCK * {PIECE}, {end}), BLOCK):")
            lines.append(f"        {', '.join(block.results)} = {call}")
            lines += [f"        part_{key} += {key}" for key in block.results]
            lines += [f"    total_{key} += widened(part_{key})" for key in block.results]
        lines += self.leave(block.results, "tl.sum(total_{})")
        texts = [self.function("rule_factors", self.factors)] if name == "move" else []
        return [*texts, *block.texts, self.kernel(name, lines, "BLOCK")]

    def leave(self, results: list[str], form: str) -> list[str]:
        """Stores what a program has summed."""
        at = f"partial + (first + program) * {len(results)}"
        return [f"tl.store({at} + {i}, {form.format(key)})" for i, key in enumerate(results)]

    def _settle(self) -> list[str]:
        functions = {"rule_decide": self.after} if self.after.results else {}
        functions |= {"rule_learn": self.learn} if self.learn else {}
        lines = ["tensor = tl.program_id(0).to(tl.int64)", *self.settings("settle"), *self._slot(*functions.values())]
        for name, f in functions.items():
            lines.append(f"{', '.join(f.results)} = {name}({', '.join(f.used())})")
        changed = dict.fromkeys(key for f in functions.values() for key in f.results)
        lines += [f"tl.store({self.pointer(key)}, {key})" for key in changed]
        return [*(self.function(name, f) for name, f in functions.items()), self.kernel("settle", lines)]

    def kernel(self, name: str, lines: list[str], *sizes: str) -> str:
        """A kernel's text."""
        sizes = (*sizes, *(["LANES"] if any("LANES" in line for line in lines) else []))
        arguments = [*self.arguments(name), *(f"{size}: tl.constexpr" for size in sizes)]
        return define(f"{name}_kernel", arguments, lines, _JIT)


@dataclass
class Block:
    """A function that takes one block or tile of elements through a traced function."""

    name: str
    texts: list[str]
    addresses: list[str]
    extras: list[str]
    """Arguments beyond addresses, places and the mask, named as where it is called."""
    results: list[str]
    """What it leaves to be summed."""
    size: int
    """Bytes that it reads and writes of each element."""

    def call(self, at: str, i: str, j: str, mask: str, *, masked: bool) -> str:
        """A call of it, on the elements i and the gradients j."""
        addresses = [f"{at}{key}" for key in self.addresses]
        return f"{self.name}({', '.join([*addresses, i, j, mask, *self.extras])}, MASKED={masked})"


def _once(keys: list[str]) -> list[str]:
    return list(dict.fromkeys(keys))
