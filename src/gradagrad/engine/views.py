"""Views of a batch: one tensor, a list of tensors, or the touched rows of one, read, stepped and written as a whole.

The arithmetic is the rule's in every case; a view only knows where its numbers come from and where they go. Reading
changes nothing, and writing what was computed twice is writing it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from gradagrad import rounding
from gradagrad.engine.batch import Batch
from gradagrad.engine.lists import ListOps, ListSums, TensorList, each, lifted
from gradagrad.engine.tensors import (
    computing_dtype,
    real_view,
    reduction,
    tensor_ops,
    touched,
    wide_dtype,
    write_numbers,
)
from gradagrad.rules.protocol import POINT_LANE
from gradagrad.scope import SINGLE

Numbers = dict[str, Any]


class View:
    """Arrays in computing precision, real, of one kind: the values of elements, and the slots that are their own."""

    values: Numbers
    slot: Numbers
    settings: Any
    ops: Any
    slots: Any
    """How to sum over each slot."""
    device: torch.device

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rule = batch.rule

    def measure(self) -> tuple[Any, ...]:
        """The rule's sums over each slot of this view."""
        if not self.rule.measures(self.settings):
            return ()
        values = self.values
        if self.rule.learns(self.settings):
            # Such sums leave out what is not finite. Squares of finite numbers are, in double.
            wide = wide_dtype(self.device)
            g = values["g"]
            values = {**values, "g": g.to(wide) if isinstance(g, Tensor) else g.map(lambda a: a.to(wide))}
        return self.rule.measure(values, self.settings, self.slots, self.ops)

    def decide(self, sums: Sequence[Any]) -> tuple[Numbers, tuple[Any, ...]]:
        """The view's own slots after this step, and the pace."""
        return self.rule.decide(sums, self.slot, self.settings, self._slot_ops())

    def _slot_ops(self) -> Any:
        """Of the precision of slots, which for a whole tensor are double."""
        if self.batch.scope not in SINGLE:
            return self.ops
        wide = wide_dtype(self.device)
        return ListOps(wide, self.ops.count) if isinstance(self.ops, ListOps) else tensor_ops(wide)

    def move(self, pace: Sequence[Any]) -> tuple[Numbers, tuple[Any, ...]]:
        """The values after this step, and the traces."""
        mask = self.touched() if getattr(self.settings, "lazy", False) else None
        return self.rule.move(self.values, pace, self.settings, self.slots, self.ops, mask)

    def step(self, sums: Sequence[Any]) -> tuple[Numbers, Numbers]:
        """Values and own slots after this step, given complete sums."""
        after, pace = self.decide(sums)
        new, traces = self.move(pace)
        if self.rule.learns(self.settings):
            after = self.rule.learn(traces, after, self.settings, self._slot_ops())
        return new, after

    def touched(self) -> Any:
        raise NotImplementedError

    def write(self, new: Numbers, after: Numbers) -> None:
        """Stores values, and the slots that are this view's own."""
        raise NotImplementedError


class Single(View):
    """One parameter: the plainest view, and the one every other way of stepping is compared with."""

    def __init__(self, batch: Batch, i: int) -> None:
        super().__init__(batch)
        self.i = i
        parameter = batch.params[i]
        dtype = computing_dtype(parameter.dtype)
        x = real_view(parameter).to(dtype)
        self.values = {"x": x, "g": _gradient(batch, real_view(batch.grads[i]).to(dtype), x)}
        self.slot = {}
        for field in batch.fields:
            if field.key in batch.state:
                numbers = batch.state[field.key][i]
                numbers = numbers.to(torch.promote_types(dtype, numbers.dtype))
                (self.values if field.at == "element" else self.slot)[field.key] = numbers
        if batch.differentiable:
            # What autograd saves must not be what is overwritten.
            self.values = {key: a if key == "g" else a.clone() for key, a in self.values.items()}
            self.slot = {key: a.clone() for key, a in self.slot.items()}
        self.settings = batch.settings._replace(lr=batch.lr(i, dtype))
        self.ops, self.slots, self.device = tensor_ops(dtype), reduction(batch.scope), x.device

    def touched(self) -> Tensor:
        return touched(self.values["g"], self.batch.scope)

    def write(self, new: Numbers, after: Numbers) -> None:
        batch, i = self.batch, self.i
        bits = random_bits(batch, i)
        parameter = real_view(batch.params[i])
        x_bits = bits if batch.stochastic_rounding else None
        parameter.copy_(rounding.stored(parameter, new["x"], x_bits, POINT_LANE))
        single = batch.scope in SINGLE
        numbers: list[tuple[Tensor, Tensor]] = []
        for field in batch.fields:
            if field.key in batch.state:
                target = batch.state[field.key][i]
                values = (new if field.at == "element" else after)[field.key]
                if single and field.at == "slot":
                    numbers.append((target, values))
                else:
                    target.copy_(rounding.stored(target, values, bits, field.lane))
        write_numbers([target for target, _ in numbers], [value.to(target.dtype) for target, value in numbers])


