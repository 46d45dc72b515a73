"""Curves of any runs on one problem: accuracy, loss and the adapted learning rate, drawn from their records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator, PercentFormatter

from gradagrad_lab import style
from gradagrad_lab.context import Context
from gradagrad_lab.figures.figure3_draw import mean_and_band
from gradagrad_lab.figures.figure3_plan import Panel
from gradagrad_lab.records import Record
from gradagrad_lab.run import LEARNING_RATE

_TITLES = {"accuracy": "training accuracy", "loss": "training loss", LEARNING_RATE: "median learning rate"}


def draw(context: Context, panel: Panel, records: Mapping[str, Record], stem: str) -> list[Path]:
    """One panel per measure, a curve with a band of two standard errors per run; PNG and SVG."""
    rows = 1 + -(-len(records) // 3) * 0.22
    figure, grid = style.subplots(1, 3, width=style.WIDE * 1.1, height=2.4 + rows)
    with style.use():
        for axes, (metric, title) in zip(grid.flat, _TITLES.items(), strict=True):
            for number, (name, record) in enumerate(records.items()):
                if metric in record.curves:
                    _plot(axes, record, metric, name, _look(list(records), number))
            axes.set_title(title)
            axes.set_xlabel("epoch")
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        grid.flat[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        grid.flat[0].yaxis.set_major_formatter(PercentFormatter(1.0))
        grid.flat[2].set_yscale("log")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.suptitle(panel.label, x=0.01, ha="left", fontsize=11, fontweight="bold")
        figure.legend(handles, labels, loc="outside lower left", ncols=min(3, len(labels)))
    style.save(figure, context, stem)
    return [context.out / "figures" / f"{stem}.{kind}" for kind in ("png", "svg")]


def _look(names: list[str], number: int) -> dict[str, Any]:
    """The optimizer's own colour; a second run of the same one takes a colour of the ramp instead."""
    family = [name.split(",")[0].split(" (")[0] for name in names]
    earlier = family[:number].count(family[number])
    if earlier == 0:
        return style.line(names[number])
    shades = style.ramp(min(7, max(2, family.count(family[number]))))
    return {"color": shades[earlier % len(shades)], "linewidth": 1.6}


def _plot(axes: Any, record: Record, metric: str, label: str, look: dict[str, Any]) -> None:
    mean, two_errors = mean_and_band(record.curves[metric])
    epochs = np.arange(1, len(mean) + 1)
    axes.plot(epochs, mean, label=label, **look)
    if metric != LEARNING_RATE:
        style.band(axes, list(epochs), list(mean - two_errors), list(mean + two_errors), look["color"])
