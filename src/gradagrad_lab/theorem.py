"""Runs for the paper's Theorem 2: a convex problem on a box, the averaged iterate, and the sum α watched on the way.

Apart from `run.py` because the theorem asks for what no experiment does: a projection, an average of all iterates and
checkpoints at powers of √2.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import Parameter, ParameterList
from torch.optim.swa_utils import AveragedModel

from gradagrad import GradaGrad, LargeFirstStepWarning
from gradagrad.projections import Box
from gradagrad_lab.context import Bar
from gradagrad_lab.problems.toy import AbsoluteValue, BoxRegression
from gradagrad_lab.records import Record

RHO = 2.0


@dataclass(frozen=True)
class Trial:
    """One problem under the theorem's conditions: G∞ and D∞ known, γ capped at D∞, iterates kept in [−1, 1]^d."""

    problem: AbsoluteValue | BoxRegression
    initial: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int
    momentum: float = 0.0

    def config(self) -> dict[str, Any]:
        return {
            "experiment": "bound",
            "problem": self.problem.config(),
            "initial": list(self.initial),
            "steps": self.steps,
            "momentum": self.momentum,
            "rho": RHO,
            "gradient bound": self.problem.gradient_bound,
            "diameter": self.problem.diameter,
        }

    @property
    def checkpoints(self) -> list[int]:
        """Numbers of iterates averaged, n + 1: powers of √2, and the last step."""
        powers = {round(2 ** (half / 2)) for half in range(math.floor(2 * math.log2(self.steps)) + 1)}
        return sorted(powers | {self.steps})


def train(trial: Trial, bar: Bar | None = None) -> Record:
    """All seeds and all γ₀ in one tensor; the theorem's own optimizer and torch's own average."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        # A first step beyond the box ends on its edge: nothing to warn of here.
        warnings.simplefilter("ignore", LargeFirstStepWarning)
        curves = _follow(trial, bar)
    return Record(trial.config(), list(trial.seeds), "done", curves, seconds=time.perf_counter() - started)


def _follow(trial: Trial, bar: Bar | None) -> dict[str, Any]:
    problem = trial.problem
    stack: Any = problem.stack(len(trial.initial), trial.seeds)
    points = stack.start()
    gradients = torch.empty_like(points)
    lanes = [Parameter(lane) for lane in points]  # sharing the memory of `points`
    for lane, gradient in zip(lanes, gradients, strict=True):
        lane.grad = gradient
    optimizer = GradaGrad(
        [{"params": [lane], "lr": initial} for lane, initial in zip(lanes, trial.initial, strict=True)],
        rho=RHO,
        momentum=trial.momentum,
        grad_bound=problem.gradient_bound,
        gamma_max=problem.diameter,
        projection=Box(-1.0, 1.0),
    )
    everything = ParameterList([Parameter(points)])
    average = AveragedModel(everything)
    start_gap = _gap(stack, points)
    wanted = set(trial.checkpoints)
    gaps: list[torch.Tensor] = []
    sums: list[list[float]] = []
    numerators: list[list[float]] = []
    done = epoch = 0
    while done < trial.steps:
        for batch in stack.batches(epoch):
            average.update_parameters(everything)  # x_k, before the step that leaves it
            stack.gradient(points, batch, out=gradients)
            optimizer.step()
            done += 1
            if done in wanted:
                gaps.append(_gap(stack, average.module.get_parameter("0").detach()))
                states = [optimizer.state[lane] for lane in lanes]
                sums.append([float(state["accumulator"].max()) for state in states])
                numerators.append(
                    [
                        initial * float(state["growth"].max())
                        for initial, state in zip(trial.initial, states, strict=True)
                    ]
                )
            if bar is not None and done % 64 == 0:
                bar.advance(64)
            if done == trial.steps:
                break
        epoch += 1
    return {
        "iterates": trial.checkpoints,
        "start": float(start_gap.mean()),
        "suboptimality": torch.stack(gaps, dim=-1).tolist(),  # (γ₀, seeds, checkpoints)
        "largest sum": torch.tensor(sums, dtype=torch.float64).T.tolist(),  # (γ₀, checkpoints)
        "largest numerator": torch.tensor(numerators, dtype=torch.float64).T.tolist(),
    }


def _gap(stack: Any, points: torch.Tensor) -> torch.Tensor:
    return stack.evaluate(points)["suboptimality"]


def bound(config: dict[str, Any], start: float, iterates: Any, initial: float, *, corrected: bool) -> Any:
    """Theorem 2's right-hand side after n + 1 = ``iterates``; corrected, its second term carries √(1 + ρ) more.

    The proof bounds the sum by (n + 1)·G∞²; but v reaches (1 + ρ)·G∞² where gradients alternate in sign.
    """
    rho, momentum, diameter = config["rho"], config["momentum"], config["diameter"]
    dimension = config["problem"].get("dimension", 1)
    first = (2 * momentum / (1 - momentum) + rho) * start / (2 * iterates)
    second = 3 * math.sqrt(2 + rho) * dimension * config["gradient bound"] * diameter**2 / (initial * iterates**0.5)
    return first + second * (math.sqrt(1 + rho) if corrected else 1.0)


@dataclass(frozen=True)
class Measured:
    """One γ₀ of one record: curves over the number of averaged iterates."""

    name: str
    momentum: float
    initial: float
    iterates: np.ndarray
    gaps: np.ndarray  # (seeds, checkpoints)
    printed: np.ndarray
    corrected: np.ndarray
    sums: np.ndarray  # the largest α over (n + 1)·G∞²
    numerator: float

    @property
    def mean(self) -> np.ndarray:
        return self.gaps.mean(axis=0)

    @property
    def error(self) -> np.ndarray:
        """Standard error over seeds; 0 for the runs without noise."""
        seeds = self.gaps.shape[0]
        return self.gaps.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(self.gaps.shape[1])

    @property
    def closest(self) -> tuple[float, float]:
        """How many times the measured value, two standard errors added, fits into the printed and corrected bound."""
        high = self.mean + 2 * self.error
        return float((self.printed / high).min()), float((self.corrected / high).min())

    @property
    def rate(self) -> tuple[float, float]:
        """Exponent of n fitted over the later half of the logarithmic scale, seed by seed: mean and standard error."""
        late = self.iterates >= max(16.0, self.iterates[-1] ** 0.5)
        slopes = [np.polyfit(np.log(self.iterates[late]), np.log(gap[late]), 1)[0] for gap in self.gaps]
        error = float(np.std(slopes, ddof=1) / np.sqrt(len(slopes))) if len(slopes) > 1 else 0.0
        return float(np.mean(slopes)), error


def read(name: str, record: Record) -> list[Measured]:
    """The curves of a record, one per γ₀."""
    config, curves = record.config, record.curves
    iterates = np.array(curves["iterates"], dtype=float)
    return [
        Measured(
            name,
            config["momentum"],
            initial,
            iterates,
            np.array(curves["suboptimality"][place]),
            bound(config, curves["start"], iterates, initial, corrected=False),
            bound(config, curves["start"], iterates, initial, corrected=True),
            np.array(curves["largest sum"][place]) / (iterates * config["gradient bound"] ** 2),
            curves["largest numerator"][place][-1],
        )
        for place, initial in enumerate(config["initial"])
    ]