class Many(View):
    """All parameters of a batch at once, of one device and precision."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        dtype = computing_dtype(batch.params[0].dtype)
        x = _listed([real_view(p) for p in batch.params], dtype)
        self.values = {"x": x, "g": _gradient(batch, _listed([real_view(g) for g in batch.grads], dtype), x)}
        self.slot = {}
        for field in batch.fields:
            if field.key in batch.state:
                tensors = batch.state[field.key]
                listed = _listed(tensors, torch.promote_types(dtype, tensors[0].dtype))
                (self.values if field.at == "element" else self.slot)[field.key] = listed
        lrs = [batch.lr(i, dtype) for i in range(len(batch.params))]
        project = getattr(batch.settings, "project", None)
        self.settings = batch.settings._replace(lr=TensorList(lrs) if batch.lr_decay else lifted(lrs[0], len(lrs)))
        if project is not None:
            self.settings = self.settings._replace(project=each(project))
        self.ops, self.slots, self.device = ListOps(dtype, len(lrs)), ListSums(batch.scope), x[0].device

    def touched(self) -> TensorList:
        return TensorList([touched(g, self.batch.scope) for g in self.values["g"]])

    def write(self, new: Numbers, after: Numbers) -> None:
        batch = self.batch
        rounds = any(t[0].dtype == torch.bfloat16 for t in (batch.params, *batch.state.values()))
        if rounds:
            bits = [random_bits(batch, i) for i in range(len(batch.params))]
            x_bits = bits if batch.stochastic_rounding else [None] * len(bits)
        else:
            bits = x_bits = [None] * len(batch.params)
        _write_list([real_view(p) for p in batch.params], new["x"], x_bits, POINT_LANE)
        for field in batch.fields:
            if field.key in batch.state:
                values = (new if field.at == "element" else after)[field.key]
                _write_list(batch.state[field.key], values, bits, field.lane)


class Rows(View):
    """The touched rows of one parameter with a sparse gradient: gathered, stepped like any tensor, scattered back."""

    def __init__(self, batch: Batch, i: int) -> None:
        super().__init__(batch)
        self.i = i
        parameter = real_view(batch.params[i])
        dtype = computing_dtype(parameter.dtype)
        gradient = batch.grads[i].coalesce()
        self.index = tuple(gradient.indices())
        if "row_steps" in batch.rows[i] and batch.rows[i]["row_steps"].dim() != len(self.index):
            catch_up(batch, i)  # clocks of rows are of no use to entries, nor the other way round
        g = real_view(gradient.values()).to(dtype)
        self.values = {"x": parameter[self.index].to(dtype), "g": -g if batch.maximize else g}
        self.slot = {}
        for field in batch.fields:
            if field.key in batch.state:
                numbers = batch.state[field.key][i]
                numbers = numbers[self.index].to(dtype) if self._has_rows(field.at) else numbers
                (self.values if field.at == "element" else self.slot)[field.key] = numbers
        self.settings = batch.settings._replace(lr=batch.lr(i, dtype))
        self.ops, self.slots, self.device = tensor_ops(dtype), reduction(batch.scope), parameter.device
        self._catch_up()

    def _has_rows(self, at: str) -> bool:
        return at == "element" or self.batch.scope in ("element", "row")

    def _catch_up(self) -> None:
        """Rows that rested since an earlier step are first brought to where a dense gradient would have brought
        them."""
        own = self.batch.rows[self.i]
        if "row_steps" not in own or not self.rule.rests(self.settings):
            return
        since = own["row_steps"][self.index].reshape(-1, *(1 for _ in range(self.values["x"].dim() - 1)))
        now = clock(self.batch, self.i)
        for key, a in rested(self.batch, self.values, self.slot, since, now, self.ops).items():
            (self.values if key in self.values else self.slot)[key] = a

    def touched(self) -> Tensor:
        return touched(self.values["g"], self.batch.scope)

    def write(self, new: Numbers, after: Numbers) -> None:
        batch, i, index = self.batch, self.i, self.index
        bits = random_bits(batch, i, index)
        parameter = real_view(batch.params[i])
        x_bits = bits if batch.stochastic_rounding else None
        parameter.index_put_(index, rounding.stored(parameter, new["x"], x_bits, POINT_LANE))
        for field in batch.fields:
            if field.key not in batch.state:
                continue
            target = batch.state[field.key][i]
            values = (new if field.at == "element" else after)[field.key]
            if self._has_rows(field.at):
                target.index_put_(index, rounding.stored(target, values, bits, field.lane))
            else:
                target.copy_(values)
        if self.rule.rests(self.settings):
            now = clock(batch, i)
            clocks = row_clocks(batch, i, len(index), now)
            clocks.index_put_(index, (now + 1).to(clocks))


def views(batch: Batch, *, together: bool) -> Iterator[View]:
    """Dense parameters one by one or together, sparse ones by their touched rows."""
    dense = [i for i, gradient in enumerate(batch.grads) if gradient.layout == torch.strided]
    if together and dense:
        yield from _together(batch if len(dense) == len(batch.grads) else batch.select(dense))
    else:
        for i in dense:
            yield Single(batch, i)
    for i, gradient in enumerate(batch.grads):
        if gradient.layout != torch.strided:
            yield Rows(batch, i)


def _together(batch: Batch) -> Iterator[View]:
    params: list[Tensor | None] = [*batch.params]
    grouped = Optimizer._group_tensors_by_device_and_dtype([params], with_indices=True)
    for _, indices in grouped.values():
        yield Many(batch if len(indices) == len(batch.params) else batch.select(int(i) for i in indices))


def _gradient(batch: Batch, g: Any, x: Any) -> Any:
    """The gradient as the rule takes it; ``.grad`` itself is never written."""
    if batch.maximize:
        g = -g
    return g + x * batch.coupled_decay if batch.coupled_decay else g


def _listed(tensors: Sequence[Tensor], dtype: torch.dtype) -> TensorList:
    """The tensors in one precision, in one call where they are in another."""
    if all(t.dtype == dtype for t in tensors):
        return TensorList(tensors)
    copies = [torch.empty_like(t, dtype=dtype, memory_format=torch.preserve_format) for t in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return TensorList(copies)


def _write_list(targets: list[Tensor], values: Any, bits: Sequence[Any], lane: int) -> None:
    if bits[0] is None or targets[0].dtype != torch.bfloat16:
        torch._foreach_copy_(targets, values.tensors)
        return
    for target, value, random in zip(targets, values, bits, strict=True):
        target.copy_(rounding.stored(target, value, random, lane))


def random_bits(batch: Batch, i: int, index: tuple[Tensor, ...] | None = None) -> rounding.RandomBits | None:
    """The random bits of a batch's i-th parameter in this step (at ``index``, if given); None if none are needed."""
    like = next((batch.state[f.key][i] for f in batch.fields if f.at == "element" and f.key in batch.state), None)
    rounds_x = batch.stochastic_rounding and batch.params[i].dtype == torch.bfloat16
    if not rounds_x and (like is None or like.dtype != torch.bfloat16):
        return None
    like = real_view(batch.params[i]) if like is None else like
    return rounding.RandomBits(like, batch.steps[i] + 1, batch.streams[i] if batch.streams else i, index)


