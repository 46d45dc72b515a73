"""Logistic regression with bias, in two readings of the paper's "binary"; a row's class is the arg max.

One-vs-rest: a binary logistic loss per class; the mean over rows of the sum over classes, so that every class is its
own binary problem. Soft-max: one multinomial loss, the reading under which D-Adaptation's paper, by the same first
author, can be reproduced. Gradients are written out: X'(p − y) needs two matrix products, which then serve all lanes of
a seed at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from gradagrad_lab.average import POWER
from gradagrad_lab.data import Dataset
from gradagrad_lab.stacked import StackedProblem

Loss = Literal["one-vs-rest", "softmax"]
BATCH = 16
AVERAGED = "averaged accuracy"
"""The accuracy at the average of the iterates."""
_BLOCK = 1024  # rows shuffled at a time; small enough to stay in cache until they are used
_CHUNK = 256  # rows evaluated at a time
_PRODUCT_CLASSES = 100  # 2**-100 is still a normal float32


@dataclass(frozen=True)
class Logistic(StackedProblem):
    """The problem of Figure 3 on one data set."""

    metrics = ("accuracy", "loss", AVERAGED)

    data: Dataset
    batch: int = BATCH
    dtype: torch.dtype = torch.float32
    loss: Loss = "one-vs-rest"

    @property
    def label(self) -> str:
        return self.data.label

    def config(self) -> dict[str, Any]:
        return {
            "kind": f"{self.loss} logistic regression",
            "data": self.data.label,
            "sha256": self.data.sha256,
            "rows": self.data.rows,
            "features": self.data.columns,
            "classes": self.data.classes,
            "batch": self.batch,
            "dtype": str(self.dtype).removeprefix("torch."),
            "weights of the average": POWER,
        }

    def stack(self, lanes: int, seeds: Sequence[int]) -> "LogisticStack":
        return LogisticStack(self, lanes, seeds)


@dataclass(frozen=True)
class Batch:
    """One mini-batch of every seed: features (seeds, rows, columns) and one-hot targets (seeds, classes, rows)."""

    features: Tensor
    targets: Tensor


class LogisticStack:
    """Lanes × seeds runs; the points are (lanes, seeds, classes, columns), the last column being the bias."""

    def __init__(self, problem: Logistic, lanes: int, seeds: Sequence[int]) -> None:
        data = problem.data
        self.lanes = lanes
        self.seeds = tuple(seeds)
        self.batch = problem.batch
        self.softmax = problem.loss == "softmax"
        self.classes = data.classes
        features = torch.as_tensor(data.features, dtype=problem.dtype)
        self._features = torch.cat([features, torch.ones(data.rows, 1, dtype=problem.dtype)], dim=1).contiguous()
        self._targets = torch.as_tensor(data.targets)
        self._one_hot = torch.nn.functional.one_hot(self._targets, data.classes).to(problem.dtype)
        self.rows, self.columns = self._features.shape
        self.steps_per_epoch = -(-self.rows // self.batch)
        self._scores: dict[int, Tensor] = {}
        wide = (len(self.seeds), lanes, self.classes * self.columns)
        self._points_by_seed = self._features.new_empty(wide)
        self._gradients_by_seed = self._features.new_empty(wide)

    def start(self) -> Tensor:
        """The origin: a convex problem needs no random start, so seeds differ in the order of the rows alone."""
        return self._features.new_zeros(self.lanes, len(self.seeds), self.classes, self.columns)

    def batches(self, epoch: int) -> Iterator[Batch]:
        orders = torch.stack([row_order(seed, epoch, self.rows) for seed in self.seeds])
        # Whole batches per block, so that block boundaries are batch boundaries.
        block = max(_BLOCK // self.batch, 1) * self.batch
        for begin in range(0, self.rows, block):
            chosen = orders[:, begin : begin + block]
            features = self._features[chosen]
            targets = self._one_hot[chosen].transpose(1, 2).contiguous()
            for first in range(0, chosen.shape[1], self.batch):
                last = first + self.batch
                yield Batch(features[:, first:last], targets[:, :, first:last])

    def gradient(self, points: Tensor, batch: Batch, out: Tensor) -> None:
        seeds, rows, columns = batch.features.shape
        # One matrix product per seed serves all its lanes, which needs the lanes of a seed side by side; the
        # optimizers' param groups need the seeds of a lane side by side. Two copies per step are the cheapest way out.
        weights = self._points_by_seed
        weights.copy_(points.view(self.lanes, seeds, -1).transpose(0, 1))
        weights = weights.view(seeds, self.lanes * self.classes, columns)
        scores = self._scores_for(rows)
        torch.bmm(weights, batch.features.transpose(1, 2), out=scores)
        by_class = scores.view(seeds, self.lanes, self.classes, rows)
        if self.softmax:
            torch.softmax(by_class, dim=2, out=by_class)
        else:
            scores.sigmoid_()
        by_class.sub_(batch.targets.unsqueeze(1))
        gradients = self._gradients_by_seed.view(seeds, self.lanes * self.classes, columns)
        torch.baddbmm(gradients, scores, batch.features, beta=0, alpha=1 / rows, out=gradients)
        out.view(self.lanes, seeds, -1).copy_(self._gradients_by_seed.transpose(0, 1))

    def evaluate(self, points: Tensor) -> dict[str, Tensor]:
        """Accuracy (a tie counts as an error) and mean loss over the training set."""
        runs = self.lanes * len(self.seeds)
        weights = points.reshape(runs * self.classes, self.columns)
        right = torch.zeros(runs, dtype=torch.float64)
        loss = torch.zeros(runs, dtype=torch.float64)
        # Fresh memory for every chunk would cost more than the arithmetic.
        room = weights.new_empty(2, runs * self.classes * _CHUNK)
        for begin in range(0, self.rows, _CHUNK):
            features = self._features[begin : begin + _CHUNK]
            count = features.shape[0]
            scores, spare = room[:, : weights.shape[0] * count].view(2, weights.shape[0], count).unbind()
            torch.mm(weights, features.t(), out=scores)
            scores, spare = scores.view(runs, self.classes, count), spare.view(runs, self.classes, count)
            index = self._targets[begin : begin + _CHUNK].view(1, 1, count).expand(runs, 1, count)
            own = scores.gather(1, index)
            every = scores.logsumexp(dim=1) if self.softmax else _softplus_sum(scores, spare)
            loss += (every - own.squeeze(1)).sum(dim=1, dtype=torch.float64)
            # arg max is far slower than max on a CPU: compare the own score with the best of the others instead.
            rivals = scores.scatter_(1, index, -torch.inf).amax(dim=1)
            right += (own.squeeze(1) > rivals).sum(dim=1, dtype=torch.float64)
        shape = (self.lanes, len(self.seeds))
        accuracy, loss = right / self.rows, loss / self.rows
        accuracy[~torch.isfinite(loss)] = torch.nan
        return {"accuracy": accuracy.view(shape), "loss": loss.view(shape)}

    def _scores_for(self, rows: int) -> Tensor:
        """A buffer per batch length: the last batch of an epoch is shorter."""
        if rows not in self._scores:
            self._scores[rows] = self._features.new_empty(len(self.seeds), self.lanes * self.classes, rows)
        return self._scores[rows]


def row_order(seed: int, epoch: int, rows: int) -> Tensor:
    """The order in which a seed visits the rows in an epoch."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + epoch)
    return torch.randperm(rows, generator=generator)


def _softplus_sum(scores: Tensor, spare: Tensor) -> Tensor:
    """Σ over classes of log(1 + e^s) for scores (runs, classes, rows); ``spare`` is room of the same shape.

    log(1 + e^s) = max(s, 0) − log σ(|s|), and Σ log σ = log Π σ takes one logarithm instead of one per class; σ(|s|)
    is at least ½, so the product cannot underflow below 2**-classes.
    """
    if scores.shape[1] > _PRODUCT_CLASSES:
        return torch.nn.functional.softplus(scores).sum(dim=1)
    positive = torch.clamp_min(scores, 0, out=spare).sum(dim=1)
    return positive - torch.abs(scores, out=spare).sigmoid_().prod(dim=1).log_()
