"""Problems to minimise. A problem knows no optimizer: it gives gradients and measures how good a point is.

Problems are stacked: one call serves many runs at once, ordered lanes × seeds. A lane is one optimizer setting (a
learning rate, say); all lanes of one seed see the same mini-batches in the same order, as separate runs of it would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor


class Stack(Protocol):
    """Many runs of one problem side by side."""

    steps_per_epoch: int

    def start(self) -> Tensor:
        """The starting points: (lanes, seeds, rows, columns)."""
        ...

    def batches(self, epoch: int) -> Iterator[Any]:
        """The epoch's mini-batches, a function of seed and epoch alone: a resumed run sees the same ones."""
        ...

    def gradient(self, points: Tensor, batch: Any, out: Tensor) -> None:
        """Write the mini-batch gradient of every run into ``out``; all shaped as `start`."""
        ...

    def evaluate(self, points: Tensor) -> dict[str, Tensor]:
        """Measures over the whole training set, each (lanes, seeds); NaN for a run that has diverged."""
        ...


class Problem(Protocol):
    """One problem; `stack` makes room for many runs of it."""

    @property
    def label(self) -> str:
        """What tables and plots call it."""
        ...

    def config(self) -> dict[str, Any]:
        """What identifies the problem in a record."""
        ...

    def stack(self, lanes: int, seeds: Sequence[int]) -> Stack: ...
