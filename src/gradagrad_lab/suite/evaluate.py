"""One run: one problem, one seed, one optimizer, a fixed number of steps; what is measured at its end."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from gradagrad_lab.problems.training import TrainingProblem
from gradagrad_lab.suite.catalogue import problem_of

Factory = Callable[[list[Parameter]], Optimizer]
# A run has diverged when a number is not finite or the final loss exceeds this many times the loss at the start.
DIVERGED = 10.0
_WINDOWS = 40


@dataclass
class Outcome:
    """What a run ends with. ``averaged`` are the same measures at the averaged iterate.

    ``curve``: mini-batch loss, mean over each fortieth of the run. ``gamma``: AutoGradaGrad's γ at the end.
    ``seconds``: of one core, which other work on the machine hardly changes.
    """

    initial: float
    train: float
    averaged_train: float
    held_out: dict[str, float] = field(default_factory=dict)
    averaged_held_out: dict[str, float] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)
    gamma: float = math.nan
    seconds: float = 0.0

    @property
    def diverged(self) -> bool:
        return has_diverged(self.train, self.initial)

    @property
    def averaged_diverged(self) -> bool:
        return has_diverged(self.averaged_train, self.initial)


def has_diverged(loss: float, initial: float) -> bool:
    """Not finite, or more than `DIVERGED` times the loss at the start."""
    return not math.isfinite(loss) or loss > DIVERGED * abs(initial)


class Average:
    """x̄ += 9/(k + 8)·(x − x̄), kept beside any optimizer: the average that AutoGradaGrad and DoG use."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._average: list[Tensor] = [parameter.detach().clone() for parameter in parameters]
        self._steps = 0

    @torch.no_grad()
    def update(self) -> None:
        self._steps += 1
        torch._foreach_lerp_(self._average, self._parameters, 9.0 / (self._steps + 8))

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The averages in place of the parameters."""
        kept = [parameter.detach().clone() for parameter in self._parameters]
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, self._average)
        yield
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, kept)


def evaluate(
    problem: str | TrainingProblem,
    factory: Factory,
    seed: int = 0,
    *,
    steps: int | None = None,
    data_dir: Path | None = None,
) -> Outcome:
    """Train a problem by name with ``factory(parameters)`` and measure it, at x and at the averaged x̄.

    An optimizer with its own ``averaged()`` is measured at that, every other at an average kept beside it (a
    Schedule-Free one at its evaluation point both times).
    """
    chosen = problem if isinstance(problem, TrainingProblem) else problem_of(problem).problem
    count = steps or chosen.steps
    task = chosen.make(seed, data_dir, count)
    initial = task.full_train_loss()
    started = time.process_time()
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # γ₀ = 1 on a net is warned about: here it is done on purpose
        torch.manual_seed(seed)
        optimizer: Any = factory(task.parameters)
        if hasattr(optimizer, "train"):  # Schedule-Free refuses to step before it is told that this is training
            optimizer.train()
        average = None if hasattr(optimizer, "averaged") or hasattr(optimizer, "eval") else Average(task.parameters)
        curve, window = [], []
        for step in range(count):
            for parameter in task.parameters:
                parameter.grad = None
            loss = task.loss_on(step)
            loss.backward()
            optimizer.step()
            if average is not None:
                average.update()
            window.append(loss.detach())
            if (step + 1) * _WINDOWS // count > step * _WINDOWS // count:
                curve.append(float(torch.stack(window).mean()))
                window.clear()
                if not math.isfinite(curve[-1]):
                    break
    outcome = Outcome(initial, math.nan, math.nan, curve=curve)
    if curve and math.isfinite(curve[-1]):
        _measure(outcome, task, optimizer, average)
    outcome.seconds = time.process_time() - started
    return outcome


def _measure(outcome: Outcome, task: Any, optimizer: Any, average: Average | None) -> None:
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    outcome.train, outcome.held_out = task.full_train_loss(), task.held_out()
    outcome.averaged_train, outcome.averaged_held_out = outcome.train, outcome.held_out
    if not hasattr(optimizer, "eval"):
        with (average if average is not None else optimizer).averaged():
            outcome.averaged_train, outcome.averaged_held_out = task.full_train_loss(), task.held_out()
    if hasattr(optimizer, "diagnostics"):
        outcome.gamma = float(getattr(optimizer.diagnostics(), "gamma", math.nan))
