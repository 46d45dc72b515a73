"""Why AutoGradaGrad loses where it loses, and what helps: γ, the points and the remedies, step by step.

    python -m benchmarks.auto_diagnosis [plateau] [spike] [recurrent]

``plateau``: the small vision transformer of `benchmarks.at_size`, from one seed. ``spike``: one gradient a million
times too large, on two development problems. ``recurrent``: an LSTM that reads digits row by row, made for this
purpose; the held-out LSTM is not touched. Nothing here is held out. About six minutes of one core in all.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.at_size_models import ViT, vit
from benchmarks.auto_reference import AutoRows, Setting
from benchmarks.stacked import Stack
from benchmarks.tuned import tune
from gradagrad import AutoGradaGrad
from gradagrad_lab.problems import nets
from gradagrad_lab.problems.blocks import LSTM
from gradagrad_lab.problems.training import TrainingProblem
from gradagrad_lab.suite.catalogue import problem_of

CHOSEN = Setting(guard="norm")
SEEDS = 20
PLATEAU_STEPS, PLATEAU_MARKS = 500, (10, 50, 200, 500)
TUNED_RATE = 3.16e-4  # AdamW's best on the ViT, by benchmarks.at_size
Groups = list[dict[str, Any]]


def _together(named: dict[str, nn.Parameter]) -> Groups:
    return [{"params": list(named.values())}]


def _first_apart(named: dict[str, nn.Parameter]) -> Groups:
    first = [name for name in named if name.startswith(("pieces", "places"))]
    return [{"params": [named[n] for n in named if n not in first]}, {"params": [named[n] for n in first]}]


def plateau() -> None:
    """Held-out loss and accuracy, and γ on the way."""
    print(
        f"\n## ViT: held-out loss, accuracy, γ at step {', '.join(map(str, PLATEAU_MARKS))}\n\n| change | loss", end=""
    )
    print(" | accuracy | γ |\n|---|---|---|---|")
    _plateau("none", signal=True)
    for gamma0 in (1e-3, 1e-2):
        _plateau(f"γ₀ = {gamma0:g}", gamma0=gamma0)
    _plateau("no guard", guard=False)
    for held in (1e-3, 3e-3, 1e-2, 3e-2):
        _plateau(f"γ held at {held:g}", held=held, gamma0=held)
    _plateau('the first layer in a group of its own, scope="group"', _first_apart, scope="group")
    for steps in (1000, 2000):
        _plateau(f"{steps:,} steps", steps=steps)
        _plateau(f"AdamW, lr = {TUNED_RATE:g}, {steps:,} steps", steps=steps, adamw=True)


def _plateau(
    words: str,
    groups: Callable[[dict[str, nn.Parameter]], Groups] = _together,
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
    optimizer = torch.optim.AdamW(work.parameters, TUNED_RATE) if adamw else AutoGradaGrad(groups(named), **options)
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
            gamma = optimizer.state[optimizer.param_groups[0]["params"][0]]["gamma"]
            if held is not None:
                gamma.fill_(held)
            if step + 1 in PLATEAU_MARKS:
                gammas.append(gamma.item())
    found = work.held_out()
    path = ", ".join(f"{gamma:.2g}" for gamma in gammas)
    print(f"| {words} | {found['loss']:.3f} | {100 * found['accuracy']:.1f} % | {path} |", flush=True)
    for name, values in parts.items():
        if values:
            middle = torch.tensor(values[50:200])
            errors = float(middle.mean() / middle.std()) * math.sqrt(len(middle))
            print(f"    agreement within {name}, steps 50 to 200: {errors:.1f} standard errors above 0")


def _agreement(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> float:
    """What some parameters add to P, but for the factor that all share."""
    found = [(p.grad, optimizer.state[p]["way"]) for p in parameters]
    return sum(float((g * way).sum()) for g, way in found if g is not None)


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
        for words, share, clip, setting in (
            ("guard", 1.0, math.inf, CHOSEN),
            ("no guard", 1.0, math.inf, dataclasses.replace(CHOSEN, guard="off")),
            ("guard at a quarter", 0.25, math.inf, CHOSEN),
            ("guard at a tenth", 0.1, math.inf, CHOSEN),
            ("guard, clipping at twice the usual norm", 1.0, 2 * norm, CHOSEN),
        ):
            for factor in (1.0, 1e6):

                def spoil(g: Tensor, step: int, at: int = at, factor: float = factor, clip: float = clip) -> Tensor:
                    g = g * factor if step == at else g
                    return g * (clip / g.norm(dim=1, keepdim=True).clamp_min(1e-30)).clamp_max(1.0)

                marks = [at + late for late in after]
                told = _told(stack, [setting], marks, spoil, share)
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


READER = TrainingProblem("lstm", "LSTM on digits", "net", 800, 32, nets._classifier(_RowReader), "24 units, 8 rows")


def recurrent() -> None:
    """Where seeds part: loss and γ on the way, with what might help."""
    marks = [50, 100, 200, 400, 600]
    change = dataclasses.replace
    rows = {
        "none": CHOSEN,
        "γ₀ = 1e-3": change(CHOSEN, gamma0=1e-3),
        "γ₀ = 1e-2": change(CHOSEN, gamma0=1e-2),
        "no guard": change(CHOSEN, guard="off"),
        "w = 0.7": change(CHOSEN, w=0.7),
        "w = 1": change(CHOSEN, w=1.0),
        "β = 0": change(CHOSEN, momentum=0.0),
        "β = 0.9": change(CHOSEN, momentum=0.9),
    }
    stack = Stack(READER, range(SEEDS))
    print(f"\n## LSTM on digits, {SEEDS} seeds: loss and γ after {', '.join(map(str, marks))} steps, and the end\n")
    print("| change | loss | γ | end: last | averaged |\n|---|---|---|---|---|")
    for words, line in zip(rows, _told(stack, list(rows.values()), marks), strict=True):
        print(f"| {words} | {line} |", flush=True)
    for words, shape in {
        "a cosine to 0": lambda share: 0.5 * (1 + math.cos(math.pi * share)),
        "lr × 0.3 in the last third": lambda share: 1.0 if share < 2 / 3 else 0.3,
    }.items():
        print(f"| {words} | {_told(stack, [CHOSEN], marks, schedule=shape)[0]} |", flush=True)
    for name, found in tune(Stack(READER, range(5))).items():
        print(f"| {name}, tuned, 5 seeds | | | {found.losses[0]:.3g} | {found.losses[1]:.3g} |", flush=True)


PARTS: dict[str, Callable[[], None]] = {"plateau": plateau, "spike": spike, "recurrent": recurrent}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for word in sys.argv[1:] or PARTS:
        if word not in PARTS:
            sys.exit(f"parts must be among {', '.join(PARTS)}, got {word!r}.")
        PARTS[word]()
