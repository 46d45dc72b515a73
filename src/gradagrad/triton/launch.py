"""From a batch to launches: the spec of each tensor, tables of addresses on the device, shares of work, arguments.

Tables stay valid while every tensor keeps its address and layout; a backend keeps them, so that most steps upload
nothing. Gradients that are laid out differently from their parameter are copied at every step and get new tables.
"""

import itertools
import linecache
from collections.abc import Callable, Hashable
from functools import cache, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.scope import SINGLE
from gradagrad.torch_ops.ops import real_view
from gradagrad.triton.source import Spec, source_of

Launcher = Callable[[Spec, str, int, dict[str, Any]], None]
"""Runs a spec's kernel of this name in so many programs."""
Extent = tuple[int, bool]
"""How many elements of a tensor the kernels walk, and whether all addresses are aligned."""
WARPS = 4
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_dtype, _shape = attrgetter("dtype"), attrgetter("shape")
_module_number = itertools.count()


class Sizes(NamedTuple):
    """How work is divided."""

    tile: int = 512
    """Elements that a program takes at a time: four for each of 128 threads, so that float32 moves by 128 bits."""
    chunk: int = 8192
    """Elements of a program; a multiple of the tile."""
    programs: int = 2048
    """About how many programs there are if they measure: each program that moves adds up the sums of all of them."""
    width: int = 512
    """Partial sums that are added at a time."""


def sizes_for(amd: bool) -> Sizes:
    """Sizes for a vendor. An AMD wave has 64 threads, so 128 bits for each need a tile twice as large."""
    return Sizes(tile=1024) if amd else Sizes()


def load(text: str, name: str) -> dict[str, Any]:
    """The functions of a generated module by name. Triton reads their source back through `linecache`."""
    file = f"<gradagrad {name} {next(_module_number)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "gradagrad.triton.generated"}
    exec(compile(text, file, "exec"), space)
    return space


@cache
def module(spec: Spec) -> dict[str, Any]:
    """A spec's kernels by name."""
    return load(source_of(spec).text(), f"{spec.rule.name} {spec.scope}")


def launch(spec: Spec, name: str, programs: int, arguments: dict[str, Any]) -> None:
    """Runs a kernel, and compiles it at its first use."""
    kernel = module(spec)[f"{name}_kernel"]
    given = {key: arguments[key] for key in kernel.arg_names}
    with torch.cuda.device_of(arguments["table"]):
        # The default of enable_fp_fusion differs between versions of Triton; without fusion, results match the rule.
        kernel[(programs,)](**given, num_warps=WARPS, enable_fp_fusion=False)


# Specs.


def common_spec(batch: Batch) -> Spec:
    """What the specs of all tensors have in common."""
    s = batch.settings
    variable = tuple(_numbers(s))
    on_device = bool(batch.steps) and batch.steps[0].device == batch.params[0].device
    return Spec(
        rule=batch.plan.rule,
        settings=s._replace(**dict.fromkeys(variable, 1.0)),
        variable=variable,
        scope=batch.plan.scope,
        dtypes=(),
        coupled=not is_off(batch.plan.coupled_decay),
        maximize=batch.plan.maximize,
        in_memory=tuple(_in_memory(batch)),
        counter="device" if on_device else "argument",
        stochastic=batch.plan.stochastic_rounding,
    )


def specs_of(batch: Batch, common: Spec) -> list[Spec]:
    """The spec of each tensor."""
    result: list[Spec] = []
    known: dict[Hashable, Spec] = {}
    for i, (parameter, gradient) in enumerate(zip(batch.params, batch.grads, strict=True)):
        types = {"x": parameter.dtype, "g": gradient.dtype}
        types |= {key: values[i].dtype for key, values in batch.state.items()}
        key = tuple(types.values())
        if key not in known:
            types |= {key: value.dtype for key, value in batch.shared.items()}
            rounded = any(types[f.key] == torch.bfloat16 for f in batch.plan.fields)
            rounded |= batch.plan.stochastic_rounding and types["x"] == torch.bfloat16
            names = ["x", "g", *(f.key for f in batch.plan.fields)]
            known[key] = common._replace(
                dtypes=tuple((name, _name(types[name])) for name in names), counter=common.counter if rounded else ""
            )
        result.append(known[key])
    return result


