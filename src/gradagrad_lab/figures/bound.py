"""Theorem 2 on a box: the averaged iterate's measured suboptimality against the printed bound and the corrected one."""

import time
from typing import Any

import numpy as np
import torch

from gradagrad_lab import style
from gradagrad_lab.context import Context
from gradagrad_lab.figures.bound_claims import NAMES, describe
from gradagrad_lab.problems.toy import AbsoluteValue, BoxRegression
from gradagrad_lab.records import Record
from gradagrad_lab.results import Section
from gradagrad_lab.theorem import RHO, Measured, Trial, read, train

INITIAL = (1.0, 0.1, 0.01)
STEPS = {"quick": 1024, "full": 16384}
SEEDS = 10
# From x₀ = 3/4·γ₀ every early step jumps over the minimum, so gradients alternate in sign and v = (1 + ρ)·g².
ALTERNATING = AbsoluteValue(start_at=0.75, dtype=torch.float64)
SHORT = NAMES | {"absolute": "absolute deviations", "logistic": "logistic"}


def trials(context: Context) -> dict[str, list[Trial]]:
    """What is run, by the name of its problem."""
    seeds = context.seed_range(SEEDS)
    steps = STEPS[context.size]
    return {
        "absolute": [Trial(BoxRegression("absolute"), INITIAL, seeds, steps, momentum) for momentum in (0.0, 0.9)],
        "logistic": [Trial(BoxRegression("logistic"), INITIAL, seeds, steps)],
        "alternating": [Trial(ALTERNATING, (1.0,), (0,), 1024, momentum) for momentum in (0.0, 0.9)],
    }


def run(context: Context) -> Section:
    """Train what is missing, draw and describe."""
    started = time.perf_counter()
    planned = trials(context)
    records: dict[str, list[Record]] = {}
    with context.progress(sum(trial.steps for group in planned.values() for trial in group), "Theorem 2") as bar:
        for name, group in planned.items():
            records[name] = [
                context.records.ensure(trial.config(), trial.seeds, lambda trial=trial: train(trial, bar))
                for trial in group
            ]
    trained = sum(record.seconds for group in records.values() for record in group)
    measured = [curve for name, group in records.items() for record in group for curve in read(name, record)]
    wide, narrow = draw(measured, style.WIDE, 3.9), draw(measured, style.NARROW, 9.0, narrow=True)
    style.save(wide, context, "bound", narrow=narrow)
    return describe(measured, max(trained, time.perf_counter() - started))


def draw(measured: list[Measured], width: float, height: float, *, narrow: bool = False) -> Any:
    """Two problems log-log with both bounds, and the sum α against what the proof assumes of it."""
    plain = [curve for curve in measured if curve.momentum == 0]
    with style.use():
        figure, grid = style.subplots(3 if narrow else 1, 1 if narrow else 3, width=width, height=height)
        lowest = 10 ** np.floor(np.log10(min(curve.mean.min() for curve in plain if curve.name != "alternating")))
        for axes, name in zip(grid.flat, ("absolute", "logistic"), strict=False):
            axes.set_title(SHORT[name].capitalize())
            _draw_gaps(axes, [curve for curve in plain if curve.name == name])
            axes.set_ylim(0.5 * lowest, 2e3)
        _draw_sums(grid.flat[2], [curve for curve in plain if curve.initial == 1.0])
        if not narrow:
            grid[0, 1].tick_params(labelleft=False)
            grid[0, 1].set_ylabel("")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        columns = 2 if narrow else len(labels)
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, handlelength=1.8, columnspacing=1.6)
    return figure


def _draw_gaps(axes: Any, curves: list[Measured]) -> None:
    for curve, shade in zip(curves, style.ramp(len(curves)), strict=True):
        axes.plot(curve.iterates, curve.mean, color=shade, label=f"measured, γ₀ = {curve.initial:g}")
        low = np.maximum(curve.mean - 2 * curve.error, 1e-12)
        style.band(axes, curve.iterates, low, curve.mean + 2 * curve.error, shade)
    first = curves[0]
    axes.plot(
        first.iterates, first.printed, color=style.INK, linewidth=1.3, linestyle=(0, (4, 2)), label="printed bound"
    )
    axes.plot(first.iterates, first.corrected, color=style.INK, linewidth=1.3, label="corrected bound")
    axes.set(xscale="log", yscale="log", xlabel="iterates averaged, n + 1", ylabel="f(average) − f*")


def _draw_sums(axes: Any, curves: list[Measured]) -> None:
    axes.set_title("α ÷ (n + 1)·G∞²")
    looks = {
        "absolute": ("adagrad", (2.7, 1.45)),
        "logistic": ("adam", (13, 0.36)),
        "alternating": ("gradagrad", (3.6, 2.15)),
    }
    for curve in curves:
        look, place = looks[curve.name]
        axes.plot(curve.iterates, curve.sums, **style.line(look))
        style.note(axes, SHORT[curve.name], place, shade=style.colour(look), fontsize=9)
    for level, text in ((1.0, "assumed: ≤ 1"), (1 + RHO, "safe: ≤ 1 + ρ")):
        axes.axhline(level, color=style.MUTED, linewidth=1.1, linestyle=(0, (1.5, 2)))
        where: Any = ("axes fraction", "data")
        style.note(
            axes, text, (0.98, level + 0.06), xycoords=where, ha="right", va="bottom", shade=style.MUTED, fontsize=8.5
        )
    axes.set(xscale="log", ylim=(0, 3.5), yticks=[0, 1, 2, 3], xlabel="n + 1")
