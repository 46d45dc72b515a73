"""Losses of a linear model: for each sample of a batch the loss, and its slope with respect to the outputs.

Arrays are (outputs, samples), because NumPy sums long rows fastest. ``encode`` turns numbers or class numbers into such
targets. ``value`` and ``slope`` may overwrite the outputs. Losses for classes also have ``start``: nearly the best
constant outputs, given the shares of the classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[Any]


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

    def value(self, outputs: Floats, targets: Floats) -> Floats:
        outputs -= outputs.max(axis=0)
        return np.log(np.exp(outputs).sum(axis=0)) - (outputs * targets).sum(axis=0)

    def slope(self, outputs: Floats, targets: Floats) -> Floats:
        outputs -= outputs.max(axis=0)
        probabilities = np.exp(outputs, out=outputs)
        probabilities /= probabilities.sum(axis=0)
        probabilities -= targets
        return probabilities


class Logistic(Softmax):
    """log(1 + exp(−output)) for the class, log(1 + exp(output)) for the rest: one output, or one for each class."""

    def start(self, shares: Floats) -> Floats:
        return np.log(shares / (1.0 - shares))

    def value(self, outputs: Floats, targets: Floats) -> Floats:
        return np.logaddexp(0.0, outputs) - targets * outputs

    def slope(self, outputs: Floats, targets: Floats) -> Floats:
        probabilities = expit(outputs, out=outputs)
        probabilities -= targets
        return probabilities


class Hinge:
    """max(0, 1 − output) for the class, max(0, 1 + output) for the rest."""

    def encode(self, targets: NDArray[Any], outputs: int) -> Floats:
        return 2.0 * _one_hot(targets, outputs) - 1.0

    def start(self, shares: Floats) -> Floats:
        return np.where(shares > 0.5, 0.99, -0.99)  # at ±1 rounding would decide which samples are beyond the kink

    def value(self, outputs: Floats, targets: Floats) -> Floats:
        return np.maximum(1.0 - outputs * targets, 0.0)

    def slope(self, outputs: Floats, targets: Floats) -> Floats:
        return np.where(outputs * targets < 1.0, -targets, 0.0).astype(outputs.dtype, copy=False)


@dataclass(frozen=True)
class Huber:
    """½r² up to |r| = epsilon, linear beyond. An infinite epsilon makes it the squared error."""

    epsilon: float

    def encode(self, targets: NDArray[Any], outputs: int) -> Floats:
        return targets[None]

    def value(self, outputs: Floats, targets: Floats) -> Floats:
        slope = self.slope(outputs, targets)
        return slope * (outputs - targets - 0.5 * slope)

    def slope(self, outputs: Floats, targets: Floats) -> Floats:
        return np.clip(outputs - targets, -self.epsilon, self.epsilon)


Loss = Softmax | Hinge | Huber
