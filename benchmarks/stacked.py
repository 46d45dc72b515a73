"""Trains many runs of one problem in step with each other: one call computes all gradients.

A run is a lane (an optimizer's setting) and a seed. Seeds differ in start and mini-batches exactly as in
`gradagrad_lab.runs.single`. `torch.func` must be able to map over the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from gradagrad import AutoGradaGrad
from gradagrad_lab.problems import convex
from gradagrad_lab.problems.training import Supervised, TrainingProblem

DIVERGED = 10.0
_LARGE = 200_000


def _one_vs_rest(scores: Tensor, targets: Tensor) -> Tensor:
    wanted = (targets.unsqueeze(-1) == torch.arange(scores.shape[-1])).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / len(targets)


def _hinge(scores: Tensor, targets: Tensor) -> Tensor:
    own = targets.unsqueeze(-1) == torch.arange(scores.shape[-1])
    right = scores.gather(-1, targets.unsqueeze(-1))
    return torch.where(own, 0.0, (1 - right + scores).clamp_min(0)).mean()


# The same losses in operations that torch.func can map over.
_MAPPABLE: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {convex.one_vs_rest: _one_vs_rest, convex._hinge: _hinge}


class Stepper(Protocol):
    """Moves the iterates of some lanes."""

    def step(self, g: Tensor) -> None:
        """Moves by gradients (lanes, seeds, elements)."""
        ...


@dataclass(frozen=True)
class Block:
    """Some lanes that step together. ``make`` gets their iterates (lanes, seeds, elements), which it moves in place,
    and the stack, which can split them into the model's tensors."""

    lanes: int
    make: Callable[[Tensor, Stack], Stepper]


@dataclass
class Finals:
    """Training losses of a lane, one per seed, at the last iterate and at the average."""

    last: Tensor
    averaged: Tensor
    initial: Tensor
    gamma: Tensor | None

    def losses(self, averaged: bool) -> Tensor:
        """The losses; a diverged run counts as ten times its first loss."""
        found, limit = (self.averaged if averaged else self.last), DIVERGED * self.initial.abs()
        return torch.where(found.isfinite(), torch.minimum(found, limit), limit)

    def diverged(self, averaged: bool) -> int:
        found = self.averaged if averaged else self.last
        return int((~found.isfinite() | (found > DIVERGED * self.initial.abs())).sum())


