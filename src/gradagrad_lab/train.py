"""The only training loop: a group of runs side by side, round by round.

A problem says how its runs are trained: many in one computation (`gradagrad_lab.stacked`), or one model under one
optimizer (`gradagrad_lab.single`). The loop ignores problems and optimizers.
"""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence

from gradagrad_lab.records import Record
from gradagrad_lab.study import Run

LOSS = "loss"


class Training(ABC):
    """A group of runs that is being trained. A round is an epoch, or a number of steps."""

    rounds: int

    @abstractmethod
    def advance(self, number: int) -> None:
        """Train round ``number`` and measure what must be measured during it."""

    @abstractmethod
    def curves(self) -> list[dict[str, list[float]]]:
        """After the last round, for each run: what `Problem.measures` promised."""


def train(runs: Sequence[Run]) -> list[Record]:
    """Train a group and return a record per run. A diverged run is a record too, not an error."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # γ₀ = 1 on a net warns, but here it is intended
        training = runs[0].problem.begin(runs)
        for number in range(training.rounds):
            training.advance(number)
        curves = training.curves()
    seconds = (time.perf_counter() - started) / len(runs)
    for run, measured in zip(runs, curves, strict=True):
        lengths = {name: len(points) for name, points in measured.items()}
        if lengths != run.measures:
            raise ValueError(f"{run.problem.label} promised {run.measures} and measured {lengths}")
    return [
        Record(run.problem.label, run.config, run.seed, measured, seconds)
        for run, measured in zip(runs, curves, strict=True)
    ]
