"""A training set cut into batches, with its columns in units of their own spread.

The unit of a column is a change of variables, not a change of the problem: coefficients and penalty are converted with
it, so the minimiser is that of the given columns. In these units one learning rate suits all columns. Dense columns
are also centred, which only moves the intercept. Sparse columns stay sparse.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SAMPLE = 8192
"""How many rows determine the units of sparse columns."""


class Samples(NamedTuple):
    """Checked samples, their targets as numbers, and weights of mean 1 (None if all are equal)."""

    X: Any
    targets: NDArray[Any]
    weights: Floats | None

    def normalised(self) -> "Samples":
        """Drops samples of weight 0 and scales the other weights to a mean of 1."""
        if self.weights is None:
            return self
        counts = self.weights > 0.0
        if not counts.any():
            raise ValueError(
                "sample_weight must be positive for at least one sample, got none; leave it out for equal weights."
            )
        weights = self.weights[counts] / self.weights.max()  # so that no sum overflows
        X, targets = (self.X, self.targets) if counts.all() else (self.X[counts], self.targets[counts])
        return Samples(X, targets, weights / weights.mean())


class Batch(NamedTuple):
    """Rows of the training set in the model's units; targets are (outputs, samples)."""

    X: Any
    """Dense: (samples, inputs), the intercept's column last. Sparse: only the columns that the batch touches."""
    targets: NDArray[Any]
    weights: NDArray[Any] | None
    X_T: Any
    """The transpose, kept because SciPy builds and checks a new one each time."""
    touched: NDArray[Any] | None
    """The inputs that a sparse batch touches. The last one is the intercept."""
    centre: NDArray[Any] | None
    """The centres of the touched columns, to be subtracted from X. None means zeros."""
    samples: int
    intercept: bool


@dataclass(frozen=True)
class Moments:
    """Centre and spread of each column of a dense array, over ``count`` samples; largest is the largest |value|."""

    count: int
    centre: Floats
    spread: Floats
    largest: Floats

    @classmethod
    def of(cls, columns: Floats, weights: Floats | None, *, centred: bool) -> "Moments":
        """Measures these rows. The spread is about the mean if ``centred``, and about 0 otherwise."""
        share = np.full(len(columns), 1.0 / len(columns)) if weights is None else weights / weights.sum()
        largest = np.abs(columns).max(axis=0)
        unit = np.where(largest > 0.0, largest, 1.0)
        safe = bool(((unit > 1e-140) & (unit < 1e150)).all())  # otherwise squares may overflow or vanish
        columns, unit = (columns, np.ones_like(unit)) if safe else (columns / unit, unit)
        centre = share @ columns if centred else np.zeros(columns.shape[1])
        return cls(len(columns), centre * unit, np.sqrt(share @ np.square(columns - centre)) * unit, largest)

    def joined(self, other: "Moments") -> "Moments":
        """The moments of both sets of samples together."""
        count = self.count + other.count
        a, b = self.count / count, other.count / count
        between = np.sqrt(a * b) * np.abs(other.centre - self.centre)
        spread = np.hypot(np.hypot(np.sqrt(a) * self.spread, np.sqrt(b) * other.spread), between)
        centre = self.centre + (other.centre - self.centre) * b
        return Moments(count, centre, spread, np.maximum(self.largest, other.largest))