class Stack:
    """One problem from several seeds."""

    def __init__(self, problem: TrainingProblem, seeds: Sequence[int]) -> None:
        self.problem = problem
        self.tasks: list[Any] = [problem.make(seed) for seed in seeds]
        first = self.tasks[0].parameters
        self._shapes = [tuple(parameter.shape) for parameter in first]
        self._sizes = [parameter.numel() for parameter in first]
        self.start = torch.stack(
            [torch.cat([parameter.detach().flatten() for parameter in task.parameters]) for task in self.tasks]
        )
        model = getattr(self.tasks[0], "model", None)
        pictures = model is not None and any(isinstance(module, nn.Conv2d) for module in model.modules())
        # When one run fills the processor, a map over runs is no faster, and it is slower for convolutions.
        self._one_by_one = pictures or self.start.shape[1] > _LARGE

    def tensors(self, iterate: Tensor) -> list[Tensor]:
        """Views of one iterate (elements) in the shapes of the model's parameters."""
        pieces = iterate.split(self._sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def _loss(self, iterate: Tensor, *rows: Tensor) -> Tensor:
        task = self.tasks[0]
        if not isinstance(task, Supervised):  # the noisy quadratic, whose one row is the noise
            return 0.5 * (task._curvatures * iterate.square()).sum() + rows[0] @ iterate
        names = [name for name, parameter in task.model.named_parameters() if parameter.requires_grad]
        *inputs, targets = rows
        outputs = functional_call(task.model, dict(zip(names, self.tensors(iterate), strict=True)), tuple(inputs))
        return _MAPPABLE.get(task._loss, task._loss)(outputs, targets)

    def _batch(self, step: int) -> tuple[Tensor, ...]:
        if not isinstance(self.tasks[0], Supervised):
            return (torch.stack([task._noise[step] for task in self.tasks]),)
        rows = torch.stack([task._order[step] for task in self.tasks])
        return tuple(part[rows] for part in self.tasks[0]._train)

    def gradients(self, iterates: Tensor, step: int) -> Tensor:
        """The gradients at iterates (lanes, seeds, elements)."""
        if self._one_by_one:
            return torch.stack(
                [torch.stack([self._own(p, seed, step) for seed, p in enumerate(lane)]) for lane in iterates]
            )
        batch = self._batch(step)
        per_seed = vmap(grad(self._loss), in_dims=(0,) + (0,) * len(batch), randomness="same")
        return vmap(per_seed, in_dims=(0,) + (None,) * len(batch), randomness="same")(iterates, *batch)

    def _own(self, iterate: Tensor, seed: int, step: int) -> Tensor:
        task = self.tasks[seed]
        self._place(iterate, task)
        found = torch.autograd.grad(task.loss_on(step), task.parameters)
        return torch.cat([g.flatten() for g in found])

    @torch.no_grad()
    def _place(self, iterate: Tensor, task: Any) -> None:
        for parameter, piece in zip(task.parameters, self.tensors(iterate), strict=True):
            parameter.copy_(piece)

    @torch.no_grad()
    def losses(self, iterates: Tensor) -> Tensor:
        """The loss over all training rows at iterates (..., elements)."""
        flat = iterates.reshape(-1, iterates.shape[-1])
        task = self.tasks[0]
        if not isinstance(task, Supervised):
            return 0.5 * (task._curvatures * flat.square()).sum(1).view(iterates.shape[:-1])
        found = []
        for iterate in flat:  # one by one, because a whole training part times a whole stack would not fit
            self._place(iterate, task)
            found.append(task.full_train_loss() if bool(iterate.isfinite().all()) else math.nan)
        return torch.tensor(found).view(iterates.shape[:-1])


def train(stack: Stack, blocks: Sequence[Block]) -> list[Finals]:
    """Trains every lane from every seed."""
    iterates = stack.start.expand(sum(block.lanes for block in blocks), *stack.start.shape).clone()
    steppers: list[tuple[slice, Any]] = []
    for block in blocks:
        begin = steppers[-1][0].stop if steppers else 0
        own = slice(begin, begin + block.lanes)
        steppers.append((own, block.make(iterates[own], stack)))
    average = iterates.clone()
    for step in range(stack.problem.steps):
        g = stack.gradients(iterates, step)
        for own, stepper in steppers:
            stepper.step(g[own])
        average.lerp_(iterates, 9.0 / (step + 9))
    initial, finals = stack.losses(stack.start), []
    for own, stepper in steppers:
        last, mean = iterates[own], average[own]
        if hasattr(stepper, "evaluated"):  # AutoGradaGrad has an average of its own, and Schedule-Free evaluates there.
            last, mean = stepper.evaluated()
        detail = stepper.detail() if hasattr(stepper, "detail") else [None] * (own.stop - own.start)
        last, mean = stack.losses(last), stack.losses(mean)
        finals += [Finals(x, y, initial, found) for x, y, found in zip(last, mean, detail, strict=True)]
    return finals


def ours(lanes: Sequence[dict[str, Any]]) -> Block:
    """A lane of AutoGradaGrad for each dictionary of options. It learns γ from all tensors of a run, so every run has
    its own instance."""

    class Lanes:
        def __init__(self, iterates: Tensor, stack: Stack) -> None:
            self._iterates = iterates
            self._runs: list[tuple[list[nn.Parameter], AutoGradaGrad]] = []
            for options, lane in zip(lanes, iterates, strict=True):
                for run in lane:
                    parameters = [nn.Parameter(tensor) for tensor in stack.tensors(run)]
                    self._runs.append((parameters, AutoGradaGrad(parameters, **options)))
            self._tensors = stack.tensors

        def step(self, g: Tensor) -> None:
            for (parameters, optimizer), gradient in zip(self._runs, g.flatten(0, 1), strict=True):
                for parameter, own in zip(parameters, self._tensors(gradient), strict=True):
                    parameter.grad = own
                optimizer.step()

        def evaluated(self) -> tuple[Tensor, Tensor]:
            with ExitStack() as averages:
                for _, optimizer in self._runs:
                    averages.enter_context(optimizer.averaged())
                mean = self._iterates.clone()
            return self._iterates, mean

        def detail(self) -> Tensor:
            means = [optimizer.state[parameters[0]]["common_gamma"] for parameters, optimizer in self._runs]
            return torch.stack(means).view(self._iterates.shape[:2])

    return Block(len(lanes), Lanes)


def elementwise(optimizer: Callable[..., torch.optim.Optimizer], lanes: Sequence[dict[str, Any]]) -> Block:
    """A lane for each dictionary of options. The optimizer must step each element by itself: seeds share a tensor."""

    class Lanes:
        def __init__(self, iterates: Tensor, stack: Stack) -> None:
            self._parameters = [nn.Parameter(own) for own in iterates]
            groups = [{"params": [p], **options} for p, options in zip(self._parameters, lanes, strict=True)]
            self._optimizer = optimizer(groups)

        def step(self, g: Tensor) -> None:
            for parameter, own in zip(self._parameters, g, strict=True):
                parameter.grad = own
            self._optimizer.step()

    return Block(len(lanes), Lanes)


def separate(optimizer: Callable[..., Any], options: dict[str, Any]) -> Block:
    """One lane of an optimizer with statistics that all parameters share, so every seed has its own instance."""

    class Lane:
        def __init__(self, iterates: Tensor, stack: Stack) -> None:
            self._parameters = [nn.Parameter(iterate) for iterate in iterates[0]]
            self._optimizers = [optimizer([parameter], **options) for parameter in self._parameters]
            if hasattr(self._optimizers[0], "train"):
                for own in self._optimizers:
                    own.train()
                self.evaluated = self._evaluated

        def step(self, g: Tensor) -> None:
            for parameter, own, gradient in zip(self._parameters, self._optimizers, g[0], strict=True):
                parameter.grad = gradient.clone()
                own.step()

        def _evaluated(self) -> tuple[Tensor, Tensor]:
            for own in self._optimizers:
                own.eval()
            found = torch.stack([parameter.detach() for parameter in self._parameters]).unsqueeze(0)
            return found, found

    return Block(1, Lane)
