"""Losses of a linear model: each gives, for a batch, the sum over samples and its gradient with respect to the outputs.

Arrays are (outputs, samples): sums over a few outputs are then sums of long rows, which NumPy does fastest.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[Any]


class Loss(Protocol):
    """``targets`` are what `encode` made; outputs may be overwritten.

    Losses of classes have ``start`` too: about the best constant outputs, given the classes' shares.
    """

    def encode(self, targets: NDArray[Any], outputs: int) -> Floats:
        """Numbers of classes, or numbers, as (outputs, samples)."""
        ...

    def derive(self, outputs: Floats, targets: Floats, weights: Floats | None, wanted: bool) -> tuple[float, Floats]:
        """(the weighted sum of losses where it is ``wanted``, its gradient)."""
        ...


def _one_hot(codes: NDArray[Any], outputs: int) -> Floats:
    if outputs == 1:
        return codes[None].astype(np.float64)
    hot = np.zeros((outputs, len(codes)))
    hot[codes, np.arange(len(codes))] = 1.0
    return hot


class Softmax:
    """−log of the softmax probability of a sample's class."""

    def encode(self, targets: NDArray[Any], outputs: int) -> Floats:
        return _one_hot(targets, outputs)

    def start(self, shares: Floats) -> Floats:
        return np.log(shares)

    def derive(self, outputs: Floats, targets: Floats, weights: Floats | None, wanted: bool) -> tuple[float, Floats]:
        outputs -= outputs.max(axis=0)
        probabilities = np.exp(outputs)
        totals = probabilities.sum(axis=0)
        probabilities /= totals
        probabilities -= targets
        if weights is not None:
            probabilities *= weights
        return _sum(np.log(totals) - (outputs * targets).sum(axis=0), weights) if wanted else 0.0, probabilities


class Logistic(Softmax):
    """log(1 + exp(−output)) for the class, log(1 + exp(output)) for the rest: one output, or one for each class."""

    def start(self, shares: Floats) -> Floats:
        return np.log(shares / (1.0 - shares))

    def derive(self, outputs: Floats, targets: Floats, weights: Floats | None, wanted: bool) -> tuple[float, Floats]:
        value = _sum(np.logaddexp(0.0, outputs) - targets * outputs, weights) if wanted else 0.0
        gradient = expit(outputs, out=outputs)
        gradient -= targets
        return value, gradient if weights is None else gradient * weights


class Hinge:
    """max(0, 1 − output) for the class, max(0, 1 + output) for the rest."""

    def encode(self, targets: NDArray[Any], outputs: int) -> Floats:
        return 2.0 * _one_hot(targets, outputs) - 1.0

    def start(self, shares: Floats) -> Floats:
        return np.where(shares > 0.5, 0.99, -0.99)  # at ±1 rounding would say who is beyond the kink

    def derive(self, outputs: Floats, targets: Floats, weights: Floats | None, wanted: bool) -> tuple[float, Floats]:
        outputs *= targets
        gradient = targets * (outputs < 1.0)
        np.negative(gradient, out=gradient)
        value = _sum(np.maximum(1.0 - outputs, 0.0), weights) if wanted else 0.0
        return value, gradient if weights is None else gradient * weights


@dataclass(frozen=True)
class Huber:
    """½r² up to |r| = epsilon, linear beyond. An infinite epsilon makes it the squared error."""

    epsilon: float

    def encode(self, targets: NDArray[Any], outputs: int) -> Floats:
        return targets[None]

    def derive(self, outputs: Floats, targets: Floats, weights: Floats | None, wanted: bool) -> tuple[float, Floats]:
        outputs -= targets
        gradient = np.clip(outputs, -self.epsilon, self.epsilon)
        value = _sum(gradient * (outputs - 0.5 * gradient), weights) if wanted else 0.0
        return value, gradient if weights is None else gradient * weights


def _sum(losses: Floats, weights: Floats | None) -> float:
    return float(losses.sum() if weights is None else (losses @ weights).sum())
