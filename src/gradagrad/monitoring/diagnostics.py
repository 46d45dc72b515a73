"""What the learning rate is doing, in numbers. Nothing here costs anything until it is asked for."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.torch_ops.ops import computing_dtype, tensor_ops

if TYPE_CHECKING:
    from gradagrad.engine.batch import Batch
    from gradagrad.engine.optimizer import EngineOptimizer

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
SAMPLE = 1_000_000
"""How many values the inner quantiles are taken of at most; sorting more would take seconds and show no more."""


@dataclass(frozen=True)
class GroupDiagnostics:
    """One param group's adapted learning rates. What several groups share stands in each of them.

    With sharded parameters, over this rank's shards: asking costs no communication, and one rank may ask alone.
    """

    step: int
    """The largest number of steps any parameter of the group has taken."""
    blocks: int
    """Over how many blocks (whoever shares a γ) the quantiles of γ are taken."""
    gamma: dict[float, float]
    """Quantiles of γ, the numerator, lr included."""
    step_size: dict[float, float]
    """Quantiles of γ / (√α + eps), what a gradient is multiplied by; over entries that have seen a gradient."""
    growing: float
    """Share of blocks (of touched rows, with sparse gradients) whose γ grew at the last step; NaN if not known yet."""
    total_growth: float
    """γ/γ₀, geometric mean over blocks."""
    spoilt: int
    """How many entries of the state a NaN or an infinity has spoilt; they are left out of everything else."""

    @property
    def effective_lr(self) -> float:
        """The median γ as Adam counts learning rates: how far a step moves an entry whose gradients keep their size."""
        return effective_lr(self.gamma[0.5], self.step)


def effective_lr(gamma: float, step: int) -> float:
    """γ/√k: AdaGrad's root of a sum is √k times Adam's root of a mean. GradaGrad's sum is of v instead of g²."""
    return gamma / math.sqrt(max(step, 1))


class Reading:
    """What stands in a param group as ``"gamma"`` and ``"effective_lr"``: a number worked out when it is looked at.

    ``float()``, ``print`` and formatting look, and wait for a GPU then; a step does neither. State dicts hold None in
    its place. NaN before the group's first step.
    """

    def __init__(self, key: str = "", optimizer: EngineOptimizer | None = None) -> None:
        self._key = key
        # Weak, or an optimizer would hold itself, and its state would stay until Python's collector comes by.
        self._optimizer = weakref.ref(optimizer) if optimizer is not None else None

    def __float__(self) -> float:
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is None:
            return float("nan")
        group = next(group for group in optimizer.param_groups if any(value is self for value in group.values()))
        return readings(optimizer, group)[self._key]

    def __format__(self, specification: str) -> str:
        return format(float(self), specification)

    def __repr__(self) -> str:
        return f"{float(self):.4g}"

    def __eq__(self, other: object) -> bool:
        # As part of a group's settings, which are compared: not what has come of them.
        return isinstance(other, Reading) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type[Reading], tuple[()]]:
        return Reading, ()  # a copied or unpickled optimizer puts its own readings in


READINGS = ("gamma", "effective_lr")
"""The keys of a param group under which readings stand."""


@torch.no_grad()
def readings(optimizer: EngineOptimizer, group: Mapping[str, Any]) -> dict[str, float]:
    """The median γ of a param group, and the learning rate that it makes: little is looked at and moved for them."""
    gammas: list[Tensor] = []
    steps = 0
    for parameter in optimizer._stepped(group):
        batch = optimizer._alone(group, parameter)
        steps = max(steps, int(batch.steps[0]))
        if batch.is_shared and gammas:
            continue
        key = batch.rule.numerator
        numerator = batch.shared[key] if batch.is_shared else batch.state[key][0]
        few = _sampled(sharding.local(numerator.detach()).reshape(-1))
        gammas.append(_flat(few * batch.lr_after(0, computing_dtype(parameter.dtype))))
    gamma = _quantiles(_joined(gammas))[0.5]
    return {"gamma": gamma, "effective_lr": effective_lr(gamma, steps)}


