"""Small convex problems whose minimum is known: |x| for Figure 2, two stochastic ones on a box for the theorems."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradagrad_lab.stacked import StackedProblem
from gradagrad_lab.study import Floats

Loss = Literal["absolute", "logistic"]


@dataclass(frozen=True)
class AbsoluteValue(StackedProblem):
    """f(x) = |x|, without noise. An epoch is one step. Points are (lanes, seeds, 1, 1)."""

    metrics = ("x", "loss", "suboptimality")

    start_at: float = 3.0
    dtype: torch.dtype = torch.float32

    @property
    def label(self) -> str:
        return "|x|"

    def config(self) -> dict[str, Any]:
        return {"kind": "|x|", "start": self.start_at, "dtype": str(self.dtype).removeprefix("torch.")}

    def stack(self, lanes: int, seeds: Sequence[int]) -> "AbsoluteValueStack":
        return AbsoluteValueStack(self, lanes, len(seeds))


class AbsoluteValueStack:
    """Runs that are trained side by side from the same point."""

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
class BoxRegression:
    """minimise the mean over rows of |⟨a, x⟩ − b| or log(1 + exp(−b·⟨a, x⟩)) over the box [−1, 1]^d.

    "absolute" is least absolute deviations, convex and not smooth; "logistic" is convex and smooth. Features lie in
    [−1, 1] and each column reaches an end, so no gradient of a row has a coordinate beyond 1: G∞ = 1. The generating
    solution lies partly outside the box, so that the constraint is active at the minimum.
    """

    loss: Loss
    dimension: int = 10
    rows: int = 200
    seed: int = 0

    @functools.cached_property
    def data(self) -> tuple[Floats, Floats]:
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
    def minimum(self) -> tuple[float, Floats]:
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
                lambda x: (float(self.value(x)), self.gradient(x, np.arange(rows)).mean(axis=0)),
                np.zeros(dimension),
                jac=True,
                bounds=[(-1, 1)] * dimension,
                method="L-BFGS-B",
                options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 10_000},
            )
        x = np.clip(found.x[:dimension], -1, 1)
        return float(self.value(x)), x

    def value(self, x: Floats) -> Floats:
        """f at points (…, dimension): the mean over all rows."""
        features, targets = self.data
        score = x @ features.T
        losses = np.abs(score - targets) if self.loss == "absolute" else np.logaddexp(0, -targets * score)
        return losses.mean(axis=-1)

    def gradient(self, x: Floats, rows: NDArray[np.int64]) -> Floats:
        """The gradient of one row's loss for each point: x is (…, number of rows drawn, dimension) or one point."""
        features, targets = self.data[0][rows], self.data[1][rows]
        score = (x * features).sum(axis=-1)
        slope = np.sign(score - targets) if self.loss == "absolute" else -targets / (1 + np.exp(targets * score))
        return slope[..., None] * features
