"""What the learning rate is doing, in numbers. Nothing here costs anything until it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradagrad import distributed
from gradagrad.engine.tensors import computing_dtype, tensor_ops

if TYPE_CHECKING:
    from gradagrad.engine.base import EngineOptimizer
    from gradagrad.engine.step import Part

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class GroupDiagnostics:
    """One param group's adapted learning rates. What several groups share stands in each of them.

    With sharded parameters, over this rank's shards: asking costs no communication, and one rank may ask alone.
    """

    step: int
    """The largest number of steps any parameter of the group has taken."""
    slots: int
    """Over how many slots (whoever shares a γ) the quantiles of γ are taken."""
    gamma: dict[float, float]
    """Quantiles of γ, the numerator, lr included."""
    step_size: dict[float, float]
    """Quantiles of γ / (√α + eps), what a gradient is multiplied by; over entries that have seen a gradient."""
    growing: float
    """Share of slots (of touched rows, with sparse gradients) whose γ grew at the last step; NaN if not known yet."""
    total_growth: float
    """γ/γ₀, geometric mean over slots."""
    spoilt: int
    """How many entries of the state a NaN or an infinity has spoilt; they are left out of everything else."""


class Watch:
    """Counts, around each step, the slots that grow. Exists only once someone has asked for diagnostics."""

    def __init__(self) -> None:
        self.active = True  # False: the coming step is not counted, and costs nothing
        self.shares: dict[int, float | Tensor] = {}
        self._before: list[tuple[int, list[Tensor], list[Tensor | None], list[Tensor]]] = []

    def before(self, parts: Sequence[Part]) -> None:
        """Remembers the numerator of every slot that the step may touch."""
        self._before = []
        for part in parts if self.active else ():
            batch = part.batch
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


def _rows(gradient: Tensor, slots: Tensor) -> Tensor | None:
    """The first-dimension indices a sparse gradient touches, where the slots have such a dimension."""
    if gradient.layout == torch.strided or slots.dim() == 0:
        return None
    return gradient._indices()[0].unique()


def _at(slots: Tensor, rows: Tensor | None) -> Tensor:
    return slots if rows is None else slots[rows]


@torch.no_grad()
def describe(optimizer: EngineOptimizer, index: int, group: Mapping[str, Any], watch: Watch) -> GroupDiagnostics:
    """The diagnostics of one of an optimizer's param groups."""
    gammas: list[Tensor] = []
    growths: list[Tensor] = []
    sizes: list[Tensor] = []
    steps, spoilt = 0, 0
    states = [(p, state) for p in group["params"] if (state := optimizer.state.get(p))]
    for number, (parameter, _) in enumerate(states):
        batch = optimizer._alone(group, parameter)
        steps = max(steps, int(batch.steps[0]))
        dtype = computing_dtype(parameter.dtype)
        values, slot = _numbers(batch, dtype)
        lr = batch.lr_after(0, dtype)
        gamma, growth, size = batch.rule.rates(values, slot, batch.settings._replace(lr=lr), tensor_ops(dtype))
        accumulator = _flat(values.get("accumulator", slot.get("accumulator", growth)))
        sizes.append(_flat(size)[accumulator > 0])
        spoilt += sum(int((~torch.isfinite(a)).sum()) for a in [*values.values(), *slot.values()] if a.dim())
        if not batch.is_shared or not number:
            gammas.append(_flat(gamma))
            growths.append(_flat(growth))
    gamma, growth = _joined(gammas), _joined(growths)
    return GroupDiagnostics(
        step=steps,
        slots=gamma.numel(),
        gamma=_quantiles(gamma),
        step_size=_quantiles(_joined(sizes)),
        growing=float(watch.shares.get(index, float("nan"))),
        total_growth=float(growth[torch.isfinite(growth)].double().log().mean().exp()),
        spoilt=spoilt,
    )


def _numbers(batch: Any, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A parameter's element fields and slot fields on this rank, in computing precision."""
    values: dict[str, Tensor] = {}
    slot: dict[str, Tensor] = dict(batch.shared)
    for field in batch.fields:
        if field.key in batch.state:
            numbers = distributed.local(batch.state[field.key][0].detach())
            (values if field.at == "element" else slot)[field.key] = numbers.to(
                torch.promote_types(dtype, numbers.dtype)
            )
    return values, slot


def _flat(a: Any) -> Tensor:
    return torch.as_tensor(a).detach().reshape(-1).float().cpu()


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.empty(0)


def _quantiles(values: Tensor) -> dict[float, float]:
    """Nearest-rank quantiles of what is finite; torch.quantile refuses more than 16 million values."""
    values = values[torch.isfinite(values)]
    if not values.numel():
        return dict.fromkeys(QUANTILES, float("nan"))
    ordered = values.sort().values
    return {q: float(ordered[round(q * (len(ordered) - 1))]) for q in QUANTILES}
