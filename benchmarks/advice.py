"""Measures what the documentation advises: ``python -m benchmarks.advice [schedules] [short] [tables] [bf16] [noise]``.

Small trainings of the suite, means over three seeds: about ten minutes of one core. Every line names what it changed.
"""

from __future__ import annotations

import math
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

import gradagrad
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.problems import language, nets, tables
from gradagrad_lab.problems.training import Task, TrainingProblem

SEEDS = range(3)
NETS = (nets.mlp, nets.cnn, language.characters)
Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
Schedule = Callable[[float], float]
Losses = dict[str, float]

SCHEDULES: dict[str, Schedule] = {
    "constant": lambda _: 1.0,
    "warm-up": lambda t: min(1.0, 10 * t),
    "linear to 0": lambda t: 1.0 - t,
    "cosine to 0": lambda t: (1 + math.cos(math.pi * t)) / 2,
    "warm-up, cosine": lambda t: min(1.0, 10 * t) * (1 + math.cos(math.pi * t)) / 2,
}


def train(task: Task, optimizer: torch.optim.Optimizer, steps: int, schedule: Schedule) -> Losses:
    """The losses at the parameters, and at the average if the optimizer has one."""
    planned = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: schedule((k + 1) / steps))
    for step in range(steps):
        optimizer.zero_grad()
        task.loss_on(step).backward()
        optimizer.step()
        planned.step()
    found = {"train": task.full_train_loss(), "held out": task.held_out()["loss"]}
    if isinstance(optimizer, AutoGradaGrad):
        with optimizer.averaged():
            found |= {"train, averaged": task.full_train_loss(), "held out, averaged": task.held_out()["loss"]}
    return found


def mean(
    problem: TrainingProblem, make: Make, steps: int = 0, schedule: Schedule = SCHEDULES["constant"], dtype: Any = None
) -> Losses:
    """Mean losses over the seeds."""
    runs: list[Losses] = []
    for seed in SEEDS:
        task: Any = problem.make(seed, steps=steps or problem.steps)
        if dtype:
            task.model.to(dtype)
            task._train, task._held_out = (
                tuple(_cast(t, dtype) for t in rows) for rows in (task._train, task._held_out)
            )
        runs.append(train(task, make(task.parameters), steps or problem.steps, schedule))
    return {name: statistics.mean(run[name] for run in runs) for name in runs[0]}


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def show(problem: str, name: str, losses: Losses, kinds: Sequence[str]) -> None:
    print(f"{problem:14} {name:36}", *(f"{losses[kind]:9.4f}" for kind in kinds if kind in losses), flush=True)


def schedules() -> None:
    kinds = ("train", "train, averaged", "held out", "held out, averaged")
    print("AutoGradaGrad under a schedule of lr:", "; ".join(kinds))
    for problem in (*NETS, tables.factorisation):
        for name, schedule in SCHEDULES.items():
            show(problem.name, name, mean(problem, AutoGradaGrad, 1000, schedule), kinds)


def short() -> None:
    print("Training loss after few steps; AutoGradaGrad also at its average")
    makes: dict[str, Make] = {
        "AutoGradaGrad": AutoGradaGrad,
        "AutoGradaGrad, gamma0 1e-2": lambda p: AutoGradaGrad(p, gamma0=1e-2),
        "Adam, lr 1e-3": lambda p: torch.optim.Adam(p, lr=1e-3),
        "Adam, lr 1e-2": lambda p: torch.optim.Adam(p, lr=1e-2),
    }
    for problem in NETS:
        for steps in (25, 50, 100, 500):
            for name, make in makes.items():
                show(problem.name, f"{steps} steps: {name}", mean(problem, make, steps), ("train", "train, averaged"))


