"""The only training loop: a group of runs side by side, round by round.

How a group is trained is its strategy (`gradagrad_lab.stacked`); the loop ignores problems and optimizers.
"""

import math
import os
import pickle
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gradagrad_lab.records import Record, key_of, writing_failed
from gradagrad_lab.study import Run

LOSS = "loss"
Progress = Callable[[float], None]
"""Called with the share of a group's work that was done since the last call."""


class Training(ABC):
    """A group of runs that is being trained. A round is an epoch, or a number of steps."""

    rounds: int

    @abstractmethod
    def advance(self, number: int) -> None:
        """Train round ``number`` and measure what must be measured during it."""

    @abstractmethod
    def curves(self) -> list[dict[str, list[float]]]:
        """After the last round, for each run: what `Problem.measures` promised."""


class Resumable(Training):
    """A group that takes hours, so that a checkpoint is kept while it is trained."""

    @property
    @abstractmethod
    def pause(self) -> float:
        """Seconds between two checkpoints."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything needed to continue after the rounds so far."""

    @abstractmethod
    def load(self, state: dict[str, Any]) -> None:
        """Continue from such a state."""


def group_key(runs: Sequence[Run]) -> str:
    """The name of a group's checkpoint."""
    return key_of({"runs": [run.key for run in runs]}, [])


def train(runs: Sequence[Run], progress: Progress = lambda part: None, checkpoint: Path | None = None) -> list[Record]:
    """Train a group and return a record per run. A diverged run is a status, not an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # γ₀ = 1 on a net warns, but here it is intended
        curves, seconds = _follow(runs, progress, checkpoint)
    records = []
    for run, measured in zip(runs, curves, strict=True):
        lengths = {name: len(points) for name, points in measured.items()}
        if lengths != run.measures:
            raise ValueError(f"{run.problem.label} promised {run.measures} and measured {lengths}")
        diverged = LOSS in measured and not math.isfinite(measured[LOSS][-1])
        status = "diverged" if diverged else "done"
        records.append(Record(run.config, [run.seed], status, measured, seconds / len(runs)))
    return records


def _follow(
    runs: Sequence[Run], progress: Progress, checkpoint: Path | None
) -> tuple[list[dict[str, list[float]]], float]:
    training = runs[0].problem.begin(runs)
    key = group_key(runs)
    done, spent = 0, 0.0
    resumable = training if isinstance(training, Resumable) else None
    if resumable and checkpoint and (saved := _load_checkpoint(checkpoint, key)) is not None:
        resumable.load(saved["training"])
        done, spent = saved["rounds"], saved["seconds"]
        progress(done / training.rounds)
    started = last_saved = time.perf_counter()
    for number in range(done, training.rounds):
        training.advance(number)
        progress(1 / training.rounds)
        now = time.perf_counter()
        if resumable and checkpoint and now - last_saved > resumable.pause:
            content = {"training": resumable.state(), "rounds": number + 1, "seconds": spent + now - started}
            _save_checkpoint(checkpoint, {"key": key, **content})
            last_saved = now
    return training.curves(), spent + time.perf_counter() - started


def _save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    # Written to the disk directly, because a model of gigabytes must not be in memory twice.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # torch raises RuntimeError when the disk is full
        temporary.unlink(missing_ok=True)
        raise writing_failed(path, error) from error


def _load_checkpoint(path: Path, key: str) -> dict[str, Any] | None:
    """A checkpoint only saves time, so one that is missing, damaged or of other runs is ignored."""
    try:
        saved = torch.load(path, weights_only=True)
        return saved if saved["key"] == key else None
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError):
        return None
