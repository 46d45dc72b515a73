"""Settings × seeds of one small problem in one computation, with one param group per setting.

Nothing couples two runs, so each gives the curve that it would give alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from gradagrad_lab.average import AVERAGED, POWER, Average, has_average
from gradagrad_lab.methods import entry_of, evaluation_point, make, watch
from gradagrad_lab.study import Method, Run
from gradagrad_lab.train import Training


class Stack(Protocol):
    """Many runs of one problem side by side, ordered settings × seeds. All settings of a seed see the same
    mini-batches in the same order, as separate runs of that seed would."""

    steps_per_epoch: int

    def start(self) -> Tensor:
        """The starting points: (settings, seeds, rows, columns)."""
        ...

    def batches(self, epoch: int) -> Iterator[Any]:
        """The epoch's mini-batches, a function of seed and epoch alone: a resumed run sees the same ones."""
        ...

    def gradient(self, points: Tensor, batch: Any, out: Tensor) -> None:
        """Write the mini-batch gradient of every run into ``out``; all shaped as `start`."""
        ...

    def evaluate(self, points: Tensor) -> dict[str, Tensor]:
        """Measures over the whole training set, each (settings, seeds); NaN for a run that has diverged."""
        ...


class StackedProblem(ABC):
    """A problem whose runs are stacked; a size is a number of epochs, and everything is measured after each.

    A metric named "averaged …" is measured at an optimizer's own average, or at one like AutoGradaGrad's beside it.
    """

    metrics: tuple[str, ...] = ("loss",)

    @property
    @abstractmethod
    def label(self) -> str: ...

    @abstractmethod
    def config(self) -> dict[str, Any]: ...

    @abstractmethod
    def stack(self, lanes: int, seeds: Sequence[int]) -> Stack: ...

    def measures(self, method: Method, size: int) -> Mapping[str, int]:
        return dict.fromkeys((*self.metrics, *entry_of(method.optimizer).watched), size)

    def together(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Settings of one optimizer and length that lack the same seeds; peers, which keep scalars, one by one."""
        groups: dict[Any, list[Run]] = {}
        seeds: dict[Any, list[int]] = {}
        for run in runs:
            seeds.setdefault((run.method, run.size), []).append(run.seed)
        for place, run in enumerate(runs):
            alone = () if entry_of(run.method.optimizer).stackable else (place,)
            own = tuple(seeds[run.method, run.size])
            groups.setdefault((run.method.optimizer, run.size, own, alone), []).append(run)
        return list(groups.values())

    def cost(self, runs: Sequence[Run]) -> float:
        """Overhead per step and setting, and time per number moved."""
        settings = len({run.method for run in runs})
        stack = self.stack(1, [runs[0].seed])
        steps, numbers = runs[0].size * stack.steps_per_epoch, stack.start().numel()
        optimizer = runs[0].method.optimizer
        if not entry_of(optimizer).stackable:
            return len(runs) * steps * 400e-6
        return steps * (150e-6 + settings * (15e-6 if optimizer == "sgd" else 45e-6) + len(runs) * 2.5e-9 * numbers)

    def begin(self, runs: Sequence[Run]) -> Training:
        return Stacked(self, runs)


class Stacked(Training):
    """Settings × seeds in one computation. Every optimizer is the real class; the runs of a setting lie side by side in
    its one parameter."""

    def __init__(self, problem: StackedProblem, runs: Sequence[Run]) -> None:
        self.methods = list(dict.fromkeys(run.method for run in runs))
        self.seeds = list(dict.fromkeys(run.seed for run in runs))
        self._places = [(self.methods.index(run.method), self.seeds.index(run.seed)) for run in runs]
        if len(runs) != len(self.methods) * len(self.seeds):
            raise ValueError("stacked runs must be every method from every seed")
        self.name = runs[0].method.optimizer
        self.rounds = runs[0].size
        self.problem = problem
        self.stack = problem.stack(len(self.methods), self.seeds)
        self.points = self.stack.start()
        self.gradients = torch.empty_like(self.points)
        self.optimizer, self.parameters = self.make_optimizer(self.rounds * self.stack.steps_per_epoch)
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient.view(parameter.shape)
        self._history: list[dict[str, Tensor]] = []
        self._averages = [name for name in problem.metrics if name.startswith(AVERAGED)]
        self._beside = Average([self.points], POWER) if self._averages and not has_average(self.optimizer) else None

    def make_optimizer(self, steps: int) -> tuple[Optimizer, list[Parameter]]:
        return make(self.name, self.points, [dict(method.options) for method in self.methods], steps)

    def step(self, batch: Any) -> None:
        self.stack.gradient(self.points, batch, out=self.gradients)
        self.optimizer.step()
        if self._beside is not None:
            self._beside.update()

    def advance(self, number: int) -> None:
        for batch in self.stack.batches(number):
            self.step(batch)
        self._history.append(self.measure())

    def measure(self) -> dict[str, Tensor]:
        """All measures that the problem promises, each of shape (settings, seeds)."""
        with evaluation_point(self.optimizer):
            measured = self.stack.evaluate(self.points)
            if self._averages:
                with getattr(self._beside or self.optimizer, "averaged", nullcontext)():
                    at_average = self.stack.evaluate(self.points)
                measured |= {name: at_average[name.removeprefix(AVERAGED)] for name in self._averages}
        # A run that has seen inf or NaN stays diverged, even if this loss happens to be finite.
        broken = ~torch.isfinite(self.points.flatten(start_dim=2)).all(dim=2)
        for values in measured.values():
            values[broken] = torch.nan
        return measured | watch(self.name, self.optimizer, len(self.seeds))

    def curves(self) -> list[dict[str, list[float]]]:
        measured = {name: torch.stack([row[name] for row in self._history], dim=-1) for name in self._history[0]}
        return [{name: values[place].tolist() for name, values in measured.items()} for place in self._places]
