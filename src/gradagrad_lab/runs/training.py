"""The only training loop: a group of runs side by side, round by round, interruptible, resumable.

How a group is trained is its strategy (`gradagrad_lab.runs.strategies`); the loop knows no problem and no optimizer.
"""

from __future__ import annotations

import math
import os
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from gradagrad_lab.errors import InterruptedRunError
from gradagrad_lab.runs.records import Record, key_of, writing_failed
from gradagrad_lab.runs.study import Run

# A first checkpoint comes soon, for who interrupts soon; later ones less often, since they cost time.
CHECKPOINT_SECONDS = (2.0, 30.0)
LOSS = "loss"


class Training(Protocol):
    """A group of runs under way. A round is an epoch, or a stretch of steps: what is done between two looks up."""

    rounds: int

    def advance(self, number: int) -> None:
        """Train round ``number`` and measure what has to be measured on the way."""
        ...

    def curves(self) -> list[dict[str, list[float]]]:
        """After the last round, for each run: what `Problem.measures` promised."""
        ...

    def state(self) -> dict[str, Any] | None:
        """Everything needed to go on after the rounds so far; None where a group is too short to be worth it."""
        ...

    def load(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Hooks:
    """What the outside world wants of a training: progress, a wish to stop, and a place for checkpoints."""

    progress: Callable[[float], None] = lambda fraction: None
    should_stop: Callable[[], bool] = lambda: False
    checkpoint: Path | None = None


def group_key(runs: Sequence[Run]) -> str:
    """What a group's checkpoint is kept under."""
    return key_of({"runs": [run.key for run in runs]}, [])


def train(runs: Sequence[Run], hooks: Hooks | None = None) -> list[Record]:
    """Train a group and return a record per run. A diverged run is a status, not an error."""
    hooks = hooks or Hooks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # γ₀ = 1 on a net is warned about: here it is done on purpose
        curves, seconds = _follow(runs, hooks)
    records = []
    for run, measured in zip(runs, curves, strict=True):
        lengths = {name: len(points) for name, points in measured.items()}
        if lengths != run.measures:
            raise ValueError(f"{run.problem.label} promised {run.measures} and measured {lengths}")
        diverged = LOSS in measured and not math.isfinite(measured[LOSS][-1])
        status = "diverged" if diverged else "done"
        records.append(Record(run.config, [run.seed], status, measured, seconds / len(runs)))
    return records


def _follow(runs: Sequence[Run], hooks: Hooks) -> tuple[list[dict[str, list[float]]], float]:
    training = runs[0].problem.begin(runs)
    key = group_key(runs)
    done, spent = 0, 0.0
    if hooks.checkpoint is not None and (saved := _load_checkpoint(hooks.checkpoint, key)) is not None:
        training.load(saved["training"])
        done, spent = saved["rounds"], saved["seconds"]
        hooks.progress(done / training.rounds)
    started = last_saved = time.perf_counter()
    pause, longest_pause = CHECKPOINT_SECONDS
    for number in range(done, training.rounds):
        training.advance(number)
        hooks.progress(1 / training.rounds)
        now = time.perf_counter()
        stopping = hooks.should_stop()
        if hooks.checkpoint is not None and (stopping or now - last_saved > pause):
            _save_checkpoint(hooks.checkpoint, key, training, number + 1, spent + now - started)
            last_saved, pause = now, min(2 * pause, longest_pause)
        if stopping:
            raise InterruptedRunError
    return training.curves(), spent + time.perf_counter() - started


def _save_checkpoint(path: Path, key: str, training: Training, rounds: int, seconds: float) -> None:
    state = training.state()
    if state is None:
        return
    # Straight to the disk: a model of gigabytes must not be in memory twice.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"key": key, "training": state, "rounds": rounds, "seconds": seconds}, temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # torch's writer raises the latter where the disk is full
        temporary.unlink(missing_ok=True)
        raise writing_failed(path, error) from error


def _load_checkpoint(path: Path, key: str) -> dict[str, Any] | None:
    """A checkpoint only saves time: one that is missing, damaged or of other runs is left aside."""
    try:
        saved = torch.load(path, weights_only=True)
        return saved if saved["key"] == key else None
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError):
        return None
