"""What one param group brings to a step, and the sums over everything that all groups together decide by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed
from gradagrad.auto import rule
from gradagrad.auto.numbers import Numbers


def _none() -> list[Any]:
    return []  # not list[Tensor], which torch.compile cannot trace


@dataclass
class Batch:
    """Aligned lists, one entry for each parameter that has a gradient."""

    lr: Any
    coupled_decay: float
    decoupled_decay: float
    eps: float
    momentum: float
    maximize: bool
    averages_points: bool
    differentiable: bool
    params: list[Tensor] = field(default_factory=_none)
    grads: list[Tensor] = field(default_factory=_none)
    momenta: list[Tensor] = field(default_factory=_none)
    accumulators: list[Tensor] = field(default_factory=_none)
    averages: list[Tensor] = field(default_factory=_none)
    """Empty where the group keeps no average."""
    steps: list[Tensor] = field(default_factory=_none)
    streams: list[int] = field(default_factory=_none)
    """Each parameter's place in the optimizer, which numbers its random bits where state is rounded to bf16."""
    owners: list[Tensor] = field(default_factory=_none)
    """The parameters as the user has them, where `local` has made ``params`` this rank's shards."""

    @staticmethod
    def of(group: Mapping[str, Any]) -> Batch:
        """An empty batch with a param group's settings."""
        decoupled = group["decoupled_weight_decay"]
        return Batch(
            lr=group["lr"],
            coupled_decay=0.0 if decoupled else group["weight_decay"],
            decoupled_decay=group["weight_decay"] if decoupled else 0.0,
            eps=group["eps"],
            momentum=group["momentum"],
            maximize=group["maximize"],
            averages_points=group["averaging"] is not None,
            differentiable=group["differentiable"],
        )

    def local(self) -> Batch:
        """The same with every tensor replaced by this rank's shard of it, sharing its memory."""
        owners, shard = self.params, distributed.local
        if not any(distributed.is_sharded(p) for p in owners):
            return replace(self, owners=owners)
        return replace(
            self,
            params=[shard(p) for p in owners],
            grads=[distributed.local_gradient(g, p) for g, p in zip(self.grads, owners, strict=True)],
            momenta=[shard(h) for h in self.momenta],
            accumulators=[shard(a) for a in self.accumulators],
            averages=[shard(a) for a in self.averages],
            owners=owners,
        )

    def select(self, indices: Iterable[int]) -> Batch:
        """The same settings over some of the parameters."""
        chosen = list(indices)
        names = ("params", "grads", "momenta", "accumulators", "averages", "steps", "streams", "owners")
        lists = {name: [values[i] for i in chosen] for name in names if (values := getattr(self, name))}
        return replace(self, **lists)

    def pace(self, after: Numbers, settings: rule.Settings, dtype: torch.dtype) -> rule.Pace:
        """What moves this batch's parameters of a computing precision."""
        lr = self.lr.reshape(()) if isinstance(self.lr, Tensor) else self.lr
        return after.pace(lr, self.decoupled_decay, self.eps, self.momentum, settings, dtype)


def parts(batch: Batch) -> list[tuple[distributed.Axes, Batch]]:
    """Splits into batches whose sums are added over the same ranks, dense gradients before sparse ones."""
    if batch.owners is batch.params and all(gradient.layout == torch.strided for gradient in batch.grads):
        return [((), batch)]  # nothing is sharded
    members: dict[tuple[distributed.Axes, bool], list[int]] = {}
    for i, (owner, gradient) in enumerate(zip(batch.owners, batch.grads, strict=True)):
        key = distributed.axes(owner), gradient.layout != torch.strided
        members.setdefault(key, []).append(i)
    if len(members) == 1:
        return [(axes, batch) for axes, _ in members]
    order = [key for key in members if not key[1]] + [key for key in members if key[1]]
    return [(key[0], batch.select(members[key])) for key in order]
