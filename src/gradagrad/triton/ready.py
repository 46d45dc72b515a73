"""Batches made ready for the kernels: which tensors go together, their tables on the device, and a memory of both.

What was made for a batch is good for the next step as long as every tensor lies where it lay and looks as it looked;
then a step uploads nothing and works out nothing anew. Gradients that are sparse, or not laid out as their parameter,
are other tensors at every step, and are made ready each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.rules.scope import SINGLE
from gradagrad.torch_ops.views import catch_up, clock, row_clocks
from gradagrad.triton.plan import Planner, gradient_of
from gradagrad.triton.program import Plan
from gradagrad.triton.source import writer
from gradagrad.triton.tables import Extent, Memory, Sizes, Work

_MEMO = "_triton"
_dtype, _layout = attrgetter("dtype"), attrgetter("layout")


class NotCapturedError(RuntimeError):
    """A CUDA graph cannot be captured, since what it would read does not exist yet."""


class Part(NamedTuple):
    """Tensors of a batch that the same kernels walk."""

    plan: Plan
    table: Tensor
    indices: list[int]
    """Their places in the batch."""
    extents: tuple[Extent, ...]


class Walk(NamedTuple):
    """One kernel over all parts: each part's work, where its partial sums begin, and which of them a slot has."""

    works: list[Work]
    firsts: list[int]
    spans: Tensor


class Ready(NamedTuple):
    """A batch made ready."""

    parts: list[Part]
    walks: dict[str, Walk]
    given: Tensor
    """Which rows of complete sums a slot has: its own."""
    held: list[Any]
    """Gradients made for this step, alive until the kernels are launched; without any, it is good for more steps."""


@dataclass
class _Memo:
    """Kept in a batch, which lives for one step, between the calls of that step."""

    owner: Preparation
    gradients: tuple[int, ...]
    planner: Planner
    key: Hashable | None
    ready: Ready | None = None


