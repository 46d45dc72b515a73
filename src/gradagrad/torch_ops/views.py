"""Views of a batch: one tensor, many tensors laid end to end, or the rows that a sparse gradient touches.

A view reads numbers, lets the rule step them, and writes them back. Only the view knows where its numbers come from and
where they go; the arithmetic is the rule's. Reading changes nothing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate, groupby, pairwise
from typing import Any

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors as joined
from torch._utils import _unflatten_dense_tensors as parts
from torch.optim.optimizer import Optimizer

from gradagrad import precision
from gradagrad.engine.batch import Batch
from gradagrad.rules.rule import PARAMETER_LANE, Field
from gradagrad.rules.scope import SINGLE, block_shape
from gradagrad.torch_ops.ops import (
    Segments,
    computing_dtype,
    real_view,
    reduction,
    tensor_ops,
    wide_dtype,
    write_scalars,
)

Arrays = dict[str, Any]
CACHED = 1 << 17
"""How many elements a CPU takes together. Temporaries of more leave its cache, which makes steps far slower."""


class View:
    """Real arrays in computing precision: the values of elements, and their blocks without shared numbers."""

    places: Sequence[int]
    """The places of its parameters in the batch that was viewed."""
    values: Arrays
    block: Arrays
    settings: Any
    sums: Any
    """How to sum over each block."""

    def __init__(self, batch: Batch, like: Tensor) -> None:
        self.batch, self.rule, self.device, self.settings = batch, batch.plan.rule, like.device, batch.plan.settings
        self.ops = self.block_ops = tensor_ops(computing_dtype(like.dtype))
        if batch.plan.scope in SINGLE:  # The block of a whole tensor is in double.
            self.block_ops = tensor_ops(wide_dtype(like.device))

    def measure(self) -> Any:
        """The rule's sums over each block of this view."""
        return self.rule.measure(self.values, self.settings, self.sums, self.ops) if self.rule.measures else ()

    def by_tensor(self, sums: Any) -> list[Tensor]:
        """Sums tensor by tensor, each of shape (numbers, blocks)."""
        return [torch.stack(sums)]

    def from_tensors(self, sums: Sequence[Tensor]) -> Any:
        """The inverse of `by_tensor`."""
        return sums[0].unbind()

    def decide(self, sums: Any) -> tuple[Arrays, Sequence[Any]]:
        """The view's own blocks after this step, and the factors of the move."""
        return self.rule.decide(sums, self.block, self.settings, self.block_ops)

    def step(self, after: Arrays, factors: Sequence[Any]) -> Any:
        """Moves and writes everything, blocks too. What the rule learns from is returned, not written."""
        mask = self.touched() if getattr(self.settings, "lazy", False) else None
        new, statistics = self.rule.move(self.values, factors, self.settings, self.sums, self.ops, mask)
        self.write(new, after)
        return statistics

    def touched(self) -> Tensor:
        """Which entries (`element`) or rows (all others) have a non-zero gradient, broadcastable to it."""
        nonzero = self.values["g"] != 0
        if self.batch.plan.scope == "element" or nonzero.dim() < 2:
            return nonzero
        return nonzero.flatten(1).any(dim=1).reshape(block_shape(nonzero.shape, "row"))

    def write(self, new: Arrays, after: Arrays) -> None:
        """Stores the values, and the blocks that belong to this view alone unless they are yet to be learned."""
        raise NotImplementedError

    def _own_fields(self) -> list[Field]:
        """The fields that a view reads and writes. Learned ones are the batch's."""
        plan, state = self.batch.plan, self.batch.state
        return [f for f in plan.fields if f.key in state and (f.at == "element" or not plan.rule.learns)]


