"""Optimizers inside the wrappers of training frameworks, and what callbacks log and do with them."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from torch import nn

from gradagrad.averaging import Averaged, forward
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.monitoring.diagnostics import readings

# Where wrappers keep the optimizer they wrap: Lightning, accelerate and ZeRO, torch's ZeRO, Opacus, SAM and Lookahead,
# timm's Lookahead, TorchRec's OptimizerWrapper and KeyedOptimizerWrapper.
_WITHIN = ("optimizer", "optim", "original_optimizer", "base_optimizer", "_base_optimizer", "_optimizer")
_DEPTH = 100
"""The deepest nesting followed; a wrapper that makes a new wrapper at every access would have no end."""


def unwrapped(optimizer: Any) -> EngineOptimizer:
    """The innermost optimizer. Lightning's wrapper is an instance of the class it wraps, but does not step."""
    inner, seen = optimizer, {id(optimizer)}
    for _ in range(_DEPTH):
        within = next((a for name in _WITHIN if (a := _inside(inner, name)) is not None), None) or _combined(inner)
        if within is None or id(within) in seen:
            break
        seen.add(id(within))
        inner = within
    if not isinstance(inner, EngineOptimizer):
        raise TypeError(
            f"optimizer must be a GradaGrad, an AutoGradaGrad or a wrapper of one, got {type(inner).__name__}."
        )
    return inner


def ours(optimizers: Iterable[Any]) -> list[EngineOptimizer]:
    """The GradaGrad and AutoGradaGrad optimizers among these optimizers and what they wrap."""
    found: list[EngineOptimizer] = []
    for optimizer in optimizers:
        with suppress(TypeError):
            found.append(unwrapped(optimizer))
    return found


def averaging(optimizers: Iterable[Any]) -> list[Averaged]:
    """The optimizers among these that keep an average."""
    return [optimizer for optimizer in ours(optimizers) if isinstance(optimizer, Averaged)]


def to_average(
    optimizers: Iterable[Any],
    model: nn.Module,
    batches: Iterable[Any] | None,
    run: Callable[[Any, Any], None] = forward,
) -> None:
    """Puts them into eval mode. ``run(model, batch)`` measures BatchNorm's statistics at the average."""
    found = averaging(optimizers)
    for optimizer in found[:-1]:
        optimizer.eval()
    for optimizer in found[-1:]:  # All others hold averages by then.
        optimizer._to_average(model, batches, run)


def shown(optimizers: Iterable[Any]) -> dict[str, float]:
    """What a callback logs for each param group: γ without the schedule of lr, and the effective learning rate with it.

    Numbers that are not known yet are left out.
    """
    groups = [(optimizer, group) for optimizer in ours(optimizers) for group in optimizer.param_groups]
    every: dict[str, float] = {}
    for index, (optimizer, group) in enumerate(groups):
        steady = {**group, "lr": group.get("initial_lr", group["lr"])}
        every[f"gradagrad/group{index}/gamma"] = readings(optimizer, steady)["gamma"]
        every[f"gradagrad/group{index}/effective_lr"] = readings(optimizer, group)["effective_lr"]
    return {name: value for name, value in every.items() if not math.isnan(value)}


def _combined(wrapper: Any) -> Any:
    """Returns our optimizer inside TorchRec's CombinedOptimizer, if there is exactly one."""
    pairs = getattr(wrapper, "_optims", None)
    found = ours(optimizer for _, optimizer in pairs) if isinstance(pairs, list) else []
    if len(found) > 1:
        raise TypeError("optimizer combines several GradaGrad or AutoGradaGrad optimizers; pass one of them.")
    return found[0] if found else None


def _inside(wrapper: Any, name: str) -> Any:
    within = getattr(wrapper, name, None)
    return None if isinstance(within, str) else within
