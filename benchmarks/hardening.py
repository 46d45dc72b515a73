"""What was tried to harden AutoGradaGrad: ``python -m benchmarks.hardening``, about a quarter of an hour on one core.

Every variant drives the product's own rule and changes only what goes into it or comes out of it: options of the
optimizer, constants of `gradagrad.auto.rule`, gradients, sums, γ. Seeds and variants are rows of one matrix. Columns:

- the final training loss at the averaged point over that of the best tuned baseline, for each of the suite's
  development problems; below 1 is better. Without ``--suite`` the baseline is AdaGrad's best on a half-decade grid.
- "noise": γ at the end on a flat loss whose gradients are noise of so many independent directions, the largest of
  six seeds.
- "later": a noisy quadratic for 1,000 steps, on which the default is certified and ends its start-up, then such noise
  for 5,000: by what factor γ has grown since, the largest of six seeds.

Five seeds say little about deep-mlp: its ratios differ by 0.1 and more between seeds' means.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import Parameter, functional

from benchmarks.record import Record
from benchmarks.variants import VARIANTS, Growth, Problem, Variant
from gradagrad_lab.context import Bar, Context
from gradagrad_lab.suite.catalogue import Entry, problems_at_hand
from gradagrad_lab.suite.evaluate import DIVERGED
from gradagrad_lab.suite.standings import FLOOR, FULL_SEEDS, Standings, size_of
from gradagrad_lab.suite.statistics import Floats, Pairing, geometric_mean
from gradagrad_lab.suite.tuning import rate

ADAGRAD_PLACES = range(-4, 4)  # learning rates 10^(place/2)
NOISE_SEEDS = 6
CERTIFYING, FLAT = 1_000, 5_000  # steps of "later"


class SuiteRows:
    """A problem of the suite, a seed in each row: its own model, loss, starts and mini-batches."""

    def __init__(self, entry: Entry, seeds: int, data_dir: Path | None) -> None:
        tasks: list[Any] = [entry.problem.make(seed, data_dir) for seed in range(seeds)]
        first = tasks[0]
        shapes = {name: value.shape for name, value in first.model.named_parameters()}
        sizes = [shape.numel() for shape in shapes.values()]
        self.entry, self.steps = entry, entry.problem.steps
        self.start = torch.stack([torch.cat([p.detach().flatten() for p in task.parameters]) for task in tasks])
        self.tensor_of = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        self._train, self._batches = first._train, torch.stack([task._order._batches for task in tasks], 1)

        def loss(x: Tensor, *rows: Tensor) -> Tensor:
            parts = zip(shapes.items(), x.split(sizes), strict=True)
            values = {name: part.view(shape) for (name, shape), part in parts}
            return first._loss(functional_call(first.model, values, rows[:-1]), rows[-1])

        self._losses = vmap(loss, in_dims=(0, *[None] * len(self._train)))
        self._gradients = vmap(grad(loss))
        self.initial = float(self._loss(self.start).mean())

    def gradient(self, x: Tensor, step: int) -> Tensor:
        rows = self._batches[step].repeat(len(x) // len(self.start), 1)
        with patch.object(functional, "one_hot", _one_hot):
            return self._gradients(x, *(part[rows] for part in self._train))

    def loss(self, x: Tensor) -> Floats:
        """Over the whole training part, for each row; at most what the suite gives to a diverged run."""
        return torch.nan_to_num(self._loss(x), nan=torch.inf).clamp(max=DIVERGED * self.initial).double().numpy()

    @torch.no_grad()
    def _loss(self, x: Tensor) -> Tensor:
        total, count = torch.zeros(len(x)), len(self._train[-1])
        with patch.object(functional, "one_hot", _one_hot):
            for rows in torch.arange(count).split(512):
                total += self._losses(x, *(part[rows] for part in self._train)) * len(rows)
        return total / count


class QuadraticRows:
    """The suite's noisy quadratic, a seed in each row."""

    def __init__(self, entry: Entry, seeds: int) -> None:
        tasks: list[Any] = [entry.problem.make(seed, None) for seed in range(seeds)]
        self.entry, self.steps = entry, entry.problem.steps
        self._curvatures, self._noise = tasks[0]._curvatures, torch.stack([task._noise for task in tasks], 1)
        self.start = torch.stack([task.parameters[0].detach() for task in tasks])
        self.tensor_of = torch.zeros(self.start.shape[1], dtype=torch.int64)
        self.initial = float(self.loss(self.start).mean())

    def gradient(self, x: Tensor, step: int) -> Tensor:
        return self._curvatures * x + self._noise[step].repeat(len(x) // len(self.start), 1)

    def loss(self, x: Tensor) -> Floats:
        return (0.5 * self._curvatures * x.square()).sum(1).double().numpy()


SuiteProblem = SuiteRows | QuadraticRows


def rows_of(entry: Entry, seeds: int, data_dir: Path | None) -> SuiteProblem:
    """A problem of the suite from its first seeds."""
    return QuadraticRows(entry, seeds) if entry.name == "quadratic" else SuiteRows(entry, seeds, data_dir)


def _one_hot(classes: Tensor, count: int) -> Tensor:
    """torch's own looks at the values first, which vmap cannot."""
    return (classes.unsqueeze(-1) == torch.arange(count)).long()


def _mixing(rank: int, size: int, falling: bool) -> Tensor | None:
    """How independent directions move the coordinates; None: each moves one. ``falling``: the i-th is 1/i as strong."""
    if not rank:
        return None
    strengths = 1.0 / torch.arange(1, rank + 1) if falling else torch.ones(rank)
    mixing = torch.randn(rank, size, generator=torch.Generator().manual_seed(rank)) * strengths.unsqueeze(1)
    return mixing / strengths.norm()


class Noise:
    """A flat loss: gradients are noise, of a kind that a few rows (seeds) share."""

    kinds: ClassVar[dict[str, tuple[int, bool]]] = {
        "1": (1, False),
        "2": (2, False),
        "10": (10, False),
        "100": (100, False),
        "100, 1/i": (100, True),
        "full": (0, False),
    }

    def __init__(self, size: int = 600) -> None:
        self._mixings = [_mixing(rank, size, falling) for rank, falling in self.kinds.values()]
        self._scales = torch.logspace(-1, 1, size)[torch.randperm(size, generator=torch.Generator().manual_seed(3))]
        self.start = torch.zeros(NOISE_SEEDS * len(self.kinds), size)
        self.tensor_of = torch.arange(size) * 2 // size  # two tensors

    def gradient(self, x: Tensor, step: int) -> Tensor:
        random, size = torch.Generator().manual_seed(1_000_003 * step + 17), self.start.shape[1]
        drawn = [torch.randn(NOISE_SEEDS, size if m is None else len(m), generator=random) for m in self._mixings]
        rows = torch.cat([z if m is None else z @ m for z, m in zip(drawn, self._mixings, strict=True)])
        return (rows * self._scales).repeat(len(x) // len(rows), 1)


class FlatLater(Noise):
    """½ Σ λ x² seen through noise of each coordinate, as long as it takes to be certified; then only noise."""

    kinds: ClassVar = {"1": (1, False), "10": (10, False), "full": (0, False)}

    def __init__(self, size: int = 600) -> None:
        super().__init__(size)
        self.start = torch.ones_like(self.start)
        self._scales = torch.ones(size)
        self._curvatures = torch.logspace(-2, 0, size)

    def gradient(self, x: Tensor, step: int) -> Tensor:
        if step >= CERTIFYING:
            return super().gradient(x, step)
        random = torch.Generator().manual_seed(1_000_003 * step + 29)
        noise = torch.randn(self.start.shape, generator=random)
        return self._curvatures * x + noise.repeat(len(x) // len(noise), 1)


def advance(runs: Sequence[Growth], problem: Problem, steps: Iterable[int], bar: Bar) -> None:
    """All variants side by side, since gradients of many rows cost little more than those of one."""
    for step in steps:
        gradients = problem.gradient(torch.cat([run.x for run in runs]), step).chunk(len(runs))
        for run, g in zip(runs, gradients, strict=True):
            run.step(g)
        bar.advance()


def best_adagrad(problem: SuiteProblem, context: Context) -> Floats:
    """Final loss for each seed at the learning rate of the lowest mean."""
    points = [Parameter(problem.start.clone()) for _ in ADAGRAD_PLACES]
    groups = [{"params": [p], "lr": rate(place)} for p, place in zip(points, ADAGRAD_PLACES, strict=True)]
    optimizer = torch.optim.Adagrad(groups)
    with context.progress(problem.steps, f"{problem.entry.name}: AdaGrad") as bar:
        for step in range(problem.steps):
            gradients = problem.gradient(torch.cat([p.detach() for p in points]), step).chunk(len(points))
            for p, g in zip(points, gradients, strict=True):
                p.grad = g
            optimizer.step()
            bar.advance()
    return min((problem.loss(p.detach()) for p in points), key=lambda losses: float(losses.mean()))


def best_of_suite(problem: SuiteProblem, context: Context) -> Floats:
    """The same of the best tuned baseline on record in the suite's folder."""
    standings = Standings(context, size_of(context))
    try:
        return standings.losses(problem.entry, standings.best_tuned(problem.entry))
    except ValueError as error:
        name, seeds = problem.entry.name, len(problem.start)
        raise SystemExit(f"--suite: {context.out} has no tuned baselines of {name} from {seeds} seeds.") from error


Baseline = Callable[[SuiteProblem, Context], Floats]


class Table:
    """The columns found so far, each a number for every variant; on disk as they come."""

    def __init__(self, variants: dict[str, Variant], record: Record | None) -> None:
        self.rows: list[dict[str, Any]] = [{"variant": name} for name in variants]
        self._record, self._begin = record, time.perf_counter()
        self._columns: list[tuple[str, str]] = []

    def add(self, column: str, values: Iterable[float], form: str) -> None:
        self._columns.append((column, form))
        for row, value in zip(self.rows, values, strict=True):
            row[column] = value
        if self._record is not None:
            self._record.add("hardening", "results", self.rows, time.perf_counter() - self._begin)

    def markdown(self) -> str:
        heads = " | ".join(["variant", *(name for name, _ in self._columns)])
        lines = [f"| {heads} |", "|---" * (1 + len(self._columns)) + "|"]
        for row in self.rows:
            cells = [row["variant"], *(f"{row[name]:{form}}" for name, form in self._columns)]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def add_ratios(table: Table, variants: Sequence[Variant], context: Context, baseline: Baseline) -> None:
    """The development problems, and over all of them the geometric mean and the worst."""
    entries = [entry for entry in problems_at_hand(context.data_dir) if entry.status == "development"]
    for entry in entries:
        problem = rows_of(entry, len(context.seed_range(FULL_SEEDS)), context.data_dir)
        best, floor = baseline(problem, context), FLOOR * problem.initial
        runs = [variant.on(problem) for variant in variants]
        with context.progress(problem.steps, entry.name) as bar:
            advance(runs, problem, range(problem.steps), bar)
        table.add(entry.name, [Pairing(problem.loss(run.mean), best, floor).ratio() for run in runs], ".3f")
    ratios = np.array([[row[entry.name] for entry in entries] for row in table.rows])
    table.add("geometric mean", map(geometric_mean, ratios), ".3f")
    table.add("worst", ratios.max(1).tolist(), ".2f")


def add_noise(table: Table, variants: Sequence[Variant], context: Context, steps: int) -> None:
    """γ at the end of noise from the start, and by what it has grown on noise after a signal."""
    for name, problem, begin, end in (
        ("noise", Noise(), 0, steps),
        ("later", FlatLater(), CERTIFYING, CERTIFYING + FLAT),
    ):
        runs = [variant.on(problem) for variant in variants]
        with context.progress(end, name) as bar:
            advance(runs, problem, range(begin), bar)
            before = [run.gamma if begin else torch.ones(()) for run in runs]
            advance(runs, problem, range(begin, end), bar)
        grown = torch.stack([run.gamma / old for run, old in zip(runs, before, strict=True)])
        for kind, values in zip(problem.kinds, grown.split(NOISE_SEEDS, 1), strict=True):
            table.add(f"{name}, {kind}", values.amax(1).tolist(), ".2g")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=FULL_SEEDS)
    parser.add_argument("--noise-steps", type=int, default=2_000, help="0 leaves noise out, early and late")
    parser.add_argument("--only", default="", help="variants whose names contain one of these, separated by semicolons")
    parser.add_argument("--suite", type=Path, help="folder of a finished `gradagrad suite`, for its tuned baselines")
    parser.add_argument("--data-dir", type=Path, help="where the LIBSVM sets are; default GRADAGRAD_DATA")
    parser.add_argument("--json", type=Path, help="write the numbers here, after every column")
    options = parser.parse_args()
    chosen = {name: v for name, v in VARIANTS.items() if any(part in name for part in options.only.split(";"))}
    if not chosen:
        raise SystemExit(f"--only: no variant has {options.only!r} in its name; there are: {'; '.join(VARIANTS)}.")
    torch.set_num_threads(1)
    context = Context(
        options.suite or Path(), options.data_dir, quick=False, seeds=options.seeds, console=Console(stderr=True)
    )
    record = Record(options.json, full=True, resume=False) if options.json else None
    table, variants = Table(chosen, record), list(chosen.values())
    add_ratios(table, variants, context, best_of_suite if options.suite else best_adagrad)
    if options.noise_steps:
        add_noise(table, variants, context, options.noise_steps)
    print(table.markdown())


if __name__ == "__main__":
    main()