class OneTensor(View):
    """One parameter: the plainest view, with which all others are compared."""

    def __init__(self, batch: Batch, i: int, gradient: Tensor, index: tuple[Any, ...] = ()) -> None:
        """Shows the rows at ``index``, to which ``gradient`` belongs; all of them if it is empty."""
        parameter = real_view(batch.params[i])
        super().__init__(batch, parameter)
        self.i, self.places, self.index, dtype = i, [i], index, self.ops.dtype
        x = in_dtype(parameter[index] if index else parameter, dtype)
        fields, self.block = fields_of(batch, i, dtype, index)
        self.values = {"x": x, "g": gradient_of(batch, in_dtype(real_view(gradient), dtype), x), **fields}
        if batch.plan.differentiable:
            # Autograd saves these tensors, so they must not be overwritten.
            self.values = {key: a if key == "g" else a.clone() for key, a in self.values.items()}
            self.block = {key: a.clone() for key, a in self.block.items()}
        lr = lr_of(batch, i, dtype)
        self.settings = self.settings if lr is self.settings.lr else self.settings._replace(lr=lr)
        self.sums = reduction(batch.plan.scope)

    def write(self, new: Arrays, after: Arrays) -> None:
        batch, i = self.batch, self.i
        bits = random_bits(batch, i, self.index) if batch.plan.draws else None
        bits_of_x = bits if batch.plan.stochastic_rounding else None
        written = [(real_view(batch.params[i]), new["x"], PARAMETER_LANE, bits_of_x)]
        scalars: list[tuple[Tensor, Tensor]] = []
        for field in self._own_fields():
            values, target = (new if field.at == "element" else after)[field.key], batch.state[field.key][i]
            if field.at == "block" and batch.plan.scope in SINGLE:
                scalars.append((target, values.to(target.dtype)))
            else:
                written.append((target, values, field.lane, bits))
        for target, values, lane, own_bits in written:
            stored = values if own_bits is None else precision.stored(target, values, own_bits, lane)
            if self.index:
                target[self.index] = stored.to(target.dtype)
            else:
                target.copy_(stored)
        write_scalars([target for target, _ in scalars], [value for _, value in scalars])


class Pieces(OneTensor):
    """A large parameter whose elements share a step size: all its pieces are measured before one moves."""

    def __init__(self, batch: Batch, i: int, indices: Sequence[tuple[slice, ...]]) -> None:
        super().__init__(batch, i, batch.grads[i][:0], (slice(0),))
        self._pieces = [partial(OneTensor, batch, i, batch.grads[i][index], index) for index in indices]

    def measure(self) -> Any:
        return [sum(a) for a in zip(*(piece().measure() for piece in self._pieces), strict=True)]

    def step(self, after: Arrays, factors: Sequence[Any]) -> Any:
        return [sum(a) for a in zip(*(piece().step(after, factors) for piece in self._pieces), strict=True)]


class ManyTensors(View):
    """All parameters of a batch, of one device and precision, laid end to end: an operation on all of them is one."""

    def __init__(self, batch: Batch) -> None:
        self._params = [real_view(p) for p in batch.params]
        super().__init__(batch, self._params[0])
        dtype = self.ops.dtype
        x, g = joined(self._params).to(dtype), joined([real_view(a) for a in batch.grads]).to(dtype)
        self.values, self.block = {"x": x, "g": gradient_of(batch, g, x)}, {}
        for field in self._own_fields():
            fields = self.values if field.at == "element" else self.block
            fields[field.key] = in_dtype(joined(batch.state[field.key]), dtype, promotes=True)
        self._has_blocks = batch.plan.scope in ("row", "tensor")
        self.sums = self._own if self._has_blocks else reduction(batch.plan.scope)
        self.settings = self.settings._replace(lr=lr_of(batch, 0, dtype))

    @cached_property
    def _rows(self) -> Segments:
        lengths = array("q")  # torch takes an array as it is, but a list number by number.
        for shape in (p.shape for p in self._params):
            lengths += array("q", [shape[1:].numel()]) * (shape[0] if shape else 1)
        return Segments(lengths, self.values["x"], self.ops.dtype)

    @cached_property
    def _own(self) -> Segments:
        if self.batch.plan.scope == "row":
            return self._rows
        return Segments([p.numel() for p in self._params], self.values["x"], None)

    def by_tensor(self, sums: Any) -> list[Tensor]:
        like = self.batch.state[next(field.key for field in self.batch.plan.fields if field.at == "block")]
        columns = zip(torch.stack(list(sums)).split([t.numel() for t in like], 1), like, strict=True)
        return [part.reshape(len(sums), *t.shape) for part, t in columns]

    def from_tensors(self, sums: Sequence[Tensor]) -> Any:
        return torch.cat([own.reshape(len(own), -1) for own in sums], 1).unbind()

    def step(self, after: Arrays, factors: Sequence[Any]) -> Any:
        if self._has_blocks:
            used = factors[:-1] if self.rule.learns else factors
            factors = [*(self._own.spread(self.ops.narrow(a)) for a in used), *factors[len(used) :]]
        return super().step(after, factors)

    def touched(self) -> Tensor:
        nonzero = self.values["g"] != 0
        return nonzero if self.batch.plan.scope == "element" else self._rows.spread(self._rows.added(nonzero) > 0)

    def write(self, new: Arrays, after: Arrays) -> None:
        batch = self.batch
        fields = [
            (field.lane, batch.state[field.key], (new if field.at == "element" else after)[field.key], True)
            for field in self._own_fields()
        ]
        fields.append((PARAMETER_LANE, self._params, new["x"], batch.plan.stochastic_rounding))
        bits = [random_bits(batch, i) for i in range(len(self._params))] if batch.plan.draws else []
        for lane, targets, row, rounds in fields:
            values = parts(row, targets)
            if rounds and targets[0].dtype == torch.bfloat16:
                values = [precision.stored(*given, lane) for given in zip(targets, values, bits, strict=True)]
            torch._foreach_copy_(targets, values)


