"""AutoGradaGrad, untuned, against tuned baselines and parameter-free peers on problems that no choice was made on.

    python -m gradagrad_lab.held_out docs/records/auto-held-out.json [problem ...]
    python -m gradagrad_lab.held_out docs/records/auto-breaking.json --breaking
    python -m gradagrad_lab.held_out docs/auto-development.json --development

Prints the tables, and trains what the file lacks: about half an hour of one core. An interruption loses one run.
Runs of AutoGradaGrad that another rule made are trained again.
``--development``: problems that choices *were* made on, with 20 seeds and without peers. ``--breaking``: errors beside
AdamW at 1e-3 where optimizers without a learning rate break.
Baselines are tuned on a grid of two rates to a decade by their mean final training loss over the first seeds, the last
iterate and the average apart.
"""

import argparse
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from gradagrad_lab import pages
from gradagrad_lab.average import POWER
from gradagrad_lab.methods import OPTIMIZERS, PEERS, VARIANTS, Entry, rule_of
from gradagrad_lab.problems.breaking import BREAKING, LINEAR
from gradagrad_lab.problems.development import DEVELOPMENT
from gradagrad_lab.problems.held_out import HELD_OUT
from gradagrad_lab.problems.training import ACCURACY, LOSS, TrainingProblem
from gradagrad_lab.records import RunFile
from gradagrad_lab.single import DIVERGED, Single, loss_of, outcome_of
from gradagrad_lab.tune import best_place, rate

TUNING_SEEDS = 2
OURS = "AutoGradaGrad"
WIDE = {"sgd momentum": range(-6, 2), "adagrad": range(-6, 2), "adam": range(-8, 0), "schedulefree": range(-8, 2)}
NARROW = {
    "sgd momentum": range(-4, 0),
    "adagrad": range(-3, 1),
    "adam": range(-6, -2),
    "schedulefree": range(-5, -1),
    "adamw cosine": range(-6, -2),
}
"""The first rates of grids, as exponents of √10."""
ENTRIES = OPTIMIZERS | {entry.name: entry for entry in VARIANTS}


class Make(NamedTuple):
    """An optimizer of the lab's list, at the options that its authors recommend but for these."""

    entry: Entry
    options: Mapping[str, float] = MappingProxyType({})


class Table(NamedTuple):
    """Problems, and what is trained on them. ``grids``: the methods that are tuned, and where that begins."""

    problems: Sequence[TrainingProblem]
    seeds: int = 3
    starts: Sequence[float] = (1e-4,)
    grids: Mapping[str, Sequence[int]] = NARROW
    peers: Sequence[str] = (*PEERS, "schedulefree warm-up", "prodigy advised")


_SHORTER = (
    replace(problem, name=f"{problem.name}-{steps}", steps=steps) for problem in LINEAR for steps in (150, 300, 500)
)
CHOSEN_ON = (*DEVELOPMENT, *LINEAR, *_SHORTER)
TABLES = {
    "": Table(HELD_OUT, starts=(1e-8, 1e-4, 1e-2)),
    "--breaking": Table(BREAKING),
    "--development": Table(CHOSEN_ON, 20, (1e-4,), WIDE, ()),
}


def run(problem: TrainingProblem, seed: int, make: Make) -> list[float]:
    """The loss over all rows after training, at the last iterate and at the average, and before it. Then the error on
    rows that were held out, at both places: the loss where there are no classes."""
    task = problem.make(seed)
    training = Single(task, make.entry, make.options, seed, problem.steps, POWER)
    if make.entry.name != "autogradagrad":
        for parameter in task.parameters:
            parameter.register_post_accumulate_grad_hook(_dense)
    for number in range(training.rounds):
        training.advance(number)
    outcome = outcome_of(training.curves()[0])
    losses = [loss_of(outcome, averaged=False), loss_of(outcome, averaged=True), outcome.initial]
    for held_out, loss in zip((outcome.held_out, outcome.averaged_held_out), losses, strict=False):
        losses.append(1.0 - held_out[ACCURACY] if ACCURACY in held_out else held_out.get(LOSS, loss))
    return losses


def _dense(parameter: torch.Tensor) -> None:
    """Most optimizers cannot take a sparse gradient, and a dense one is the same."""
    if parameter.grad is not None and parameter.grad.is_sparse:
        parameter.grad = parameter.grad.to_dense()


class Results(RunFile):
    """By problem and method, for every seed: what `run` found. Old runs lack the loss before training."""

    def get(self, problem: TrainingProblem, method: str, seed: int, make: Make) -> list[float]:
        """A run's losses, trained now if they are not there."""
        runs: dict[str, Any] = self.runs.get(problem.name, {}).get(method, {})
        if method.startswith(OURS) and runs.get("rule") != rule_of("autogradagrad"):
            runs = {"rule": rule_of("autogradagrad")}
        if str(seed) not in runs:
            runs[str(seed)] = [float(f"{loss:.5g}") for loss in run(problem, seed, make)]
            self.put(runs, problem.name, method)
            self.note()
            self.save()
        return runs[str(seed)]

    def mean(self, problem: TrainingProblem, method: str, make: Make, at: int, seeds: int) -> float:
        return sum(self.get(problem, method, seed, make)[at] for seed in range(seeds)) / seeds

    def tuned(self, problem: TrainingProblem, name: str, at: int, start: Sequence[int]) -> tuple[str, Make]:
        """The best rate of a grid, which is extended while the best one is at its end."""
        losses: dict[int, float] = {}
        while True:
            best, missing = best_place(losses, start, range(-23, 8))
            if best is not None:
                return _named(problem, ENTRIES[name], best)
            for place in missing:
                losses[place] = self.mean(problem, *_named(problem, ENTRIES[name], place), at, TUNING_SEEDS)

    def diverged(self, problem: TrainingProblem, method: str, seeds: int) -> int:
        """The number of runs that ended at the largest loss that is counted."""
        runs = [self.runs[problem.name][method][str(seed)] for seed in range(seeds)]
        return sum(len(found) > 2 and found[0] >= 0.999 * DIVERGED * abs(found[2]) for found in runs)


