"""A bundle: one tensor or one list of tensors that takes a step as a whole, and the order in which bundles do so.

`loop` makes a bundle of each parameter, `foreach` one of many parameters, `sparse` one of the touched rows. The
arithmetic is `gradagrad.rule`'s in every case; a bundle only knows where its numbers come from and where they go.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed, rule
from gradagrad.granularity import Granularity, total, touched
from gradagrad.projecting import Checked
from gradagrad.rule import Settings
from gradagrad.steps.ops import tensor_ops

Pair = tuple[Any, Any]
Commit = Callable[[Any, Any, Pair], None]


def _none() -> list[Tensor]:
    return []  # not list[Tensor], which torch.compile cannot trace


def _no_numbers() -> list[int]:
    return []


@dataclass
class Batch:
    """What one param group brings to a step: aligned lists, one entry for each parameter that has a gradient."""

    granularity: Granularity
    settings: Settings
    coupled_decay: float
    lr_decay: float
    maximize: bool
    differentiable: bool
    params: list[Tensor] = field(default_factory=_none)
    grads: list[Tensor] = field(default_factory=_none)
    momenta: list[Tensor] = field(default_factory=_none)
    growths: list[Tensor] = field(default_factory=_none)
    accumulators: list[Tensor] = field(default_factory=_none)
    steps: list[Tensor] = field(default_factory=_none)
    streams: list[int] = field(default_factory=_no_numbers)
    """Each parameter's place in the optimizer, which numbers its random bits where state is rounded to bf16."""
    owners: list[Tensor] = field(default_factory=_none)
    """The parameters as the user has them, where `local` has made ``params`` this rank's shards."""

    @staticmethod
    def of(group: Mapping[str, Any]) -> "Batch":
        """An empty batch with a param group's settings."""
        decoupled, projection = group["decoupled_weight_decay"], group["projection"]
        settings = Settings(
            lr=group["lr"],
            rho=group["rho"],
            beta=group["momentum"],
            eps=group["eps"],
            weight_decay=group["weight_decay"] if decoupled else 0.0,
            gamma_max=None if group["gamma_max"] == math.inf else group["gamma_max"],
            growth_limit=None if group["growth_limit"] == math.inf else group["growth_limit"],
            grad_bound=group["grad_bound"],
            alpha_0=group["initial_accumulator_value"],
            lazy=group["lazy"],
            project=None if projection is None else Checked(projection),
        )
        return Batch(
            granularity=group["granularity"],
            settings=settings,
            coupled_decay=0.0 if decoupled else group["weight_decay"],
            lr_decay=group["lr_decay"],
            maximize=group["maximize"],
            differentiable=group["differentiable"],
        )

    def local(self) -> "Batch":
        """The same with every tensor replaced by this rank's shard of it, sharing its memory."""
        owners, shard = self.params, distributed.local
        plain = torch.nn.Parameter
        if not any(type(p) is not plain and distributed.is_sharded(p) for p in owners):
            return replace(self, owners=owners)
        return replace(
            self,
            params=[shard(p) for p in owners],
            grads=[distributed.local_gradient(g, p) for g, p in zip(self.grads, owners, strict=True)],
            momenta=[shard(m) for m in self.momenta],
            growths=[shard(g) for g in self.growths],
            accumulators=[shard(a) for a in self.accumulators],
            owners=owners,
        )

    def parts(self) -> "Parts":
        """Splits into batches whose sums are added over the same ranks, dense gradients before sparse ones."""
        if self.owners is self.params and all(gradient.layout == torch.strided for gradient in self.grads):
            return [((), self)]  # plain and dense, as nearly always
        members: dict[tuple[distributed.Axes, bool], list[int]] = {}
        for i, (owner, gradient) in enumerate(zip(self.owners, self.grads, strict=True)):
            key = distributed.axes(owner, self.granularity), gradient.layout != torch.strided
            members.setdefault(key, []).append(i)
        if len(members) == 1:
            return [(axes, self) for axes, _ in members]
        order = [key for key in members if not key[1]] + [key for key in members if key[1]]
        return [(key[0], self.select(members[key])) for key in order]

    def lr(self, i: int, dtype: torch.dtype) -> Any:
        """The i-th parameter's learning rate, decayed as torch.optim.Adagrad's; never read back to the host."""
        lr = self.settings.lr
        if isinstance(lr, Tensor):
            lr = lr.reshape(()).to(dtype)
        return lr / (1.0 + (self.steps[i].to(dtype) - 1.0) * self.lr_decay) if self.lr_decay else lr

    def select(self, indices: Iterable[int]) -> "Batch":
        """The same settings over some of the parameters."""
        chosen = list(indices)
        names = ("params", "grads", "momenta", "growths", "accumulators", "steps", "streams", "owners")
        lists = {name: [values[i] for i in chosen] for name in names if (values := getattr(self, name))}
        return replace(self, **lists)