class TouchedRows(OneTensor):
    """The touched rows of one parameter with a sparse gradient: gathered, stepped like any tensor, scattered back."""

    def __init__(self, batch: Batch, i: int) -> None:
        gradient, own = batch.grads[i].coalesce(), batch.param_states[i]
        index = tuple(gradient.indices())
        if "row_clocks" in own and own["row_clocks"].dim() != len(index):
            catch_up(batch, i)  # Clocks of rows cannot serve entries, nor the other way round.
        super().__init__(batch, i, gradient.values(), index)
        if "row_clocks" not in own or not self.rule.needs_catch_up(self.settings):
            return
        # Bring rows that were idle to where dense gradients of zero would have brought them.
        since = own["row_clocks"][self.index]
        for key, a in _after_idling(batch, i, self.values, self.block, since, self.ops).items():
            (self.values if key in self.values else self.block)[key] = a

    def write(self, new: Arrays, after: Arrays) -> None:
        super().write(new, after)
        if self.rule.needs_catch_up(self.settings):
            now = clock(self.batch, self.i)
            clocks = row_clocks(self.batch, self.i, len(self.index), now)
            later = after[self.rule.clock] if self.rule.clock else now + 1
            clocks.index_put_(self.index, torch.as_tensor(later, dtype=clocks.dtype, device=clocks.device))