@dataclass(frozen=True)
class Units:
    """Column j is (x_j − centre_j) / unit_j; a column of ones behind them carries the intercept, zeros for none.

    A column's unit is its spread, and larger where the penalty keeps coef·spread far below 1: with strength/spread
    the coefficient is about 1 in the model's units all the same. The unit is infinite for a constant column.
    """

    centre: Floats
    spread: Floats
    unit: Floats
    intercept: bool
    strength: float
    """The strength of the l2 penalty that the units were made for. A later one changes only the penalty."""

    @classmethod
    def of(cls, centre: Floats, spread: Floats, intercept: bool, strength: float) -> "Units":
        """Makes units from each column's centre and spread, and the strength of the l2 penalty."""
        known = np.where(np.isfinite(spread), np.maximum(spread, 1e-300), 1.0)
        with np.errstate(over="ignore"):
            unit = np.where(np.isfinite(spread), np.maximum(known, strength / known), np.inf)
        return cls(centre, spread, unit, intercept, strength)

    @property
    def sizes(self) -> Floats:
        """The spread of each input in these units, usually 1. The intercept is last."""
        return np.append(np.where(np.isfinite(self.unit), self.spread, 0.0) / self.unit, 1.0)

    def convert(self, X: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Dense rows in these units, with the intercept's column."""
        result = np.empty((X.shape[0], X.shape[1] + 1), dtype=dtype)
        np.divide(X - self.centre, self.unit, out=result[:, :-1], casting="same_kind")
        result[:, -1] = float(self.intercept)
        return result

    def restore(self, x: Floats) -> tuple[Floats, Floats]:
        """(coef_, intercept_) for the columns as they were given; ``x`` is (outputs, inputs)."""
        coefficients = x[:, :-1] / self.unit
        return coefficients, x[:, -1] - coefficients @ self.centre


def dense_spread(moments: Moments) -> Floats:
    """The spread of each column. It is infinite if it is only rounding, so that the column is ignored."""
    return np.where(moments.spread > 1e-12 * moments.largest, moments.spread, np.inf)


def sparse_moments(X: Any, weights: Floats | None, *, centred: bool) -> tuple[Floats, Floats]:
    """(centre, spread) of each column, from a part of the rows. Every choice gives the same model.

    A column that most rows store is centred. The spread of the others is the root mean square of their stored values.
    """
    stride = -(-X.shape[0] // SAMPLE)
    rows = X[::stride] if stride > 1 else X
    share = np.ones(rows.shape[0], dtype=X.dtype) if weights is None else weights[::stride].astype(X.dtype)

    def mean(data: NDArray[Any]) -> Floats:
        total = sp.csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape).T @ share
        return total.astype(np.float64) / max(float(share.sum()), 1e-300)

    data, largest = rows.data, np.ones(X.shape[1])
    if not _squares_fit(data):
        largest = np.maximum(abs(rows).max(axis=0).toarray()[0].astype(np.float64), np.finfo(np.float64).tiny)
        data = data / largest.take(rows.indices)
    squares, stored = mean(data * data), mean(np.ones_like(data))
    seen = squares > 0.0
    spread = np.sqrt(np.divide(squares, stored, out=np.ones_like(squares), where=seen)) * largest
    spread[~seen] = spread[seen].mean() if seen.any() else 1.0
    centre = np.zeros_like(spread)
    if centred and (stored > 0.5).any():
        means = mean(data)
        variances = squares - means * means
        dense = (stored > 0.5) & (variances > 1e-6 * squares)  # otherwise it is only rounding
        centre[dense] = (means * largest)[dense]
        spread[dense] = np.sqrt(variances[dense]) * largest[dense]
    return centre, spread


def _squares_fit(data: NDArray[Any]) -> bool:
    """Whether squares of these numbers are normal numbers even in float32."""
    sizes = np.abs(data)
    sizes = sizes if sizes.all() else sizes[sizes > 0.0]
    return not len(sizes) or bool(sizes.min() > 1e-18 and sizes.max() < 1e18)


def cut(
    X: Any, targets: Floats, weights: Floats | None, units: Units, size: int, rng: np.random.RandomState
) -> list[Batch]:
    """Batches of nearly equal size, made once from shuffled rows; epochs differ by the order of the batches.

    Several batches use float32, which is twice as fast and half as large: their noise is far above its rounding.
    """
    samples = X.shape[0]
    count = max(1, round(samples / size))
    parts = np.array_split(rng.permutation(samples), count) if count > 1 else [np.arange(samples)]
    dtype = np.float32 if count > 1 else X.dtype
    inverse = 1.0 / units.unit
    if sp.issparse(X) and _squares_fit(units.unit) and _squares_fit(X.data):
        inverse = inverse.astype(dtype)
    position, centred = np.empty(X.shape[1], dtype=np.int32), np.flatnonzero(units.centre)

    def batch(part: NDArray[Any]) -> Batch:
        own = targets[:, part].astype(dtype)
        share = None if weights is None else weights[part].astype(dtype)
        if not sp.issparse(X):
            dense = units.convert(X[part], dtype)
            return Batch(dense, own, share, dense.T, None, None, len(part), units.intercept)
        rows = X[part]
        columns = np.flatnonzero(np.bincount(rows.indices, minlength=X.shape[1]))
        if len(centred):
            columns = np.union1d(columns, centred)
        position[columns] = np.arange(len(columns), dtype=np.int32)
        data = rows.data.astype(inverse.dtype, copy=False) * inverse.take(rows.indices)  # 3 times as fast as [indices]
        data = data.astype(dtype, copy=False)
        local = sp.csr_matrix((data, position.take(rows.indices), rows.indptr), shape=(len(part), len(columns)))
        centre = (units.centre[columns] / units.unit[columns]).astype(dtype) if len(centred) else None
        return Batch(local, own, share, local.T, np.append(columns, X.shape[1]), centre, len(part), units.intercept)

    return [batch(part) for part in parts]
