"""A bundle: one tensor or one list of tensors that takes a step as a whole, and the order in which bundles do so.

`loop` makes a bundle of each parameter, `foreach` one of many parameters, `sparse` one of the touched rows. The
arithmetic is `gradagrad.rule`'s in every case; a bundle only knows where its numbers come from and where they go.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gradagrad import rule
from gradagrad.granularity import Granularity, total, touched
from gradagrad.rule import Settings
from gradagrad.steps.ops import tensor_ops

Pair = tuple[Any, Any]
Commit = Callable[[Any, Any, Pair], None]


@dataclass
class Batch:
    """What one param group brings to a step: aligned lists, one entry for each parameter that has a gradient."""

    granularity: Granularity
    settings: Settings
    coupled_decay: float
    lr_decay: float
    maximize: bool
    differentiable: bool
    params: list[Tensor] = field(default_factory=list[Tensor])
    grads: list[Tensor] = field(default_factory=list[Tensor])
    momenta: list[Tensor] = field(default_factory=list[Tensor])
    growths: list[Tensor] = field(default_factory=list[Tensor])
    accumulators: list[Tensor] = field(default_factory=list[Tensor])
    steps: list[Tensor] = field(default_factory=list[Tensor])

    def lr(self, i: int, dtype: torch.dtype) -> Any:
        """The i-th parameter's learning rate, decayed as torch.optim.Adagrad's; never read back to the host."""
        lr = self.settings.lr
        if isinstance(lr, Tensor):
            lr = lr.reshape(()).to(dtype)
        return lr / (1.0 + (self.steps[i].to(dtype) - 1.0) * self.lr_decay) if self.lr_decay else lr

    def select(self, indices: Iterable[int]) -> "Batch":
        """The same settings over some of the parameters."""
        chosen = list(indices)
        names = ("params", "grads", "momenta", "growths", "accumulators", "steps")
        lists = {name: [getattr(self, name)[i] for i in chosen] for name in names}
        return replace(self, **lists)


@dataclass
class Bundle:
    """Arrays in computing precision, real, of one kind: tensors, or `foreach.TensorList`s."""

    x: Any
    g: Any
    m: Any
    growth: Any
    alpha: Any
    settings: Settings
    ops: rule.Ops
    total: Callable[[Any], Any]
    touched: Callable[[Any], Any]
    commit: Commit
    """Stores the new x, m and, unless the slot is the group's, (growth, alpha)."""

    def measure(self) -> Pair:
        return rule.measure(self.g, self.m, self.total)

    def adapt(self, measured: Pair) -> Pair:
        return rule.adapt(*measured, self.growth, self.alpha, self.settings, self.ops)

    def move(self, before: Pair, after: Pair) -> Pair:
        mask = self.touched(self.g) if self.settings.lazy else None
        return rule.move(self.x, self.g, self.m, before, after, self.settings, self.ops, mask)

    def advance(self, measured: Pair) -> None:
        """Adapts the bundle's own slots and takes the step."""
        after = self.adapt(measured)
        self.commit(*self.move((self.growth, self.alpha), after), after)


def slot_functions(granularity: Granularity) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """`total` and `touched` of this granularity, for one tensor."""
    return total(granularity), lambda g: touched(g, granularity)


def take_steps(bundles: Iterable[Bundle]) -> None:
    """Steps bundles whose slots are their own, one after the other, so that only one holds temporaries."""
    for bundle in bundles:
        bundle.advance(bundle.measure())


def take_group_step(bundles: Sequence[Bundle], copies: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Steps bundles that share one slot: sums what they measure, adapts once, moves each.

    ``copies`` are all (growth, accumulator) copies of the group's slot, of parameters without a gradient too.
    """
    before, after = adapt_group(bundles, copies)
    for bundle in bundles:
        device = _device(bundle)
        bundle.commit(*bundle.move(_on(before, device), _on(after, device)), after)
    for copy in copies:
        copy[0].copy_(after[0])
        copy[1].copy_(after[1])


def adapt_group(bundles: Sequence[Bundle], copies: Sequence[tuple[Tensor, Tensor]]) -> tuple[Pair, Pair]:
    """The group's (growth, alpha) before and after this step."""
    # The most precise copy speaks for the group; ordinarily all are alike and the first does.
    before = max(copies, key=lambda copy: copy[0].dtype.itemsize)
    before = before[0].clone(), before[1].clone()
    device, ops = before[0].device, tensor_ops(before[0].dtype)
    measured = [bundle.measure() for bundle in bundles]
    gg = _sum([m[0] for m in measured], device)
    gm = _sum([m[1] for m in measured], device)
    settings = bundles[0].settings
    if settings.gamma_max is not None:
        settings = settings._replace(lr=_first(settings.lr))  # the cap is on the group's γ, which its first lr gives
    return before, rule.adapt(gg, gm, *before, settings, ops)


def _sum(parts: Sequence[Any], device: torch.device) -> Tensor:
    flat = [t.to(device) for part in parts for t in (part if not isinstance(part, Tensor) else [part])]
    return torch.stack(flat).sum() if len({t.dtype for t in flat}) == 1 else sum(flat[1:], flat[0])


def _device(bundle: Bundle) -> torch.device:
    return _first(bundle.x).device


def _first(a: Any) -> Any:
    return a if isinstance(a, Tensor | float) else a[0]


def _on(pair: Pair, device: torch.device) -> Pair:
    return pair[0].to(device), pair[1].to(device)