def same_layout(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape have their elements in the same order."""
    return a.stride() == b.stride() or (a.is_contiguous() and b.is_contiguous())


def _name(dtype: torch.dtype) -> str:
    return str(dtype.to_real()).removeprefix("torch.")


def _numbers(settings: Any) -> dict[str, Any]:
    """The settings that are numbers and not off; lr always."""
    return {
        name: a
        for name, a in settings._asdict().items()
        if name == "lr" or (isinstance(a, int | float | Tensor) and not isinstance(a, bool) and not is_off(a))
    }


def _in_memory(batch: Batch) -> dict[str, Tensor]:
    """The settings that the kernels read from the device; tensors on the CPU are passed as numbers."""
    device, numbers = batch.params[0].device, _numbers(batch.settings)
    return {name: a for name, a in numbers.items() if isinstance(a, Tensor) and a.device == device}


# Tables.


class Part(NamedTuple):
    """The tensors of a batch that have the same spec."""

    spec: Spec
    indices: list[int]
    """Their places in the batch."""
    table: Tensor
    shares: Tensor
    """Four numbers for each program: the tensor, the first element, how many, and how many in full aligned tiles."""
    first: int
    """Where the partial sums of this part begin."""


class Prepared(NamedTuple):
    """A batch that is ready to be launched."""

    parts: list[Part]
    programs: int
    spans: Tensor
    """The first row and the number of rows of each block in partial sums."""
    complete: Tensor
    """The rows of sums that are complete: one row each."""
    copies: list[Tensor]
    """Gradients copied for this step, kept until the kernels are launched. Without any, it is good for more steps."""


def key_of(batch: Batch, common: Spec) -> Hashable:
    """Everything that tables depend on."""
    tensors = (batch.params, batch.grads, *batch.state.values())
    dtypes = tuple(tuple(map(_dtype, each)) for each in tensors)
    counters: tuple[int, ...] = ()
    if common.counter == "device":
        counters = tuple(map(Tensor.data_ptr, batch.steps))
    elif any(torch.bfloat16 in each for each in dtypes):
        # A step number that is an argument serves all tensors of a part, so the differences must stay the same.
        steps = tuple(map(int, batch.steps))
        counters = tuple(step - steps[0] for step in steps)
    return (
        common,
        dtypes,
        tuple(tuple(map(Tensor.data_ptr, each)) for each in tensors),
        tuple(tuple(map(Tensor.stride, each)) for each in tensors),
        tuple(map(_shape, batch.params)),
        tuple((value.data_ptr(), value.dtype) for value in batch.shared.values()),
        counters,
        tuple(batch.streams),
    )


def prepare(batch: Batch, common: Spec, sizes: Sizes) -> Prepared:
    """Makes the tables of a batch."""
    device = batch.params[0].device
    members: dict[tuple[Spec, int], list[int]] = {}
    for i, spec in enumerate(specs_of(batch, common)):
        number = int(batch.steps[i]) if spec.counter == "argument" else 0
        members.setdefault((spec, number), []).append(i)
    copies: list[Tensor] = []
    tables = [_table(batch, spec, indices, copies) for (spec, _), indices in members.items()]
    total = sum(count for _, extents in tables for count, _ in extents)
    few = batch.plan.scope in SINGLE and batch.plan.rule.measures
    size = max(-(-total // (sizes.programs * sizes.chunk)), 1) * sizes.chunk if few else sizes.chunk
    parts: list[Part] = []
    spans, first = [0] * (2 * len(batch.params)), 0
    for ((spec, _), indices), (table, extents) in zip(members.items(), tables, strict=True):
        shares, counts = shares_of(device, extents, size, sizes.tile)
        parts.append(Part(spec, indices, table, shares, first))
        for i, count in zip(indices, counts, strict=True):
            spans[2 * i : 2 * i + 2] = first, count
            first += count
    complete = tuple(n for block in range(blocks_of(batch)) for n in (block, 1))
    spanned = upload(device, tuple(spans) if batch.plan.scope == "tensor" else (0, first))
    return Prepared(parts, first, spanned, upload(device, complete), copies)


def blocks_of(batch: Batch) -> int:
    """How many blocks have sums: one for each tensor, or one for all."""
    return len(batch.params) if batch.plan.scope == "tensor" else 1


def _table(batch: Batch, spec: Spec, indices: list[int], copies: list[Tensor]) -> tuple[Tensor, tuple[Extent, ...]]:
    source = source_of(spec)
    extents: list[Extent] = []
    table: dict[str, list[int]] = {key: [] for key in source.table}
    for i in indices:
        gradient, parameter = real_view(batch.grads[i]), real_view(batch.params[i])
        if not same_layout(gradient, parameter):  # The kernels walk both alike.
            gradient = torch.empty_like(parameter, dtype=gradient.dtype).copy_(gradient)
        if gradient.data_ptr() != batch.grads[i].data_ptr():
            copies.append(gradient)
        at = {key: values[i].data_ptr() for key, values in batch.state.items()}
        at |= {"x": batch.params[i].data_ptr(), "g": gradient.data_ptr()}
        aligned = all(at[key] % 16 == 0 for key in source.element)
        extents.append((gradient.numel(), aligned))
        at |= {key: value.data_ptr() for key, value in batch.shared.items()}
        at |= {"block": i, "stream": batch.streams[i] if batch.streams else i}
        if spec.counter == "device":
            at["step"] = batch.steps[i].data_ptr()
        for key, numbers in table.items():
            numbers.append(at[key])
    numbers = tuple(chain.from_iterable(table.values()))
    return upload(batch.params[0].device, numbers), tuple(extents)


@lru_cache(maxsize=128)
def upload(device: torch.device, numbers: tuple[int, ...]) -> Tensor:
    """These numbers on the device; the copy is asynchronous."""
    table = torch.tensor(numbers, dtype=torch.int64, device="cpu")
    return table if device.type == "cpu" else table.pin_memory().to(device, non_blocking=True)


@lru_cache(maxsize=128)
def shares_of(device: torch.device, extents: tuple[Extent, ...], size: int, tile: int) -> tuple[Tensor, list[int]]:
    """The shares of all programs, chunks of ``size`` elements, and how many programs each tensor has."""
    shares: list[int] = []
    counts: list[int] = []
    for t, (total, aligned) in enumerate(extents):
        counts.append(-(-total // size))
        for begin in range(0, total, size):
            count = min(size, total - begin)
            shares += (t, begin, count, count // tile * tile if aligned else 0)
    return upload(device, tuple(shares)), counts


# Launches.


Sums = tuple[Tensor, Tensor] | None
"""Partial sums, and which rows of them belong to each block."""


class Run:
    """The launches of a step."""

    ahead = 1
    """How far the batch's counters are behind the number of this step."""

    def __init__(self, batch: Batch, prepared: Prepared, launcher: Launcher, sizes: Sizes) -> None:
        self.batch, self.prepared, self.launcher = batch, prepared, launcher
        self.source = source_of(prepared.parts[0].spec)
        tensors = _in_memory(batch)
        numbers = {name: float(a) for name, a in _numbers(batch.settings).items() if name not in tensors}
        plan = batch.plan
        self.arguments: dict[str, Any] = {**numbers, "coupled_decay": plan.coupled_decay}
        self.arguments |= {f"{name}_at": a for name, a in tensors.items()}
        self.arguments |= {"TILE": sizes.tile, "WIDTH": sizes.width}

    def walk(self, name: str, columns: int = 0, sums: Sums = None) -> Sums:
        """Launches a kernel over all parts; returns the partial sums of its programs, so many columns of them."""
        shape = (max(self.prepared.programs, 1), columns)
        partial = self.prepared.spans.new_empty(shape, dtype=torch.float64)
        given = _arguments(sums) | {"partial": partial}
        for part in self.prepared.parts:
            self._launch(part, name, len(part.shares) // 4, work=part.shares, first=part.first, **given)
        return (partial, self.prepared.spans) if columns else None

    def measure(self) -> Sums:
        """The rule's sums; None if it measures nothing."""
        return self.walk("measure", self.source.sums) if self.source.sums else None

    def move(self, sums: Sums) -> Sums:
        """Moves, and returns the statistics if there are any."""
        return self.walk("move", self.source.statistics, sums)

    def write_shared(self, sums: Sums) -> None:
        """Writes the blocks after the step."""
        given = _arguments(sums)
        by_tensor = self.batch.plan.scope == "tensor"
        for part in self.prepared.parts if by_tensor else self.prepared.parts[:1]:
            self._launch(part, "write_shared", len(part.indices) if by_tensor else 1, **given)

    def complete(self, sums: Sums) -> Tensor | None:
        """Each block's sums, added up."""
        if sums is None:
            return None
        partial, spans = sums
        result = partial.new_empty((blocks_of(self.batch), partial.shape[1]))
        given = {"partial": partial, "spans": spans, "result": result, "COLUMNS": partial.shape[1]}
        self._launch(self.prepared.parts[0], "complete", len(result), **given)
        return result

    def given(self, sums: Tensor | None) -> Sums:
        """Complete sums in the form of partial ones."""
        return None if sums is None else (sums.contiguous(), self.prepared.complete)

    def _launch(self, part: Part, name: str, programs: int, **arguments: Any) -> None:
        if not programs:
            return
        is_argument = part.spec.counter == "argument"
        step = int(self.batch.steps[part.indices[0]]) + self.ahead if is_argument else 0
        own = {"table": part.table, "n": len(part.indices), "step": step, "ahead": self.ahead}
        self.launcher(part.spec, name, programs, {**self.arguments, **own, **arguments})


def _arguments(sums: Sums) -> dict[str, Any]:
    return {} if sums is None else {"sums": sums[0], "sum_spans": sums[1]}