def embeddings() -> None:
    print("Held-out loss with embedding tables; AutoGradaGrad also at its average")
    for problem in (tables.factorisation, tables.clicks, language.skipgram):
        makes: dict[str, Make] = {"AutoGradaGrad": AutoGradaGrad}
        for lr in (0.01, 0.1, 1.0):
            makes[f"AdaGrad {lr}"] = lambda p, lr=lr: torch.optim.Adagrad(p, lr=lr)
            for granularity in ("element", "row"):
                options: Any = {"lr": lr, "granularity": granularity, "lazy": True}
                makes[f"GradaGrad {granularity}, lazy, {lr}"] = lambda p, options=options: GradaGrad(p, **options)
        for lr in (1e-3, 1e-2):
            makes[f"Adam {lr}"] = lambda p, lr=lr: torch.optim.Adam(p, lr=lr)
        for name, make in makes.items():
            show(problem.name, name, mean(problem, make), ("held out", "held out, averaged"))


def bf16() -> None:
    print("Training loss with bf16; AutoGradaGrad also at its average")
    state: dict[str, Any] = {"state_dtype": torch.bfloat16}
    for problem in (nets.mlp, nets.autoencoder):
        for kind, fixed in ((GradaGrad, {"lr": 0.01}), (AutoGradaGrad, {})):
            for name, options, dtype in (
                ("float32", {}, None),
                ("bf16 state", state, None),
                ("bf16 weights, nearest", {}, torch.bfloat16),
                ("bf16 weights, stochastic", {"stochastic_rounding": True}, torch.bfloat16),
            ):
                every: dict[str, Any] = {**fixed, **options}
                losses = mean(problem, lambda p, o=every, k=kind: k(p, **o), 1000, dtype=dtype)
                show(problem.name, f"{kind.__name__}, {name}", losses, ("train", "train, averaged"))


def noise() -> None:
    """γ of GradaGrad grows where v = Σg² − ρ·Σg·m is negative. How often is it, and what does γ come to?"""
    print("GradaGrad from lr 1e-5, MLP: growth of γ after 500 steps, training loss")
    for granularity in ("element", "tensor", "group"):
        for rho in (2, 10, 100):
            task = nets.mlp.make(0, steps=500)
            optimizer = GradaGrad(task.parameters, lr=1e-5, granularity=granularity, rho=rho)
            losses = train(task, optimizer, 500, SCHEDULES["constant"])
            group = optimizer.diagnostics()[0]
            spread = f"{group.gamma[0.05] / 1e-5:.3g} to {group.gamma[0.95] / 1e-5:.3g}"
            print(f"{granularity:8} ρ {rho:3}  γ/γ₀ {group.total_growth:9.3g} ({spread}), loss {losses['train']:.4f}")
    print("The share of blocks with v < 0 along one run of Adam, and the spread of Σg·m/Σg² over its steps")
    task = nets.mlp.make(0, steps=500)
    optimizer, before, shares, agreed = torch.optim.Adam(task.parameters, lr=1e-3), None, [], []
    for step in range(500):
        optimizer.zero_grad()
        task.loss_on(step).backward()
        now = torch.cat([p.grad.flatten() for p in task.parameters if p.grad is not None]).double()
        if before is not None:
            element = {rho: float((now * now < rho * now * before).double().mean()) for rho in (2, 10)}
            ratio = float(now @ before / (now @ now))
            shares.append([element[2], element[10], float(ratio > 1 / 2), float(ratio > 1 / 10)])
            agreed.append(ratio)
        before = now
        optimizer.step()
    rows = [statistics.mean(column) for column in zip(*shares, strict=True)]
    print("element, ρ 2: {:.2f}; ρ 10: {:.2f}. All together, ρ 2: {:.2f}; ρ 10: {:.2f}".format(*rows))
    print(
        f"Σg·m/Σg² over all elements: {statistics.mean(agreed):.3f} ± {statistics.stdev(agreed):.3f} from step to step"
    )


PARTS = {"schedules": schedules, "short": short, "tables": embeddings, "bf16": bf16, "noise": noise}

if __name__ == "__main__":
    warnings.simplefilter("ignore", gradagrad.LargeFirstStepWarning)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
