"""What a backend offers: torch operations, the CPU kernel and the Triton kernels stand behind this one interface."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from gradagrad.engine.batch import Batch


class Backend(Protocol):
    """Steps batches of gradients. Sums and statistics are float64 tensors with a row of numbers for each block."""

    name: str
    is_one_call: bool
    """Whether `step` is one call into compiled code, which no signal handler can interrupt."""

    def refusal(self, batch: Batch) -> str | None:
        """Why this batch cannot be stepped, as a sentence; None if it can. Checks everything, writes nothing."""
        ...

    def forget(self, batch: Batch) -> None:
        """Lets go of what was prepared or read, if the step is not taken after all."""
        ...

    def step(self, batch: Batch) -> None:
        """Counts and takes the whole step of a batch that has all of its blocks: measure, decide, move, learn."""
        ...

    def measure(self, batch: Batch) -> Any:
        """The rule's sums, one row for each tensor or one for all; None if the rule measures nothing. Writes
        nothing."""
        ...

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        """Counts the step and moves parameters and element fields, given complete sums; the statistics.

        A block that parameters share stays as it is; blocks of their own are written too.
        """
        ...

    def write_shared(self, batch: Batch, sums: Tensor | None, statistics: Tensor | None) -> None:
        """Writes a shared block as it stands after the step, given complete sums and statistics."""
        ...
