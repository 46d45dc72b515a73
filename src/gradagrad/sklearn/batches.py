"""A training set cut into batches, with its columns in units of their own spread.

The unit of a column is a change of variables, not a change of the problem: coefficients and penalty are converted with
it, so the minimiser is that of the given columns. What it buys is that one learning rate suits all columns. Dense
columns are also centred, which only moves the intercept; sparse ones stay sparse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SAMPLE = 8192
"""Rows from which the units of sparse columns are taken."""


class Batch(NamedTuple):
    """Rows of the training set in the model's units; targets are (outputs, samples)."""

    X: Any
    """Dense: (samples, inputs), the intercept's column last. Sparse: only the columns that the batch touches."""
    targets: NDArray[Any]
    weights: NDArray[Any] | None
    X_T: Any
    """The transpose; of a sparse matrix every one is made anew, and checked."""
    touched: NDArray[Any] | None
    """The inputs that a sparse batch touches; the intercept's is the last."""
    samples: int
    intercept: bool


@dataclass(frozen=True)
class Units:
    """Column j is (x_j − centre_j) / spread_j; a column of ones behind them carries the intercept, zeros for none."""

    centre: Floats
    spread: Floats
    intercept: bool

    @classmethod
    def of(cls, X: Any, weights: Floats | None, *, intercept: bool) -> Units:
        """From a training set. A dense column without spread counts for nothing."""
        if sp.issparse(X):
            return cls(np.zeros(X.shape[1]), _sparse_spread(X, weights), intercept)
        share = np.full(len(X), 1.0 / len(X)) if weights is None else weights / weights.sum()
        columns = X.astype(np.float64, copy=False)
        centre = share @ columns if intercept else np.zeros(X.shape[1])
        spread = np.sqrt(share @ np.square(columns - centre))
        rounding = 1e-12 * np.abs(columns).max(axis=0)
        return cls(centre, np.where(spread > rounding, spread, np.inf), intercept)

    def convert(self, X: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Dense rows in these units, with the intercept's column."""
        result = np.empty((X.shape[0], X.shape[1] + 1), dtype=dtype)
        np.multiply(X - self.centre, 1.0 / self.spread, out=result[:, :-1], casting="same_kind")
        result[:, -1] = float(self.intercept)
        return result

    def restore(self, x: Floats) -> tuple[Floats, Floats]:
        """(coef_, intercept_) for the columns as they were given; ``x`` is (outputs, inputs)."""
        coefficients = x[:, :-1] / self.spread
        return coefficients, x[:, -1] - coefficients @ self.centre


def _sparse_spread(X: Any, weights: Floats | None) -> Floats:
    """Root mean square of the stored values, about: what a column is where it is not zero. Any unit is a right one."""
    stride = -(-X.shape[0] // SAMPLE)
    rows = X[::stride] if stride > 1 else X
    share = np.ones(rows.shape[0], dtype=X.dtype) if weights is None else weights[::stride].astype(X.dtype)

    def total(data: NDArray[Any]) -> Floats:
        return (sp.csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape).T @ share).astype(np.float64)

    squares, stored = total(rows.data * rows.data), total(np.ones_like(rows.data))
    seen = squares > 0.0
    spread = np.sqrt(np.divide(squares, stored, out=np.ones_like(squares), where=seen))
    spread[~seen] = spread[seen].mean() if seen.any() else 1.0
    return spread


def cut(
    X: Any, targets: Floats, weights: Floats | None, units: Units, size: int, rng: np.random.RandomState
) -> list[Batch]:
    """Batches of nearly equal size, made once from shuffled rows; epochs differ by the order of the batches.

    Where there are several, their noise is far above the rounding of float32, which is twice as fast and half as large.
    """
    samples = X.shape[0]
    count = max(1, round(samples / size))
    parts = np.array_split(rng.permutation(samples), count) if count > 1 else [np.arange(samples)]
    dtype = np.float32 if count > 1 else X.dtype
    inverse = (1.0 / units.spread).astype(dtype)
    position = np.empty(X.shape[1], dtype=np.int32)

    def batch(part: NDArray[Any]) -> Batch:
        own = targets[:, part].astype(dtype)
        share = None if weights is None else weights[part].astype(dtype)
        if not sp.issparse(X):
            dense = units.convert(X[part], dtype)
            return Batch(dense, own, share, dense.T, None, len(part), units.intercept)
        rows = X[part]
        columns = _present(rows)
        position[columns] = np.arange(len(columns), dtype=np.int32)
        data = rows.data.astype(dtype, copy=False) * inverse.take(rows.indices)  # a third of the time of [indices]
        local = sp.csr_matrix((data, position.take(rows.indices), rows.indptr), shape=(len(part), len(columns)))
        return Batch(local, own, share, local.T, np.append(columns, X.shape[1]), len(part), units.intercept)

    return [batch(part) for part in parts]


def _present(rows: Any) -> NDArray[Any]:
    """The columns with entries, in order: by sorting where there are few, else by counting, a product in compiled
    code."""
    samples, columns = rows.shape
    if rows.nnz * 16 < columns:
        return np.unique(rows.indices)
    ones = np.ones(rows.nnz, dtype=np.float32)
    counts = sp.csr_matrix((ones, rows.indices, rows.indptr), shape=rows.shape).T @ np.ones(samples, dtype=np.float32)
    return np.flatnonzero(counts)
