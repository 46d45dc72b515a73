"""Why AutoGradaGrad loses where it loses, and what helps: γ, the points and the remedies, step by step.

    python -m benchmarks.auto_diagnosis [plateau] [spike] [recurrent] [late]

``plateau``: the small vision transformer of `benchmarks.at_size`, from one seed. ``spike``: one gradient a million
times too large, on two development problems. ``recurrent``: an LSTM that reads digits row by row, made for this
purpose; the held-out LSTM is not touched. ``late``: the last hundred steps of a GRU, whose seeds part. Nothing here is
held out. About six minutes of one core in all.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.at_size_models import ViT, vit
from benchmarks.auto_reference import AutoRows, Setting
from benchmarks.stacked import Stack
from benchmarks.tuned import tune
from gradagrad import AutoGradaGrad
from gradagrad_lab.figures.suite.catalogue import problem_of
from gradagrad_lab.problems import nets
from gradagrad_lab.problems.blocks import LSTM
from gradagrad_lab.problems.training import TrainingProblem, right_class, supervised

CHOSEN = Setting(guard="norm")
SEEDS, RECURRENT_SEEDS = 20, 10
PLATEAU_STEPS, PLATEAU_MARKS = 500, (10, 50, 200, 500)
TUNED_RATE = 3.16e-4  # AdamW's best on the ViT, by benchmarks.at_size


def _groups(named: dict[str, nn.Parameter], apart: tuple[str, ...]) -> list[dict[str, Any]]:
    """Those whose names begin so in a group of their own."""
    own = [name for name in named if name.startswith(apart)] if apart else []
    parts = [[name for name in named if name not in own], own]
    return [{"params": [named[name] for name in part]} for part in parts if part]


def plateau() -> None:
    """Held-out loss and accuracy, and γ on the way, of the group apart where there is one."""
    print(
        f"\n## ViT: held-out loss, accuracy, γ at step {', '.join(map(str, PLATEAU_MARKS))}\n\n| change | loss", end=""
    )
    print(" | accuracy | γ |\n|---|---|---|---|")
    _plateau("none", signal=True)
    _plateau("γ₀ = 1e-2", gamma0=1e-2)
    _plateau("no guard", guard=False)
    for held in (1e-3, 3e-3, 3e-2):
        _plateau(f"γ held at {held:g}", held=held, gamma0=held)
    _plateau('the first layer in a group of its own, scope="group"', ("pieces", "places"), scope="group")
    _plateau("the last layer so", ("last",), scope="group")
    for steps in (1000, 2000):
        _plateau(f"{steps:,} steps", steps=steps)
        _plateau(f"AdamW, lr = {TUNED_RATE:g}, {steps:,} steps", steps=steps, adamw=True)


def _plateau(
    words: str,
    apart: tuple[str, ...] = (),
    *,
    steps: int = PLATEAU_STEPS,
    held: float | None = None,
    adamw: bool = False,
    signal: bool = False,
    **options: Any,
) -> None:
    torch.manual_seed(0)
    work = vit(0)
    named = dict(zip((name for name, _ in ViT().named_parameters()), work.parameters, strict=True))
    optimizer = (
        torch.optim.AdamW(work.parameters, TUNED_RATE) if adamw else AutoGradaGrad(_groups(named, apart), **options)
    )
    parts: dict[str, list[float]] = {"pieces": [], "blocks": [], "last": []}
    gammas: list[float] = []
    for step in range(steps):
        work.loss(step).backward()
        if signal and step:
            for name, found in parts.items():
                found.append(_agreement(optimizer, [p for key, p in named.items() if key.startswith(name)]))
        optimizer.step()
        optimizer.zero_grad()
        if not adamw:
            gamma = optimizer.state[optimizer.param_groups[-1]["params"][0]]["gamma"]
            if held is not None:
                gamma.fill_(held)
            if step + 1 in PLATEAU_MARKS:
                gammas.append(gamma.item())
    found = work.held_out()
    path = ", ".join(f"{gamma:.2g}" for gamma in gammas)
    print(f"| {words} | {found['loss']:.3f} | {100 * found['accuracy']:.1f} % | {path} |", flush=True)
    for begin, end in ((10, 50), (50, 200)) if signal else ():
        told = ", ".join(f"{name} {_standard_errors(values[begin:end]):.1f}" for name, values in parts.items())
        print(f"    mean of what they add to P, in standard errors, steps {begin} to {end}: {told}")


def _standard_errors(values: list[float]) -> float:
    found = torch.tensor(values)
    return float(found.mean() / found.std()) * math.sqrt(len(found))


def _agreement(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> float:
    """What some parameters add to P."""
    numbers = optimizer.state[parameters[0]]
    found = [(p.grad, optimizer.state[p]["way"]) for p in parameters]
    total = sum(float((g * way).sum()) for g, way in found if g is not None)
    return float(numbers["gamma"].sqrt() * numbers["way_scale"]) * total


class _Limited(AutoRows):
    """A guard that lets a gradient weigh some share of all before it together."""

    share = 1.0

    def guarded(self, g: Tensor) -> Tensor:
        whole = self.a
        self.a = self.a * self.share
        found = super().guarded(g)
        self.a = whole
        return found


def spike() -> None:
    """Loss and γ around the spike, and at the end: with and without, and with what might help."""
    after = (0, 1, 2, 10, 50)
    for name in ("digits-svm", "mlp"):
        stack = Stack(problem_of(name).problem, range(SEEDS))
        at = int(0.3 * stack.problem.steps)
        norm = _usual_norm(stack)
        print(
            f"\n## {name}, {SEEDS} seeds: × 1e6 at step {at}; loss before, after {', '.join(map(str, after[1:]))} more"
        )
        print("\n| change | loss | γ | end: last | averaged |\n|---|---|---|---|---|")
        for words, share, clip in (
            ("guard", 1.0, math.inf),
            ("guard at a quarter", 0.25, math.inf),
            ("guard, clipping at twice the usual norm", 1.0, 2 * norm),
        ):
            for factor in (1.0, 1e6):

                def spoil(g: Tensor, step: int, at: int = at, factor: float = factor, clip: float = clip) -> Tensor:
                    g = g * factor if step == at else g
                    return g * (clip / g.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1.0)

                marks = [at + late for late in after]
                told = _told(stack, [CHOSEN], marks, spoil, share)
                kind = "with" if factor > 1 else "without"
                print(f"| {words}, {kind} the spike | {told[0]} |", flush=True)


def _usual_norm(stack: Stack) -> float:
    """The median norm of a gradient over the second tenth of a run."""
    norms: list[Tensor] = []
    begin = stack.problem.steps // 10

    def look(g: Tensor, step: int) -> Tensor:
        norms.append(g.norm(dim=1))
        return g

    _told(stack, [CHOSEN], [], look, steps=2 * begin)
    return float(torch.cat(norms[begin:]).median())


def _told(
    stack: Stack,
    settings: list[Setting],
    marks: list[int],
    disturb: Callable[[Tensor, int], Tensor] | None = None,
    share: float = 1.0,
    steps: int = 0,
    schedule: Callable[[float], float] | None = None,
) -> list[str]:
    """A line for every setting: mean loss and median γ at the marks, mean loss at the end, last and averaged."""
    lanes, seeds, steps = len(settings), len(stack.start), steps or stack.problem.steps
    points = stack.start.expand(lanes, *stack.start.shape).clone()
    rule = _Limited(points.flatten(0, 1), [one for one in settings for _ in range(seeds)], stack.tensor_of)
    rule.share = share
    average, seen = points.clone(), []
    for step in range(steps):
        if step in marks:
            seen.append((stack.losses(points).mean(1), rule.gamma.view(lanes, seeds).median(1).values))
        g = stack.gradients(points, step).flatten(0, 1)
        rule.step(g if disturb is None else disturb(g, step), 1.0 if schedule is None else schedule(step / steps))
        average.lerp_(points, 9.0 / (step + 9))
    last, mean = stack.losses(points), stack.losses(average)
    lines: list[str] = []
    for lane in range(lanes):
        paths = (", ".join(f"{float(path[i][lane]):.2g}" for path in seen) for i in (0, 1))
        ends = (f"{float(end[lane].mean()):.3g} (largest {float(end[lane].max()):.2g})" for end in (last, mean))
        lines.append(" | ".join([*paths, *ends]))
    return lines


class _RowReader(nn.Module):
    """An LSTM that reads the digit row by row, then names it."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.last = LSTM(8, 24), nn.Linear(24, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.last(self.recurrent(pixels.view(-1, 8, 8)))