def _named(problem: TrainingProblem, entry: Entry, place: int) -> tuple[str, Make]:
    return f"{entry.title}, lr {rate(place):g}", Make(entry, {"lr": rate(place)})


Rows = dict[str, list[float]]


def table(results: Results, what: Table, problems: Sequence[TrainingProblem]) -> tuple[Rows, dict[str, int]]:
    """Each method's loss on each problem, and how many of its runs diverged."""
    rows: Rows = {}
    diverged: dict[str, int] = {}
    for problem in problems:
        print(f"… {problem.name}", file=sys.stderr, flush=True)

        def add(title: str, method: str, make: Make, at: int, problem: TrainingProblem = problem) -> None:
            row = f"{title}, {('last', 'averaged')[at]}"
            rows.setdefault(row, []).append(results.mean(problem, method, make, at, what.seeds))
            diverged[row] = diverged.get(row, 0) + results.diverged(problem, method, what.seeds)

        for name, start in what.grids.items():
            for at in range(2 - ENTRIES[name].averages):
                add(f"{ENTRIES[name].title} tuned", *results.tuned(problem, name, at, start), at)
        for name in what.peers:
            entry = ENTRIES[name]
            for at in range(2 - entry.averages):
                title = entry.title + ", default" * (name in what.grids)
                add(title, title, Make(entry), at)
        for start in what.starts:
            title = OURS if start == 1e-4 else f"{OURS}, γ₀ = {start:g}"
            for at in range(2):
                add(title, title, Make(OPTIMIZERS["autogradagrad"], {"gamma0": start}), at)
    return rows, diverged


def show(rows: Rows, diverged: Mapping[str, int], problems: Sequence[TrainingProblem]) -> None:
    """Prints ratios to the best tuned baseline at its last iterate."""
    best = [min(rows[f"{name} tuned, last"][i] for name in ("SGD", "AdaGrad", "Adam")) for i in range(len(problems))]
    lines: list[list[str]] = []
    for method, losses in rows.items():
        ratios = [loss / base for loss, base in zip(losses, best, strict=True)]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        numbers = (f"{ratio:.2f}" for ratio in (mean, max(ratios), *ratios))
        lines.append([method, str(diverged[method]), *numbers])
    print(pages.table(["method", "diverged", "mean", "worst", *(problem.name for problem in problems)], lines))
    flat = [name for name in rows if name.startswith(OURS)]
    for where in ("last", "averaged") if len(flat) > 2 else ():
        own = [rows[name] for name in flat if name.endswith(where)]
        spans = [max(losses) / min(losses) for losses in zip(*own, strict=True)]
        print(f"\nOver all γ₀, {where}: within 15 % on {sum(s <= 1.15 for s in spans)} of {len(spans)}; "
              f"largest over smallest loss {', '.join(f'{s:.2f}' for s in spans)}.")  # fmt: skip


def show_breaking(results: Results, problems: Sequence[TrainingProblem], seeds: int) -> None:
    """Prints errors, in per cent where there are classes, and whether each seed is at most 1.3 times AdamW's and one
    per cent point more at the average."""
    lines: list[list[str]] = []
    for problem in problems:
        print(f"… {problem.name}", file=sys.stderr, flush=True)
        makes = {OURS: Make(OPTIMIZERS["autogradagrad"]), "AdamW": Make(OPTIMIZERS["adamw"])}
        runs = {name: [results.get(problem, name, seed, make) for seed in range(seeds)] for name, make in makes.items()}
        columns = [
            [run[4] for run in runs[OURS]],
            [run[3] for run in runs[OURS]],
            [run[3] for run in runs["AdamW"]],
        ]
        holds = [ours <= 1.3 * theirs + 0.01 for ours, theirs in zip(columns[0], columns[2], strict=True)]
        means = f"{sum(columns[0]) / sum(columns[2]):.2f}"
        cells = (", ".join(f"{100 * error:.3g}" for error in column) for column in columns)
        lines.append([problem.name, *cells, means, f"{sum(holds)} of {seeds}"])
    head = ["100 × error", "average", "parameters", "AdamW", "÷ AdamW", "hold"]
    print(pages.table(head, lines))


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the file of the runs; it is made if it is missing")
    parser.add_argument("problems", nargs="*", help="the names of problems; by default all")
    for name in filter(None, TABLES):
        parser.add_argument(name, dest="table", action="store_const", const=name, default="")
    options = parser.parse_intermixed_args()
    what = TABLES[options.table]
    every = {problem.name: problem for problem in what.problems}
    if unknown := set(options.problems) - every.keys():
        parser.error(f"unknown problems {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    chosen = [every[name] for name in options.problems] or what.problems
    results = Results(options.results)
    if what.problems is BREAKING:
        show_breaking(results, chosen, what.seeds)
        return
    show(*table(results, what, chosen), chosen)
    for problem in chosen if what.problems is CHOSEN_ON else ():
        own = [results.runs[problem.name][OURS][str(seed)] for seed in range(what.seeds)]
        last, averaged = (max(found[at] for found in own) for at in (0, 1))
        print(f"{problem.name}: the worst seed ends at {last:.3g}, averaged {averaged:.3g}")


if __name__ == "__main__":
    main()