def clock(batch: Batch, i: int) -> Tensor:
    """How many steps the i-th parameter has seen: those of the slot it shares, or its own."""
    shared = batch.shared.get("clock")
    return batch.steps[i] if shared is None else shared


def row_clocks(batch: Batch, i: int, dims: int, now: Tensor) -> Tensor:
    """For each row (an entry of the first ``dims`` dimensions), the last step at which it was up to date."""
    own = batch.rows[i]
    clocks = own.get("row_steps")
    if clocks is None:
        # All have been stepped densely so far, or have just been brought up to date.
        shape, device = batch.params[i].shape[:dims], batch.params[i].device
        clocks = own["row_steps"] = torch.zeros(shape, dtype=torch.int32, device=device)
        clocks.add_(now.to(clocks))
    return clocks


def rested(batch: Batch, values: Numbers, slot: Numbers, since: Tensor, now: Tensor, ops: Any) -> Numbers:
    """The fields of rows last up to date at ``since`` as they stand after step ``now``."""
    wide = torch.float64
    now = now.to(device=since.device, dtype=wide)
    result = batch.rule.rest(values, {**batch.shared, **slot}, since.to(wide), now, batch.settings, ops)
    # A slot that is one number has no rows to bring up to date.
    return {key: a for key, a in result.items() if key in values or batch.scope not in SINGLE}


@torch.no_grad()
def catch_up(batch: Batch, i: int) -> None:
    """Brings all rows of the i-th parameter up to date; no clocks are needed then until the next sparse gradient."""
    clocks: Tensor | None = batch.rows[i].get("row_steps")
    if clocks is None:
        return
    dtype = computing_dtype(batch.params[i].dtype)
    values: Numbers = {"x": real_view(batch.params[i].detach()).to(dtype)}
    slot: Numbers = {}
    targets: dict[str, Tensor] = {}
    for field in batch.fields:
        if field.key in batch.state:
            targets[field.key] = batch.state[field.key][i]
            (values if field.at == "element" else slot)[field.key] = targets[field.key].to(dtype)
    since = clocks.reshape(*clocks.shape, *(1 for _ in range(values["x"].dim() - clocks.dim())))
    for key, a in rested(batch, values, slot, since, clock(batch, i), tensor_ops(dtype)).items():
        # What is up to date is representable and stays as it is; in bf16 the rest is rounded to nearest, once.
        targets[key].copy_(a)
    del batch.rows[i]["row_steps"]
