"""Loading state dicts: everything is checked and rebuilt first, and replaces the present state only if all is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import Optimizer, StateDict

from gradagrad import sharding
from gradagrad.checks.arguments import error_text
from gradagrad.checks.torch import check_number_or_lr, checked, dtype_named
from gradagrad.engine.state import field_dtype, field_scope, new_step
from gradagrad.rules.rule import Field
from gradagrad.rules.scope import SHARED, block_shape
from gradagrad.torch_ops.ops import real_shape, real_view

if TYPE_CHECKING:
    from gradagrad.engine.optimizer import EngineOptimizer

# Keys of param groups, or of a parameter's state, by which another optimizer's state dict is recognised.
_OTHERS = {
    "granularity": "GradaGrad",
    "guard": "AutoGradaGrad",
    "initial_accumulator_value": "torch.optim.Adagrad",
    "sum": "torch.optim.Adagrad",
    "betas": "Adam or AdamW",
    "exp_avg": "Adam or AdamW",
    "momentum_buffer": "SGD",
    "square_avg": "RMSprop",
    "z": "Schedule-Free",
    "p0": "Prodigy",
    "prev": "Rprop",
}
_OLDER = {"averaging": "0.2", "effective_lr": "0.3"}
"""Keys of param groups that only earlier versions of AutoGradaGrad have."""
_STORED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_MOST_STEPS = 2**62  # Beyond it the counter, or a number computed from it, would overflow.


def load(optimizer: EngineOptimizer, state_dict: StateDict, load_base: Callable[[StateDict], None]) -> None:
    """Calls ``load_base(state_dict)`` with our checks after the user's pre-hooks and our state before the post-hooks.

    The base class would round the float32 state of bf16 parameters to bf16, and cannot copy tensors that have a graph
    or no data. So it gets what belongs to no parameter, and settings without their graph.
    """
    own = [{key: group[key] for key in ("projection",) if key in group} for group in optimizer.param_groups]
    rebuilt: dict[Tensor, dict[str, Any]] = {}

    def before(_: Optimizer, candidate: StateDict) -> StateDict:
        rebuilt.update(_rebuilt(optimizer, candidate))
        groups = candidate["param_groups"]
        numbers = {n for group in groups for n in group["params"] if isinstance(n, int | str)}
        others = {key: value for key, value in candidate["state"].items() if key not in numbers}
        plain = [{k: v.detach() if isinstance(v, Tensor) else v for k, v in group.items()} for group in groups]
        return {**candidate, "state": others, "param_groups": plain}

    def after(_: Optimizer) -> None:
        optimizer.state.update(rebuilt)
        for group, ours in zip(optimizer.param_groups, own, strict=True):
            group.update(ours, state_dtype=dtype_named(group["state_dtype"]))

    checking = optimizer.register_load_state_dict_pre_hook(before)
    restoring = optimizer.register_load_state_dict_post_hook(after, prepend=True)
    try:
        load_base(state_dict)
    finally:
        checking.remove()
        restoring.remove()


def _rebuilt(optimizer: EngineOptimizer, state_dict: StateDict) -> dict[Tensor, dict[str, Any]]:
    """All states as a fresh optimizer would hold them; raises ValueError where anything is wrong."""
    result: dict[Tensor, dict[str, Any]] = {}
    shared: dict[tuple[str, int], Tensor] = {}
    for saved, parameter, group, where in _saved_states(optimizer, state_dict):
        settings, scope = optimizer._settings(group), optimizer._scope(group)
        state: dict[str, Any] = {"step": new_step(group, parameter).fill_(step_of(saved, where))}
        for field in optimizer.rule.fields(settings):
            value = tensor_of(saved, field, where)
            _check_fit(field, value, scope, parameter, where)
            check_range(field, value, settings, where)
            state[field.key] = _as_new(field, value, group, scope, parameter)
            check_range(field, state[field.key], settings, where)  # 1e200 is finite, and infinite in float32.
            if field_scope(field, scope) in SHARED:
                first = shared.setdefault((field.key, id(group) if scope == "group" else 0), value)
                if not torch.equal(sharding.local(first), sharding.local(value)):
                    raise ValueError(
                        f'the state dict is damaged: "{field.key}" is shared by parameters, but the value of {where} '
                        "differs from that of an earlier parameter."
                    )
        clock = optimizer.rule.clock
        rows = _row_clocks(saved, float(state[clock or "step"]), parameter, where)
        result[parameter] = {**state, **rows} if optimizer.rule.needs_catch_up(settings) else state
    return result


def _saved_states(
    optimizer: EngineOptimizer, state_dict: StateDict
) -> Iterator[tuple[Mapping[str, Any], Tensor, dict[str, Any], str]]:
    """(saved state, parameter, saved group, where) for each saved parameter."""
    found = state_dict.get("param_groups")
    if (
        not isinstance(state_dict.get("state"), Mapping)
        or not isinstance(found, list)
        or not all(isinstance(group, Mapping) and isinstance(group.get("params"), list | tuple) for group in found)
    ):
        raise ValueError(
            'the state dict is damaged: it must have a dictionary "state" and a list "param_groups" of dictionaries, '
            'each with a list of "params".'
        )
    saved_groups, groups = state_dict["param_groups"], optimizer.param_groups
    _refuse_others(optimizer, state_dict)
    if [len(g["params"]) for g in saved_groups] != [len(g["params"]) for g in groups]:
        return  # The base class explains the difference.
    merged_groups: list[dict[str, Any]] = []
    for index, saved in enumerate(saved_groups):
        merged = {**optimizer.defaults, **saved}
        if "projection" in merged:
            merged["projection"] = None
        try:
            merged_groups.append(checked(optimizer.arguments, merged, merged_groups))
            if "initial_lr" in saved:  # Schedulers add `initial_lr`, and AutoGradaGrad reads it.
                check_number_or_lr("lr", saved["initial_lr"], optimizer.arguments.numeric["lr"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"the state dict is damaged: in param group {index}, {error}") from None
    for index, (saved, group) in enumerate(zip(merged_groups, groups, strict=True)):
        for number, parameter in zip(saved["params"], group["params"], strict=True):
            where = f"parameter {number} of group {index}"
            state = state_dict["state"].get(number, {})
            if not isinstance(state, Mapping):
                kind = type(state).__name__
                raise ValueError(f"the state dict is damaged: the state of {where} is a {kind}, not a dictionary.")
            if state:
                yield state, parameter, saved, where


def _refuse_others(optimizer: EngineOptimizer, state_dict: StateDict) -> None:
    """Names the optimizer that a state dict belongs to, if it is not this one."""
    groups, name = state_dict["param_groups"], type(optimizer).__name__
    version = next((v for key, v in _OLDER.items() if any("guard" in group and key in group for group in groups)), None)
    if version is not None and optimizer.arguments.scope is None:
        raise ValueError(
            f"this state dict was saved by AutoGradaGrad of gradagrad {version}, which had other state. Go on with "
            "that version, or load only the model's weights."
        )
    if not groups or any((optimizer.arguments.scope or "guard") in group for group in groups):
        return
    found = {key for state in state_dict["state"].values() if isinstance(state, Mapping) for key in state}
    found.update(*groups)
    other = next((other for key, other in _OTHERS.items() if key in found), None)
    if other is not None:
        remedy = "Load only the model's weights."
        if other == "torch.optim.Adagrad" and name == "GradaGrad":
            remedy = "Load it into a torch.optim.Adagrad and convert that with gradagrad.from_adagrad."
        raise ValueError(f"this state dict was saved by {other}; {name} cannot use it. {remedy}")


def _entry(saved: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in saved:
        raise ValueError(f'the state dict is damaged: {where} has no "{key}" (found {sorted(map(str, saved))}).')
    return saved[key]


def step_of(saved: Mapping[str, Any], where: str) -> int:
    """The number of steps."""
    value = _entry(saved, "step", where)
    if isinstance(value, Tensor):
        usable = _unusual(value) in ("", f"{value.dtype}, {torch.strided}") and not value.is_complex()
        value = value.item() if usable and value.numel() == 1 else value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < _MOST_STEPS or value != value // 1:
        raise ValueError(
            error_text(f'the state dict is damaged: "step" of {where}', "a whole number >= 0 and < 2^62", value)
        )
    return int(value)


def tensor_of(saved: Mapping[str, Any], field: Field, where: str) -> Tensor:
    """A saved tensor of floating point numbers; raises where it is anything else."""
    value = _entry(saved, field.key, where)
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise ValueError(f'the state dict is damaged: "{field.key}" of {where} is a {kind}, not a tensor.')
    if kind := _unusual(value):
        raise ValueError(
            f'the state dict is damaged: "{field.key}" of {where} must be a dense tensor of floating point numbers, '
            f"got {kind}."
        )
    return value.detach()


def _unusual(value: Tensor) -> str:
    """Describes a tensor that is not dense or holds no ordinary floating point numbers; None for all others."""
    if is_lazy(value):
        return "an uninitialised one"
    for name in ("is_meta", "is_nested", "is_quantized"):
        if getattr(value, name):
            return f"a {name.removeprefix('is_')} tensor"
    fits = value.layout == torch.strided and value.dtype in _STORED
    return "" if fits else f"{value.dtype}, {value.layout}"


def _check_fit(field: Field, value: Tensor, scope: str, parameter: Tensor, where: str) -> None:
    if sharding.is_sharded(value) and not sharding.is_sharded(parameter):
        raise ValueError(
            f'the state dict does not fit: "{field.key}" of {where} is sharded and the parameter is not. Gather it '
            "with torch.distributed.checkpoint.state_dict.get_optimizer_state_dict and full_state_dict=True."
        )
    own = field_scope(field, scope)
    wanted = block_shape(real_shape(parameter), own)
    if tuple(value.shape) != wanted:
        because = f' (granularity="{scope}")' if field.at == "block" else ""
        raise ValueError(
            f'the state dict does not fit: "{field.key}" of {where} must have shape {wanted}{because}, got '
            f"{tuple(value.shape)}. Load it into the model it was saved from."
        )


def check_range(field: Field, value: Tensor, settings: Any, where: str) -> None:
    """Raises if numbers are not finite, or lower than the rule can have made them."""
    here = sharding.local(value.detach())
    least = getattr(settings, field.least) if isinstance(field.least, str) else field.least
    wrong = ~torch.isfinite(here)
    rule = "finite"
    if least is not None:
        # A start value that bf16 cannot represent may have been rounded down.
        slack = 2.0**-7 * abs(least) if here.dtype == torch.bfloat16 else 1e-6 * abs(least)
        wrong, rule = wrong | (here < least - slack), f"finite and >= {least}"
    if bool(wrong.any()):
        example = here[wrong].reshape(-1)[0].item()
        raise ValueError(
            f'the state dict is damaged: "{field.key}" of {where} must be {rule}, got {example} '
            f"({int(wrong.sum())} of {here.numel()} entries). Load an earlier checkpoint."
        )


def _as_new(field: Field, value: Tensor, group: Mapping[str, Any], scope: str, parameter: Tensor) -> Tensor:
    """A copy of a saved tensor as a fresh state would hold it: precision, device and memory layout."""
    own = field_scope(field, scope)
    dtype = field_dtype(own, group["state_dtype"], parameter)
    values = real_view(sharding.local(parameter.detach()))
    shard = sharding.shard_of(value, parameter, own)  # pyright: ignore[reportArgumentType]
    if shard.shape == values.shape and own == "element":
        shard = torch.empty_like(values, dtype=dtype, memory_format=torch.preserve_format).copy_(shard)
    else:
        shard = shard.to(device=parameter.device, dtype=dtype, copy=True)
    return sharding.as_shard(shard, parameter, own)  # pyright: ignore[reportArgumentType]


def _row_clocks(saved: Mapping[str, Any], now: float, parameter: Tensor, where: str) -> dict[str, Tensor]:
    """The clocks of rows that sparse gradients left out, if there are any."""
    clocks = saved.get("row_clocks")
    if clocks is None:
        return {}
    fits = isinstance(clocks, Tensor) and clocks.layout == torch.strided and not clocks.is_meta
    fits = fits and clocks.dtype == torch.float64 and clocks.shape == parameter.shape[: clocks.dim()]
    if fits and bool(((clocks >= 0) & (clocks <= now)).all()):
        return {"row_clocks": clocks.to(device=parameter.device, copy=True)}
    raise ValueError(f'the state dict is damaged: "row_clocks" of {where} does not fit the rows of its parameter.')
