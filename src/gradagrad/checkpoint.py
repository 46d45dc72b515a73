"""Loading state dicts: checked whole before anything changes, then restored bit for bit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, StateDict

from gradagrad import arguments, distributed, rounding
from gradagrad.granularity import Granularity, slot_shape
from gradagrad.steps.ops import computing_dtype, real_shape, real_view

KEYS = ("step", "momentum", "growth", "accumulator")


Check = Callable[[Optimizer, StateDict], None]
Restored = Callable[[Mapping[str, Any], Tensor, str, Any], Any]


def load(optimizer: Optimizer, state_dict: StateDict, load_base: Callable[[StateDict], None]) -> None:
    """Loads a state dict of `GradaGrad`; projections stay the optimizer's own."""
    projections = [group["projection"] for group in optimizer.param_groups]

    def keep_projections(_: Optimizer) -> None:
        for group, projection in zip(optimizer.param_groups, projections, strict=True):
            group["projection"] = projection

    keeping = optimizer.register_load_state_dict_post_hook(keep_projections, prepend=True)
    try:
        load_with(optimizer, state_dict, load_base, _check, _restored)
    finally:
        keeping.remove()


def load_with(
    optimizer: Optimizer,
    state_dict: StateDict,
    load_base: Callable[[StateDict], None],
    check: Check,
    restored: Restored,
) -> None:
    """``load_base(state_dict)`` with our checks after the user's pre-hooks and exact restoration before the post-hooks.

    The base class casts state to each parameter's dtype, which would round the float32 state of bf16 parameters.
    """
    accepted: dict[str, Any] = {}

    def before(_: Optimizer, candidate: StateDict) -> None:
        check(optimizer, candidate)
        accepted.update(candidate)

    def after(_: Optimizer) -> None:
        saved_ids = chain.from_iterable(group["params"] for group in accepted["param_groups"])
        for group in optimizer.param_groups:
            group["state_dtype"] = _dtype(group["state_dtype"])
            for parameter in group["params"]:
                saved = accepted["state"].get(next(saved_ids))
                if saved:
                    optimizer.state[parameter] = {k: restored(group, parameter, k, v) for k, v in saved.items()}

    checking = optimizer.register_load_state_dict_pre_hook(before)
    restoring = optimizer.register_load_state_dict_post_hook(after, prepend=True)
    try:
        load_base(state_dict)
    finally:
        checking.remove()
        restoring.remove()


def dtype_name(dtype: torch.dtype | str) -> str:
    """What a state dict holds in a dtype's place; torch.distributed.checkpoint gathers plain values only."""
    return str(dtype).removeprefix("torch.")


def _dtype(name: Any) -> Any:
    return getattr(torch, name, name) if isinstance(name, str) else name


def _restored(group: Mapping[str, Any], parameter: Tensor, key: str, value: Any) -> Any:
    if key == "step" or key not in KEYS or not isinstance(value, Tensor):
        return restored_other(group, parameter, key, value)
    granularity: Granularity = "element" if key == "momentum" else group["granularity"]
    dtype = rounding.stored_dtype(computing_dtype(parameter.dtype), group["state_dtype"], granularity)
    return restored_slots(value, parameter, granularity, dtype)


def restored_other(group: Mapping[str, Any], parameter: Tensor, key: str, value: Any) -> Any:
    """A copy of a saved step counter, list of rows or plain value."""
    if key == "step":
        device = parameter.device if group["capturable"] else "cpu"
        return torch.as_tensor(value).to(device=device, dtype=torch.float32, copy=True)
    return value.to(device=parameter.device, copy=True) if isinstance(value, Tensor) else value


def restored_slots(value: Tensor, parameter: Tensor, granularity: Granularity, dtype: torch.dtype) -> Tensor:
    """A copy of a saved state tensor as a fresh state would hold it: precision, device and memory layout."""
    values = real_view(distributed.local(parameter.detach()))
    shard = distributed.shard_of(value, parameter, granularity)
    if shard.shape == values.shape:
        shard = torch.empty_like(values, dtype=dtype, memory_format=torch.preserve_format).copy_(shard)
    else:
        shard = shard.to(device=parameter.device, dtype=dtype, copy=True)
    return distributed.as_shard(shard, parameter, granularity)


def saved_states(
    optimizer: Optimizer, state_dict: StateDict, checked: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> Iterator[tuple[Any, Tensor, dict[str, Any], str]]:
    """(saved state, parameter, saved group, where) for each saved parameter; raises ValueError on a damaged dict."""
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
            checked(merged)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state dict is damaged: in param group {index}, {error}") from None
        for number, parameter in zip(saved["params"], group["params"], strict=True):
            where = f"parameter {number} of group {index}"
            state = state_dict["state"].get(number)
            if state and not isinstance(state, Mapping):
                kind = type(state).__name__
                raise ValueError(f"the state dict is damaged: the state of {where} is a {kind}, not a dictionary.")
            if state:
                yield state, parameter, merged, where


def _check(optimizer: Optimizer, state_dict: StateDict) -> None:
    """Raises ValueError unless the dictionary fits this optimizer. The base class compares the groups' sizes."""
    for saved, parameter, group, where in saved_states(optimizer, state_dict, arguments.checked):
        if "sum" in saved and "accumulator" not in saved:
            raise ValueError(
                "this is a state dict of torch.optim.Adagrad; take it over with "
                "gradagrad.from_adagrad(state_dict, params)."
            )
        granularity, shape = group["granularity"], real_shape(parameter)
        slots = slot_shape(shape, granularity)
        shapes = {"momentum": tuple(shape), "growth": slots, "accumulator": slots}
        check_entries(saved, KEYS, shapes, parameter, where, f' (granularity="{granularity}")')


def check_entries(
    state: Mapping[str, Any],
    keys: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
    parameter: Tensor,
    where: str,
    because: str = "",
) -> None:
    """Raises ValueError unless a saved state has all keys, and tensors of these shapes under them."""
    for key in keys:
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
        if tuple(value.shape) != shapes[key]:
            raise ValueError(
                f'the state dict does not fit: "{key}" of {where} must have shape {shapes[key]}{because}, got '
                f"{tuple(value.shape)}. Load it into the model it was saved from."
            )
