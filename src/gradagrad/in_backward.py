"""Steps inside the backward pass: each gradient is used and freed as soon as it is complete."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gradagrad import sharding
from gradagrad.engine import step as engine
from gradagrad.engine.batch import Batch
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.engine.state import begin, has_stepped, mark_idle
from gradagrad.monitoring.diagnostics import show_all
from gradagrad.monitoring.first_step import FirstStep
from gradagrad.rules.scope import SHARED
from gradagrad.torch_ops.steps import learn


class StepsInBackward:
    """Steps the parameters of an optimizer inside the backward pass, each of them once before `end_step`.

    The optimizer owns it, and neither it nor the hooks keep the optimizer alive.
    """

    def __init__(self, optimizer: EngineOptimizer) -> None:
        self._optimizer_or_none = weakref.ref(optimizer)
        self._stepped: set[Tensor] = set()
        self._moved: dict[Tensor, tuple[Batch, Tensor, Any]] = {}
        """If the rule learns from all tensors: the parts that moved, their statistics, whether they had a gradient."""
        self._warned = False
        """The warning about a large first step. One serves all parameters."""
        self.hooks: list[RemovableHandle] = []
        self.replaced = False
        """Whether another optimizer has taken over a parameter."""
        weakref.finalize(optimizer, _remove_all, self.hooks).atexit = False

    @property
    def _optimizer(self) -> EngineOptimizer:
        optimizer = self._optimizer_or_none()
        assert optimizer is not None, "The optimizer owns this object."
        return optimizer

    def hook(self, parameter: Tensor, group: int) -> bool:
        """Has the backward pass step a parameter, and no other optimizer. Returns whether this is new."""
        for before in _owners_of(parameter):
            if before is self:
                return False
            before.replaced = True
            before.abandon()
            _remove_all(before.hooks)
        own = partial(_step_in_backward, self._optimizer_or_none, group)
        self.hooks.append(parameter.register_post_accumulate_grad_hook(own))
        return True

    def step(self, parameter: Tensor, group: int) -> None:
        """Steps a parameter by its gradient. Frees the gradient, even if the step is refused.

        Without its optimizer it does nothing, so that another one finds the gradient.
        """
        if self._optimizer_or_none() is None:
            return
        try:
            if parameter in self._stepped:
                raise RuntimeError(_SECOND)
            if self._optimizer._cannot_step:
                raise RuntimeError(self._optimizer._cannot_step)
            self._step(parameter, group)
        finally:
            parameter.grad = None
        self._stepped.add(parameter)

    @torch.no_grad()
    def _step(self, parameter: Tensor, index: int) -> None:
        optimizer = self._optimizer
        part = {**optimizer.param_groups[index], "params": [parameter]}
        looks = not self._warned and optimizer._first_step_may_be_large() and not has_stepped(optimizer, parameter)
        steps = engine.prepare(optimizer._batches([(index, part)]), looks=False)
        batch = steps[0].batch
        if batch.plan.rule.learns:
            statistics = steps[0].move(None)
            assert statistics is not None, "A rule that learns has statistics."
            self._moved[parameter] = batch, statistics, engine.look(batch)
            batch.grads = []  # The gradient is to be freed.
            return
        first = FirstStep.of(steps) if looks else None
        engine.run(steps)
        self._warned |= first is not None and first.check()

    def end_step(self) -> bool:
        """Ends what a backward pass has begun, for ``optimizer.step()``. Returns whether nothing is left to do."""
        if self.replaced:
            raise RuntimeError(
                "another optimizer steps these parameters inside the backward pass now, because step_in_backward was "
                "called for it later. Use only one of the two."
            )
        if getattr(self._optimizer, "grad_scale", None) is not None:
            raise RuntimeError(
                "GradScaler cannot be used with steps inside the backward pass: they use scaled gradients before "
                "it can look for infinities. Use bfloat16, which needs no scaling, or step after backward."
            )
        is_whole = bool(self._moved)
        if is_whole:
            self._learn()
        if self._stepped:
            show_all(self._optimizer, waits=False)
        self._stepped.clear()
        return is_whole

    @torch.no_grad()
    def _learn(self) -> None:
        """Steps the parameters that still have a gradient, and learns from all tensors together."""
        joined: dict[tuple[int, sharding.Axes], list[tuple[Batch, Tensor, Any]]] = {}
        for index, group in enumerate(self._optimizer.param_groups):
            for parameter in group["params"]:
                if parameter not in self._stepped and parameter.grad is not None:
                    self.step(parameter, index)
                if parameter in self._moved:
                    part = self._moved[parameter]
                    joined.setdefault((index, part[0].axes), []).append(part)
                else:
                    mark_idle(self._optimizer, parameter)
        whole = [part for own in joined.values() for part in own]
        if engine.moves([batch for batch, *_ in whole], [found for *_, found in whole]):
            learn(
                [_joined([batch for batch, *_ in own]) for own in joined.values()],
                [torch.cat([rows for _, rows, _ in own]) for own in joined.values()],
            )
        self._moved.clear()

    def refuse_half(self) -> None:
        """Raises between ``backward()`` and ``optimizer.step()``, where saving or averaging would see half a step."""
        if self._stepped:
            raise RuntimeError(
                "the backward pass has begun a step that optimizer.step() has not ended. Call optimizer.step() first. "
                "If backward() raised, call abandon() of the object that step_in_backward returned."
            )

    def abandon(self) -> None:
        """Gives up the step that a backward pass has begun, for example after an exception inside ``backward()``.

        Parameters that the backward pass reached have moved and stay so. The others have not, and γ learns nothing.
        """
        self._stepped.clear()
        self._moved.clear()

    def remove(self) -> None:
        """Lets the optimizer step after the backward pass again."""
        self.refuse_half()
        _remove_all(self.hooks)
        if (optimizer := self._optimizer_or_none()) is not None and optimizer._in_backward is self:
            optimizer._in_backward = None


_SECOND = (
    "a parameter got a second gradient before optimizer.step(). Gradients cannot be accumulated here, because each is "
    "used inside the backward pass. Call optimizer.step() after every backward(). If a backward() raised, its step "
    "cannot be repeated, because some parameters have moved: call abandon() of the object that step_in_backward "
    "returned. If checkpointed segments share the parameter, pass use_reentrant=False to torch.utils.checkpoint."
)


def _step_in_backward(optimizer: weakref.ref[EngineOptimizer], group: int, parameter: Tensor) -> None:
    """The hook on a parameter."""
    if (own := optimizer()) is not None:
        own._in_backward.step(parameter, group)


def _owners_of(parameter: Tensor) -> Iterator[StepsInBackward]:
    """The object that steps this parameter inside the backward pass."""
    for hook in [*(getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values()]:
        if isinstance(hook, partial) and hook.func is _step_in_backward and (optimizer := hook.args[0]()) is not None:
            yield optimizer._in_backward


def _remove_all(hooks: list[RemovableHandle]) -> None:
    while hooks:
        hooks.pop().remove()


def _refuse_ddp(module: nn.Module, _: object) -> None:
    """The hook on a module before its forward pass. Copies of the module have it too, but not those on parameters."""
    if nn.parallel.DistributedDataParallel._active_ddp_module is None:
        return
    if any(True for parameter in module.parameters(recurse=False) for _ in _owners_of(parameter)):
        raise RuntimeError(_DDP)


_DDP = (
    "DistributedDataParallel adds gradients over ranks after they were used here. Shard with "
    "torch.distributed.fsdp.fully_shard (FSDP2), or step after backward."
)


def _joined(batches: Sequence[Batch]) -> Batch:
    """Joins batches of one parameter each."""
    state = {key: [batch.state[key][0] for batch in batches] for key in batches[0].state}
    return replace(batches[0], params=[batch.params[0] for batch in batches], state=state)


def step_in_backward(model: nn.Module, optimizer: EngineOptimizer) -> StepsInBackward:
    """Lets an optimizer step each parameter inside the backward pass, so that one gradient is in memory at a time.

    Results equal those of ordinary steps, bit for bit for `GradaGrad` and within rounding for `AutoGradaGrad`, which
    moves each parameter at once and updates its γ in ``optimizer.step()``. Keep calling ``optimizer.step()`` after
    every ``backward()``, because it ends the step. If every gradient was zero, `AutoGradaGrad` has moved towards its
    fast iterate by then, but leaves γ alone. Gradients cannot be accumulated or scaled by GradScaler, and
    functions that clip gradients find none.

    Returns an object. Its ``remove()`` undoes the change. Its ``abandon()`` gives up a step after an exception inside
    ``backward()``: such a step cannot be repeated, because some parameters have already moved. Between ``backward()``
    and ``optimizer.step()`` the optimizer cannot be saved. Calling the function again is harmless, and a new optimizer
    takes the parameters over from an earlier one.

    Example:
        >>> import torch, gradagrad
        >>> model = torch.nn.Linear(4, 1)
        >>> optimizer = gradagrad.GradaGrad(model.parameters(), lr=0.01)
        >>> steps = gradagrad.step_in_backward(model, optimizer)
        >>> model(torch.ones(8, 4)).square().mean().backward()  # steps here, and leaves no gradients
        >>> optimizer.step()
    """
    if not isinstance(optimizer, EngineOptimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"optimizer must be a GradaGrad or an AutoGradaGrad, got {type(optimizer).__name__}.")
    if any(isinstance(module, nn.parallel.DistributedDataParallel) for module in model.modules()):
        raise ValueError(_DDP)
    own = set(model.parameters())
    params: dict[Tensor, int] = {}
    for index, group in enumerate(optimizer.param_groups):
        if optimizer._scope(group) in SHARED:
            raise ValueError(
                f'steps inside the backward pass cannot share step sizes, got "{optimizer._scope(group)}", which needs '
                'all gradients at once. Use GradaGrad with granularity="element", "row" or "tensor", or step after '
                "backward."
            )
        if group["differentiable"]:
            raise ValueError("differentiable=True needs all gradients at once; step after backward.")
        params |= {p: index for p in group["params"] if p in own and p.requires_grad}
    if not params:
        raise ValueError("the optimizer has no parameters of this model; construct it with model.parameters().")
    begin(optimizer, params.__contains__)  # Shared state must not follow the reverse order of the backward pass.
    steps: StepsInBackward | None = optimizer._in_backward
    if steps is None or steps.replaced:
        steps = optimizer._in_backward = StepsInBackward(optimizer)
    new = {parameter for parameter, index in params.items() if steps.hook(parameter, index)}
    for module in model.modules():
        if not new.isdisjoint(module.parameters(recurse=False)):
            steps.hooks.append(module.register_forward_pre_hook(_refuse_ddp))
    return steps
