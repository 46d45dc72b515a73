"""What the learning rate is doing, in numbers. Nothing is computed until it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradagrad.engine.state import has_stepped, start_of
from gradagrad.torch_ops.ops import computing_dtype, tensor_ops
from gradagrad.torch_ops.views import fields_of, lr_of

if TYPE_CHECKING:
    from gradagrad.engine.optimizer import EngineOptimizer
    from gradagrad.engine.plan import Plan

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
SAMPLE = 1_000_000
"""Inner quantiles use at most this many values. Sorting more would take seconds and show no more."""


@dataclass(frozen=True)
class GroupDiagnostics:
    """One param group's adapted learning rates. Shared numbers appear in every group.

    For sharded parameters they describe this rank's shards, so they need no communication.
    """

    step: int
    """The largest number of steps any parameter of the group has taken."""
    blocks: int
    """The number of blocks. Each has its own γ, and the quantiles are taken over them."""
    gamma: dict[float, float]
    """Quantiles of the numerator γ, which includes lr."""
    step_size: dict[float, float]
    """Quantiles of γ / (√α + eps), the factor of a gradient, over entries that have had a gradient."""
    total_growth: float
    """γ/γ₀, geometric mean over blocks."""
    non_finite: int
    """The number of entries of the state that are NaN or infinite. All other fields leave them out."""
    effective_lr: float
    """The median learning rate as Adam counts it, or how far gradients of constant size move an entry in one step."""
    limited: float = 0.0
    """With AutoGradaGrad, the share of elements whose γ is above the limit that their size sets, as a mean over up to
    1,000 steps. See ``note``."""
    note: str = ""
    """A sentence about what deserves a look. It is usually empty."""


def show_start(plan: Plan) -> None:
    """Puts ``d`` into a param group before its first step, or takes it out where every element or row has its own."""
    if plan.shown:
        field = next(field for field in plan.fields if field.key == plan.shown)
        plan.group.setdefault("d", float(start_of(field, plan.settings)))
    else:
        plan.group.pop("d", None)


def show(
    plan: Plan, shared: Mapping[str, Tensor], state: Mapping[str, Sequence[Tensor]], *, waits: bool = False
) -> None:
    """Puts into a param group, as ``d``, what the method has made of γ without lr, because some trainers log d · lr.

    A step does not wait for a device; `learning_rates` does. Of several tensors it is the median.
    """
    held = state[plan.shown] if plan.shown in state else (shared[plan.shown],)
    if len(held) > 1:
        if waits or all(number.is_cpu for number in held):
            plan.group["d"] = torch.stack([number.cpu() for number in held]).median().item()
    elif waits or held[0].is_cpu:
        plan.group["d"] = held[0].item()


def show_all(optimizer: EngineOptimizer, *, waits: bool) -> None:
    """Puts ``d`` into every param group that has one."""
    for group, plan in zip(optimizer.param_groups, map(optimizer._new_plan, optimizer.param_groups), strict=True):
        states = [optimizer.state[p] for p in group["params"] if has_stepped(optimizer, p)]
        if plan.shown and states:
            held = states[:1] if plan.shown in plan.shared_keys else states
            show(plan, {}, {plan.shown: [state[plan.shown] for state in held]}, waits=waits)


@torch.no_grad()
def readings(optimizer: EngineOptimizer, group: Mapping[str, Any]) -> dict[str, float]:
    """The median γ of a param group and its effective learning rate, without reading the whole state."""
    gammas: list[Tensor] = []
    steps = 0
    for parameter in (p for p in group["params"] if has_stepped(optimizer, p)):
        batch = optimizer._alone(group, parameter)
        steps = max(steps, int(batch.steps[0]))
        if batch.plan.is_shared and gammas:
            continue
        key = batch.plan.rule.numerator
        numerator = batch.shared[key] if batch.plan.is_shared else batch.state[key][0]
        few = _sampled(numerator.reshape(-1))
        gammas.append(_flat(few * lr_of(batch, 0, computing_dtype(parameter.dtype), counted=True)))
    lr = float(group["lr"])
    if gammas:
        gamma = _quantiles(_joined(gammas))[0.5]
    else:
        settings = optimizer._settings(group)
        numerator = next(f for f in optimizer.rule.fields(settings) if f.key == optimizer.rule.numerator)
        gamma = lr * start_of(numerator, settings)
    return {"gamma": gamma, "effective_lr": optimizer.rule.effective_lr(gamma, steps)}


@torch.no_grad()
def describe(optimizer: EngineOptimizer, group: Mapping[str, Any]) -> GroupDiagnostics:
    """The diagnostics of one param group."""
    gammas: list[Tensor] = []
    growths: list[Tensor] = []
    sizes: list[Tensor] = []
    steps, non_finite, limited = 0, 0, (0.0, "")
    for number, parameter in enumerate(p for p in group["params"] if has_stepped(optimizer, p)):
        batch = optimizer._alone(group, parameter)
        steps = max(steps, int(batch.steps[0]))
        dtype = computing_dtype(parameter.dtype)
        values, own = fields_of(batch, 0, dtype)
        block = {**batch.shared, **own}
        lr = lr_of(batch, 0, dtype, counted=True)
        gamma, growth, size = batch.plan.rule.rates(values, block, batch.settings._replace(lr=lr), tensor_ops(dtype))
        denominator = _flat((values | block)[batch.plan.rule.denominator])
        sizes.append(_flat(size)[denominator > 0])
        non_finite += sum(int((~torch.isfinite(a)).sum()) for a in [*values.values(), *block.values()] if a.dim())
        if not batch.plan.is_shared or not number:
            gammas.append(_flat(gamma))
            growths.append(_flat(growth))
        limited = limited if number else batch.plan.rule.limited({key: float(a) for key, a in batch.shared.items()})
    gamma, growth = _joined(gammas), _joined(growths)
    quantiles = _quantiles(gamma)
    return GroupDiagnostics(
        step=steps,
        blocks=gamma.numel(),
        gamma=quantiles,
        step_size=_quantiles(_joined(sizes)),
        total_growth=float(growth[torch.isfinite(growth)].double().log().mean().exp()),
        non_finite=non_finite,
        effective_lr=optimizer.rule.effective_lr(quantiles[0.5], steps),
        limited=limited[0],
        note=limited[1],
    )


def _flat(a: Any) -> Tensor:
    return torch.as_tensor(a).detach().reshape(-1).float().cpu()


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.empty(0)


def _quantiles(values: Tensor) -> dict[float, float]:
    """Nearest-rank quantiles of the finite values; torch.quantile refuses more than 16 million."""
    values = values[torch.isfinite(values)]
    if not values.numel():
        return dict.fromkeys(QUANTILES, float("nan"))
    ends = {0.0: float(values.min()), 1.0: float(values.max())}
    ordered = _sampled(values).sort().values
    return {q: float(ordered[round(q * (len(ordered) - 1))]) for q in QUANTILES} | ends


def _sampled(values: Tensor) -> Tensor:
    """At most `SAMPLE` values, drawn with a separate generator so that training draws the same numbers."""
    if values.numel() <= SAMPLE:
        return values
    drawn = torch.randint(values.numel(), (SAMPLE,), generator=torch.Generator().manual_seed(0))
    return values[drawn.to(values.device)]
