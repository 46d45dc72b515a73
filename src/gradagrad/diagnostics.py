"""What the learning rate is doing, in numbers. Nothing here costs anything until it is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradagrad import distributed
from gradagrad.steps.bundle import Batch

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class GroupDiagnostics:
    """One param group's adapted learning rates. Quantiles are over slots (whoever shares a step size).

    With sharded parameters, over this rank's shards: asking costs no communication, and one rank may ask alone.
    """

    slots: int
    gamma: dict[float, float]
    """Quantiles of γ = lr · growth, the numerator."""
    step_size: dict[float, float]
    """Quantiles of γ / (√α + eps), what a gradient is multiplied by; over slots that have seen a gradient."""
    growing: float
    """Share of slots (of touched rows, with sparse gradients) whose γ grew at the last step; NaN if not known yet."""
    total_growth: float
    """γ/γ₀, geometric mean over slots."""


class Watch:
    """Counts, around each step, the slots that grow. Exists only once someone has asked for diagnostics."""

    def __init__(self) -> None:
        self.active = True  # False: the coming step is not counted, and costs nothing
        self.shares: dict[int, float | Tensor] = {}
        self._before: list[tuple[int, Batch, list[Tensor | None], list[Tensor]]] = []

    def before(self, batches: Sequence[tuple[int, Batch]]) -> None:
        """Remembers the growth of every slot that the step may touch."""
        self._before = []
        for index, batch in batches if self.active else ():
            rows = [_rows(gradient, growth) for gradient, growth in zip(batch.grads, batch.growths, strict=True)]
            values = [_at(growth, row).clone() for growth, row in zip(batch.growths, rows, strict=True)]
            self._before.append((index, batch, rows, values))

    def after(self) -> None:
        """Turns the difference into a share for each group."""
        for index, batch, rows, values in self._before:
            grew = [
                (_at(growth, row) > old).sum().cpu()
                for growth, row, old in zip(batch.growths, rows, values, strict=True)
            ]
            self.shares[index] = torch.stack(grew).sum() / max(sum(v.numel() for v in values), 1)
        self._before = []


def _rows(gradient: Tensor, growth: Tensor) -> Tensor | None:
    """The first-dimension indices a sparse gradient touches, where the slots have such a dimension."""
    if gradient.layout == torch.strided or growth.dim() == 0:
        return None
    return gradient._indices()[0].unique()


def _at(growth: Tensor, rows: Tensor | None) -> Tensor:
    return growth if rows is None else growth[rows]


def describe(
    group: Mapping[str, Any], states: Sequence[Mapping[str, Any]], growing: float | Tensor
) -> GroupDiagnostics:
    """The diagnostics of a group whose parameters hold ``states``."""
    if group["granularity"] == "group":
        states = states[:1]  # all hold the same slot
    growths = [distributed.local(state["growth"].detach()).reshape(-1).float().cpu() for state in states]
    accumulators = [distributed.local(state["accumulator"].detach()).reshape(-1).float().cpu() for state in states]
    growth = torch.cat(growths) if growths else torch.empty(0)
    accumulator = torch.cat(accumulators) if accumulators else torch.empty(0)
    step = states[0]["step"] if states else 1.0
    gamma = growth * float(group["lr"] / (1.0 + (step - 1.0) * group["lr_decay"]))
    seen = accumulator > 0
    step_size = gamma[seen] / (accumulator[seen].sqrt() + group["eps"])
    return GroupDiagnostics(
        slots=growth.numel(),
        gamma=_quantiles(gamma),
        step_size=_quantiles(step_size),
        growing=float(growing),
        total_growth=float(growth.log().mean().exp()),
    )


def _quantiles(values: Tensor) -> dict[float, float]:
    """Nearest-rank quantiles; torch.quantile refuses more than 16 million values."""
    if not values.numel():
        return dict.fromkeys(QUANTILES, float("nan"))
    ordered = values.sort().values
    return {q: float(ordered[round(q * (len(ordered) - 1))]) for q in QUANTILES}
