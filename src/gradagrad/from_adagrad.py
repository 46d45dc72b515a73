"""Continues a run of torch.optim.Adagrad."""

from typing import Any

import torch

from gradagrad import sharding
from gradagrad.engine.state import begin
from gradagrad.gradagrad import GradaGrad
from gradagrad.torch_ops.ops import computing_dtype, real_view, reduction


@torch.no_grad()
def from_adagrad(source: torch.optim.Adagrad, **options: Any) -> GradaGrad:
    """A `GradaGrad` that continues an Adagrad run, with its accumulator, step counts and settings.

    ``options`` are `GradaGrad` arguments and override Adagrad's settings. The next step is AdaGrad's own, because there
    is no previous gradient yet; adaptation begins one step later. To continue a saved run, load it into an Adagrad
    first.

    Example:
        >>> import torch, gradagrad
        >>> weight = torch.nn.Parameter(torch.ones(3))
        >>> adagrad = torch.optim.Adagrad([weight], lr=0.1)
        >>> optimizer = gradagrad.from_adagrad(adagrad, rho=2.0)
    """
    if not isinstance(source, torch.optim.Adagrad):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"source must be a torch.optim.Adagrad, got {type(source).__name__}. Load a state dict into Adagrad first."
        )
    groups = [dict(group) for group in source.param_groups]
    states = [source.state.get(p, {}) for group in groups for p in group["params"]]
    settings = {"params", "param_names", *source.defaults} - {"fused"}  # Adagrad's fused is another kernel.
    ours = [{k: v for k, v in group.items() if k in settings and k not in options} for group in groups]
    result = GradaGrad(ours, **options)
    pairs = [(group, p) for group in result.param_groups for p in group["params"]]
    had_steps = {p for (_, p), state in zip(pairs, states, strict=True) if state and float(state["step"])}
    begin(result, had_steps.__contains__)  # Adagrad makes its state at construction. Without a step it says nothing.
    begun: set[int] = set()  # The accumulators that have sums already: a shared one adds up those of its parameters.
    for (group, parameter), state in zip(pairs, states, strict=True):
        if parameter not in had_steps:
            continue
        ours, saved, scope = result.state[parameter], state["sum"], group["granularity"]
        if saved.shape != parameter.shape:
            raise ValueError(
                f"source does not fit: a parameter of shape {tuple(parameter.shape)} has a sum of shape "
                f"{tuple(saved.shape)}. Pass the params in the order of the Adagrad run."
            )
        ours["step"].fill_(int(state["step"]))
        accumulator = sharding.local(ours["accumulator"])
        squares = real_view(sharding.local(saved))
        sums = reduction(scope).total(squares.to(computing_dtype(squares.dtype)))
        sums = sharding.add_over_ranks([sums], [sharding.axes(parameter, scope)])[0].to(accumulator.device)
        accumulator.copy_(sums + accumulator if id(accumulator) in begun else sums)
        begun.add(id(accumulator))
    return result
