"""Kernels over tiles of whole rows: slots that are rows, touched rows, and the rows of sparse gradients.

A program has some rows of one tensor and takes them a tile at a time. Where rows are slots it goes over a row twice, to
measure and to move, the second time from the cache. Sparse gradients bring an index: parameter and state are read and
written at the rows it names, and the step at which a row was last touched tells what it has to catch up with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradagrad.codegen.trace import Function
from gradagrad.triton.language import define

if TYPE_CHECKING:
    from gradagrad.triton.source import Writer

TILES = ((64, 8), (8, 64), (1, 512))
"""Rows and columns of a tile: the first that is wide enough for a tensor's rows, else the last, several times over."""
REGULAR = 16
"""Long rows of a multiple of so many elements, aligned as a whole, are walked without a thought for single elements."""
LOOSE = ("index", "row_steps")
"""Walked one number for each row, at addresses of which nothing is known."""
_COLUMNS = [
    "for c in range(0, length, COLUMNS):",
    "    column = c + tl.arange(0, COLUMNS)[None, :]",
    "    mask = live & (column < length)",
]
_PLACES = ("place * length + column", "row * length + column")


def kernel(w: Writer, name: str) -> list[str]:
    """The text of one kernel, and of the function in it that walks rows with tiles of a given shape."""
    traced = {"step": w.step or w.move, "measure": w.measure, "move": w.move}[name]
    assert traced is not None
    own = name == "step" and w.step is None  # rows are slots, decided here
    block = w.block("move" if own else name, traced)
    measure = w.block("measure", w.measure) if own and w.measure else None
    blocks = [b for b in (measure, block) if b]
    sparse, touched = w.plan.layout == "sparse", "touched" in block.extras
    rest = w.resting(w.slots) if own else None

    walked = [key for key in w.element if any(key in b.addresses for b in blocks) or (touched and key == "g")]
    walked += [*(w.slots if own else []), *(["index"] if sparse else []), *(["row_steps"] if w.rests else [])]
    local = {"touched", "since", "now", "begin", *(w.slots if own else []), *(w.factors.results if own else [])}
    wanted = [*(k for b in blocks for k in b.extras), *(w.decide.used() if own else []), *(rest.used() if rest else [])]
    given = [k for k in dict.fromkeys(wanted) if k not in local and k not in w.element and not k.startswith("sum")]
    given += ["now"] if w.rests else []

    lines = ["begin = 0"] if any("begin" in b.extras for b in blocks) else []
    lines += [f"total_{key} = tl.zeros([ROWS, COLUMNS], tl.float64)" for key in block.results]
    lines += ["for r in range(0, count, ROWS):"]
    row = ["row = first_row + r + tl.arange(0, ROWS)[:, None]", "live = row < first_row + count"]
    row += ["place = tl.load(at_index + row, mask=live, other=0)" if sparse else "place = row"]
    if w.rests:
        row += ["since = tl.load(at_row_steps + place, mask=live, other=0).to(tl.float64)"]
    row += [f"{key} = read(at_{key} + place, live, True, tl.{w.computing})" for key in (w.slots if own else [])]
    row += [f"{', '.join(rest.results)} = rule_rest_slot({', '.join(rest.used())})"] if rest else []
    if measure or touched:
        row += _look(
            w,
            measure.results if measure else [],
            measure.call("at_", *_PLACES, "mask", masked=True) if measure else "",
            touched,
        )
    row += [f"{', '.join(_new(w, w.decide))} = rule_decide({', '.join(w.decide.used())})"] if own else []
    call = block.call("at_", *_PLACES, "mask", masked=True)
    row += [*_COLUMNS, f"    {', '.join(block.results)} = {call}" if block.results else f"    {call}"]
    row += [f"    total_{key} += {key}.to(tl.float64)" for key in block.results]
    row += [f"write(at_{key} + place, new_{key}, live, True)" for key in w.after.results] if own else []
    if w.rests and name != "measure":
        row += ["tl.store(at_row_steps + place, tl.zeros([ROWS, 1], tl.int32) + (now + 1.0).to(tl.int32), mask=live)"]
    lines += [f"    {line}" for line in row]
    lines += ["return " + ", ".join(f"tl.sum(total_{key})" for key in block.results)] if block.results else []
    arguments = [*(f"at_{key}" for key in walked), "first_row", "count", "length", *given]
    texts = [text for b in blocks for text in b.texts]
    texts += [w.function("rule_rest_slot", rest)] if rest else []
    texts += [w.function("rule_decide", w.decide)] if own else []
    texts += [w.function("rule_factors", w.factors)] if name == "move" else []
    texts.append(define(f"{name}_rows", [*arguments, "ROWS: tl.constexpr", "COLUMNS: tl.constexpr"], lines))

    head = w.head(name, rounds=any(key.startswith("key") for key in given))
    if w.rests:  # how many steps there have been before this one
        head.append(f"now = tl.load({w.pointer('clock')})" if w.clock else "now = (step - 1).to(tl.float64)")
    length = f"tl.load(table + {w.row('length')} * n + tensor).to(tl.int32)"
    head += [f"length = {length}", *(f"at_{key} = {w.pointer(key)}" for key in walked)]
    left = f"{', '.join(block.results)} = " if block.results else ""
    for i, (rows, columns) in enumerate(TILES):
        call = f"{left}{name}_rows({', '.join([*arguments[: len(walked)], 'begin', 'count', 'length', *given])}"
        call += f", ROWS={rows}, COLUMNS={columns})"
        if i < len(TILES) - 1:
            head += [f"{'el' if i else ''}if length <= {columns}:", f"    {call}"]
            continue
        head.append("elif tl.load(work + 4 * program + 3) != 0:")
        head += [f"    any_{key} = {w.pointer(key, 'aligned')}" for key in walked if key not in LOOSE]
        head.append(f"    any_length = tl.multiple_of({length}, {REGULAR})")
        wide = call.replace(", length", ", any_length")
        for key in walked:
            wide = wide if key in LOOSE else wide.replace(f"at_{key},", f"any_{key},")
        head += [f"    {wide}", "else:", f"    {call}"]
    return [*texts, w.kernel(name, [*head, *w.leave(block.results, "{}")])]


def _look(w: Writer, sums: list[str], call: str, touched: bool) -> list[str]:
    """The first time over a row: its sums, and whether anything in its gradient is not zero."""
    lines = [f"part_{key} = tl.zeros([ROWS, COLUMNS], tl.{w.computing})" for key in sums]
    lines += ["some = tl.zeros([ROWS, COLUMNS], tl.int32)"] if touched else []
    lines += _COLUMNS
    if sums:
        lines += [f"    {', '.join(sums)} = {call}", *(f"    part_{key} += {key}" for key in sums)]
    if touched:
        lines.append(f"    gradient = read(at_g + {_PLACES[1]}, mask, True, tl.{w.computing})")
        if w.plan.coupled:
            sign = "-" if w.plan.maximize else ""
            lines.append(f"    point = read(at_x + {_PLACES[0]}, mask, True, tl.{w.computing})")
            lines.append(f"    gradient = {sign}gradient + point * coupled_decay.to(tl.{w.computing})")
        lines.append("    some = some | (gradient != 0.0).to(tl.int32)")
    lines += [f"{key} = tl.sum(widened(part_{key}), axis=1)[:, None].to(tl.{w.computing})" for key in sums]
    return [*lines, *(["touched = tl.max(some, axis=1)[:, None] != 0"] if touched else [])]


def _new(w: Writer, decide: Function) -> list[str]:
    return [f"new_{key}" if key in w.slots else key for key in decide.results]
