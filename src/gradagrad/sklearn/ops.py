"""What a rule needs of NumPy, and of plain numbers."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad.rules.rule import Array

TINY = float(np.finfo(np.float64).tiny)
LARGEST = float(np.finfo(np.float64).max)


class ArrayOps:
    """For elements, in double."""

    tiny = TINY
    largest = LARGEST
    sqrt = staticmethod(np.sqrt)
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    maximum = staticmethod(np.maximum)
    minimum = staticmethod(np.minimum)
    where = staticmethod(np.where)
    less = staticmethod(np.less)

    def indicator(self, a: Array, /) -> Array:
        return np.not_equal(a, 0.0).astype(np.float64)

    def narrow(self, a: Array, /) -> Array:
        return a


class NumberOps:
    """For what all elements share: plain floats, which cost a tenth of an array of one element."""

    tiny = TINY
    largest = LARGEST
    sqrt = staticmethod(math.sqrt)
    exp = staticmethod(math.exp)
    log = staticmethod(math.log)

    def maximum(self, a: float, b: float, /) -> float:
        return b if b > a else a  # NaN in a passes through

    def minimum(self, a: float, b: float, /) -> float:
        return b if b < a else a

    def where(self, condition: bool, a: float, b: float, /) -> float:
        return a if condition else b

    def less(self, a: float, b: float, /) -> bool:
        return a < b

    def indicator(self, a: float, /) -> float:
        return 0.0 if a == 0.0 else 1.0

    def narrow(self, a: float, /) -> float:
        return a


class Sums:
    """Sums over all elements."""

    def dot(self, a: NDArray[Any], b: NDArray[Any], /) -> float:
        """Σ a·b."""
        return float(np.add.reduce(a * b if a is b else np.clip(a * b, -LARGEST, LARGEST), axis=None))

    def total(self, a: NDArray[Any], /) -> float:
        """Σ a over what is finite."""
        total = float(np.add.reduce(a, axis=None))
        return total if math.isfinite(total) else float(np.add.reduce(a, axis=None, where=np.isfinite(a)))
