"""What 50 to 500 steps can do: ``python -m benchmarks.short_runs``. The training loss, by γ₀ and at the average.

The problems of `benchmarks.precision`, the badly scaled quadratic excepted, whose loss says nothing beside the others'.
Adam's two columns are what people start from; nothing is tuned.
"""

import argparse
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import torch

from benchmarks.precision import PROBLEMS, Problem
from gradagrad import AutoGradaGrad

METHODS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Auto 1e-4": AutoGradaGrad,
    "Auto 1e-3": lambda params: AutoGradaGrad(params, gamma0=1e-3),
    "Auto 1e-2": lambda params: AutoGradaGrad(params, gamma0=1e-2),
    "averaged": lambda params: AutoGradaGrad(params, averaging="polynomial"),
    "Adam 1e-3": lambda params: torch.optim.Adam(params, lr=1e-3),
    "Adam 1e-2": lambda params: torch.optim.Adam(params, lr=1e-2),
}
STEPS = (50, 100, 200, 500)


def losses(problem: Problem, make: Callable[[Any], torch.optim.Optimizer], seed: int) -> list[float]:
    """The final loss after each number of steps, in one run."""
    params, loss, final = problem(seed)
    optimizer = make(params)
    found: list[float] = []
    for step in range(max(STEPS)):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
        if step + 1 in STEPS:
            ours = isinstance(optimizer, AutoGradaGrad) and optimizer.param_groups[0]["averaging"]
            with torch.no_grad(), cast(AutoGradaGrad, optimizer).averaged() if ours else nullcontext():
                found.append(float(final(0)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    print(f"training loss, mean of {seeds} seeds; Auto: from that γ₀; averaged: from 1e-4, at the average")
    print(f"{'':28} {'steps':>5}" + "".join(f" {name:>10}" for name in METHODS))
    for name in ("softmax regression (convex)", "MLP", "character model"):
        problem, _ = PROBLEMS[name]
        runs = {method: [losses(problem, make, seed) for seed in range(seeds)] for method, make in METHODS.items()}
        for index, steps in enumerate(STEPS):
            means = [statistics.mean(run[index] for run in of_method) for of_method in runs.values()]
            print(f"{name:28} {steps:5}" + "".join(f" {mean:10.4g}" for mean in means), flush=True)


if __name__ == "__main__":
    main()
