"""The only training loop. It trains stacks: lanes (optimizer settings) × seeds of one problem in one computation.

Every optimizer is the real class, one param group per lane; the runs of a lane lie side by side in its one parameter.
Nothing couples two runs, so a stacked run gives the curves that separate runs would give.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradagrad_lab import optimizers
from gradagrad_lab.errors import InterruptedRunError
from gradagrad_lab.problems import Problem
from gradagrad_lab.records import Record, Status, key_of, write_atomically

# A first checkpoint comes soon, for who interrupts soon; later ones less often, since they cost time.
CHECKPOINT_SECONDS = (2.0, 30.0)
LEARNING_RATE = "learning rate"


@dataclass(frozen=True)
class Job:
    """What is trained in one go: one problem, one optimizer, several settings of it, several seeds."""

    problem: Problem
    optimizer: str
    lanes: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    epochs: int

    def config(self, lane: dict[str, Any]) -> dict[str, Any]:
        return config_of(self.problem, self.optimizer, lane, self.epochs)

    @property
    def stackable(self) -> bool:
        return optimizers.entry_of(self.optimizer).stackable

    @property
    def key(self) -> str:
        return key_of({"job": [self.config(lane) for lane in self.lanes]}, self.seeds)

    def work(self) -> float:
        """Microseconds this is roughly going to take: overhead per step and group, and per number moved."""
        stack = self.problem.stack(1, self.seeds[:1])
        steps, numbers = self.epochs * stack.steps_per_epoch, stack.start().numel()
        if not self.stackable:
            return len(self.lanes) * len(self.seeds) * steps * 400.0
        per_lane = 15.0 if self.optimizer == "sgd" else 45.0
        return steps * (150.0 + len(self.lanes) * (per_lane + 2.5e-3 * len(self.seeds) * numbers))


def config_of(problem: Problem, optimizer: str, options: dict[str, Any], epochs: int) -> dict[str, Any]:
    """The configuration under which a run's record is kept."""
    return {"problem": problem.config(), "optimizer": optimizer, "options": dict(options), "epochs": epochs}


class Hooks:
    """What the outside world wants of a run: progress, a wish to stop, and a place for checkpoints."""

    def __init__(
        self,
        progress: Callable[[float], None] = lambda fraction: None,
        should_stop: Callable[[], bool] = lambda: False,
        checkpoint: Path | None = None,
    ) -> None:
        self.progress = progress
        self.should_stop = should_stop
        self.checkpoint = checkpoint


def train(job: Job, hooks: Hooks | None = None) -> list[Record]:
    """Train a job and return one record per lane. Diverged runs are a status, not an error."""
    hooks = hooks or Hooks()
    started = time.perf_counter()
    if job.stackable:
        parts = [_train_stack(job, job.lanes, job.seeds, hooks, share=1.0)]
        grid = [parts]
    else:
        share = 1.0 / (len(job.lanes) * len(job.seeds))
        single = Hooks(hooks.progress, hooks.should_stop)  # one run is short: not worth a checkpoint
        grid = [[_train_stack(job, [lane], [seed], single, share) for seed in job.seeds] for lane in job.lanes]
    seconds = sum(part.seconds for row in grid for part in row) or time.perf_counter() - started
    records: list[Record] = []
    for number, lane in enumerate(job.lanes):
        curves: dict[str, list[list[float]]] = {}
        for part in grid[0] if job.stackable else grid[number]:
            for metric, values in part.curves.items():
                curves.setdefault(metric, []).extend(values[number if job.stackable else 0].tolist())
        diverged = [seed for seed, losses in zip(job.seeds, curves["loss"], strict=True) if losses[-1] != losses[-1]]
        status: Status = "diverged" if diverged else "done"
        records.append(
            Record(
                config=job.config(lane),
                seeds=list(job.seeds),
                status=status,
                curves=curves,
                seconds=seconds / len(job.lanes),
                diverged=diverged,
            )
        )
    return records


@dataclass
class _Trained:
    """Curves by metric, each (lanes, seeds, epochs)."""

    curves: dict[str, Tensor]
    seconds: float


def _train_stack(
    job: Job, lanes: Sequence[dict[str, Any]], seeds: Sequence[int], hooks: Hooks, share: float
) -> _Trained:
    stack = job.problem.stack(len(lanes), seeds)
    points = stack.start()
    gradients = torch.empty_like(points)
    optimizer, parameters = optimizers.make(job.optimizer, points, lanes)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.view(parameter.shape)
    history: list[dict[str, Tensor]] = []
    spent = 0.0
    if hooks.checkpoint is not None:
        saved = _load_checkpoint(hooks.checkpoint, job.key)
        if saved is not None:
            points.copy_(saved["points"])
            optimizer.load_state_dict(saved["optimizer"])
            history, spent = saved["history"], saved["seconds"]
            hooks.progress(share * len(history) / job.epochs)
    started = last_saved = time.perf_counter()
    pause, longest_pause = CHECKPOINT_SECONDS
    for epoch in range(len(history), job.epochs):
        for batch in stack.batches(epoch):
            stack.gradient(points, batch, out=gradients)
            optimizer.step()
        history.append(_measure(job.optimizer, optimizer, stack, points))
        hooks.progress(share / job.epochs)
        now = time.perf_counter()
        stopping = hooks.should_stop()
        if hooks.checkpoint is not None and (stopping or now - last_saved > pause):
            _save_checkpoint(hooks.checkpoint, job.key, points, optimizer, history, spent + now - started)
            last_saved, pause = now, min(2 * pause, longest_pause)
        if stopping:
            raise InterruptedRunError
    curves = {metric: torch.stack([row[metric] for row in history], dim=-1) for metric in history[0]}
    return _Trained(curves, spent + time.perf_counter() - started)


def _measure(name: str, optimizer: torch.optim.Optimizer, stack: Any, points: Tensor) -> dict[str, Tensor]:
    with optimizers.evaluation_point(optimizer):
        measured: dict[str, Tensor] = stack.evaluate(points)
    # A run that met inf or NaN stays diverged, even if the loss at this very point happens to be finite.
    broken = ~torch.isfinite(points.flatten(start_dim=2)).all(dim=2)
    for values in measured.values():
        values[broken] = torch.nan
    sizes = optimizers.median_step_sizes(name, optimizer, points.shape[1])
    if sizes is not None:
        measured[LEARNING_RATE] = sizes.clone()
    return measured


def _save_checkpoint(
    path: Path,
    key: str,
    points: Tensor,
    optimizer: torch.optim.Optimizer,
    history: list[dict[str, Tensor]],
    seconds: float,
) -> None:
    buffer = io.BytesIO()
    content = {
        "key": key,
        "points": points,
        "optimizer": optimizer.state_dict(),
        "history": history,
        "seconds": seconds,
    }
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())


def _load_checkpoint(path: Path, key: str) -> dict[str, Any] | None:
    """A checkpoint only saves time: one that is missing, damaged or of another job is left aside."""
    try:
        saved = torch.load(path, weights_only=True)
        return saved if saved["key"] == key else None
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError):
        return None