Parts = list[tuple[distributed.Axes, Batch]]


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
    lift: Callable[[Pair], Pair] = lambda pair: pair
    """Turns a group's two numbers into what the bundle's arrays can be combined with."""
    axes: distributed.Axes = ()
    """Over whom `measure`'s sums must be added; empty where this rank has all of each slot."""

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


def take_group_step(
    bundles: Sequence[Bundle], measured: Sequence[Pair], copies: Sequence[tuple[Tensor, Tensor]]
) -> None:
    """Steps bundles that share one slot: sums what they measured, adapts once, moves each.

    ``copies`` are all (growth, accumulator) copies of the group's slot, of parameters without a gradient too.
    """
    before, after = adapt_group(bundles, measured, copies)
    for bundle in bundles:
        device = _device(bundle)
        bundle.commit(*bundle.move(bundle.lift(_on(before, device)), bundle.lift(_on(after, device))), after)
    for copy in copies:
        copy[0].copy_(after[0])
        copy[1].copy_(after[1])


def adapt_group(
    bundles: Sequence[Bundle], measured: Sequence[Pair], copies: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Pair, Pair]:
    """The group's (growth, alpha) before and after this step."""
    # The most precise copy speaks for the group; ordinarily all are alike and the first does.
    precise = [copy for copy in copies if copy[0].dtype == torch.float64]
    before = precise[0] if precise else copies[0]
    before = before[0].clone(), before[1].clone()
    device, ops = before[0].device, tensor_ops(before[0].dtype)
    gg = _sum([m[0] for m in measured], device).to(before[0].dtype)
    gm = _sum([m[1] for m in measured], device).to(before[0].dtype)
    settings = bundles[0].settings
    if settings.gamma_max is not None:
        settings = settings._replace(lr=_first(settings.lr))  # the cap is on the group's γ, which its first lr gives
    return before, rule.adapt(gg, gm, *before, settings, ops)


class Measurement:
    """What bundles measure, completed by what other ranks measure of the same slots; on its way once created."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._local: list[Pair] = [bundle.measure() for bundle in bundles]
        sums = [(t, b.axes) for b, pair in zip(bundles, self._local, strict=True) for a in pair for t in _tensors(a)]
        self._addition = distributed.Addition([t for t, _ in sums], [axes for _, axes in sums])

    def pairs(self) -> list[Pair]:
        """Each bundle's complete gg and gm."""
        sums = iter(self._addition.result())

        def filled(a: Any) -> Any:
            return next(sums) if isinstance(a, Tensor) else type(a)([next(sums) for _ in a])

        return [(filled(gg), filled(gm)) for gg, gm in self._local]


def _tensors(a: Any) -> Iterable[Tensor]:
    """A single tensor as a list; a list as it is."""
    return [a] if isinstance(a, Tensor) else a


def _sum(parts: Sequence[Any], device: torch.device) -> Tensor:
    flat = [t.to(device) for part in parts for t in _tensors(part)]
    return torch.stack(flat).sum() if len({t.dtype for t in flat}) == 1 else sum(flat[1:], flat[0])


def _device(bundle: Bundle) -> torch.device:
    return _first(bundle.x).device


def _first(a: Any) -> Any:
    return a if isinstance(a, Tensor | float) else a[0]


def _on(pair: Pair, device: torch.device) -> Pair:
    return pair[0].to(device), pair[1].to(device)
