"""The view of the rows that a sparse gradient touches, and the clocks of those that it leaves out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gradagrad import precision
from gradagrad.engine.batch import Batch
from gradagrad.rules.rule import CLOCK, PARAMETER_LANE
from gradagrad.rules.scope import SINGLE
from gradagrad.torch_ops.ops import computing_dtype, real_view, reduction, tensor_ops, touched
from gradagrad.torch_ops.view import Arrays, View, random_bits


class Rows(View):
    """The touched rows of one parameter with a sparse gradient: gathered, stepped like any tensor, scattered back."""

    def __init__(self, batch: Batch, i: int) -> None:
        super().__init__(batch)
        self.i = i
        parameter = real_view(batch.params[i])
        dtype = computing_dtype(parameter.dtype)
        gradient = batch.grads[i].coalesce()
        self.index = tuple(gradient.indices())
        if "row_steps" in batch.param_states[i] and batch.param_states[i]["row_steps"].dim() != len(self.index):
            catch_up(batch, i)  # clocks of rows are of no use to entries, nor the other way round
        g = real_view(gradient.values()).to(dtype)
        self.values = {"x": parameter[self.index].to(dtype), "g": -g if batch.maximize else g}
        self.block = {}
        for field, stored in batch.own_fields(i):
            fields = self.values if field.at == "element" else self.block
            fields[field.key] = stored[self.index].to(dtype) if self._has_rows(field.at) else stored
        self.settings = batch.settings._replace(lr=batch.lr(i, dtype))
        self.ops, self.blocks, self.device = tensor_ops(dtype), reduction(batch.scope), parameter.device
        self._catch_up()

    def _has_rows(self, at: str) -> bool:
        return at == "element" or self.batch.scope in ("element", "row")

    def _catch_up(self) -> None:
        """Rows that rested since an earlier step are first brought to where a dense gradient would have brought
        them."""
        own = self.batch.param_states[self.i]
        if "row_steps" not in own or not self.rule.needs_catch_up(self.settings):
            return
        since = own["row_steps"][self.index].reshape(-1, *(1 for _ in range(self.values["x"].dim() - 1)))
        now = clock(self.batch, self.i)
        for key, a in rested(self.batch, self.values, self.block, since, now, self.ops).items():
            (self.values if key in self.values else self.block)[key] = a

    def touched(self) -> Tensor:
        return touched(self.values["g"], self.batch.scope)

    def write(self, new: Arrays, after: Arrays) -> None:
        batch, i, index = self.batch, self.i, self.index
        bits = random_bits(batch, i, index)
        parameter = real_view(batch.params[i])
        x_bits = bits if batch.stochastic_rounding else None
        parameter.index_put_(index, precision.stored(parameter, new["x"], x_bits, PARAMETER_LANE))
        for field, target in batch.own_fields(i):
            values = (new if field.at == "element" else after)[field.key]
            if self._has_rows(field.at):
                target.index_put_(index, precision.stored(target, values, bits, field.lane))
            else:
                target.copy_(values)
        if self.rule.needs_catch_up(self.settings):
            now = clock(batch, i)
            clocks = row_clocks(batch, i, len(index), now)
            clocks.index_put_(index, (now + 1).to(clocks))


def clock(batch: Batch, i: int) -> Tensor:
    """How many steps the i-th parameter has seen: those of the block it shares, or its own."""
    shared = batch.shared.get(CLOCK)
    return batch.steps[i] if shared is None else shared


def row_clocks(batch: Batch, i: int, dims: int, now: Tensor) -> Tensor:
    """For each row (an entry of the first ``dims`` dimensions), the last step at which it was up to date."""
    own = batch.param_states[i]
    clocks = own.get("row_steps")
    if clocks is None:
        # All have been stepped densely so far, or have just been brought up to date.
        shape, device = batch.params[i].shape[:dims], batch.params[i].device
        clocks = own["row_steps"] = torch.zeros(shape, dtype=torch.int32, device=device)
        clocks.add_(now.to(clocks))
    return clocks


def rested(batch: Batch, values: Arrays, block: Arrays, since: Tensor, now: Tensor, ops: Any) -> Arrays:
    """The fields of rows last up to date at ``since`` as they stand after step ``now``."""
    wide = torch.float64
    now = now.to(device=since.device, dtype=wide)
    result = batch.rule.idle(values, {**batch.shared, **block}, since.to(wide), now, batch.settings, ops)
    # A block that is one number has no rows to bring up to date.
    return {key: a for key, a in result.items() if key in values or batch.scope not in SINGLE}


@torch.no_grad()
def catch_up(batch: Batch, i: int) -> None:
    """Brings all rows of the i-th parameter up to date; no clocks are needed then until the next sparse gradient."""
    clocks: Tensor | None = batch.param_states[i].get("row_steps")
    if clocks is None:
        return
    dtype = computing_dtype(batch.params[i].dtype)
    values: Arrays = {"x": real_view(batch.params[i].detach()).to(dtype)}
    block: Arrays = {}
    targets = {field.key: stored for field, stored in batch.own_fields(i)}
    for field, stored in batch.own_fields(i):
        (values if field.at == "element" else block)[field.key] = stored.to(dtype)
    since = clocks.reshape(*clocks.shape, *(1 for _ in range(values["x"].dim() - clocks.dim())))
    for key, a in rested(batch, values, block, since, clock(batch, i), tensor_ops(dtype)).items():
        # What is up to date is representable and stays as it is; in bf16 the rest is rounded to nearest, once.
        targets[key].copy_(a)
    del batch.param_states[i]["row_steps"]
