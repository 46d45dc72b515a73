"""Steps inside the backward pass: each gradient is used and freed as soon as it is complete."""

from __future__ import annotations

from torch import Tensor, nn

from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.rules.scope import SHARED


class StepsInBackward:
    """The hooks that `step_in_backward` has installed."""

    def __init__(self, optimizer: EngineOptimizer, params: dict[Tensor, int]) -> None:
        self._optimizer = optimizer
        self._groups = params
        self._stepped: set[Tensor] = set()
        self._warned = False  # of a large first step: one warning serves all parameters
        self._handles = [parameter.register_post_accumulate_grad_hook(self._step) for parameter in params]

    def _step(self, parameter: Tensor) -> None:
        if parameter in self._stepped:
            raise RuntimeError(
                "a parameter got a second gradient before optimizer.step(). Gradients cannot be accumulated here, "
                "since each of them is used inside the backward pass. Call optimizer.step() after every backward()."
            )
        if self._optimizer._cannot_step:
            raise RuntimeError(self._optimizer._cannot_step)
        looks = not self._warned
        self._warned |= self._optimizer._step_one(self._groups[parameter], parameter, looks=looks)
        parameter.grad = None
        self._stepped.add(parameter)

    def end_step(self) -> None:
        """Ends what a backward pass has begun; called by ``optimizer.step()``."""
        if getattr(self._optimizer, "grad_scale", None) is not None:
            raise RuntimeError(
                "GradScaler cannot be used with step_in_backward: scaled gradients have been used before it could look "
                "for infinities. Use bfloat16, which needs no scaling, or step after backward."
            )
        self._stepped.clear()

    def remove(self) -> None:
        """Removes the hooks: the optimizer steps after the backward pass again."""
        for handle in self._handles:
            handle.remove()
        self._optimizer._in_backward = None


def step_in_backward(model: nn.Module, optimizer: EngineOptimizer) -> StepsInBackward:
    """Lets an optimizer step each parameter inside the backward pass, so that one gradient is in memory at a time.

    Results equal those of ordinary steps bit for bit. Go on calling ``optimizer.step()`` after every ``backward()``: it
    ends the step. Gradients cannot be accumulated, clipped together or scaled by GradScaler. Returns an object whose
    ``remove()`` undoes it.

    Example:
        >>> import torch, gradagrad
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = gradagrad.GradaGrad(model.parameters(), lr=0.01)
        >>> steps = gradagrad.step_in_backward(model, optimizer)
        >>> model(torch.ones(8, 4)).square().mean().backward()  # steps here, and leaves no gradients
        >>> optimizer.step()
    """
    if not isinstance(optimizer, EngineOptimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"optimizer must be a GradaGrad, got {type(optimizer).__name__}.")
    if optimizer._in_backward is not None:
        raise ValueError("this optimizer steps inside the backward pass already.")
    if any(isinstance(module, nn.parallel.DistributedDataParallel) for module in model.modules()):
        raise ValueError(
            "DistributedDataParallel adds gradients over ranks after they were used here. Shard with "
            "torch.distributed.fsdp.fully_shard (FSDP2), or step after backward."
        )
    own = set(model.parameters())
    params: dict[Tensor, int] = {}
    for index, group in enumerate(optimizer.param_groups):
        if optimizer._scope(group) in SHARED:
            raise ValueError(
                f'steps inside the backward pass cannot share a decision, got the scope "{optimizer._scope(group)}": '
                'it needs all gradients at once. Use GradaGrad with granularity "element", "row" or "tensor", or step '
                "after backward."
            )
        if group["differentiable"]:
            raise ValueError("differentiable=True needs all gradients at once; step after backward.")
        params |= {p: index for p in group["params"] if p in own and p.requires_grad}
    if not params:
        raise ValueError("the optimizer has no parameters of this model; construct it with model.parameters().")
    if not all(parameter.is_leaf for parameter in params):
        raise ValueError("parameters must be leaves; parts of TorchRec's tables are stepped after backward.")
    optimizer._in_backward = StepsInBackward(optimizer, params)
    return optimizer._in_backward
