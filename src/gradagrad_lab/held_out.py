"""AutoGradaGrad, untuned, against tuned baselines and parameter-free peers on problems that no choice was made on.

    python -m gradagrad_lab.held_out docs/auto-held-out.json [problem ...]
    python -m gradagrad_lab.held_out docs/auto-development.json --development

Prints the tables, and trains what the file lacks: about half an hour of one core. An interruption loses one run.
``--development``: problems that choices *were* made on, with 20 seeds and without peers.
Baselines are tuned on a grid of two rates to a decade by their mean final training loss over the first seeds, the last
iterate and the average apart.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from gradagrad_lab import pages
from gradagrad_lab.average import POWER
from gradagrad_lab.methods import PEERS, entry_of
from gradagrad_lab.problems.held_out import DEVELOPMENT, HELD_OUT
from gradagrad_lab.problems.training import TrainingProblem
from gradagrad_lab.records import RunFile
from gradagrad_lab.single import Single, loss_of, outcome_of
from gradagrad_lab.tune import best_place, rate

TUNING_SEEDS = 2
STARTS = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0)
GRIDS = {"sgd": range(-6, 2), "adagrad": range(-6, 2), "adam": range(-8, 0), "schedulefree": range(-8, 2)}
"""Exponents of √10."""


class Make(NamedTuple):
    """An optimizer of the lab's list, at the options that its authors recommend but for these."""

    name: str
    options: dict[str, float]


def run(problem: TrainingProblem, seed: int, make: Make) -> tuple[float, float]:
    """The loss over all rows after training, at the last iterate and at the average."""
    task = problem.make(seed)
    training = Single(task, entry_of(make.name), make.options, seed, problem.steps, POWER)
    if make.name != "autogradagrad":
        for parameter in task.parameters:
            parameter.register_post_accumulate_grad_hook(_dense)
    for number in range(training.rounds):
        training.advance(number)
    outcome = outcome_of(training.curves()[0])
    return loss_of(outcome, averaged=False), loss_of(outcome, averaged=True)


def _dense(parameter: torch.Tensor) -> None:
    """Most optimizers cannot take a sparse gradient, and a dense one is the same."""
    if parameter.grad is not None and parameter.grad.is_sparse:
        parameter.grad = parameter.grad.to_dense()


class Results(RunFile):
    """By problem and method, the two losses of every seed."""

    def get(self, problem: TrainingProblem, method: str, seed: int, make: Make) -> tuple[float, float]:
        """A run's losses, trained now if they are not there."""
        runs = self.runs.setdefault(problem.name, {}).setdefault(method, {})
        if str(seed) not in runs:
            runs[str(seed)] = [float(f"{loss:.5g}") for loss in run(problem, seed, make)]
            self.note()
            self.save()
        return runs[str(seed)]

    def mean(self, problem: TrainingProblem, method: str, make: Make, at: int, seeds: int = 0) -> float:
        seeds = seeds or (20 if problem in DEVELOPMENT else 5)
        return sum(self.get(problem, method, seed, make)[at] for seed in range(seeds)) / seeds

    def tuned(self, problem: TrainingProblem, name: str, at: int) -> tuple[str, Make]:
        """The best rate of a grid, which is extended while the best one is at its end."""
        losses: dict[int, float] = {}
        while True:
            best, missing = best_place(losses, GRIDS[name], range(-23, 8))
            if best is not None:
                return _named(name, best)
            for place in missing:
                losses[place] = self.mean(problem, *_named(name, place), at, TUNING_SEEDS)


def _named(name: str, place: int) -> tuple[str, Make]:
    momentum = {"momentum": 0.9} if name == "sgd" else {}
    return f"{entry_of(name).title}, lr {rate(place):g}", Make(name, {**momentum, "lr": rate(place)})


def table(results: Results, problems: Sequence[TrainingProblem]) -> dict[str, list[float]]:
    """Each method's loss on each problem."""
    rows: dict[str, list[float]] = {}
    all_of_them = problems[0] not in DEVELOPMENT
    peers = [entry_of(name) for name in PEERS if all_of_them]
    untuned = {peer.title + ", default" * (peer.name in GRIDS): Make(peer.name, {}) for peer in peers}
    for start in STARTS if all_of_them else (1e-4,):
        name = "AutoGradaGrad" if start == 1e-4 else f"AutoGradaGrad, γ₀ = {start:g}"
        untuned[name] = Make("autogradagrad", {"gamma0": start})
    for problem in problems:
        print(f"… {problem.name}", file=sys.stderr, flush=True)
        for name in GRIDS:
            for at, where in enumerate(("last", "averaged")[: 2 - entry_of(name).averages]):
                loss = results.mean(problem, *results.tuned(problem, name, at), at)
                rows.setdefault(f"{entry_of(name).title} tuned, {where}", []).append(loss)
        for name, make in untuned.items():
            for at, where in enumerate(("last", "averaged")[: 2 - entry_of(make.name).averages]):
                rows.setdefault(f"{name}, {where}", []).append(results.mean(problem, name, make, at))
    return rows


def show(rows: dict[str, list[float]], problems: Sequence[TrainingProblem]) -> None:
    """Prints ratios to the best tuned baseline at its last iterate."""
    best = [min(rows[f"{name} tuned, last"][i] for name in ("SGD", "AdaGrad", "Adam")) for i in range(len(problems))]
    lines: list[list[str]] = []
    for method, losses in rows.items():
        ratios = [loss / base for loss, base in zip(losses, best, strict=True)]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append([method, *(f"{ratio:.2f}" for ratio in (mean, max(ratios), *ratios))])
    print(pages.table(["method", "mean", "worst", *(problem.name for problem in problems)], lines))
    flat = [name for name in rows if name.startswith("AutoGradaGrad") and "= 1e-08" not in name and "= 1," not in name]
    for where in ("last", "averaged") if len(flat) > 2 else ():
        own = [rows[name] for name in flat if name.endswith(where)]
        spans = [max(losses) / min(losses) for losses in zip(*own, strict=True)]
        print(f"\nγ₀ from 1e-6 to 1e-2, {where}: within 15 % on {sum(s <= 1.15 for s in spans)} of {len(spans)}; "
              f"largest over smallest loss {', '.join(f'{s:.2f}' for s in spans)}.")  # fmt: skip


def main() -> None:
    """Runs the command line."""
    names = {problem.name: [problem] for problem in HELD_OUT} | {"--development": DEVELOPMENT}
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= names.keys():
        sys.exit(f"Usage: python -m gradagrad_lab.held_out RESULTS.json [{' | '.join(names)} ...]")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    chosen = [problem for name in sys.argv[2:] for problem in names[name]] or HELD_OUT
    results = Results(Path(sys.argv[1]))
    show(table(results, chosen), chosen)
    if chosen[0] in DEVELOPMENT:
        for problem in chosen:
            last, averaged = zip(*results.runs[problem.name]["AutoGradaGrad"].values(), strict=True)
            print(f"{problem.name}: the worst seed ends at {max(last):.3g}, averaged {max(averaged):.3g}")


if __name__ == "__main__":
    main()
