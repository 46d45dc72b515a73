"""State as the rule's fields declare it, made at a parameter's first step. Shared numbers are one tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradagrad import precision, sharding
from gradagrad.rules.rule import Field
from gradagrad.rules.scope import SINGLE, block_shape
from gradagrad.torch_ops.ops import computing_dtype, real_view, wide_dtype

if TYPE_CHECKING:
    from gradagrad.engine.optimizer import EngineOptimizer


def field_scope(field: Field, scope: str) -> str:
    """The scope of a field's tensors, whatever the blocks are."""
    return {"element": "element", "shared": "all"}.get(field.at, scope)


def field_dtype(scope: str, state_dtype: torch.dtype | str, parameter: Tensor) -> torch.dtype:
    """How a field of this scope is stored for a parameter."""
    if scope in SINGLE:
        return wide_dtype(parameter.device)
    if scope == "element" and precision.is_rounded(state_dtype):  # Blocks of rows take little memory.
        return torch.bfloat16
    return computing_dtype(parameter.dtype)


def new_step(group: Mapping[str, Any], parameter: Tensor) -> Tensor:
    """A step counter, an integer because floats stop counting; on the parameter's device if it is to be captured."""
    device = sharding.local(parameter.detach()).device if group["capturable"] else torch.device("cpu")
    return torch.zeros((), dtype=torch.int64, device=device)


def new_field(field: Field, group: Mapping[str, Any], settings: Any, scope: str, parameter: Tensor) -> Tensor:
    """A field's tensor at its start, laid out and sharded as its parameter."""
    values, own = real_view(sharding.local(parameter.detach())), field_scope(field, scope)
    start, dtype = start_of(field, settings), field_dtype(own, group["state_dtype"], parameter)
    if own == "element":
        tensor = torch.full_like(values, start, dtype=dtype, memory_format=torch.preserve_format)
    else:
        tensor = torch.full(block_shape(values.shape, own), start, dtype=dtype, device=values.device)
    return sharding.as_shard(tensor, parameter, own)  # pyright: ignore[reportArgumentType]


def start_of(field: Field, settings: Any) -> float:
    """The number a field starts from."""
    return getattr(settings, field.start) if isinstance(field.start, str) else field.start


def begin(optimizer: EngineOptimizer, wanted: Callable[[Tensor], bool] = lambda p: p.grad is not None) -> None:
    """Makes what is missing in the state of the wanted parameters, and has parameters of a block share its tensors."""
    plans = [(group, optimizer._plan(i)) for i, group in enumerate(optimizer.param_groups)]
    blocks: dict[Any, dict[str, Tensor]] = {}
    """The shared numbers of parameters with one scope, or of each group if that is the scope."""
    own = [blocks.setdefault(i if plan.scope == "group" else plan.scope, {}) for i, (_, plan) in enumerate(plans)]
    for shared, (group, plan) in zip(own, plans, strict=True):
        for state, key in product(_states(optimizer, group), plan.shared_keys):
            if key in state:
                shared.setdefault(key, state[key])
    for shared, (group, plan) in zip(own, plans, strict=True):
        for parameter in filter(wanted, group["params"]):
            state = optimizer.state[parameter]
            if "step" not in state:
                state["step"] = new_step(group, parameter)
            for field in plan.fields:
                held = shared if field.key in plan.shared_keys else state
                if field.key not in held:
                    held[field.key] = new_field(field, group, plan.settings, plan.scope, parameter)
    for shared, (group, plan) in zip(own, plans, strict=True):
        for state in _states(optimizer, group) if plan.shared_keys else ():
            state.update(shared)


def _states(optimizer: EngineOptimizer, group: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [state for parameter in group["params"] if (state := optimizer.state.get(parameter))]


def has_stepped(optimizer: EngineOptimizer, parameter: Tensor) -> bool:
    """Whether a parameter's state has seen a step. Some wrappers ask for state before the first one."""
    state = optimizer.state.get(parameter)
    return bool(state) and int(state.get("step", 0)) > 0


def mark_idle(optimizer: EngineOptimizer, parameter: Tensor) -> None:
    """Records the time at which a parameter without a gradient became idle, if it must catch up later."""
    clock, state = optimizer.rule.clock, optimizer.state.get(parameter, {})
    if clock in state and "row_clocks" not in state:
        state["row_clocks"] = state[clock].clone()
