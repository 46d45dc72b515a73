"""The operations that a rule needs, on NumPy arrays and on plain numbers."""

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad.rules.rule import Array


class _Double:
    tiny = float(np.finfo(np.float64).tiny)
    largest = float(np.finfo(np.float64).max)

    def indicator(self, a: Array, /) -> Array:
        return np.not_equal(a, 0.0).astype(np.float64)

    def narrow(self, a: Array, /) -> Array:
        return a


class ArrayOps(_Double):
    """Operations on the elements."""

    sqrt, exp, log = staticmethod(np.sqrt), staticmethod(np.exp), staticmethod(np.log)
    maximum, minimum = staticmethod(np.maximum), staticmethod(np.minimum)
    where, less = staticmethod(np.where), staticmethod(np.less)


class NumberOps(_Double):
    """Operations on numbers that all elements share: plain floats, ten times as fast as arrays of one element."""

    sqrt, exp, log = staticmethod(math.sqrt), staticmethod(math.exp), staticmethod(math.log)
    less = staticmethod(operator.lt)

    def maximum(self, a: float, b: float, /) -> float:
        return b if b > a else a  # NaN in a passes through

    def minimum(self, a: float, b: float, /) -> float:
        return b if b < a else a

    def where(self, condition: bool, a: float, b: float, /) -> float:
        return a if condition else b


class Sums:
    """Sums over all elements."""

    def dot(self, a: NDArray[Any], b: NDArray[Any], /) -> float:
        """Σ a·b."""
        return float(np.add.reduce(a * b if a is b else np.clip(a * b, -_Double.largest, _Double.largest), axis=None))

    def total(self, a: NDArray[Any], /) -> float:
        """Σ a over the finite entries."""
        total = float(np.add.reduce(a, axis=None))
        return total if math.isfinite(total) else float(np.add.reduce(a, axis=None, where=np.isfinite(a)))
