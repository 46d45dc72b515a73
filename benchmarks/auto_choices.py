"""The choices that AutoGradaGrad's rule leaves open, compared on development problems: what they were settled by.

    python -m benchmarks.auto_choices [choices] [chaotic] [restart] [spikes] [starts] [schedules] [decay] [--on=NAME,…]

Ratios are mean final training losses over seeds, divided by that of the best tuned baseline (SGD with momentum,
AdaGrad, Adam, at the last point) on the same problem. ``choices``: guard × w × γ₀. ``chaotic``: the same on three
problems whose runs differ much, from more seeds. ``restart``: from trained nets, where a large γ₀ does harm.
``spikes``: one gradient multiplied. ``starts``: γ₀ from 1e-8 to 1. ``schedules``: warm-up and cosine on top.
``decay``: decoupled weight decay. ``--on`` names some of the problems; all of it takes about an hour on one core.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from benchmarks.auto_reference import Guard, Setting
from benchmarks.stacked import Block, Disturb, Finals, Stack, ours, train
from benchmarks.tuned import lanes, tune
from gradagrad_lab.suite.catalogue import problem_of

PROBLEMS = ["glass-16", "vehicle-16", "badly-scaled", "quadratic", "factorisation", "digits-svm", "mlp", "usps-128"]
SEEDS = 5
CHAOTIC = {"digits-svm": 20, "mlp": 15, "deep-mlp": 10}
GUARDS: tuple[Guard, ...] = ("off", "norm", "tensor")
WS, STARTS = (0.5, 0.6, 0.7, 0.85, 1.0), (1e-6, 1e-5, 1e-4, 1e-3)
CHOSEN = Setting(gamma0=1e-4, w=0.5, guard="norm")
_LANES_AT_ONCE = 6


@cache
def _stack(name: str, seeds: int = SEEDS) -> Stack:
    return Stack(problem_of(name).problem, range(seeds))


@cache
def _best(name: str) -> float:
    return min(tuned.losses[0] for tuned in tune(_stack(name)).values())


def _blocks(settings: Sequence[Setting]) -> list[Block]:
    begins = range(0, len(settings), _LANES_AT_ONCE)  # few lanes at a time stay in the processor's cache
    return [ours(settings[begin : begin + _LANES_AT_ONCE]) for begin in begins]


class Table:
    """Rows of ratios, a column per problem."""

    def __init__(self, title: str, label: str) -> None:
        print(f"\n## {title}\n")
        names = " | ".join(PROBLEMS)
        print(f"| {label} | mean averaged | last | worst averaged | last | diverged", end=" | ")
        print(f"{names} (averaged) | {names} (last) |")
        print("|---" * (6 + 2 * len(PROBLEMS)) + "|")

    def row(self, label: str, finals: Sequence[Finals]) -> None:
        averaged, last = (
            [self._ratio(n, f, at) for n, f in zip(PROBLEMS, finals, strict=True)] for at in (True, False)
        )
        diverged = sum(f.diverged(at) for f in finals for at in (True, False))
        heads = (mean(averaged), mean(last), max(averaged), max(last))
        cells = [*(f"{x:.3g}" for x in heads), str(diverged), *(f"{x:.3g}" for x in (*averaged, *last))]
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)

    @staticmethod
    def _ratio(name: str, finals: Finals, averaged: bool) -> float:
        return float(finals.losses(averaged).mean()) / _best(name)


def mean(ratios: Sequence[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _compare(title: str, label: str, rows: dict[str, Setting]) -> None:
    settings = list(rows.values())
    found = [train(_stack(name), _blocks(settings)) for name in PROBLEMS]
    table = Table(title, label)
    for number, text in enumerate(rows):
        table.row(text, [finals[number] for finals in found])


def choices() -> None:
    """Guard × w × γ₀, and two details."""
    rows = {
        f"{guard}, w = {w:g}, γ₀ = {start:g}": Setting(start, w, guard)
        for guard in GUARDS
        for w in WS
        for start in STARTS
    }
    rows["off, zero gradients do not rest"] = Setting(rest=False)
    _compare("Guard, w and γ₀", "guard", rows)


def chaotic() -> None:
    """Mean and largest ratio where single runs go astray, and how many exceed twice the best tuned baseline."""
    for name, seeds in CHAOTIC.items():
        guards: Sequence[Guard] = ("off", "norm")
        ws, starts = (0.5, 0.6, 0.7), STARTS
        if name == "deep-mlp":
            guards, ws, starts = GUARDS, (0.5, 0.7, 1.0), STARTS[1:]
        settings = [Setting(start, w, guard) for start in starts for w in ws for guard in guards]
        print(f"\n## {name}, {seeds} seeds\n\n| setting | averaged | largest | last | largest | beyond 2 × |")
        print("|---" * 6 + "|")
        for setting, finals in zip(settings, train(_stack(name, seeds), _blocks(settings)), strict=True):
            averaged, last = (finals.losses(at) / _best(name) for at in (True, False))
            numbers = (averaged.mean(), averaged.max(), last.mean(), last.max())
            cells = [*(f"{float(x):.3g}" for x in numbers), f"{int((averaged > 2).sum())}, {int((last > 2).sum())}"]
            print(f"| {setting.guard}, w = {setting.w:g}, γ₀ = {setting.gamma0:g} | {' | '.join(cells)} |", flush=True)


def restart() -> None:
    """Training loss over that of the trained net it starts from, after some steps; Adam at two rates beside it."""
    rates, marks = (1e-4, 1e-3), (1, 3, 10, 30, 100, 300)
    starts = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    for name, rate in (("mlp", 1e-2), ("deep-mlp", 3e-3)):
        stack = _stack(name, 4)
        trained = _averaged_adam(stack, rate)
        base = stack.losses(trained)
        points = trained.expand(len(starts) + len(rates), -1, -1).clone()
        mine = ours([dataclasses.replace(CHOSEN, gamma0=start) for start in starts])
        steppers = [mine.make(points[: len(starts)], stack.tensor_of)]
        steppers += [lanes("Adam", list(rates)).make(points[len(starts) :], stack.tensor_of)]
        print(f"\n## {name}, from a trained net: loss over its loss after {', '.join(map(str, marks))} steps\n")
        found: list[Tensor] = []
        for step in range(marks[-1]):
            g = stack.gradients(points, (7 * step + 3) % stack.problem.steps)
            steppers[0].step(g[: len(starts)])
            steppers[1].step(g[len(starts) :])
            if step + 1 in marks:
                found.append((stack.losses(points) / base).mean(1))
        texts = [*(f"γ₀ = {start:g}" for start in starts), *(f"Adam, lr = {rate:g}" for rate in rates)]
        for row, text in enumerate(texts):
            print(f"| {text} | " + " | ".join(f"{float(ratio[row]):.2f}" for ratio in found) + " |", flush=True)


def _averaged_adam(stack: Stack, rate: float) -> Tensor:
    points = stack.start.unsqueeze(0).clone()
    stepper, average = lanes("Adam", [rate]).make(points, stack.tensor_of), points.clone()
    for step in range(stack.problem.steps):
        stepper.step(stack.gradients(points, step))
        average.lerp_(points, 9.0 / (step + 9))
    return average[0]


def _spiked(at: float, factor: float, tensor: int | None = None) -> Callable[[Stack], Disturb]:
    """One gradient, at this share of the run, is multiplied: all of it or the part of one tensor."""

    def prepare(stack: Stack) -> Disturb:
        place = int(at * stack.problem.steps)
        own = torch.ones_like(stack.tensor_of) if tensor is None else (stack.tensor_of == tensor).long()
        weight = 1 + own * (factor - 1)
        return lambda g, step: g * weight if step == place else g

    return prepare


def spikes() -> None:
    """What a spike costs: the loss with it over the loss of the same setting without."""
    kinds = {
        "× 1e3 at 30 %": _spiked(0.3, 1e3),
        "× 1e6 at 30 %": _spiked(0.3, 1e6),
        "× 1e6 at 1 %": _spiked(0.01, 1e6),
        "× 1e6 at 30 % in the first tensor": _spiked(0.3, 1e6, 0),
    }
    rows = [dataclasses.replace(CHOSEN, guard=guard) for guard in (*GUARDS, "element")]
    without = {name: train(_stack(name), _blocks(rows)) for name in PROBLEMS}
    print("\n## One gradient multiplied: loss averaged / last, over the same without\n")
    print(f"| spike | guard | {' | '.join(PROBLEMS)} |")
    print("|---" * (2 + len(PROBLEMS)) + "|")
    for kind, prepare in kinds.items():
        found = {name: train(_stack(name), _blocks(rows), prepare(_stack(name))) for name in PROBLEMS}
        for number, setting in enumerate(rows):
            cells = [_cost(found[name][number], without[name][number]) for name in PROBLEMS]
            print(f"| {kind} | {setting.guard} | {' | '.join(cells)} |", flush=True)


def _cost(spoiled: Finals, clean: Finals) -> str:
    ratios = [float(spoiled.losses(at).mean() / clean.losses(at).mean()) for at in (True, False)]
    return " / ".join(f"{ratio:.3g}" for ratio in ratios)


Shape = Callable[[float], float]


def _changed(title: str, rows: dict[str, tuple[Setting, Shape | None]]) -> None:
    """What a change costs: the loss over the chosen setting's. ``Shape`` maps a share of the run to lr's factor."""
    print(f"\n## {title}: loss averaged / last, over the chosen setting\n\n| change | {' | '.join(PROBLEMS)} |")
    print("|---" * (1 + len(PROBLEMS)) + "|")
    cells: dict[str, list[str]] = {text: [] for text in rows}
    for name in PROBLEMS:
        steps = _stack(name).problem.steps
        blocks = [ours([CHOSEN]), *(ours([setting], _stretched(shape, steps)) for setting, shape in rows.values())]
        plain, *others = train(_stack(name), blocks)
        for text, finals in zip(rows, others, strict=True):
            cells[text].append(_cost(finals, plain))
    for text, found in cells.items():
        print(f"| {text} | {' | '.join(found)} |", flush=True)


def _stretched(shape: Shape | None, steps: int) -> Callable[[int], float] | None:
    return None if shape is None else lambda step: shape(step / steps)


def starts() -> None:
    """γ₀ over eight decades, for two w."""
    rows = [dataclasses.replace(CHOSEN, w=w, gamma0=10.0**power) for w in (0.5, 0.7) for power in range(-8, 1)]
    _changed("γ₀", {f"w = {row.w:g}, γ₀ = {row.gamma0:g}": (row, None) for row in rows})


def _warm_up(share: float) -> float:
    return min(1.0, 10 * share + 0.01)


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


def schedules() -> None:
    """The move is multiplied by a schedule, the way is not; or both are."""
    shapes: dict[str, Shape] = {
        "warm-up": _warm_up,
        "cosine": _cosine,
        "both": lambda share: _warm_up(share) * _cosine(share),
    }
    inside = dataclasses.replace(CHOSEN, schedule_in_way=True)
    rows = {text: (CHOSEN, shape) for text, shape in shapes.items()}
    _changed("Schedules", rows | {f"{text}, in the way too": (inside, shape) for text, shape in shapes.items()})


def decay() -> None:
    """Decoupled weight decay, counted in P and in the way, or not."""
    rows = {
        f"decay {amount:g}{'' if counted else ', not counted'}": (
            dataclasses.replace(CHOSEN, decay=amount, decay_in_way=counted),
            None,
        )
        for amount in (1e-3, 1e-2, 1e-1)
        for counted in (True, False)
    }
    _changed("Decoupled decay", rows)


PARTS: dict[str, Callable[[], None]] = {
    "choices": choices,
    "chaotic": chaotic,
    "restart": restart,
    "spikes": spikes,
    "starts": starts,
    "schedules": schedules,
    "decay": decay,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = [word for word in sys.argv[1:] if not word.startswith("--on=")]
    unknown = [word for word in wanted if word not in PARTS]
    if unknown:
        sys.exit(f"parts must be among {', '.join(PARTS)}, got {unknown[0]!r}.")
    for word in sys.argv[1:]:
        if word.startswith("--on="):
            PROBLEMS[:] = word.removeprefix("--on=").split(",")
    for part in wanted or PARTS:
        PARTS[part]()
