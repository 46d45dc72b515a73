"""Where the rule's numbers come from and where they go: one tensor, a list of tensors, or the touched rows of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from gradagrad import rounding
from gradagrad.auto import averaging, rule
from gradagrad.auto.batch import Batch
from gradagrad.auto.numbers import Numbers
from gradagrad.rule import Ops
from gradagrad.steps.foreach import TensorList, TensorListOps
from gradagrad.steps.ops import computing_dtype, real_view, tensor_ops

State = Mapping[Tensor, dict[str, Any]]
Commit = Callable[[Any, Any, Any, Any | None], None]


@dataclass
class Bundle:
    """Arrays in computing precision, real, of one kind: tensors or `TensorList`s."""

    x: Any
    g: Any
    h: Any
    B: Any
    mean: Any | None
    batch: Batch
    dtype: torch.dtype
    ops: Ops
    commit: Commit
    """Stores the new x, h, B and mean."""

    def measure(self, before: Numbers, settings: rule.Settings) -> Tensor:
        """`rule.Sums` as one tensor."""
        weight = _lifted(before.weight(settings, self.dtype), self.x)
        sums = rule.measure(self.g, self.h, self.B, weight, _total, self.ops)
        return torch.stack(list(sums))

    def move(self, after: Numbers, settings: rule.Settings) -> None:
        pace = self.batch.pace(after, settings, self.dtype)
        pace = rule.Pace(*(_lifted(value, self.x) for value in pace))
        x, h, B = rule.move(self.x, self.g, self.h, self.B, pace, self.ops)
        mean = None if self.mean is None else rule.average(x, self.mean, pace.share)
        self.commit(x, h, B, mean)


def _total(a: Any) -> Tensor:
    """In double precision: float32 would lose what single coordinates add to a long sum."""
    if isinstance(a, Tensor):
        return a.sum(dtype=torch.float64)
    return torch.stack([t.sum(dtype=torch.float64) for t in a]).sum()


def _lifted(value: Any, like: Any) -> Any:
    """A shared number on the device of what it is combined with, and repeated for lists where torch needs that."""
    if not isinstance(value, Tensor):
        return value
    if isinstance(like, Tensor):
        return value.to(like.device)
    moved = value.to(like[0].device)
    return TensorList([moved] * len(like.tensors)) if torch.compiler.is_compiling() else moved


def one_by_one(batch: Batch) -> Iterator[Bundle]:
    """A bundle for each parameter with a dense gradient."""
    for i, parameter in enumerate(batch.params):
        dtype = computing_dtype(parameter.dtype)
        x = real_view(parameter).to(dtype)
        h, sums = batch.momenta[i].to(dtype), batch.accumulators[i].to(dtype)
        mean = batch.averages[i].to(dtype) if batch.averages else None
        if batch.differentiable:
            # What autograd saves must not be what the commit overwrites.
            x, h, sums = x.clone(), h.clone(), sums.clone()
            mean = None if mean is None else mean.clone()
        g = _gradient(batch, real_view(batch.grads[i]).to(dtype), x)
        yield Bundle(x, g, h, sums, mean, batch, dtype, tensor_ops(dtype), _commit_each(batch, [i]))


def together(batch: Batch) -> Iterator[Bundle]:
    """A bundle for all parameters of one device and dtype with dense gradients."""
    params: list[Tensor | None] = [*batch.params]
    for _, indices in Optimizer._group_tensors_by_device_and_dtype([params], with_indices=True).values():
        part = batch.select(int(i) for i in indices)
        dtype = computing_dtype(part.params[0].dtype)
        x = TensorList([real_view(p).to(dtype) for p in part.params])
        g = _gradient(part, TensorList([real_view(g).to(dtype) for g in part.grads]), x)
        h = TensorList([t.to(dtype) for t in part.momenta])
        sums = TensorList([t.to(dtype) for t in part.accumulators])
        mean = TensorList([t.to(dtype) for t in part.averages]) if part.averages else None
        commit = _commit_each(part, range(len(part.params)))
        yield Bundle(x, g, h, sums, mean, part, dtype, TensorListOps(dtype), commit)


def touched_rows(batch: Batch, state: State, before: Numbers) -> Iterator[Bundle]:
    """A bundle of the touched rows of each parameter; gradients are coalesced. An untouched row has a gradient of 0."""
    for i, parameter in enumerate(batch.params):
        dtype = computing_dtype(parameter.dtype)
        gradient = batch.grads[i]
        index = tuple(gradient.indices())
        x = real_view(parameter)[index].to(dtype)
        mean = None
        if batch.averages:
            clocks = averaging.row_clocks(state[batch.owners[i]], gradient.sparse_dim(), before.values.step)
            mean = averaging.caught_up(batch.averages[i][index].to(dtype), x, clocks[index], before.values.step)
        yield Bundle(
            x=x,
            g=_gradient(batch, real_view(gradient.values()).to(dtype), x),
            h=batch.momenta[i][index].to(dtype),
            B=batch.accumulators[i][index].to(dtype),
            mean=mean,
            batch=batch,
            dtype=dtype,
            ops=tensor_ops(dtype),
            commit=_commit_rows(batch, i, index, state, before),
        )


def _gradient(batch: Batch, g: Any, x: Any) -> Any:
    """The gradient as the rule takes it; ``.grad`` itself is never written."""
    if batch.maximize:
        g = -g
    return g + x * batch.coupled_decay if batch.coupled_decay else g


def _commit_each(batch: Batch, indices: Iterable[int]) -> Commit:
    chosen = batch.select(indices)

    def commit(x: Any, h: Any, B: Any, mean: Any | None) -> None:
        every = range(len(chosen.params))
        _copy_each([real_view(p) for p in chosen.params], _list(x), chosen.differentiable)
        if chosen.differentiable:  # nothing is rounded then
            _copy_each([*chosen.momenta, *chosen.accumulators], [*_list(h), *_list(B)], True)
            _copy_each(chosen.averages, [] if mean is None else _list(mean), True)
            return
        bits = [bits_for(chosen, i) for i in every]
        rounding.store_each(chosen.momenta, _list(h), bits)
        rounding.store_each(chosen.accumulators, _list(B), bits, high=True)
        if mean is not None:
            rounding.store_each(chosen.averages, _list(mean), [bits_for(chosen, i, average=True) for i in every])

    return commit


def _copy_each(targets: list[Tensor], values: list[Tensor], differentiable: bool) -> None:
    if differentiable:  # torch has no derivative of the foreach function
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)
    else:
        torch._foreach_copy_(targets, values)


def _commit_rows(batch: Batch, i: int, index: tuple[Tensor, ...], state: State, before: Numbers) -> Commit:
    def commit(x: Tensor, h: Tensor, B: Tensor, mean: Tensor | None) -> None:
        parameter = real_view(batch.params[i])
        bits = bits_for(batch, i, index)
        parameter.index_put_(index, x.to(parameter.dtype))
        last, accumulator = batch.momenta[i], batch.accumulators[i]
        last.index_put_(index, rounding.stored(last, h, bits))
        accumulator.index_put_(index, rounding.stored(accumulator, B, bits, high=True))
        if mean is not None:
            average = batch.averages[i]
            average.index_put_(index, rounding.stored(average, mean, bits_for(batch, i, index, average=True)))
            clocks = state[batch.owners[i]]["row_steps"]
            clocks.index_put_(index, torch.as_tensor(before.values.step + 1.0).to(clocks))

    return commit


def bits_for(batch: Batch, i: int, index: tuple[Tensor, ...] | None = None, *, average: bool = False) -> Tensor | None:
    """The random bits of a batch's i-th parameter in its current step; the average has bits of its own."""
    like = batch.accumulators[i]
    if like.dtype != torch.bfloat16:
        return None
    stream = batch.streams[i] if batch.streams else i
    return rounding.random_bits(like, batch.steps[i], stream | averaging.STREAM if average else stream, index)


def _list(a: Any) -> list[Tensor]:
    return [a] if isinstance(a, Tensor) else list(a)
