"""Loading AutoGradaGrad's state dicts: checked whole before anything changes, then restored bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, StateDict

from gradagrad import checkpoint, rounding
from gradagrad.auto import arguments, rule
from gradagrad.steps.ops import computing_dtype, real_shape

_ELEMENTWISE = ("accumulator", "momentum", "average")


def load(optimizer: Optimizer, state_dict: StateDict, load_base: Callable[[StateDict], None]) -> None:
    """``load_base(state_dict)`` with our checks before it and exact restoration after it."""
    checkpoint.load_with(optimizer, state_dict, load_base, _check, _restored)


def _restored(group: Mapping[str, Any], parameter: Tensor, key: str, value: Any) -> Any:
    if key == "shared":
        return value.to(device=parameter.device, dtype=torch.float64, copy=True)
    if key in _ELEMENTWISE:
        dtype = rounding.stored_dtype(computing_dtype(parameter.dtype), group["state_dtype"], "element")
        return checkpoint.restored_slots(value, parameter, "element", dtype)
    return checkpoint.restored_other(group, parameter, key, value)


def _check(optimizer: Optimizer, state_dict: StateDict) -> None:
    """Raises ValueError unless the dictionary fits this optimizer. The base class compares the groups' sizes."""
    first: list[dict[str, Any]] = []

    def checked(group: Mapping[str, Any]) -> dict[str, Any]:
        result = arguments.checked(group, first)
        first[:] = first or [result]
        return result

    groups = state_dict.get("param_groups")
    if isinstance(groups, list) and any("gamma0" not in group for group in groups):
        raise ValueError(
            "the state dict is not one of AutoGradaGrad: its param groups have no gamma0. Load it into the class of "
            "optimizer it was saved from; AutoGradaGrad needs no other's state and can start afresh."
        )
    for saved, parameter, group, where in checkpoint.saved_states(optimizer, state_dict, checked):
        wanted = ["step", "shared", *_ELEMENTWISE[: 3 if group["averaging"] is not None else 2]]
        shapes = {"shared": (len(rule.Shared._fields),)} | dict.fromkeys(_ELEMENTWISE, tuple(real_shape(parameter)))
        checkpoint.check_entries(saved, wanted, shapes, parameter, where)
