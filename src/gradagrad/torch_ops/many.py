"""The view of many tensors at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gradagrad import precision
from gradagrad.engine.batch import Batch
from gradagrad.rules.rule import PARAMETER_LANE
from gradagrad.rules.scope import SINGLE
from gradagrad.torch_ops.lists import ListOps, ListSums, Sum, TensorList, entries, lifted
from gradagrad.torch_ops.ops import computing_dtype, in_precision, joined, parts, real_view, touched, wide_dtype
from gradagrad.torch_ops.view import Arrays, View, gradient_of, random_bits


class Many(View):
    """All parameters of a batch at once, of one device and precision. Blocks that are rows' or tensors' own stand in one
    row for each field: they are few, and any operation on them is one."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        dtype = computing_dtype(batch.params[0].dtype)
        x, g = (TensorList(in_precision([*map(real_view, some)], dtype)) for some in (batch.params, batch.grads))
        self.values = {"x": x, "g": gradient_of(batch, g, x)}
        self.block = {}
        self._like: list[Tensor] = []
        for field in batch.fields:
            if field.key in batch.state:
                tensors = batch.state[field.key]
                if field.at == "block" and batch.scope != "element":
                    self._like = tensors
                    self.block[field.key] = joined(tensors).to(torch.promote_types(dtype, tensors[0].dtype))
                else:
                    fields = self.values if field.at == "element" else self.block
                    fields[field.key] = TensorList(in_precision(tensors, dtype))
        project = getattr(batch.settings, "project", None)
        self._lr = batch.lrs(dtype)
        lr = TensorList(self._lr.unbind()) if batch.lr_decay else lifted(self._lr, len(x))
        self.settings = batch.settings._replace(lr=lr)
        if project is not None:
            self.settings = self.settings._replace(project=partial(_each, project))
        self.ops, self.blocks, self.device = ListOps(dtype, x), ListSums(batch.scope), x[0].device

    def measure(self) -> Any:
        return self._added(super().measure())

    def _widened(self, a: TensorList) -> TensorList:
        return TensorList(in_precision(a.tensors, wide_dtype(self.device)))

    def _block_ops(self) -> Any:
        return super()._block_ops() if self.batch.scope in SINGLE else self.ops.single if self._like else self.ops

    def _added(self, sums: Any) -> Any:
        return self.blocks.added(sums, plain=self.batch.differentiable or torch.compiler.is_compiling())

    def by_tensor(self, sums: Tensor) -> list[Tensor]:
        counts = [t.numel() for t in self._like]
        columns = zip(sums.split(counts, 1), self._like, strict=True)
        return [part.reshape(len(sums), *t.shape) for part, t in columns]

    def from_tensors(self, sums: Iterator[Tensor]) -> Tensor:
        return torch.cat([(own := next(sums)).reshape(len(own), -1) for _ in self._like], 1)

    def decide(self, sums: Any) -> tuple[Arrays, Sequence[Any]]:
        if not self._like:
            return super().decide(sums)
        lr = self._lr
        if self.batch.lr_decay:
            lr = torch.cat([a.expand(t.numel()) for a, t in zip(lr, self._like, strict=True)])
        settings = self.settings._replace(lr=lr)
        after, factors = self.rule.decide(tuple(sums), self.block, settings, self._block_ops())
        narrow = [self.ops.single.narrow(a) for a in factors]
        return after, [TensorList(parts(a, self._like)) if isinstance(a, Tensor) else a for a in narrow]

    def move(self, factors: Sequence[Any]) -> tuple[Arrays, Any]:
        new, statistics = super().move(factors)
        return new, self._added(statistics)

    def touched(self) -> Tensor:
        if self.batch.scope == "element":
            return self.values["g"].row() != 0
        return joined([touched(g, self.batch.scope).expand_as(g) for g in self.values["g"]])

    def write(self, new: Arrays, after: Arrays) -> None:
        batch, x = self.batch, new["x"]
        targets = {field.key: batch.state[field.key] for field in batch.fields if field.key in batch.state}
        words = {field.key: field.lane for field in batch.fields}
        values = {key: (new if key in new else after)[key] for key in targets}
        lists = {key: parts(a, self._like) if isinstance(a, Tensor) else a.tensors for key, a in values.items()}
        params = [real_view(p) for p in batch.params]
        if not (isinstance(x, Sum) and x.replaces(params)):  # all else has been worked out by now
            targets, lists, words["x"] = {**targets, "x": params}, {**lists, "x": x.tensors}, PARAMETER_LANE
        rounded = {
            key
            for key, tensors in targets.items()
            if tensors[0].dtype == torch.bfloat16 and (key != "x" or batch.stochastic_rounding)
        }
        plain = [key for key in targets if key not in rounded]
        # In one call for each pair of formats, for others would go tensor by tensor.
        for formats in dict.fromkeys((targets[key][0].dtype, lists[key][0].dtype) for key in plain):
            keys = [key for key in plain if (targets[key][0].dtype, lists[key][0].dtype) == formats]
            torch._foreach_copy_([t for key in keys for t in targets[key]], [a for key in keys for a in lists[key]])
        if rounded:
            for i in range(len(params)):
                bits = random_bits(batch, i)
                for key in rounded:
                    target = targets[key][i]
                    target.copy_(precision.stored(target, lists[key][i], bits, words[key]))


def _each(project: Any, points: TensorList, metric: Any) -> TensorList:
    """A projection of single tensors applied to each tensor of a list."""
    return TensorList(list(map(project, points, entries(metric, points))))
