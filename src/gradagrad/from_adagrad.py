"""Taking over a running torch.optim.Adagrad."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from gradagrad import checkpoint, sharding
from gradagrad.checks.arguments import error_text
from gradagrad.engine.state import begin
from gradagrad.gradagrad import GradaGrad
from gradagrad.rules.rule import Field
from gradagrad.torch_ops.ops import computing_dtype, real_view, reduction

# The settings that Adagrad and GradaGrad share.
_SHARED = (
    "lr",
    "lr_decay",
    "weight_decay",
    "initial_accumulator_value",
    "eps",
    "maximize",
    "foreach",
    "differentiable",
)
_OF_ADAGRAD = {"lr", "lr_decay", "initial_accumulator_value"}
_SUM = Field("sum", "element", least=0.0)


def from_adagrad(source: Optimizer | Mapping[str, Any], params: ParamsT | None = None, **options: Any) -> GradaGrad:
    """A `GradaGrad` that continues an Adagrad run, with its accumulator, step counts and settings.

    ``source`` is the running ``torch.optim.Adagrad``, or its state dict together with ``params`` as they were given to
    it. ``options`` are `GradaGrad` arguments and override the Adagrad run's. The next step is AdaGrad's own, because
    there is no previous gradient yet; adaptation begins one step later.

    Example:
        >>> import torch, gradagrad
        >>> weight = torch.nn.Parameter(torch.ones(3))
        >>> adagrad = torch.optim.Adagrad([weight], lr=0.1)
        >>> optimizer = gradagrad.from_adagrad(adagrad, rho=2.0)
    """
    if isinstance(source, Optimizer):
        if not isinstance(source, torch.optim.Adagrad):
            raise TypeError(f"source must be a torch.optim.Adagrad or its state dict, got {type(source).__name__}.")
        if params is not None:
            raise ValueError("params must be left out when source is an optimizer, which brings its own.")
        groups = [dict(group) for group in source.param_groups]
        states = [source.state.get(p, {}) for group in groups for p in group["params"]]
    else:
        groups, states = _from_state_dict(source, params)
    settings = ("params", "param_names", *_SHARED)
    ours = [{k: v for k, v in group.items() if k in settings and k not in options} for group in groups]
    result = GradaGrad(ours, **options)
    parameters = [p for group in result.param_groups for p in group["params"]]
    with torch.no_grad():
        begun: set[int] = set()
        for parameter, state in zip(parameters, states, strict=True):
            _adopt(result, parameter, state, begun)
    return result


def _from_state_dict(
    source: Mapping[str, Any], params: ParamsT | None
) -> tuple[list[dict[str, Any]], list[Mapping[str, Any]]]:
    if params is None:
        raise ValueError("params must be given when source is a state dict, in the order the Adagrad run had them.")
    if not isinstance(source, Mapping) or not checkpoint.has_parts(source):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(error_text("source", 'a state dict with "state" and "param_groups"', source))
    if not all(set(group) >= _OF_ADAGRAD and "granularity" not in group for group in source["param_groups"]):
        raise ValueError("source is not a state dict of torch.optim.Adagrad: its param groups have other arguments.")
    for number, state in source["state"].items():
        _check(state, f"parameter {number}")
    # Adagrad itself checks that the groups match, and casts and moves the tensors.
    adagrad = torch.optim.Adagrad(params)
    adagrad.load_state_dict(dict(source))
    groups = [dict(group) for group in adagrad.param_groups]
    return groups, [adagrad.state.get(p, {}) for group in groups for p in group["params"]]


def _check(state: Any, where: str) -> None:
    """Raises unless this is what Adagrad keeps for a parameter."""
    if not isinstance(state, Mapping) or "sum" not in state:
        found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(f"source is not the state of a torch.optim.Adagrad: found {found}, no sum.")
    checkpoint.step_of(state, where)
    if not (isinstance(state["sum"], Tensor) and state["sum"].is_complex()):
        checkpoint.check_range(_SUM, checkpoint.tensor_of(state, _SUM, where), None, where)


def _adopt(optimizer: GradaGrad, parameter: Tensor, state: Mapping[str, Any], begun: set[int]) -> None:
    """``begun`` holds the accumulators that have sums already, because a shared one adds up those of its parameters."""
    if not state or not float(state["step"]):
        return  # Adagrad makes its state at construction; without a step there is nothing to take over.
    group = next(g for g in optimizer.param_groups if any(p is parameter for p in g["params"]))
    begin(optimizer, group, parameter)
    optimizer._unused.pop(parameter, None)
    ours = optimizer.state[parameter]
    saved = state["sum"]
    if saved.shape != parameter.shape:
        raise ValueError(
            f"source does not fit: a parameter of shape {tuple(parameter.shape)} has a sum of shape "
            f"{tuple(saved.shape)}. Give params in the order the Adagrad run had them."
        )
    ours["step"].fill_(int(state["step"]))
    accumulator = sharding.local(ours["accumulator"])
    scope = group["granularity"]
    squares = real_view(sharding.local(saved))
    sums = reduction(scope).total(squares.to(computing_dtype(squares.dtype)))
    sums = sharding.add_over_ranks([sums], [sharding.axes(parameter, scope)])[0].to(accumulator.device)
    accumulator.copy_(sums + accumulator if id(accumulator) in begun else sums)
    begun.add(id(accumulator))
