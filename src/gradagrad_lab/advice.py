"""Measures what the documentation advises: ``python -m gradagrad_lab.advice [schedules] [short] [tables] [bf16]``.

Small trainings, means over three seeds: about ten minutes of one core. Every line names what it changed.
"""

import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.optim import Adagrad, Adam

import gradagrad
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.problems import language, nets, tables
from gradagrad_lab.problems.training import TrainingProblem
from gradagrad_lab.single import follow

SEEDS = range(3)
NETS = (nets.mlp, nets.cnn, language.characters)
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "warm-up": lambda t: min(1.0, 10 * t),
    "linear to 0": lambda t: 1.0 - t,
    "cosine to 0": lambda t: (1 + math.cos(math.pi * t)) / 2,
    "warm-up, cosine": lambda t: min(1.0, 10 * t) * (1 + math.cos(math.pi * t)) / 2,
}


class Trial(NamedTuple):
    """A line: what is trained, how it is named, the optimizer, and what else is not as usual."""

    problem: TrainingProblem
    name: str
    make: Callable[..., Any]
    steps: int = 0
    schedule: str = "constant"
    dtype: torch.dtype | None = None

    def losses(self, seed: int) -> list[float]:
        """The training and held-out losses at the parameters, and at the average if the optimizer has one."""
        steps = self.steps or self.problem.steps
        task: Any = self.problem.make(seed, steps=steps)
        if self.dtype:
            task.model.to(self.dtype)
            task._train, task._held_out = (
                tuple(part.to(self.dtype) if part.is_floating_point() else part for part in rows)
                for rows in (task._train, task._held_out)
            )
        optimizer = self.make(task.parameters)
        shape = SCHEDULES[self.schedule]
        planned = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: shape((k + 1) / steps))
        optimizer.register_step_post_hook(lambda *_: planned.step())
        for _ in follow(task, [optimizer], range(steps)):
            pass
        found = [task.full_train_loss(), task.held_out()["loss"]]
        if isinstance(optimizer, AutoGradaGrad):
            with optimizer.averaged():
                found += [task.full_train_loss(), task.held_out()["loss"]]
        return found


def schedules() -> Iterator[Trial]:
    """Schedules of lr."""
    for problem in (*NETS, tables.factorisation):
        yield from (Trial(problem, name, AutoGradaGrad, 1000, name) for name in SCHEDULES)


def short() -> Iterator[Trial]:
    """Short runs."""
    for problem in NETS:
        for steps in (25, 50, 100, 500):
            yield Trial(problem, f"{steps} steps: AutoGradaGrad", AutoGradaGrad, steps)
            yield Trial(problem, f"{steps} steps: gamma0 1e-2", partial(AutoGradaGrad, gamma0=1e-2), steps)
            for lr in (1e-3, 1e-2):
                yield Trial(problem, f"{steps} steps: Adam, lr {lr}", partial(Adam, lr=lr), steps)


def embeddings() -> Iterator[Trial]:
    """Tables of embeddings."""
    for problem in (tables.factorisation, tables.clicks, language.skipgram):
        yield Trial(problem, "AutoGradaGrad", AutoGradaGrad)
        for lr in (0.01, 0.1, 1.0):
            yield Trial(problem, f"AdaGrad {lr}", partial(Adagrad, lr=lr))
            for granularity in ("element", "row"):
                make = partial(GradaGrad, lr=lr, granularity=granularity, lazy=True)
                yield Trial(problem, f"GradaGrad {granularity}, lazy, {lr}", make)
        yield from (Trial(problem, f"Adam {lr}", partial(Adam, lr=lr)) for lr in (1e-3, 1e-2))


def bf16() -> Iterator[Trial]:
    """State and weights in bf16."""
    for problem in (nets.mlp, nets.autoencoder):
        for make in (partial(GradaGrad, lr=0.01), partial(AutoGradaGrad)):
            name = make.func.__name__
            yield Trial(problem, f"{name}, float32", make, 1000)
            yield Trial(problem, f"{name}, bf16 state", partial(make, state_dtype=torch.bfloat16), 1000)
            yield Trial(problem, f"{name}, bf16 weights, nearest", make, 1000, dtype=torch.bfloat16)
            stochastic = partial(make, stochastic_rounding=True)
            yield Trial(problem, f"{name}, bf16 weights, stochastic", stochastic, 1000, dtype=torch.bfloat16)
            both = partial(stochastic, state_dtype="bfloat16")
            yield Trial(problem, f"{name}, bf16 weights, stochastic, state", both, 1000, dtype=torch.bfloat16)


PARTS = {"schedules": schedules, "short": short, "tables": embeddings, "bf16": bf16}

if __name__ == "__main__":
    warnings.simplefilter("ignore", gradagrad.LargeFirstStepWarning)
    for part in sys.argv[1:] or PARTS:
        print(f"{part}: losses in training and held out; AutoGradaGrad also at its average")
        for trial in PARTS[part]():
            means = [statistics.mean(column) for column in zip(*map(trial.losses, SEEDS), strict=True)]
            print(f"{trial.problem.name:14} {trial.name:44}", *(f"{loss:9.4f}" for loss in means), flush=True)