READER = TrainingProblem(
    "lstm",
    "LSTM on digits",
    "net",
    500,
    32,
    supervised(nets._digits, lambda _: _RowReader(), cross_entropy, right_class),
    "24 units, 8 rows",
)


def recurrent() -> None:
    """Where seeds part: loss and γ on the way, with what might help."""
    marks = [50, 100, 200, 400]
    change = dataclasses.replace
    rows = {
        "none": CHOSEN,
        "γ₀ = 1e-3": change(CHOSEN, gamma0=1e-3),
        "γ₀ = 1e-2": change(CHOSEN, gamma0=1e-2),
        "no guard": change(CHOSEN, guard="off"),
        "w = 0.7": change(CHOSEN, w=0.7),
        "β = 0.9": change(CHOSEN, momentum=0.9),
    }
    stack = Stack(READER, range(RECURRENT_SEEDS))
    print(
        f"\n## LSTM on digits, {RECURRENT_SEEDS} seeds: loss and γ after {', '.join(map(str, marks))} steps; the end\n"
    )
    print("| change | loss | γ | end: last | averaged |\n|---|---|---|---|---|")
    for words, line in zip(rows, _told(stack, list(rows.values()), marks), strict=True):
        print(f"| {words} | {line} |", flush=True)
    told = _told(stack, [CHOSEN], marks, schedule=lambda share: 1.0 if share < 2 / 3 else 0.3)
    print(f"| lr × 0.3 in the last third | {told[0]} |", flush=True)
    for name, found in tune(Stack(READER, range(3))).items():
        print(f"| {name}, tuned, 3 seeds | | | {found.losses[0]:.3g} | {found.losses[1]:.3g} |", flush=True)


