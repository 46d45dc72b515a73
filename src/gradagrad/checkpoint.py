"""Loading state dicts: checked whole before anything changes, then restored bit for bit."""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, StateDict

from gradagrad import arguments, distributed, rounding
from gradagrad.granularity import Granularity, slot_shape
from gradagrad.steps.ops import computing_dtype, real_shape, real_view

KEYS = ("step", "momentum", "growth", "accumulator")


def load(optimizer: Optimizer, state_dict: StateDict, load_base: Callable[[StateDict], None]) -> None:
    """``load_base(state_dict)`` with our checks after the user's pre-hooks and exact restoration before the post-hooks.

    The base class casts state to each parameter's dtype, which would round the float32 state of bf16 parameters.
    """
    projections = [group["projection"] for group in optimizer.param_groups]
    accepted: dict[str, Any] = {}

    def check(_: Optimizer, candidate: StateDict) -> None:
        _check(optimizer, candidate)
        accepted.update(candidate)

    def restore(_: Optimizer) -> None:
        saved_ids = chain.from_iterable(group["params"] for group in accepted["param_groups"])
        for group, projection in zip(optimizer.param_groups, projections, strict=True):
            group["projection"] = projection
            group["state_dtype"] = _dtype(group["state_dtype"])
            for parameter in group["params"]:
                saved = accepted["state"].get(next(saved_ids))
                if saved:
                    optimizer.state[parameter] = {k: _restored(group, parameter, k, v) for k, v in saved.items()}

    before = optimizer.register_load_state_dict_pre_hook(check)
    after = optimizer.register_load_state_dict_post_hook(restore, prepend=True)
    try:
        load_base(state_dict)
    finally:
        before.remove()
        after.remove()


def dtype_name(dtype: torch.dtype | str) -> str:
    """What a state dict holds in a dtype's place; torch.distributed.checkpoint gathers plain values only."""
    return str(dtype).removeprefix("torch.")


def _dtype(name: Any) -> Any:
    return getattr(torch, name, name) if isinstance(name, str) else name


def _restored(group: Mapping[str, Any], parameter: Tensor, key: str, value: Any) -> Any:
    """A copy of one saved entry as a fresh state would hold it: precision, device and memory layout."""
    if key == "step":
        device = parameter.device if group["capturable"] else "cpu"
        return torch.as_tensor(value).to(device=device, dtype=torch.float32, copy=True)
    if not isinstance(value, Tensor):
        return value
    if key not in KEYS:
        return value.to(device=parameter.device, copy=True)
    granularity: Granularity = "element" if key == "momentum" else group["granularity"]
    values = real_view(distributed.local(parameter.detach()))
    shard = distributed.shard_of(value, parameter, granularity)
    dtype = rounding.stored_dtype(computing_dtype(parameter.dtype), group["state_dtype"], granularity)
    if shard.shape == values.shape:
        shard = torch.empty_like(values, dtype=dtype, memory_format=torch.preserve_format).copy_(shard)
    else:
        shard = shard.to(device=parameter.device, dtype=dtype, copy=True)
    return distributed.as_shard(shard, parameter, granularity)


def _check(optimizer: Optimizer, state_dict: StateDict) -> None:
    """Raises ValueError unless the dictionary fits this optimizer. The base class compares the groups' sizes."""
    for part, kind in (("state", Mapping), ("param_groups", list)):
        if not isinstance(state_dict.get(part), kind):
            raise ValueError(f'the state dict is damaged: it has no "{part}" {kind.__name__.lower()}.')
    saved_groups, groups = state_dict["param_groups"], optimizer.param_groups
    if [len(g.get("params", ())) for g in saved_groups] != [len(g["params"]) for g in groups]:
        return  # the base class says what differs
    for index, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        merged = {**optimizer.defaults, **saved, "projection": None}
        merged["state_dtype"] = _dtype(merged["state_dtype"])
        try:
            arguments.checked(merged)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state dict is damaged: in param group {index}, {error}") from None
        for number, parameter in zip(saved["params"], group["params"], strict=True):
            if state := state_dict["state"].get(number):
                _check_state(state, parameter, merged["granularity"], f"parameter {number} of group {index}")


def _check_state(state: Any, parameter: Tensor, granularity: Any, where: str) -> None:
    if not isinstance(state, Mapping):
        raise ValueError(
            f"the state dict is damaged: the state of {where} is a {type(state).__name__}, not a dictionary."
        )
    if "sum" in state and "accumulator" not in state:
        raise ValueError(
            "this is a state dict of torch.optim.Adagrad; take it over with gradagrad.from_adagrad(state_dict, params)."
        )
    shape = real_shape(parameter)
    expected = {"momentum": tuple(shape)} | dict.fromkeys(("growth", "accumulator"), slot_shape(shape, granularity))
    for key in KEYS:
        if key not in state:
            raise ValueError(f'the state dict is damaged: {where} has no "{key}" (found {sorted(map(str, state))}).')
        value = state[key]
        if key == "step":
            continue
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise ValueError(f'the state dict is damaged: "{key}" of {where} is a {kind}, not a tensor.')
        if distributed.is_sharded(value) and not distributed.is_sharded(parameter):
            raise ValueError(
                f'the state dict does not fit: "{key}" of {where} is sharded and the parameter is not. Make it whole '
                "with torch.distributed.checkpoint.state_dict.get_optimizer_state_dict and full_state_dict=True."
            )
        if tuple(value.shape) != expected[key]:
            raise ValueError(
                f'the state dict does not fit: "{key}" of {where} must have shape {expected[key]} '
                f'(granularity="{granularity}"), got {tuple(value.shape)}. Load it into the model it was saved from.'
            )
