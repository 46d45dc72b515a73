"""A view of a batch: some of its numbers, read, stepped and written as a whole; and the plainest one, of one tensor.

The arithmetic is the rule's in every case; a view only knows where its numbers come from and where they go. Reading
changes nothing, and writing what was computed twice is writing it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad import precision
from gradagrad.engine.batch import Batch
from gradagrad.rules.rule import PARAMETER_LANE
from gradagrad.rules.scope import SINGLE
from gradagrad.torch_ops.ops import (
    computing_dtype,
    real_view,
    reduction,
    tensor_ops,
    touched,
    wide_dtype,
    write_scalars,
)

Arrays = dict[str, Any]


class View:
    """Arrays in computing precision, real, of one kind: the values of elements, and the blocks that are their own."""

    values: Arrays
    block: Arrays
    settings: Any
    ops: Any
    blocks: Any
    """How to sum over each block."""
    device: torch.device

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rule = batch.rule

    def measure(self) -> Any:
        """The rule's sums over each block of this view."""
        if not self.rule.measures(self.settings):
            return ()
        values = self.values
        if self.rule.learns(self.settings):
            # Such sums leave out what is not finite. Squares of finite numbers are, in double.
            values = {**values, "g": self._widened(values["g"])}
        return self.rule.measure(values, self.settings, self.blocks, self.ops)

    def _widened(self, a: Any) -> Any:
        return a.to(wide_dtype(self.device))

    def by_tensor(self, sums: Any) -> list[Tensor]:
        """Sums tensor by tensor, (numbers, blocks)."""
        return [torch.stack(sums)]

    def from_tensors(self, sums: Iterator[Tensor]) -> Any:
        """The next sums in the form that this view measured them."""
        return next(sums).unbind()

    def decide(self, sums: Any) -> tuple[Arrays, Sequence[Any]]:
        """The view's own blocks after this step, and the factors."""
        return self.rule.decide(sums, self.block, self.settings, self._block_ops())

    def _block_ops(self) -> Any:
        """Of the precision of blocks, which for a whole tensor are double."""
        return tensor_ops(wide_dtype(self.device)) if self.batch.scope in SINGLE else self.ops

    def move(self, factors: Sequence[Any]) -> tuple[Arrays, Any]:
        """The values after this step, and the sums of the statistics."""
        mask = self.touched() if getattr(self.settings, "lazy", False) else None
        return self.rule.move(self.values, factors, self.settings, self.blocks, self.ops, mask)

    def step(self, sums: Any) -> tuple[Arrays, Arrays]:
        """Values and own blocks after this step, given complete sums."""
        after, factors = self.decide(sums)
        new, statistics = self.move(factors)
        if self.rule.learns(self.settings):
            after = self.rule.learn(statistics, after, self.settings, self._block_ops())
        return new, after

    def touched(self) -> Any:
        raise NotImplementedError

    def write(self, new: Arrays, after: Arrays) -> None:
        """Stores values, and the blocks that are this view's own."""
        raise NotImplementedError


class Single(View):
    """One parameter: the plainest view, and the one every other way of stepping is compared with."""

    def __init__(self, batch: Batch, i: int) -> None:
        super().__init__(batch)
        self.i = i
        parameter = batch.params[i]
        dtype = computing_dtype(parameter.dtype)
        x = real_view(parameter).to(dtype)
        self.values = {"x": x, "g": gradient_of(batch, real_view(batch.grads[i]).to(dtype), x)}
        self.block = {}
        for field, stored in batch.own_fields(i):
            fields = self.values if field.at == "element" else self.block
            fields[field.key] = stored.to(torch.promote_types(dtype, stored.dtype))
        if batch.differentiable:
            # What autograd saves must not be what is overwritten.
            self.values = {key: a if key == "g" else a.clone() for key, a in self.values.items()}
            self.block = {key: a.clone() for key, a in self.block.items()}
        self.settings = batch.settings._replace(lr=batch.lr(i, dtype))
        self.ops, self.blocks, self.device = tensor_ops(dtype), reduction(batch.scope), x.device

    def touched(self) -> Tensor:
        return touched(self.values["g"], self.batch.scope)

    def write(self, new: Arrays, after: Arrays) -> None:
        batch, i = self.batch, self.i
        bits = random_bits(batch, i)
        parameter = real_view(batch.params[i])
        x_bits = bits if batch.stochastic_rounding else None
        parameter.copy_(precision.stored(parameter, new["x"], x_bits, PARAMETER_LANE))
        single = batch.scope in SINGLE
        scalars: list[tuple[Tensor, Tensor]] = []
        for field, target in batch.own_fields(i):
            values = (new if field.at == "element" else after)[field.key]
            if single and field.at == "block":
                scalars.append((target, values))
            else:
                target.copy_(precision.stored(target, values, bits, field.lane))
        write_scalars([target for target, _ in scalars], [value.to(target.dtype) for target, value in scalars])


def gradient_of(batch: Batch, g: Any, x: Any) -> Any:
    """The gradient as the rule takes it; ``.grad`` itself is never written."""
    if batch.maximize:
        g = -g
    return g + x * batch.coupled_decay if batch.coupled_decay else g


def random_bits(batch: Batch, i: int, index: tuple[Tensor, ...] | None = None) -> precision.RandomBits | None:
    """The random bits of a batch's i-th parameter in this step (at ``index``, if given); None if none are needed."""
    like = next((stored for field, stored in batch.own_fields(i) if field.at == "element"), None)
    rounds_x = batch.stochastic_rounding and batch.params[i].dtype == torch.bfloat16
    if not rounds_x and (like is None or like.dtype != torch.bfloat16):
        return None
    like = real_view(batch.params[i]) if like is None else like
    return precision.RandomBits(like, batch.steps[i] + 1, batch.streams[i] if batch.streams else i, index)