class Preparation:
    """Makes batches ready, and remembers."""

    def __init__(self, sizes: Sizes, *, read_counters: bool) -> None:
        self.sizes, self.read_counters = sizes, read_counters
        self._memories: dict[torch.device, Memory] = {}
        self._known: OrderedDict[Hashable, Ready] = OrderedDict()
        self._fit: OrderedDict[Hashable, None] = OrderedDict()
        self._captured: dict[int, Ready] = {}  # what graphs read for as long as they are replayed

    def ready(self, batch: Batch, *, capturing: bool = False) -> Ready:
        """The batch made ready; within one step the same again."""
        memo = self._memo(batch)
        if memo.ready is None:
            memo.ready = None if memo.key is None else self._known.get(memo.key)
        if capturing:
            if memo.ready is None or memo.ready.held:
                raise NotCapturedError(
                    "a CUDA graph needs the addresses of all tensors on the device before the capture: take a step "
                    "first, and keep the gradients where they are with zero_grad(set_to_none=False)."
                )
            self._captured[id(memo.ready)] = memo.ready
        if memo.ready is None:
            memo.ready = self._make(batch, memo.planner)
            if memo.key is not None and not memo.ready.held:
                _remember(self._known, memo.key, memo.ready)
        return memo.ready

    def is_fit(self, batch: Batch) -> bool:
        """Whether a batch of these very tensors has been found fit before."""
        key = self._memo(batch).key
        return key is not None and key in self._fit

    def remember_fit(self, batch: Batch) -> None:
        """Lets `is_fit` be true of a batch that has been checked."""
        if (key := self._memo(batch).key) is not None:
            _remember(self._fit, key, None)

    def _memo(self, batch: Batch) -> _Memo:
        gradients = tuple(map(id, batch.grads))
        memo: _Memo | None = batch.__dict__.get(_MEMO)  # not in its views: who is refused is stepped by others
        if memo is None or memo.gradients != gradients or memo.owner is not self:
            planner = Planner(batch, read_counters=self.read_counters)
            memo = batch.__dict__[_MEMO] = _Memo(self, gradients, planner, _key(batch, planner))
        return memo

    def _make(self, batch: Batch, planner: Planner) -> Ready:
        device = batch.params[0].device
        memory = self._memories.setdefault(device, Memory(device))
        members: dict[tuple[Plan, int], list[int]] = {}
        for i in range(len(batch.params)):
            plan = planner.plan(i)
            # One number of the step serves all tensors of a launch, if it is an argument.
            number = int(batch.steps[i]) if plan.counter == "argument" else 0
            members.setdefault((plan, number), []).append(i)
        held: list[Any] = []
        parts = [_part(planner, plan, at, memory, held) for (plan, _), at in members.items()]
        slots = range(slots_of(batch))
        given = memory.table(tuple(number for slot in slots for number in (slot, 1)))
        total = sum(extent.rows * extent.length for part in parts for extent in part.extents)
        chunk = self.sizes.chunk
        walks = {"move": self._walk(batch, parts, memory, chunk)}
        if batch.scope in SINGLE and batch.rule.measures(batch.settings):
            size = max(-(-total // (self.sizes.programs * chunk)), 1) * chunk
            walks["measure"] = self._walk(batch, parts, memory, size)
        return Ready(parts, walks, given, held)

    def _walk(self, batch: Batch, parts: list[Part], memory: Memory, size: int) -> Walk:
        works = [memory.work(p.extents, size, self.sizes.block, rows=p.plan.layout != "flat") for p in parts]
        firsts = list(accumulate((work.programs for work in works), initial=0))
        spans = [0, firsts[-1]]
        if batch.scope == "tensor":
            spans = [0] * (2 * len(batch.params))
            for part, work, first in zip(parts, works, firsts, strict=False):
                begins = accumulate(work.tensors, initial=first)
                for i, begin, count in zip(part.indices, begins, work.tensors, strict=False):
                    spans[2 * i : 2 * i + 2] = begin, count
        return Walk(works, firsts, memory.table(tuple(spans)))


def slots_of(batch: Batch) -> int:
    """How many rows the sums of a batch have."""
    return len(batch.params) if batch.scope == "tensor" else 1


def _key(batch: Batch, planner: Planner) -> Hashable | None:
    """All that tables and checks follow from; None for what is never the same again."""
    if any(layout is not torch.strided for layout in map(_layout, batch.grads)):
        return None
    tensors = (batch.params, batch.grads, *batch.state.values())
    dtypes = tuple(tuple(map(_dtype, each)) for each in tensors)
    counters: tuple[int, ...] = ()
    if planner.counter == "device":
        counters = tuple(map(Tensor.data_ptr, batch.steps))
    elif batch.lr_decay or any(torch.bfloat16 in each for each in dtypes):
        # Numbers of steps passed as arguments must go on being the same for the tensors of a part.
        steps = tuple(map(int, batch.steps))
        counters = tuple(step - steps[0] for step in steps)
    return (
        planner.base,
        planner.counter,
        dtypes,
        tuple(tuple(map(Tensor.data_ptr, each)) for each in tensors),
        tuple(tuple(map(Tensor.stride, each)) for each in tensors),
        tuple(map(Tensor.numel, batch.params)),
        tuple((slot.data_ptr(), slot.dtype) for slot in batch.shared.values()),
        counters,
        tuple(batch.streams),
    )


def _remember(known: OrderedDict[Hashable, Any], key: Hashable, value: Any, most: int = 64) -> None:
    known[key] = value
    if len(known) > most:
        known.popitem(last=False)


def _part(planner: Planner, plan: Plan, indices: list[int], memory: Memory, held: list[Any]) -> Part:
    batch, known = planner.batch, writer(plan)
    extents: list[Extent] = []
    rows: dict[str, list[int]] = {key: [] for key in known.rows}
    for i in indices:
        gradient, index = gradient_of(batch, i)
        if index is not None or gradient.data_ptr() != batch.grads[i].data_ptr():
            held.append((gradient, index))
        at = {key: values[i].data_ptr() for key, values in batch.state.items()}
        at |= {"x": batch.params[i].data_ptr(), "g": gradient.data_ptr()}
        extent = planner.extent(plan, gradient, [at[key] for key in known.element])
        extents.append(extent)
        at |= {key: value.data_ptr() for key, value in batch.shared.items()}
        at |= {"block": i, "stream": batch.streams[i] if batch.streams else i, "length": extent.length}
        if plan.counter:
            at["step"] = batch.steps[i].data_ptr()
        if index is not None:
            at["index"] = index.data_ptr()
        if known.rests:
            if "row_steps" in batch.param_states[i] and batch.param_states[i]["row_steps"].dim() != 1:
                catch_up(batch, i)  # they were kept for single entries
            at["row_steps"] = row_clocks(batch, i, 1, clock(batch, i)).data_ptr()
        for key, row in rows.items():
            row.append(at[key])
    return Part(plan, memory.table(tuple(chain.from_iterable(rows.values()))), indices, tuple(extents))