def late() -> None:
    """Whether a run ends badly because it is bad, or because its last point happens to be."""
    stack = Stack(problem_of("gru").problem, range(SEEDS))
    steps, change = stack.problem.steps, dataclasses.replace
    print(f"\n## GRU, {SEEDS} seeds, every fifth of the last hundred steps: loss\n")
    print("| change | usual: median of medians | beyond 3 × the own median | mean | last, largest", end="")
    print(" | averaged, largest | γ, median |\n" + "|---" * 7 + "|")
    for words, setting, end in (
        ("none", CHOSEN, 1.0),
        ("γ₀ = 1e-3", change(CHOSEN, gamma0=1e-3), 1.0),
        ("w = 0.7", change(CHOSEN, w=0.7), 1.0),
        ("lr × 0.3 in the last third", CHOSEN, 0.3),
    ):
        points = stack.start.clone()
        rule, average, seen = AutoRows(points, [setting] * SEEDS, stack.tensor_of), points.clone(), []
        for step in range(steps):
            rule.step(stack.gradients(points[None], step)[0], 1.0 if step < 2 * steps / 3 else end)
            average.lerp_(points, 9.0 / (step + 9))
            if step >= steps - 100 and step % 5 == 4:
                seen.append(stack.losses(points))
        losses, mean = torch.stack(seen), stack.losses(average)
        usual = losses.median(0).values
        numbers = (usual.median(), losses.mean(), losses[-1].mean(), losses[-1].max(), mean.mean(), mean.max())
        median, whole, *ends = (f"{float(number):.2g}" for number in numbers)
        thrown = f"{100 * float((losses > 3 * usual).float().mean()):.1f} %"
        cells = [median, thrown, whole, ", ".join(ends[:2]), ", ".join(ends[2:]), f"{float(rule.gamma.median()):.2g}"]
        print(f"| {words} | " + " | ".join(cells) + " |", flush=True)


PARTS: dict[str, Callable[[], None]] = {"plateau": plateau, "spike": spike, "recurrent": recurrent, "late": late}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for word in sys.argv[1:] or PARTS:
        if word not in PARTS:
            sys.exit(f"parts must be among {', '.join(PARTS)}, got {word!r}.")
        PARTS[word]()
