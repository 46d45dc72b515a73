"""The choices that AutoGradaGrad's rule leaves open, compared on development problems: what they were settled by.

    python -m benchmarks.auto_choices RESULTS.json [part ...] [--on=NAME,…]

Trains what RESULTS.json lacks, writes it problem by problem and prints the tables (``restart`` trains each time).
Ratios are mean final training losses over seeds, divided by that of the best tuned baseline (SGD with momentum,
AdaGrad, Adam, at the last point) on the same problem. ``choices``: guard × w × γ₀. ``chaotic``: the same where runs
differ much, from more seeds. ``restart``: from trained nets, where a large γ₀ does harm. ``spikes``: one gradient
multiplied. ``starts``: γ₀ from 1e-8 to 1. ``schedules``: warm-up and cosine on top. ``decay``: decoupled weight decay.
``--on`` names some of the problems; all parts on all of them take about an hour on one core.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.auto_reference import Guard, Setting
from benchmarks.stacked import Block, Disturb, Finals, Stack, ours, train
from benchmarks.tuned import lanes, tune
from gradagrad_lab.figures.suite.catalogue import problem_of

PROBLEMS = ["glass-16", "vehicle-16", "badly-scaled", "quadratic", "factorisation", "digits-svm", "mlp", "usps-128"]
SEEDS = 5
CHAOTIC = {"digits-svm": 20, "mlp": 20, "deep-mlp": 20, "gru": 20}
GUARDS: tuple[Guard, ...] = ("off", "norm", "tensor")
WS, STARTS = (0.5, 0.7, 1.0), (1e-6, 1e-5, 1e-4, 1e-3)
CHOSEN = Setting(gamma0=1e-4, w=0.5, guard="norm")
_LANES_AT_ONCE = 6
Shape = Callable[[float], float]


def _warm_up(share: float) -> float:
    return min(1.0, 10 * share + 0.01)


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


# Schedules map a share of the run to lr's factor; spikes are where in the run, how large, and in which tensor.
SHAPES: dict[str, Shape] = {
    "warm-up": _warm_up,
    "cosine": _cosine,
    "both": lambda share: _warm_up(share) * _cosine(share),
}
SPIKES: dict[str, tuple[float, float, int | None]] = {
    "× 1e3 at 30 %": (0.3, 1e3, None),
    "× 1e6 at 30 %": (0.3, 1e6, None),
    "× 1e6 at 1 %": (0.01, 1e6, None),
    "× 1e6 at 30 % in the first tensor": (0.3, 1e6, 0),
}


@dataclasses.dataclass(frozen=True)
class Lane:
    """A setting of the rule, and what is done to it on the way."""

    setting: Setting = CHOSEN
    shape: str = ""
    spike: str = ""


class Kept:
    """Final losses by problem, number of seeds and lane, in a file; what is missing is trained."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, dict[str, list[float]]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, name: str, wanted: Sequence[Lane], seeds: int = SEEDS) -> list[Finals]:
        """The lanes of a problem, in their order."""
        keys = {lane: f"{name} × {seeds}, {_text(lane)}" for lane in wanted}
        missing = [lane for lane in keys if keys[lane] not in self._found]
        stack = Stack(problem_of(name).problem, range(seeds)) if missing else None
        for spike in dict.fromkeys(lane.spike for lane in missing):
            own = [lane for lane in missing if lane.spike == spike]
            assert stack is not None
            for lane, finals in zip(own, train(stack, _blocks(own, stack), _disturb(spike, stack)), strict=True):
                numbers = {"last": finals.last, "averaged": finals.averaged, "initial": finals.initial}
                self._found[keys[lane]] = {key: _short(values) for key, values in numbers.items()}
            self._write()
        return [_finals(self._found[keys[lane]]) for lane in wanted]

    def best(self, name: str) -> float:
        """The loss of the best tuned baseline."""
        key = f"{name} × {SEEDS}, best tuned"
        if key not in self._found:
            tuned = tune(Stack(problem_of(name).problem, range(SEEDS)))
            self._found[key] = {"last": [float(f"{min(one.losses[0] for one in tuned.values()):.6g}")]}
            self._write()
        return self._found[key]["last"][0]

    def _write(self) -> None:
        self._path.write_text(json.dumps(self._found, indent=0, ensure_ascii=False))


