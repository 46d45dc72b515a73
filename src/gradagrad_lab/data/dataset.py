"""A classification data set in memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dataset:
    """Dense features and class numbers 0 … classes-1.

    ``label`` is the name every table and plot shows: it says when a copy is reconstructed, partial or a replacement.
    """

    name: str
    label: str
    source: str
    sha256: str
    features: NDArray[np.float64]
    targets: NDArray[np.int64]
    classes: int

    @property
    def rows(self) -> int:
        return int(self.features.shape[0])

    @property
    def columns(self) -> int:
        return int(self.features.shape[1])

    def describe(self) -> str:
        return f"{self.rows:,} rows × {self.columns} features, {self.classes} classes"
