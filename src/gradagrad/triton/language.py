"""How Triton writes what a rule asks for: templates, constants, and the device functions that every kernel can call.

Division and square root are the correctly rounded versions. They cost nothing in a kernel that waits for memory, and
they give the same bits as a CPU.
"""

import math
import struct

from gradagrad.codegen.trace import Function, Kind, Language, Symbol
from gradagrad.precision import _FIRST_KEY, _GOLDEN
from gradagrad.rules.rule import PARAMETER_LANE, Field

_LIMITS = {
    "float32": ("1.1754943508222875e-38", "3.4028234663852886e+38"),
    "float64": ("2.2250738585072014e-308", "1.7976931348623157e+308"),
}
"""The smallest normal and the largest finite number."""

_TEMPLATES = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "max": "larger({0}, {1})",
    "min": "smaller({0}, {1})",
    "where": "tl.where({0}, {1}, {2})",
    "less": "{0} < {1}",
    "unequal": "{0} != {1}",
    "sqrt": "tl.sqrt({0})",
}


def language(computing: str) -> Language:
    """The language for values of this dtype; wide numbers are always float64."""
    templates = {**_TEMPLATES, "narrow": f"({{0}}).to(tl.{computing})"}
    if computing == "float32":
        templates |= {"div value": "tl.div_rn({0}, {1})", "sqrt value": "tl.sqrt_rn({0})"}

    def constant(number: float, kind: Kind) -> str:
        # Triton reads a literal as float32, which holds most constants exactly.
        exact = computing == "float32" and kind in ("value", "mask")
        return repr(number) if exact or _fits_float32(number) else f"tl.full([], {number!r}, tl.float64)"

    return Language(templates, constant, lambda target, text: f"{target.name} = {text}")


def _fits_float32(number: float) -> bool:
    try:
        return math.isfinite(number) and struct.unpack("f", struct.pack("f", number))[0] == number
    except OverflowError:
        return False


def function(name: str, traced: Function, writing: Language, computing: str) -> str:
    """The source of a traced function; it takes the arguments that it uses."""
    named = {a.name: a for o in traced.needed() for a in o.arguments if isinstance(a, Symbol)}
    named |= {r.name: r for r in traced.results.values() if isinstance(r, Symbol)}
    lines: list[str] = []
    for index, limit in enumerate(("TINY", "LARGEST")):
        if limit in named:
            dtype = "float64" if named[limit].kind == "wide" else computing
            lines.append(f"{limit} = tl.full([], {_LIMITS[dtype][index]}, tl.{dtype})")
    lines += writing.body(traced, "").splitlines()
    lines.append("return " + ", ".join(writing.text(r) for r in traced.results.values()))
    return define(name, traced.used(), lines)


def define(name: str, arguments: list[str], lines: list[str], decorator: str = "@triton.jit") -> str:
    """The source of a function."""
    return f"{decorator}\ndef {name}({', '.join(arguments)}):\n" + "".join(f"    {line}\n" for line in lines)


def lanes(fields: tuple[Field, ...]) -> dict[str, tuple[int, str]]:
    """By key: which of an element's hashes rounds it to bf16, and the expression that takes its 16 bits."""
    numbers = {f.key: f.lane for f in fields} | {"x": PARAMETER_LANE}
    return {key: (lane // 2, ">> 16" if lane % 2 else "& 0xFFFF") for key, lane in numbers.items()}


BASICS = """\
import triton
import triton.language as tl


@triton.jit
def larger(a, b):  # NaN passes through
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def widened(a):  # a sum of finite numbers can overflow in float32, and then it must not become finite there again
    limit = tl.full([], 3.5e38, tl.float64)
    return larger(smaller(a.to(tl.float64), limit), -limit) if a.dtype == tl.float32 else a


@triton.jit
def narrowed(a, dtype: tl.constexpr):
    limit = tl.full([], 3.4028234663852886e38, tl.float64)
    return smaller(a, limit).to(dtype) if dtype == tl.float32 else a.to(dtype)


@triton.jit
def pointer(table, row, tensor, n, dtype: tl.constexpr):
    return tl.load(table + row * n + tensor).to(tl.pointer_type(dtype))


@triton.jit
def aligned(table, row, tensor, n, dtype: tl.constexpr):  # launch.py checks the alignment
    return tl.multiple_of(tl.load(table + row * n + tensor).to(tl.pointer_type(dtype)), 16)


@triton.jit
def read(at, mask, MASKED: tl.constexpr, dtype: tl.constexpr):
    if MASKED:
        return tl.load(at, mask=mask, other=0.0).to(dtype)
    else:
        return tl.load(at).to(dtype)


@triton.jit
def write(at, a, mask, MASKED: tl.constexpr):
    a = a.to(at.dtype.element_ty)
    if MASKED:
        tl.store(at, a, mask=mask)
    else:
        tl.store(at, a)
"""

ADDING = """

@triton.jit
def add_up(partial, spans, block, column, COLUMNS: tl.constexpr, WIDTH: tl.constexpr):
    first = tl.load(spans + 2 * block)
    count = tl.load(spans + 2 * block + 1)
    offset = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float64)
    for j in range(0, count, WIDTH):
        at = partial + (first + j + offset) * COLUMNS + column
        total += tl.load(at, mask=j + offset < count, other=0.0)
    return tl.sum(total)


@triton.jit
def complete_kernel(partial, spans, result, COLUMNS: tl.constexpr, WIDTH: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    for i in range(COLUMNS):
        tl.store(result + block * COLUMNS + i, add_up(partial, spans, block, i, COLUMNS, WIDTH))
"""

# The same hash as `gradagrad.precision.random_bits`, so that a GPU rounds as a CPU does.
ROUNDING = f"""

@triton.jit
def scramble(a):
    a = a ^ (a >> 16)
    a = a * 0x7FEB352D
    a = a ^ (a >> 15)
    a = a * 0x846CA68B
    return a ^ (a >> 16)


@triton.jit
def random_key(step, stream):
    key = scramble(step.to(tl.uint32) ^ {_FIRST_KEY:#x})
    return scramble(key ^ stream.to(tl.uint32))


@triton.jit
def random_bits(key, place):  # elements n and n + 8 of sixteen share a hash and take its halves in opposite order
    # This is ((place >> 4 << 3) | (place & 7)) * golden; its second term is the same in every tile.
    pair = (place >> 4) * {(_GOLDEN << 3) & 0xFFFFFFFF:#x} + (place & 7) * {_GOLDEN:#x}
    bits = scramble(key ^ pair)
    return tl.where((place & 8) != 0, (bits << 16) | (bits >> 16), bits)


@triton.jit
def write_rounded(at, a, random16, mask, MASKED: tl.constexpr):  # to bf16, up or down at random
    if a.dtype == tl.float64:  # a finite float64 must not become infinite in float32
        clipped = larger(smaller(a, 3.3895313892515355e38), -3.3895313892515355e38)
        a = tl.where(tl.abs(a) <= 1.7976931348623157e308, clipped, a)
    a = a.to(tl.float32)
    bits = a.to(tl.uint32, bitcast=True)
    up = tl.where(tl.abs(a) < 3.3895313892515355e38, random16, 0)  # the largest bf16, infinities and NaN do not change
    a = ((bits + up) >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    if MASKED:
        tl.store(at, a, mask=mask)
    else:
        tl.store(at, a)
"""
