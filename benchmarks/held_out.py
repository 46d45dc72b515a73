"""AutoGradaGrad, untuned, against tuned baselines and parameter-free peers on problems that no choice was made on.

    python -m benchmarks.held_out docs/auto-held-out.json [problem ...]

Prints the tables, and trains what the file lacks: about half an hour of one core. An interruption loses one run.
Baselines are tuned on a grid of two rates to a decade by their mean final training loss over the first seeds, the last
iterate and the average apart.
"""

from __future__ import annotations

import json
import math
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.held_out_problems import PROBLEMS, Problem
from gradagrad import AutoGradaGrad

TUNING_SEEDS, SEEDS = range(2), range(5)
STARTS = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0)
DIVERGED = 10.0
"""A run counts at most as so many times its first loss."""
POWER = 4
"""The i-th iterate counts as about i⁴ in the baselines' average."""
GRIDS = {"SGD": range(-6, 2), "AdaGrad": range(-6, 2), "Adam": range(-8, 0), "Schedule-Free AdamW": range(-8, 2)}
"""Exponents of √10."""
Make = Callable[[Any], Any]


def baseline(name: str, lr: float) -> Make:
    """An optimizer with a learning rate."""
    from schedulefree import AdamWScheduleFree

    return {
        "SGD": lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9),
        "AdaGrad": lambda p: torch.optim.Adagrad(p, lr=lr),
        "Adam": lambda p: torch.optim.Adam(p, lr=lr),
        "Schedule-Free AdamW": lambda p: AdamWScheduleFree(p, lr=lr),
    }[name]


def peers() -> dict[str, Make]:
    """The parameter-free optimizers, as their authors recommend them."""
    from dadaptation import DAdaptAdam
    from dog import DoG
    from mechanic_pytorch import mechanize
    from parameterfree import COCOB
    from prodigyopt import Prodigy

    return {
        "Prodigy": lambda p: Prodigy(p, lr=1.0),
        "D-Adaptation Adam": lambda p: DAdaptAdam(p, lr=1.0),
        "DoG": lambda p: DoG(p),
        "COCOB": lambda p: COCOB(p),
        "Mechanic (Adam)": lambda p: mechanize(torch.optim.Adam, store_delta=True)(p, lr=1.0),
        "Schedule-Free AdamW, default": baseline("Schedule-Free AdamW", 0.0025),
    }


def run(problem: Problem, seed: int, make: Make) -> tuple[float, float]:
    """The loss over all rows after training, at the last iterate and at the average."""
    model, order = problem.start(seed)
    params = list(model.parameters())
    optimizer = make(params)
    ours = isinstance(optimizer, AutoGradaGrad)
    inputs, targets = problem.rows()
    first = _loss(problem, model)
    means = [p.detach().clone() for p in params]
    if hasattr(optimizer, "train"):
        optimizer.train()
    for step in range(problem.steps):
        optimizer.zero_grad()
        problem.loss(model(inputs[order[step]]), targets[order[step]]).backward()
        for p in params if not ours else ():
            if p.grad is not None and p.grad.is_sparse:  # Most of the others cannot take it, and it is the same.
                p.grad = p.grad.to_dense()
        optimizer.step()
        share = (POWER + 1.0) / (step + 1.0 + POWER)
        for mean, p in zip(means, params, strict=True):
            mean.lerp_(p.detach(), share)
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    last = _loss(problem, model)
    if ours:
        with optimizer.averaged():
            averaged = _loss(problem, model)
    elif hasattr(optimizer, "eval"):
        averaged = last
    else:
        with torch.no_grad():
            for p, mean in zip(params, means, strict=True):
                p.copy_(mean)
        averaged = _loss(problem, model)
    limit = DIVERGED * abs(first)
    return tuple(min(loss, limit) if math.isfinite(loss) else limit for loss in (last, averaged))  # pyright: ignore


@torch.no_grad()
def _loss(problem: Problem, model: torch.nn.Module) -> float:
    inputs, targets = problem.rows()
    parts = zip(inputs.split(2000), targets.split(2000), strict=True)
    return sum(float(problem.loss(model(a), b)) * len(b) for a, b in parts) / len(targets)