class Watch:
    """Counts, around each step, the blocks that grow. Exists only once someone has asked for diagnostics."""

    def __init__(self) -> None:
        self.active = True  # False: the coming step is not counted, and costs nothing
        self.shares: dict[int, float | Tensor] = {}
        self._before: list[tuple[int, list[Tensor], list[Tensor | None], list[Tensor]]] = []

    def before(self, batches: Sequence[Batch]) -> None:
        """Remembers the numerator of every block that the step may touch."""
        self._before = []
        for batch in batches if self.active else ():
            key = batch.rule.numerator
            tensors = [batch.shared[key]] if batch.is_shared else batch.state[key]
            rows: list[Tensor | None] = [None]
            if not batch.is_shared:
                rows = [_rows(g, t) for g, t in zip(batch.grads, tensors, strict=True)]
            values = [_at(tensor, row).clone() for tensor, row in zip(tensors, rows, strict=True)]
            self._before.append((batch.group, tensors, rows, values))

    def after(self) -> None:
        """Turns the difference into a share for each group."""
        counts: dict[int, list[Any]] = {}
        for group, tensors, rows, values in self._before:
            grew = [(_at(t, row) > old).sum().cpu() for t, row, old in zip(tensors, rows, values, strict=True)]
            counted = counts.setdefault(group, [0, 0])
            counted[0] = counted[0] + torch.stack(grew).sum()
            counted[1] += sum(v.numel() for v in values)
        self.shares |= {group: grew / max(seen, 1) for group, (grew, seen) in counts.items()}
        self._before = []


def _rows(gradient: Tensor, blocks: Tensor) -> Tensor | None:
    """The first-dimension indices a sparse gradient touches, where the blocks have such a dimension."""
    if gradient.layout == torch.strided or blocks.dim() == 0:
        return None
    return gradient._indices()[0].unique()


def _at(blocks: Tensor, rows: Tensor | None) -> Tensor:
    return blocks if rows is None else blocks[rows]


@torch.no_grad()
def describe(optimizer: EngineOptimizer, group: Mapping[str, Any], growing: Any = float("nan")) -> GroupDiagnostics:
    """The diagnostics of one of an optimizer's param groups; what is ``growing`` only a `Watch` knows."""
    gammas: list[Tensor] = []
    growths: list[Tensor] = []
    sizes: list[Tensor] = []
    steps, spoilt = 0, 0
    for number, parameter in enumerate(optimizer._stepped(group)):
        batch = optimizer._alone(group, parameter)
        steps = max(steps, int(batch.steps[0]))
        dtype = computing_dtype(parameter.dtype)
        values, block = _fields_of(batch, dtype)
        lr = batch.lr_after(0, dtype)
        gamma, growth, size = batch.rule.rates(values, block, batch.settings._replace(lr=lr), tensor_ops(dtype))
        denominator = _flat((values | block)[batch.rule.denominator])
        sizes.append(_flat(size)[denominator > 0])
        spoilt += sum(int((~torch.isfinite(a)).sum()) for a in [*values.values(), *block.values()] if a.dim())
        if not batch.is_shared or not number:
            gammas.append(_flat(gamma))
            growths.append(_flat(growth))
    gamma, growth = _joined(gammas), _joined(growths)
    return GroupDiagnostics(
        step=steps,
        blocks=gamma.numel(),
        gamma=_quantiles(gamma),
        step_size=_quantiles(_joined(sizes)),
        growing=float(growing),
        total_growth=float(growth[torch.isfinite(growth)].double().log().mean().exp()),
        spoilt=spoilt,
    )


def _fields_of(batch: Any, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A parameter's element fields and block fields on this rank, in computing precision."""
    values: dict[str, Tensor] = {}
    block: dict[str, Tensor] = dict(batch.shared)
    for field, stored in batch.own_fields(0):
        own = sharding.local(stored.detach())
        (values if field.at == "element" else block)[field.key] = own.to(torch.promote_types(dtype, own.dtype))
    return values, block


def _flat(a: Any) -> Tensor:
    return torch.as_tensor(a).detach().reshape(-1).float().cpu()


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.empty(0)


def _quantiles(values: Tensor) -> dict[float, float]:
    """Nearest-rank quantiles of what is finite; torch.quantile refuses more than 16 million values."""
    values = values[torch.isfinite(values)]
    if not values.numel():
        return dict.fromkeys(QUANTILES, float("nan"))
    ends = {0.0: float(values.min()), 1.0: float(values.max())}
    ordered = _sampled(values).sort().values
    return {q: float(ordered[round(q * (len(ordered) - 1))]) for q in QUANTILES} | ends


def _sampled(values: Tensor) -> Tensor:
    """At most `SAMPLE` of them, drawn with a generator of its own: asking must not change what training draws."""
    if values.numel() <= SAMPLE:
        return values
    drawn = torch.randint(values.numel(), (SAMPLE,), generator=torch.Generator().manual_seed(0))
    return values[drawn.to(values.device)]