def views(batch: Batch, *, together: bool) -> Iterator[View]:
    """Dense parameters together, or one by one as for a compiled step; sparse ones by their touched rows.

    A CPU takes large ones in pieces, unless a projection, autograd or a row on several ranks needs the whole tensor.
    """
    plan, projects = batch.plan, getattr(batch.plan.settings, "project", None)
    compiling = torch.compiler.is_compiling()
    together = together and not (plan.lr_decay or projects or compiling)
    whole = projects or compiling or plan.differentiable or (plan.scope == "row" and batch.axes)
    dense = [i for i, gradient in enumerate(batch.grads) if gradient.layout == torch.strided]
    sizes = [parameter.numel() for parameter in batch.params]
    large = [] if whole or max(sizes) <= CACHED else [i for i in dense if sizes[i] > CACHED and batch.params[i].is_cpu]
    dense = [i for i in dense if i not in large]
    if together and dense:
        params: list[Tensor | None] = [batch.params[i] for i in dense]
        for _, group in Optimizer._group_tensors_by_device_and_dtype([params], with_indices=True).values():
            alike = [dense[int(i)] for i in group]
            ends = accumulate(sizes[i] for i in alike)
            most = CACHED if batch.params[alike[0]].is_cpu else math.inf
            for _, run in groupby(zip(alike, ends, strict=True), lambda pair, most=most: pair[1] // most):
                places = [i for i, _ in run]
                many = ManyTensors(batch if len(places) == len(batch.params) else batch.select(places))
                many.places = places
                yield many
    for i, gradient in enumerate(batch.grads):
        if gradient.layout != torch.strided:
            yield TouchedRows(batch, i)
        elif i in large:
            yield from _in_pieces(batch, i)
        elif not together:
            yield OneTensor(batch, i, gradient)


def _in_pieces(batch: Batch, i: int) -> Iterator[View]:
    """A large parameter, cut along the first dimension that is long enough."""
    gradient, plan = batch.grads[i], batch.plan
    count = -(-gradient.numel() // CACHED)
    by_rows = plan.scope == "row" or getattr(plan.settings, "lazy", False)
    dim = 0 if by_rows else next((dim for dim, size in enumerate(gradient.shape) if size >= count), 0)
    ends = [gradient.shape[dim] * k // count for k in range(count + 1)]
    indices = [(*[slice(None)] * dim, slice(*pair)) for pair in pairwise(dict.fromkeys(ends))]
    if plan.scope in SINGLE:
        yield Pieces(batch, i, indices)
    else:
        yield from (OneTensor(batch, i, gradient[index], index) for index in indices)


def own_fields(batch: Batch, i: int) -> list[tuple[Field, Tensor]]:
    """The i-th parameter's fields and their tensors, without those of a shared block."""
    return [(field, batch.state[field.key][i]) for field in batch.plan.fields if field.key in batch.state]


def fields_of(batch: Batch, i: int, dtype: torch.dtype, index: tuple[Any, ...] = ()) -> tuple[Arrays, Arrays]:
    """The i-th parameter's element fields and block fields, in computing precision; ``index`` picks rows."""
    values: Arrays = {}
    block: Arrays = {}
    for field, stored in own_fields(batch, i):
        a = stored[index] if index and (field.at == "element" or batch.plan.scope not in SINGLE) else stored
        (values if field.at == "element" else block)[field.key] = in_dtype(a, dtype, promotes=True)
    return values, block


def in_dtype(a: Tensor, dtype: torch.dtype, *, promotes: bool = False) -> Tensor:
    """A tensor in another precision, or in its own if that is higher and it promotes. Asking is faster than `to`."""
    return a if a.dtype == dtype or (promotes and a.dtype == torch.float64) else a.to(dtype)


def lr_of(batch: Batch, i: int, dtype: torch.dtype, *, counted: bool = False) -> Any:
    """The i-th parameter's learning rate, decayed as torch's Adagrad does. ``counted``: counters include this step."""
    lr = batch.plan.settings.lr
    lr = lr.reshape(()).to(dtype) if isinstance(lr, Tensor) else lr
    if not batch.plan.lr_decay:
        return lr
    steps = batch.steps[i].to(dtype)
    return lr / (1.0 + ((steps - 1.0).clamp(min=0.0) if counted else steps) * batch.plan.lr_decay)


def gradient_of(batch: Batch, g: Any, x: Any) -> Any:
    """The gradient as the rule takes it; ``.grad`` itself is never written."""
    if batch.plan.maximize:
        g = -g
    return g + x * batch.plan.coupled_decay if batch.plan.coupled_decay else g


def random_bits(batch: Batch, i: int, index: tuple[Any, ...] = ()) -> precision.RandomBits | None:
    """The random bits of the i-th parameter in this step (at ``index``, unless it is empty); None if none are used."""
    like = next((stored for field, stored in own_fields(batch, i) if field.at == "element"), None)
    rounds_x = batch.plan.stochastic_rounding and batch.params[i].dtype == torch.bfloat16
    if not rounds_x and (like is None or like.dtype != torch.bfloat16):
        return None
    like = real_view(batch.params[i]) if like is None else like
    return precision.RandomBits(like, batch.steps[i] + 1, batch.streams[i] if batch.streams else i, index)


def clock(batch: Batch, i: int) -> Tensor:
    """The time that idle rows of the i-th parameter catch up with."""
    return batch.shared[batch.plan.rule.clock] if batch.plan.rule.clock else batch.steps[i]


def row_clocks(batch: Batch, i: int, dims: int, now: Tensor) -> Tensor:
    """For each row (an entry of the first ``dims`` dimensions), the time at which it was last up to date."""
    own = batch.param_states[i]
    if (clocks := own.get("row_clocks")) is None:
        # All rows have been stepped densely so far, or were just brought up to date.
        shape, device = batch.params[i].shape[:dims], batch.params[i].device
        clocks = own["row_clocks"] = now.to(device, wide_dtype(device)).expand(shape).clone()
    return clocks


def _after_idling(batch: Batch, i: int, values: Arrays, block: Arrays, since: Tensor, ops: Any) -> Arrays:
    """``x`` and the fields of rows of the i-th parameter last up to date at ``since``, as they are now."""
    now, since = clock(batch, i).to(since), since.reshape([*since.shape, *[1] * (values["x"].dim() - since.dim())])
    result = batch.plan.rule.idle(values, {**batch.shared, **block}, since, now, batch.settings, ops)
    # A block that is a single number has no rows to bring up to date.
    return {key: a for key, a in result.items() if key in values or batch.plan.scope not in SINGLE}


@torch.no_grad()
def catch_up(batch: Batch, i: int) -> None:
    """Brings all rows of the i-th parameter up to date and removes their clocks until the next sparse gradient."""
    if (clocks := batch.param_states[i].get("row_clocks")) is None:
        return
    dtype = computing_dtype(batch.params[i].dtype)
    parameter = real_view(batch.params[i].detach())
    fields, block = fields_of(batch, i, dtype)
    values = {"x": parameter.to(dtype), **fields}
    targets = {"x": parameter, **{field.key: stored for field, stored in own_fields(batch, i)}}
    for key, a in _after_idling(batch, i, values, block, clocks, tensor_ops(dtype)).items():
        # A row that is up to date is representable and stays as it is; bf16 rounds the others to nearest, once.
        targets[key].copy_(a)
    del batch.param_states[i]["row_clocks"]