class Results:
    """The records in a file: by problem and method, the two losses of every seed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"runs": {}}

    def get(self, problem: Problem, method: str, seed: int, make: Make) -> tuple[float, float]:
        """A run's losses, trained now if they are not there."""
        runs = self.found["runs"].setdefault(problem.name, {}).setdefault(method, {})
        if str(seed) not in runs:
            runs[str(seed)] = [float(f"{loss:.5g}") for loss in run(problem, seed, make)]
            commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
            self.found |= {"commit": commit.stdout.strip(), "date": str(date.today()), "torch": torch.__version__}
            self.found |= {"python": platform.python_version(), "scikit-learn": version("scikit-learn")}
            scratch = self.path.with_suffix(".part")
            scratch.write_text(json.dumps(self.found, indent=0, ensure_ascii=False))
            scratch.replace(self.path)
        return runs[str(seed)]

    def mean(self, problem: Problem, method: str, make: Make, at: int, seeds: range = SEEDS) -> float:
        return sum(self.get(problem, method, seed, make)[at] for seed in seeds) / len(seeds)

    def tuned(self, problem: Problem, name: str, at: int) -> tuple[str, Make]:
        """The best rate of a grid, which is extended while the best one is at its end."""
        places = dict.fromkeys(GRIDS[name], 0.0)
        losses: dict[int, float] = {}
        while True:
            for place in places:
                if place not in losses:
                    method, make = _named(name, place)
                    losses[place] = self.mean(problem, method, make, at, TUNING_SEEDS)
            best = min(losses, key=lambda place: (losses[place], place))
            edge = best - 1 if best == min(losses) else best + 1 if best == max(losses) else best
            if edge == best or not -24 < edge < 8:
                return _named(name, best)
            places = {edge: 0.0}


def _named(name: str, place: int) -> tuple[str, Make]:
    lr = float(f"{10.0 ** (place / 2):.3g}")
    return f"{name}, lr {lr:g}", baseline(name, lr)


def table(results: Results, problems: list[Problem]) -> dict[str, list[float]]:
    """Each method's loss on each problem."""
    rows: dict[str, list[float]] = {}
    for problem in problems:
        print(f"… {problem.name}", file=sys.stderr, flush=True)
        for name in GRIDS:
            for at, where in enumerate(("last", "averaged")[: 2 - name.startswith("Schedule-Free")]):
                method, make = results.tuned(problem, name, at)
                rows.setdefault(f"{name} tuned, {where}", []).append(results.mean(problem, method, make, at))
        for name, make in peers().items():
            for at, where in enumerate(("last", "averaged")[: 2 - name.startswith("Schedule-Free")]):
                rows.setdefault(f"{name}, {where}", []).append(results.mean(problem, name, make, at))
        for start in STARTS:
            method = "AutoGradaGrad" if start == 1e-4 else f"AutoGradaGrad, γ₀ = {start:g}"
            for at, where in enumerate(("parameters", "averaged")):
                loss = results.mean(problem, method, lambda p, s=start: AutoGradaGrad(p, gamma0=s), at)
                rows.setdefault(f"{method}, {where}", []).append(loss)
    return rows


def show(rows: dict[str, list[float]], problems: list[Problem]) -> None:
    """Prints ratios to the best tuned baseline at its last iterate."""
    best = [min(rows[f"{name} tuned, last"][i] for name in list(GRIDS)[:3]) for i in range(len(problems))]
    print(f"| method | mean | worst | {' | '.join(problem.name for problem in problems)} |")
    print("|---" * (len(problems) + 3) + "|")
    for method, losses in rows.items():
        ratios = [loss / base for loss, base in zip(losses, best, strict=True)]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"| {method} | {mean:.2f} | {max(ratios):.2f} | " + " | ".join(f"{r:.2f}" for r in ratios) + " |")
    flat = [name for name in rows if name.startswith("AutoGradaGrad") and "= 1e-08" not in name and "= 1," not in name]
    for where in ("parameters", "averaged"):
        own = [rows[name] for name in flat if name.endswith(where)]
        spans = [max(losses) / min(losses) for losses in zip(*own, strict=True)]
        print(f"\nγ₀ from 1e-6 to 1e-2, {where}: within 15 % on {sum(s <= 1.15 for s in spans)} of {len(spans)}; "
              f"largest over smallest loss {', '.join(f'{s:.2f}' for s in spans)}.")  # fmt: skip


def main() -> None:
    """Runs the command line."""
    names = {problem.name: problem for problem in PROBLEMS}
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= names.keys():
        sys.exit(f"Usage: python -m benchmarks.held_out RESULTS.json [{' | '.join(names)} ...]")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    chosen = [names[name] for name in sys.argv[2:]] or list(PROBLEMS)
    show(table(Results(Path(sys.argv[1])), chosen), chosen)


if __name__ == "__main__":
    main()
