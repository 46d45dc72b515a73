"""Nets from 30 thousand to 40 million parameters: GradaGrad and AutoGradaGrad beside tuned AdamW and peers.

    python -m benchmarks.at_size RESULTS.json [model ...] [--seeds N]

Trains what RESULTS.json lacks, writes the file after every run and prints the tables. A complete file is only printed.
The models (`benchmarks.at_size_models`) are language, lora, cnn, vit and clicks. All methods of a seed see the same
start and the same mini-batches. AdamW's rate is the best of a grid of two to a decade on the first seed by the held-out
loss, which favours AdamW. The grid is extended while the best rate lies at its end. ``settings`` tries warm-up, cosine,
both, weight decay, clipping and accumulation on the CNN. A seed takes one core about ten minutes.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.at_size_models import Work, clicks, cnn, language, lora, vit
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.runs.single import Average

Make = Callable[[Work], list[Optimizer]]
Shape = Callable[[float], float]
MODELS: dict[str, tuple[str, Callable[[int], Work], int]] = {
    "language": ("transformer, Python's source", language, 120),
    "lora": ("the same, LoRA on English", lora, 200),
    "cnn": ("CNN, digits on photographs", cnn, 400),
    "vit": ("ViT, digits on photographs", vit, 500),
    "clicks": ("click model", clicks, 1000),
}
PARTS = (*MODELS, "settings")
ASKED = "cnn"  # the settings are tried on this model, because every method trains it
PLACES, LOWEST, HIGHEST = (-6, -5, -4), -12, 0


@dataclass(frozen=True)
class Setting:
    """What a user puts around an optimizer. ``shape`` maps a share of the run to a factor of lr."""

    shape: Shape | None = None
    decay: float | None = None
    clip: float = math.inf
    together: int = 1

    def factor(self, updates: int) -> Callable[[int], float]:
        """The factor of lr at each update."""
        shape = self.shape or (lambda share: 1.0)
        return lambda step: shape(step / updates)


def _warm_up(share: float) -> float:
    return min(1.0, 10 * share + 0.01)


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


PLAIN = Setting()
SETTINGS: dict[str, Setting] = {
    "warm-up over a tenth": Setting(_warm_up),
    "cosine to 0": Setting(_cosine),
    "warm-up and cosine": Setting(lambda share: _warm_up(share) * _cosine(share)),
    "decoupled decay 0.1": Setting(decay=0.1),
    "clipping at norm 1": Setting(clip=1.0),
    "4 batches to a step": Setting(together=4),
}


def _all(work: Work) -> list[Any]:
    return [*work.parameters, *work.tables]


def _element(work: Work, **options: Any) -> list[Optimizer]:
    groups: list[dict[str, Any]] = [{"params": work.parameters}]
    if work.tables:
        groups.append({"params": list(work.tables), "lazy": True})
    return [GradaGrad(groups, lr=0.01, decoupled_weight_decay=True, **options)]


def _by_row(work: Work) -> list[Optimizer]:
    tables = {"params": list(work.tables), "granularity": "row", "lazy": True}
    return [GradaGrad([{"params": work.parameters}, tables], lr=0.01)]


def _group(work: Work) -> list[Optimizer]:
    return [GradaGrad(_all(work), lr=1e-4, rho=100.0, granularity="group")]


def _auto(work: Work, **options: Any) -> list[Optimizer]:
    return [AutoGradaGrad(_all(work), **options)]


def _adamw(work: Work, lr: float, **options: Any) -> list[Optimizer]:
    tables = [torch.optim.SparseAdam(list(work.tables), lr)] if work.tables else []
    return [torch.optim.AdamW(work.parameters, lr, **options), *tables]


def _prodigy(work: Work) -> list[Optimizer]:
    from prodigyopt import Prodigy

    return [Prodigy(work.parameters, lr=1.0)]


def _schedule_free(work: Work) -> list[Optimizer]:
    from schedulefree import AdamWScheduleFree

    return [AdamWScheduleFree(work.parameters)]


def _rate(place: int) -> float:
    return float(f"{10 ** (place / 2):.3g}")


UNTUNED: dict[str, Make] = {
    "AutoGradaGrad": _auto,
    "AutoGradaGrad, γ₀ 1e-2": lambda work: _auto(work, gamma0=1e-2),
    "GradaGrad element, lr 0.01": _element,
    "GradaGrad group, lr 1e-4, ρ 100": _group,
    "Prodigy": _prodigy,
    "Schedule-Free AdamW": _schedule_free,
}
# Neither takes sparse gradients, and a dense step over the tables would take longer than all other work.
DENSE_ONLY = ("Prodigy", "Schedule-Free AdamW")


def untuned(name: str) -> dict[str, Make]:
    """The methods without a tuned rate that can train a model."""
    if name != "clicks":
        return UNTUNED
    return {key: make for key, make in UNTUNED.items() if key not in DENSE_ONLY} | {"GradaGrad, tables by row": _by_row}


def run(name: str, make: Make, seed: int, setting: Setting, advance: Callable[[], None]) -> dict[str, Any]:
    """Trains once; returns held-out measures at the last iterate and at the average, and processor time."""
    _, build, steps = MODELS[name]
    torch.manual_seed(seed)
    work = build(seed)
    torch.manual_seed(seed)
    optimizers: list[Any] = make(work)
    evaluates_elsewhere = hasattr(optimizers[0], "eval")  # Schedule-Free has an iterate for evaluation
    if evaluates_elsewhere:
        optimizers[0].train()
    updates = steps // setting.together
    schedules = [LambdaLR(one, setting.factor(updates)) for one in optimizers] if setting.shape else []
    average = None if evaluates_elsewhere or work.tables else Average(work.parameters)
    losses: list[float] = []
    started = time.process_time()
    for step in range(steps):
        loss = work.loss(step)
        (loss / setting.together).backward()
        losses.append(loss.item())
        advance()
        if not math.isfinite(losses[-1]):
            break
        if (step + 1) % setting.together:
            continue
        if math.isfinite(setting.clip):
            torch.nn.utils.clip_grad_norm_(work.parameters, setting.clip)
        for one in (*optimizers, *schedules):
            one.step()
        for one in optimizers:
            one.zero_grad()
        if average is not None:
            average.update()
    found: dict[str, Any] = {"seconds": round(time.process_time() - started, 1), "size": work.size}
    found["train"] = [_short(sum(part) / len(part)) for part in _tenths(losses)]
    if evaluates_elsewhere:
        optimizers[0].eval()
    found |= {key: _short(value) for key, value in work.held_out().items()}
    if average is not None:
        with average.averaged():
            found |= {f"averaged {key}": _short(value) for key, value in work.held_out().items()}
    return found


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _tenths(losses: list[float]) -> list[list[float]]:
    edges = [number * len(losses) // 10 for number in range(11)]
    return [losses[begin:end] for begin, end in itertools.pairwise(edges) if end > begin]


class Kept:
    """The results so far, in a file that is written after every run."""

    def __init__(self, path: Path, seeds: int, progress: Progress) -> None:
        self.path, self.seeds, self._progress = path, seeds, progress
        self.runs: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, name: str, label: str, make: Make, seed: int, setting: Setting = PLAIN) -> dict[str, Any]:
        """The run of a model, method and seed, which is trained if it is missing."""
        key, own = f"{label}, seed {seed}", self.runs.setdefault(name, {})
        if key not in own:
            task = self._progress.add_task(f"{name}: {key}", total=MODELS[name][2])
            own[key] = run(name, make, seed, setting, lambda: self._progress.advance(task))
            self._progress.remove_task(task)
            self.path.write_text(json.dumps(self.runs, indent=0, ensure_ascii=False))
            print(f"{name}: {key}: {own[key]['loss']}, {own[key]['seconds']} s", file=sys.stderr, flush=True)
        return own[key]

    def best_rate(self, name: str) -> float:
        """AdamW's best rate on the first seed."""
        losses: dict[int, float] = {}
        wanted = list(PLACES)
        while wanted:
            for place in wanted:
                found = self.get(name, f"AdamW, lr {_rate(place):g}", _at(_rate(place)), 0)["loss"]
                losses[place] = math.inf if found is None else found
            best, low, high = min(losses, key=losses.__getitem__), min(losses), max(losses)
            wanted = [low - 1] if best == low > LOWEST else [high + 1] if best == high < HIGHEST else []
        return _rate(min(losses, key=losses.__getitem__))

    def everything(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """Every method from every seed."""
        rate = self.best_rate(name)
        found = {label: [self.get(name, label, make, seed) for seed in range(self.seeds)]
                 for label, make in untuned(name).items()}  # fmt: skip
        tuned = f"AdamW, lr {rate:g}"
        return {f"{tuned} (tuned)": [self.get(name, tuned, _at(rate), seed) for seed in range(self.seeds)], **found}

    def settings(self, name: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """All settings, by method and setting, from every seed."""
        rate = self.best_rate(name)
        makers: dict[str, Callable[..., list[Optimizer]]] = {
            "AutoGradaGrad": _auto,
            "GradaGrad element, lr 0.01": _element,
            f"AdamW, lr {rate:g}": lambda work, **options: _adamw(work, rate, **options),
        }
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for label, make in makers.items():
            found[label] = {"as above": [self.get(name, label, make, seed) for seed in range(self.seeds)]}
            for words, setting in SETTINGS.items():
                options = {} if setting.decay is None else {"weight_decay": setting.decay}
                with_options = functools.partial(make, **options)
                found[label][words] = [
                    self.get(name, f"{label}, {words}", with_options, seed, setting) for seed in range(self.seeds)
                ]
        return found


def _at(rate: float) -> Make:
    return lambda work: _adamw(work, rate)


def report(kept: Kept, names: list[str]) -> None:
    """Prints the tables."""
    for name in (name for name in names if name in MODELS):
        rows = kept.everything(name)
        size = next(iter(rows.values()))[0]["size"]
        print(f"\n## {MODELS[name][0]}: {size:,} parameters, {MODELS[name][2]:,} steps, {kept.seeds} seed(s)\n")
        print("| method | held-out loss | averaged | accuracy | averaged | seconds |\n|---|---|---|---|---|---|")
        for label, found in rows.items():
            cells = [_cell(found, key) for key in ("loss", "averaged loss", "accuracy", "averaged accuracy", "seconds")]
            print(f"| {label} | " + " | ".join(cells) + " |")
    if "settings" in names:
        found = kept.settings(ASKED)
        print(f"\n## {MODELS[ASKED][0]}: held-out loss at the last iterate with\n\n| | {' | '.join(found)} |")
        print("|---" * (len(found) + 1) + "|")
        for words in ("as above", *SETTINGS):
            cells = [_cell(rows[words], "loss") for rows in found.values()]
            print(f"| {words} | " + " | ".join(cells) + " |")


def _cell(found: list[dict[str, Any]], key: str) -> str:
    if key not in found[0]:
        return ""
    values = [one[key] for one in found]
    if any(value is None for value in values):
        return "diverged"
    mean = sum(values) / len(values)
    return f"{100 * mean:.1f} %" if "accuracy" in key else f"{mean:.0f}" if key == "seconds" else f"{mean:.3f}"


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("models", nargs="*", metavar="model", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for word in options.models:
        if word not in PARTS:
            parser.error(f"models must be among {', '.join(PARTS)}, got {word!r}.")
    torch.set_num_threads(1)
    console = Console(stderr=True)
    warnings.simplefilter("ignore")  # the warning about a large first step is not needed here
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        report(Kept(options.results, options.seeds, progress), options.models or list(PARTS))


if __name__ == "__main__":
    main()
