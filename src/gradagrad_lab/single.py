"""One model under one optimizer in an ordinary training loop."""

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from gradagrad_lab.average import AVERAGED, POWER, Average, has_average
from gradagrad_lab.methods import Entry, evaluation_point
from gradagrad_lab.problems.training import ACCURACY, LOSS, Task
from gradagrad_lab.train import Training

ROUNDS = 40
MEASURES: dict[str, int] = {
    "initial loss": 1,
    "mini-batch loss": ROUNDS,
    "gamma": 1,
    **{f"{where}{name}": 1 for where in ("", AVERAGED) for name in (LOSS, f"held-out {LOSS}", f"held-out {ACCURACY}")},
}
"""What a run records, and how many numbers of each; NaN if there is none or the run has diverged."""


class Steps(Protocol):
    """A model to train: parameters, and the loss of each mini-batch."""

    @property
    def parameters(self) -> list[Parameter]: ...

    def loss_on(self, step: int) -> Tensor: ...


def follow(task: Steps, optimizers: Sequence[Any], steps: Iterable[int]) -> Iterator[Tensor]:
    """The only loop over mini-batches. Gives the loss of every step, after the step."""
    parameters = task.parameters
    for step in steps:
        for parameter in parameters:
            parameter.grad = None
        loss = task.loss_on(step)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        yield loss.detach()


class Single(Training):
    """One model under one optimizer, measured at its last iterate and at the average of its iterates.

    Every optimizer gets the same average, with weights k^``power``. AutoGradaGrad is measured at its own average.
    Schedule-Free is measured at its evaluation point both times, because that is already an average.
    """

    rounds = ROUNDS

    def __init__(
        self, task: Task, entry: Entry, options: Mapping[str, Any], seed: int, steps: int, power: int = POWER
    ) -> None:
        self.task, self.steps = task, steps
        self.initial = task.full_train_loss()
        self.broken = False
        self._losses: list[float] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.optimizer: Any = entry.build(task.parameters, steps, **options)
            self._random = torch.get_rng_state()
        self._average = None if has_average(self.optimizer) else Average(task.parameters, power)
        self._steps = follow(task, [self.optimizer], range(steps))

    def advance(self, number: int) -> None:
        begin, end = number * self.steps // self.rounds, (number + 1) * self.steps // self.rounds
        losses: list[Tensor] = []
        if not self.broken and begin < end:
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(self._random)
                for loss in itertools.islice(self._steps, end - begin):
                    losses.append(loss)
                    if self._average is not None:
                        self._average.update()
                self._random = torch.get_rng_state()
        before = self._losses[-1] if self._losses else self.initial
        mean = float(torch.stack(losses).mean()) if losses else (math.nan if self.broken else before)
        self.broken = self.broken or (bool(losses) and not math.isfinite(mean))
        self._losses.append(mean)

    def curves(self) -> list[dict[str, list[float]]]:
        """Losses at the start and the end, held-out measures, mini-batch losses, and AutoGradaGrad's mean γ."""
        points = {name: [math.nan] * count for name, count in MEASURES.items()}
        points |= {"initial loss": [self.initial], "mini-batch loss": self._losses}
        if self.broken:
            return [points]
        with evaluation_point(self.optimizer):
            points |= self._measured("")
            averaged = getattr(self._average or self.optimizer, "averaged", contextlib.nullcontext)
            with averaged():
                points |= self._measured(AVERAGED)
        if means := [state["common_gamma"] for state in self.optimizer.state.values() if "common_gamma" in state]:
            points["gamma"] = [float(means[0])]
        return [points]

    def _measured(self, where: str) -> dict[str, list[float]]:
        train, held_out = self.task.full_train_loss(), self.task.held_out()
        return {f"{where}{LOSS}": [train], **{f"{where}held-out {name}": [value] for name, value in held_out.items()}}


# A run has diverged when a number is not finite or the final loss exceeds this many times the loss at the start.
DIVERGED = 10.0


@dataclass
class Outcome:
    """The final measures of a run. ``averaged`` are the same measures at the averaged iterate.

    ``curve``: mini-batch loss, mean over each fortieth of the run. ``gamma``: the mean of AutoGradaGrad's γ at the end.
    """

    initial: float
    train: float
    averaged_train: float
    held_out: dict[str, float] = field(default_factory=dict)
    averaged_held_out: dict[str, float] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)
    gamma: float = math.nan

    @property
    def diverged(self) -> bool:
        return has_diverged(self.train, self.initial)


def has_diverged(loss: float, initial: float) -> bool:
    """Not finite, or more than `DIVERGED` times the loss at the start."""
    return not math.isfinite(loss) or loss > DIVERGED * abs(initial)


def loss_of(outcome: Outcome, averaged: bool) -> float:
    """The final training loss; at most `DIVERGED` times the loss at the start, which is what a diverged run gets."""
    value = outcome.averaged_train if averaged else outcome.train
    limit = DIVERGED * abs(outcome.initial)
    return min(value, limit) if math.isfinite(value) else limit


def outcome_of(curves: Mapping[str, Sequence[float]]) -> Outcome:
    """The result of a run."""
    held_out, averaged = (
        {name: value for name in (LOSS, ACCURACY) if not math.isnan(value := curves[f"{where}held-out {name}"][0])}
        for where in ("", AVERAGED)
    )
    initial, last, mean = (curves[name][0] for name in ("initial loss", LOSS, AVERAGED + LOSS))
    return Outcome(initial, last, mean, held_out, averaged, list(curves["mini-batch loss"]), curves["gamma"][0])