def _text(lane: Lane) -> str:
    told = [f"{name} {value}" for name, value in dataclasses.asdict(lane.setting).items()]
    return ", ".join([*told, *(word for word in (lane.shape, lane.spike) if word)])


def _short(values: Tensor) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]


def _finals(found: dict[str, list[float]]) -> Finals:
    last, averaged, initial = (torch.tensor(found[key]) for key in ("last", "averaged", "initial"))
    return Finals(last, averaged, initial, None)


def _blocks(own: Sequence[Lane], stack: Stack) -> list[Block]:
    """A block takes lanes of one schedule that follow each other, few at a time: they stay in the cache."""
    blocks: list[Block] = []
    begin = 0
    while begin < len(own):
        shape, end = own[begin].shape, begin + 1
        while end < min(len(own), begin + _LANES_AT_ONCE) and own[end].shape == shape:
            end += 1
        blocks.append(ours([lane.setting for lane in own[begin:end]], _stretched(shape, stack.problem.steps)))
        begin = end
    return blocks


def _stretched(shape: str, steps: int) -> Callable[[int], float] | None:
    return (lambda step: SHAPES[shape](step / steps)) if shape else None


def _disturb(spike: str, stack: Stack) -> Disturb | None:
    """One gradient, at this share of the run, is multiplied: all of it or the part of one tensor."""
    if not spike:
        return None
    at, factor, tensor = SPIKES[spike]
    place = int(at * stack.problem.steps)
    own = torch.ones_like(stack.tensor_of) if tensor is None else (stack.tensor_of == tensor).long()
    weight = 1 + own * (factor - 1)
    return lambda g, step: g * weight if step == place else g


