"""Optimizers inside the wrappers of training frameworks."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from gradagrad.engine.optimizer import EngineOptimizer

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
    """Those of the optimizers, or of what they wrap, that are GradaGrad's or AutoGradaGrad's."""
    found: list[EngineOptimizer] = []
    for optimizer in optimizers:
        with suppress(TypeError):
            found.append(unwrapped(optimizer))
    return found


def _combined(wrapper: Any) -> Any:
    """Of TorchRec's CombinedOptimizer, which has pairs of a name and an optimizer, the only one that is ours."""
    pairs = getattr(wrapper, "_optims", None)
    found = ours(optimizer for _, optimizer in pairs) if isinstance(pairs, list) else []
    if len(found) > 1:
        raise TypeError("optimizer combines several GradaGrad or AutoGradaGrad optimizers; pass one of them.")
    return found[0] if found else None


def _inside(wrapper: Any, name: str) -> Any:
    within = getattr(wrapper, name, None)
    return None if isinstance(within, str) else within
