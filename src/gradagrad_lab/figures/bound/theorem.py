"""Runs for the paper's Theorem 3: a convex problem on a box, the averaged iterate, and the sum α during training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter, ParameterList
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from gradagrad import GradaGrad
from gradagrad.projections import Box
from gradagrad_lab.problems.toy import AbsoluteValue, BoxRegression
from gradagrad_lab.stacked import Stack, Stacked, StackedProblem
from gradagrad_lab.study import Floats, Frame, Method, Run

SUBOPTIMALITY, SUM, NUMERATOR = "suboptimality", "largest sum", "largest numerator"


FORMS = ("printed", "safe")


def constant(rho: float, form: str) -> float:
    """The factor of d·G∞·D∞²/(γ₀·√(n+1)) as printed; or with √(1+ρ) more and 1 + ρ for √(2+ρ), which is safe for the
    sum α and where γ has reached D∞."""
    root = math.sqrt(2 + rho)
    return 3 * root if form == "printed" else 3 * max(root, 1 + rho) * math.sqrt(1 + rho)


def checkpoints(steps: int) -> list[int]:
    """Numbers of iterates averaged, n + 1: powers of √2, and the last step."""
    return sorted({round(2 ** (half / 2)) for half in range(math.floor(2 * math.log2(steps)) + 1)} | {steps})


@dataclass(frozen=True)
class OnBox(StackedProblem):
    """A problem under the theorem's conditions: G∞ and D∞ known, γ capped at D∞, iterates kept in [−1, 1]^d. A size is
    a number of steps; a method's options are γ₀, ρ and β."""

    problem: AbsoluteValue | BoxRegression
    name: str

    @property
    def label(self) -> str:
        return self.problem.label

    def config(self) -> dict[str, Any]:
        bounds = {"gradient bound": self.problem.gradient_bound, "diameter": self.problem.diameter}
        return {"kind": "Theorem 3", "problem": self.problem.config(), **bounds}

    def measures(self, method: Method, size: int) -> Mapping[str, int]:
        return dict.fromkeys((SUBOPTIMALITY, SUM, NUMERATOR), len(checkpoints(size)))

    def stack(self, lanes: int, seeds: Sequence[int]) -> Stack:
        return self.problem.stack(lanes, seeds)

    def cost(self, runs: Sequence[Run]) -> float:
        return runs[0].size * (100e-6 + 60e-6 * len({run.method for run in runs}))

    def begin(self, runs: Sequence[Run]) -> "AveragedRuns":
        return AveragedRuns(self, runs)

    @property
    def start(self) -> float:
        """f(x₀) − f*."""
        stack = self.stack(1, [0])
        return float(stack.evaluate(stack.start())[SUBOPTIMALITY].mean())

    def bound(self, method: Method, iterates: Any, form: str = "printed") -> Any:
        """Theorem 3's right-hand side after n + 1 = ``iterates``, with one of the constants of `FORMS`."""
        momentum, rho = method["momentum"], method["rho"]
        dimension = self.problem.config().get("dimension", 1)
        first = (2 * momentum / (1 - momentum) + rho) * self.start / (2 * iterates)
        scale = dimension * self.problem.gradient_bound * self.problem.diameter**2
        return first + constant(rho, form) * scale / (method["lr"] * iterates**0.5)


class AveragedRuns(Stacked):
    """All settings and seeds in one computation: the theorem's own optimizer and torch's own average."""

    def __init__(self, problem: OnBox, runs: Sequence[Run]) -> None:
        self._problem = problem.problem
        super().__init__(problem, runs)
        self._steps = runs[0].size
        self.rounds = -(-self._steps // self.stack.steps_per_epoch)
        self._wanted = set(checkpoints(self._steps))
        self._everything = ParameterList([Parameter(self.points)])
        self._average = AveragedModel(self._everything)
        self._done = 0

    def make_optimizer(self, steps: int) -> tuple[Optimizer, list[Parameter]]:
        lanes = [Parameter(lane) for lane in self.points]  # sharing the memory of `points`
        groups = [{"params": [lane], **dict(method.options)} for lane, method in zip(lanes, self.methods, strict=True)]
        bound, cap = self._problem.gradient_bound, self._problem.diameter
        return GradaGrad(groups, grad_bound=bound, gamma_max=cap, projection=Box(-1.0, 1.0)), lanes

    def advance(self, number: int) -> None:
        for batch in self.stack.batches(number):
            if self._done == self._steps:
                break
            self._average.update_parameters(self._everything)  # x_k, before the step that leaves it
            self.step(batch)
            self._done += 1
            if self._done in self._wanted:
                self._history.append(self.measure())

    def measure(self) -> dict[str, Tensor]:
        average = self._average.module.get_parameter("0").detach()
        states = [self.optimizer.state[lane] for lane in self.parameters]
        initial = torch.tensor([method["lr"] for method in self.methods], dtype=torch.float64)[:, None]
        sums, growths = (
            torch.stack([state[key].flatten(1).amax(dim=1) for state in states]) for key in ("accumulator", "growth")
        )
        return {SUBOPTIMALITY: self.stack.evaluate(average)[SUBOPTIMALITY], SUM: sums, NUMERATOR: initial * growths}


@dataclass(frozen=True)
class Measured:
    """One setting on one problem: curves over the number of averaged iterates."""

    name: str
    rho: float
    momentum: float
    initial: float
    iterates: Floats
    gaps: Floats  # (seeds, checkpoints)
    bounds: dict[str, Floats]
    sums: Floats  # the largest α over (n + 1)·G∞²
    numerator: float

    @property
    def mean(self) -> Floats:
        return self.gaps.mean(axis=0)

    @property
    def error(self) -> Floats:
        """Standard error over seeds; 0 for the runs without noise."""
        seeds = self.gaps.shape[0]
        return self.gaps.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(self.gaps.shape[1])

    def closest(self, form: str = "printed") -> float:
        """How many times the measured value, two standard errors added, fits into the bound."""
        return float((self.bounds[form] / (self.mean + 2 * self.error)).min())

    @property
    def rate(self) -> tuple[float, float]:
        """Exponent of n fitted over the later half of the logarithmic scale, seed by seed: mean and standard error."""
        late = self.iterates >= max(16.0, self.iterates[-1] ** 0.5)
        slopes = [np.polyfit(np.log(self.iterates[late]), np.log(gap[late]), 1)[0] for gap in self.gaps]
        error = float(np.std(slopes, ddof=1) / np.sqrt(len(slopes))) if len(slopes) > 1 else 0.0
        return float(np.mean(slopes)), error


def read(frame: Frame, problem: OnBox, method: Method, seeds: Sequence[int], steps: int) -> Measured:
    """One setting's curves, from its records."""
    iterates = np.array(checkpoints(steps), dtype=float)
    gaps, sums, numerators = (
        frame.curves(problem, method, seeds, steps, measure) for measure in (SUBOPTIMALITY, SUM, NUMERATOR)
    )
    return Measured(
        problem.name,
        method["rho"],
        method["momentum"],
        method["lr"],
        iterates,
        gaps,
        {form: problem.bound(method, iterates, form) for form in FORMS},
        sums.max(axis=0) / (iterates * problem.problem.gradient_bound**2),
        float(numerators[:, -1].max()),
    )