def mean(ratios: Sequence[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def choices(kept: Kept) -> None:
    """Guard × w × γ₀: means over the problems, and every problem by itself."""
    rows = {
        f"{guard}, w = {w:g}, γ₀ = {start:g}": Lane(Setting(start, w, guard))
        for guard in GUARDS
        for w in WS
        for start in STARTS
    }
    rows["off, zero gradients do not rest"] = Lane(Setting(rest=False))
    found = {name: kept.get(name, list(rows.values())) for name in PROBLEMS}
    print("\n## Guard, w and γ₀\n\n| guard | mean averaged | last | worst averaged | last | diverged", end=" | ")
    print(f"{' | '.join(PROBLEMS)} (averaged / last) |\n" + "|---" * (6 + len(PROBLEMS)) + "|")
    for number, text in enumerate(rows):
        finals = {name: found[name][number] for name in PROBLEMS}
        averaged, last = (
            [float(one.losses(at).mean()) / kept.best(name) for name, one in finals.items()] for at in (True, False)
        )
        diverged = sum(one.diverged(at) for one in finals.values() for at in (True, False))
        heads = (mean(averaged), mean(last), max(averaged), max(last))
        cells = [*(f"{x:.2f}" for x in heads), str(diverged)]
        cells += [f"{one:.2f} / {other:.2f}" for one, other in zip(averaged, last, strict=True)]
        print(f"| {text} | " + " | ".join(cells) + " |", flush=True)


def chaotic(kept: Kept) -> None:
    """Mean and largest ratio where single runs go astray, and how many exceed twice the best tuned baseline."""
    for name, seeds in CHAOTIC.items():
        rows = [Lane(Setting(start, w, guard)) for start in STARTS for w in WS[:2] for guard in GUARDS[:2]]
        best = kept.best(name)
        print(f"\n## {name}, {seeds} seeds\n\n| setting | averaged | largest | last | largest | beyond 2 × |")
        print("|---" * 6 + "|")
        for lane, finals in zip(rows, kept.get(name, rows, seeds), strict=True):
            averaged, last = (finals.losses(at) / best for at in (True, False))
            numbers = (averaged.mean(), averaged.max(), last.mean(), last.max())
            cells = [*(f"{float(x):.2f}" for x in numbers), f"{int((averaged > 2).sum())}, {int((last > 2).sum())}"]
            setting = lane.setting
            print(f"| {setting.guard}, w = {setting.w:g}, γ₀ = {setting.gamma0:g} | {' | '.join(cells)} |", flush=True)


def restart(kept: Kept) -> None:
    """Training loss over that of the trained net it starts from, after some steps; Adam at two rates beside it."""
    rates, marks = (1e-4, 1e-3), (1, 3, 10, 30, 100, 300)
    starts = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    for name, rate in (("mlp", 1e-2), ("deep-mlp", 3e-3)):
        stack = Stack(problem_of(name).problem, range(4))
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


def spikes(kept: Kept) -> None:
    """What a spike costs: the loss with it over the loss of the same setting without."""
    settings = [dataclasses.replace(CHOSEN, guard=guard) for guard in (*GUARDS, "element")]
    clean = {name: kept.get(name, [Lane(setting) for setting in settings]) for name in PROBLEMS}
    print("\n## One gradient multiplied: loss averaged / last, over the same without\n")
    print(f"| spike | guard | {' | '.join(PROBLEMS)} |\n" + "|---" * (2 + len(PROBLEMS)) + "|")
    for spike in SPIKES:
        found = {name: kept.get(name, [Lane(setting, spike=spike) for setting in settings]) for name in PROBLEMS}
        for number, setting in enumerate(settings):
            cells = [_cost(found[name][number], clean[name][number]) for name in PROBLEMS]
            print(f"| {spike} | {setting.guard} | {' | '.join(cells)} |", flush=True)


def _cost(spoiled: Finals, clean: Finals) -> str:
    ratios = [float(spoiled.losses(at).mean() / clean.losses(at).mean()) for at in (True, False)]
    return " / ".join(f"{ratio:.3g}" for ratio in ratios)


def _changed(kept: Kept, title: str, rows: dict[str, Lane]) -> None:
    """What a change costs: the loss over the chosen setting's."""
    print(f"\n## {title}: loss averaged / last, over the chosen setting\n\n| change | {' | '.join(PROBLEMS)} |")
    print("|---" * (1 + len(PROBLEMS)) + "|")
    found = {name: kept.get(name, [Lane(), *rows.values()]) for name in PROBLEMS}
    for number, text in enumerate(rows, 1):
        print(f"| {text} | {' | '.join(_cost(found[name][number], found[name][0]) for name in PROBLEMS)} |", flush=True)


def starts(kept: Kept) -> None:
    """γ₀ over eight decades, for two w."""
    settings = [dataclasses.replace(CHOSEN, w=w, gamma0=10.0**power) for w in WS[:2] for power in range(-8, 1)]
    _changed(kept, "γ₀", {f"w = {one.w:g}, γ₀ = {one.gamma0:g}": Lane(one) for one in settings})


def schedules(kept: Kept) -> None:
    """The move is multiplied by a schedule, the way is not; or both are."""
    inside = dataclasses.replace(CHOSEN, schedule_in_way=True)
    rows = {shape: Lane(CHOSEN, shape) for shape in SHAPES}
    _changed(kept, "Schedules", rows | {f"{shape}, in the way too": Lane(inside, shape) for shape in SHAPES})


def decay(kept: Kept) -> None:
    """Decoupled weight decay, counted in P and in the way, or not."""
    rows = {
        f"decay {amount:g}{'' if counted else ', not counted'}": Lane(
            dataclasses.replace(CHOSEN, decay=amount, decay_in_way=counted)
        )
        for amount in (1e-3, 1e-2, 1e-1)
        for counted in (True, False)
    }
    _changed(kept, "Decoupled decay", rows)


PARTS: dict[str, Callable[[Kept], None]] = {
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
    words = [word for word in sys.argv[1:] if not word.startswith("--on=")]
    unknown = [word for word in words[1:] if word not in PARTS]
    if not words or words[0] in PARTS:
        sys.exit("Name the file for the results: python -m benchmarks.auto_choices RESULTS.json [part ...] [--on=…]")
    if unknown:
        sys.exit(f"parts must be among {', '.join(PARTS)}, got {unknown[0]!r}.")
    for word in sys.argv[1:]:
        if word.startswith("--on="):
            PROBLEMS[:] = word.removeprefix("--on=").split(",")
    for part in words[1:] or PARTS:
        PARTS[part](Kept(Path(words[0])))
