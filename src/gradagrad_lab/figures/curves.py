"""Curves of any runs on one problem: accuracy, loss and the adapted learning rate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from gradagrad_lab.figures.figure3.draw import epoch_axis, mean_and_band, without_start
from gradagrad_lab.figures.figure3.plan import Trial
from gradagrad_lab.methods import LEARNING_RATE
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.study import Floats, Frame, Method

_TITLES = {"accuracy": "training accuracy", "loss": "training loss", LEARNING_RATE: "median learning rate"}


def draw(frame: Frame, trial: Trial, methods: Mapping[str, Method], stem: str) -> list[Path]:
    """One panel per measure, a curve with a band of two standard errors per run; PNG and SVG. The first steep epochs
    lie outside of the first two panels."""
    panels = [
        Panel(lambda axes, what=metric: _panel(axes, frame, trial, methods, what), f"{trial.label}: {title}")
        for metric, title in _TITLES.items()
    ]
    picture = Picture(stem, stem, "", f"Curves on {trial.label}.", panels, size=(3.3, 2.8))
    return style.save(style.sheet(picture), frame.context.out / "figures", stem)


def _panel(axes: Axes, frame: Frame, trial: Trial, methods: Mapping[str, Method], metric: str) -> None:
    means: list[Floats] = []
    for number, (label, method) in enumerate(methods.items()):
        if metric not in trial.runs([method])[0].measures:
            continue
        look = _look(list(methods), number)
        mean, two_errors = mean_and_band(trial.curves(frame, method, metric))
        means.append(mean)
        epochs = np.arange(1, len(mean) + 1)
        axes.plot(epochs, mean, label=label, **look)
        if metric != LEARNING_RATE:
            style.band(axes, epochs, mean - two_errors, mean + two_errors, look["color"])
    epoch_axis(axes)
    if metric == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if metric == LEARNING_RATE:
        axes.set_yscale("log")
    else:
        without_start(axes, means)


def _look(names: list[str], number: int) -> dict[str, Any]:
    """The optimizer's own colour; a second run of the same one takes a colour of the ramp instead."""
    family = [name.split(",")[0].split(" (")[0] for name in names]
    earlier = family[:number].count(family[number])
    if earlier == 0:
        return style.line(names[number])
    shades = style.ramp(min(7, max(2, family.count(family[number]))))
    return {"color": shades[earlier % len(shades)], "linewidth": 1.6}
