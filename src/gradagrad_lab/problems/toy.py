"""Small convex problems whose minimum is known: |x| for Figure 2, two stochastic ones on a box for the theorem.

Points are (lanes, seeds, 1, dimension). An epoch of |x| is one step; on the box it is as many single samples as there
are rows, drawn with replacement, as the theorem's expectation demands.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from gradagrad_lab.stacked import StackedProblem

Loss = Literal["absolute", "logistic"]


@dataclass(frozen=True)
class AbsoluteValue(StackedProblem):
    """f(x) = |x|, without noise."""

    metrics = ("x", "loss", "suboptimality")

    start_at: float = 3.0
    dtype: torch.dtype = torch.float32

    gradient_bound = 1.0
    diameter = 2.0
    """The width of the box [−1, 1], where the theorem is tested."""

    @property
    def label(self) -> str:
        return "|x|"

    def config(self) -> dict[str, Any]:
        return {"kind": "|x|", "start": self.start_at, "dtype": str(self.dtype).removeprefix("torch.")}

    def stack(self, lanes: int, seeds: Sequence[int]) -> "AbsoluteValueStack":
        return AbsoluteValueStack(self, lanes, len(seeds))


class AbsoluteValueStack:
    """Runs side by side, all from the same point."""

    steps_per_epoch = 1

    def __init__(self, problem: AbsoluteValue, lanes: int, seeds: int) -> None:
        self._start = torch.full((lanes, seeds, 1, 1), problem.start_at, dtype=problem.dtype)

    def start(self) -> Tensor:
        return self._start.clone()

    def batches(self, epoch: int) -> Iterator[None]:
        yield None

    def gradient(self, points: Tensor, batch: None, out: Tensor) -> None:
        torch.sign(points, out=out)

    def evaluate(self, points: Tensor) -> dict[str, Tensor]:
        x = points.flatten(2).squeeze(2).clone()  # the points go on moving
        return {"x": x, "loss": x.abs(), "suboptimality": x.abs()}


@dataclass(frozen=True)
class BoxRegression(StackedProblem):
    """minimise the mean over rows of ℓ(⟨a, x⟩ − b) or ℓ(b·⟨a, x⟩) over the box [−1, 1]^d, one random row per step.

    "absolute" is least absolute deviations, convex and not smooth; "logistic" is convex and smooth. Features lie in
    [−1, 1] and each column reaches an end, so no stochastic gradient has a coordinate beyond 1: G∞ = 1. The generating
    solution lies partly outside the box, so that the constraint is active at the minimum.
    """

    metrics = ("loss", "suboptimality", "outside the box")

    loss: Loss
    dimension: int = 10
    rows: int = 200
    seed: int = 0
    dtype: torch.dtype = torch.float64

    gradient_bound = 1.0
    diameter = 2.0
    """The box's width: no point of it is farther than this from the minimum in any coordinate."""

    @property
    def label(self) -> str:
        return {"absolute": "least absolute deviations", "logistic": "logistic regression"}[self.loss] + " on a box"

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.label,
            "dimension": self.dimension,
            "rows": self.rows,
            "data seed": self.seed,
            "dtype": str(self.dtype).removeprefix("torch."),
        }

    def stack(self, lanes: int, seeds: Sequence[int]) -> "BoxRegressionStack":
        return BoxRegressionStack(self, lanes, seeds)

    @functools.cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Features (rows, dimension) and targets (rows,)."""
        random = np.random.default_rng(self.seed)
        features = random.uniform(-1, 1, (self.rows, self.dimension))
        features /= np.abs(features).max(axis=0)
        solution = random.uniform(-1.6, 1.6, self.dimension)
        score = features @ solution
        if self.loss == "absolute":
            return features, score + random.laplace(scale=0.5, size=self.rows)
        return features, np.where(random.random(self.rows) < 1 / (1 + np.exp(-3 * score)), 1.0, -1.0)

    @functools.cached_property
    def minimum(self) -> tuple[float, np.ndarray]:
        """The least value over the box and where it is, from a linear program or from a bounded quasi-Newton method."""
        from scipy import optimize

        features, targets = self.data
        rows, dimension = features.shape
        if self.loss == "absolute":
            # Variables x and t with −t ≤ Ax − b ≤ t; minimise the mean of t.
            cost = np.concatenate([np.zeros(dimension), np.full(rows, 1 / rows)])
            one = np.eye(rows)
            found = optimize.linprog(
                cost,
                A_ub=np.block([[features, -one], [-features, -one]]),
                b_ub=np.concatenate([targets, -targets]),
                bounds=[(-1, 1)] * dimension + [(0, None)] * rows,
            )
        else:
            found = optimize.minimize(
                lambda x: (self.value(x), self.gradients(x).mean(axis=0)),
                np.zeros(dimension),
                jac=True,
                bounds=[(-1, 1)] * dimension,
                method="L-BFGS-B",
                options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 10_000},
            )
        x = np.clip(found.x[:dimension], -1, 1)
        return self.value(x), x

    def value(self, x: np.ndarray) -> float:
        """f(x), the expected loss of a random row."""
        features, targets = self.data
        score = features @ x
        losses = np.abs(score - targets) if self.loss == "absolute" else np.logaddexp(0, -targets * score)
        return float(losses.mean())

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(rows, dimension): the gradient of every row's loss at x."""
        features, targets = self.data
        score = features @ x
        slope = np.sign(score - targets) if self.loss == "absolute" else -targets / (1 + np.exp(targets * score))
        return slope[:, None] * features


class BoxRegressionStack:
    """Lanes × seeds runs, all starting in the same corner of the box, each seed drawing its own rows."""

    def __init__(self, problem: BoxRegression, lanes: int, seeds: Sequence[int]) -> None:
        self._problem = problem
        self._shape = (lanes, len(seeds), 1, problem.dimension)
        self.seeds = tuple(seeds)
        features, targets = problem.data
        self._features = torch.as_tensor(features, dtype=problem.dtype)
        self._targets = torch.as_tensor(targets, dtype=problem.dtype)
        self.steps_per_epoch = problem.rows

    def start(self) -> Tensor:
        return torch.ones(self._shape, dtype=self._problem.dtype)

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """Row numbers, one per seed."""
        draws = [np.random.default_rng([seed, epoch]) for seed in self.seeds]
        rows = np.stack([draw.integers(self._problem.rows, size=self.steps_per_epoch) for draw in draws], axis=1)
        yield from torch.as_tensor(rows)

    def gradient(self, points: Tensor, batch: Tensor, out: Tensor) -> None:
        features = self._features[batch]  # (seeds, dimension)
        targets = self._targets[batch]
        score = (points.squeeze(2) * features).sum(-1)  # (lanes, seeds)
        if self._problem.loss == "absolute":
            slope = torch.sign(score - targets)
        else:
            slope = -targets * torch.sigmoid(-targets * score)
        torch.mul(slope[..., None, None], features[:, None, :], out=out)

    def evaluate(self, points: Tensor) -> dict[str, Tensor]:
        """f(x) − f* and the largest violation of the box."""
        score = points.squeeze(2) @ self._features.T  # (lanes, seeds, rows)
        if self._problem.loss == "absolute":
            losses = (score - self._targets).abs()
        else:
            losses = torch.nn.functional.softplus(-self._targets * score)
        value = losses.mean(-1)
        return {
            "loss": value,
            "suboptimality": value - self._problem.minimum[0],
            "outside the box": (points.abs() - 1).clamp(min=0).amax((2, 3)),
        }
