"""One model under one optimizer in an ordinary training loop, for the suite."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from gradagrad_lab.average import AVERAGED, Average, has_average
from gradagrad_lab.methods import evaluation_point
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


class Single(Training):
    """One model under one optimizer, measured at its last iterate and at the average of its iterates.

    Every optimizer gets the same average. AutoGradaGrad is measured at its own average. Schedule-Free is measured at
    its evaluation point both times, because that is already an average.
    """

    rounds = ROUNDS

    def __init__(self, task: Task, factory: Callable[[list[Parameter]], Optimizer], seed: int, steps: int) -> None:
        self.task, self.steps = task, steps
        self.initial = task.full_train_loss()
        self.broken = False
        self._losses: list[float] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.optimizer: Any = factory(task.parameters)
            self._random = torch.get_rng_state()
        if hasattr(self.optimizer, "train"):  # Schedule-Free refuses to step before train() is called
            self.optimizer.train()
        self._average = None if has_average(self.optimizer) else Average(task.parameters)

    def advance(self, number: int) -> None:
        begin, end = number * self.steps // self.rounds, (number + 1) * self.steps // self.rounds
        losses: list[Tensor] = []
        if not self.broken and begin < end:
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(self._random)
                losses = [self._step(step) for step in range(begin, end)]
                self._random = torch.get_rng_state()
        before = self._losses[-1] if self._losses else self.initial
        mean = float(torch.stack(losses).mean()) if losses else (math.nan if self.broken else before)
        self.broken = self.broken or (bool(losses) and not math.isfinite(mean))
        self._losses.append(mean)

    def _step(self, number: int) -> Tensor:
        for parameter in self.task.parameters:
            parameter.grad = None
        loss = self.task.loss_on(number)
        loss.backward()
        self.optimizer.step()
        if self._average is not None:
            self._average.update()
        return loss.detach()

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
