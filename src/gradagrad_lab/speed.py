"""How much faster stacked training is than one run at a time, measured side by side on one set."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gradagrad_lab import optimizers
from gradagrad_lab.context import Context
from gradagrad_lab.figures.figure3_plan import FULL_SEEDS, variants
from gradagrad_lab.optimizers import BASELINES, GRID, OPTIMIZERS
from gradagrad_lab.problems.logistic import Logistic, row_order
from gradagrad_lab.records import Record
from gradagrad_lab.results import Table

_ROUNDS = 5
_STEPS = 40


def speed_table(context: Context, problem: Logistic) -> Table:
    """Microseconds per training step of one run, stacked and alone, for each optimizer of Figure 3."""
    config = {"kind": "speed", "problem": problem.config(), "rounds": _ROUNDS, "steps": _STEPS, "seeds": FULL_SEEDS}
    record = context.records.ensure(config, [0], lambda: Record(config, [0], "done", measure(problem)))
    stacked, alone, runs = (record.curves[key] for key in ("stacked", "alone", "runs"))
    total_stacked = sum(stacked[name] * runs[name] for name in runs)
    total_alone = sum(alone[name] * runs[name] for name in runs)
    rows = [
        [
            OPTIMIZERS[name].title,
            f"{runs[name]:.0f}",
            f"{alone[name]:.0f}",
            f"{stacked[name]:.2f}",
            f"{alone[name] / stacked[name]:.0f}",
        ]
        for name in runs
    ]
    count = sum(runs.values())
    rows.append(
        [
            "all",
            f"{count:.0f}",
            f"{total_alone / count:.0f}",
            f"{total_stacked / count:.2f}",
            f"{total_alone / total_stacked:.0f}",
        ]
    )
    return Table(
        "Stacked training against one run at a time: microseconds per step and run",
        ["method", "runs in the stack", "one at a time", "stacked", "times faster"],
        rows,
        note=f"On {problem.label}, stacked training is {total_alone / total_stacked:.0f} × faster than one run at a "
        "time (an ordinary PyTorch loop: nn.Linear, autograd, the same optimizer); one thread, interleaved, medians.",
    )


def measure(problem: Logistic) -> dict[str, dict[str, float]]:
    """Medians over rounds in which every method takes its turn, so that a busy machine disturbs all alike."""
    lanes = {name: [{"lr": lr} for lr in GRID] for name in BASELINES} | {"gradagrad": variants()}
    seeds = list(range(FULL_SEEDS))
    stacked = {name: _stacked(problem, name, options, seeds) for name, options in lanes.items()}
    alone = {name: _alone(problem, name, options[0]) for name, options in lanes.items()}
    times: dict[str, dict[str, list[float]]] = {"stacked": {}, "alone": {}}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(_ROUNDS + 1):  # the first round warms up and is dropped
            for kind, methods in (("stacked", stacked), ("alone", alone)):
                for name, step in methods.items():
                    times[kind].setdefault(name, []).append(_clock(step))
    finally:
        torch.set_num_threads(threads)
    runs = {name: len(options) * len(seeds) for name, options in lanes.items()}
    medians = {
        kind: {name: float(torch.tensor(values[1:], dtype=torch.float64).median()) for name, values in methods.items()}
        for kind, methods in times.items()
    }
    return {
        "stacked": {name: value / runs[name] for name, value in medians["stacked"].items()},
        "alone": medians["alone"],
        "runs": {name: float(count) for name, count in runs.items()},
    }


def _clock(step: Callable[[], None]) -> float:
    started = time.perf_counter()
    for _ in range(_STEPS):
        step()
    return (time.perf_counter() - started) / _STEPS * 1e6


def _stacked(problem: Logistic, name: str, lanes: list[dict[str, Any]], seeds: list[int]) -> Callable[[], None]:
    stack = problem.stack(len(lanes), seeds)
    points = stack.start()
    gradients = torch.empty_like(points)
    optimizer, parameters = optimizers.make(name, points, lanes)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.view(parameter.shape)
    epoch = iter(())

    def step() -> None:
        nonlocal epoch
        batch = next(epoch, None)
        if batch is None:
            epoch = stack.batches(0)
            batch = next(epoch)
        stack.gradient(points, batch, out=gradients)
        optimizer.step()

    return step


def _alone(problem: Logistic, name: str, options: dict[str, Any]) -> Callable[[], None]:
    """The loop anyone would write for a single run."""
    data = problem.data
    features = torch.as_tensor(data.features, dtype=problem.dtype)
    targets = nn.functional.one_hot(torch.as_tensor(data.targets), data.classes).to(problem.dtype)
    model = nn.Linear(data.columns, data.classes, dtype=problem.dtype)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    loss_of = nn.BCEWithLogitsLoss(reduction="sum")
    optimizer = optimizers.entry_of(name).factory()(model.parameters(), **options)
    batches = iter(())

    def step() -> None:
        nonlocal batches
        rows = next(batches, None)
        if rows is None:
            batches = iter(row_order(0, 0, data.rows).split(problem.batch))
            rows = next(batches)
        optimizer.zero_grad()
        (loss_of(model(features[rows]), targets[rows]) / len(rows)).backward()
        optimizer.step()

    return step
