"""The pictures of Figure 3, drawn from records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from gradagrad_lab import style
from gradagrad_lab.context import Context
from gradagrad_lab.figures.figure3_plan import DEFAULT, INITIAL_RATES, Panel, setting, tune
from gradagrad_lab.optimizers import BASELINES, OPTIMIZERS, PEERS
from gradagrad_lab.records import Record, RecordStore
from gradagrad_lab.run import LEARNING_RATE

Draw = Callable[[Axes, Panel], None]


def mean_and_band(values: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over seeds and two standard errors; no band for a single seed."""
    array = np.asarray(values, dtype=np.float64)
    mean = array.mean(axis=0)
    if array.shape[0] < 2:
        return mean, np.zeros_like(mean)
    return mean, 2 * array.std(axis=0, ddof=1) / np.sqrt(array.shape[0])


def _curve(axes: Axes, record: Record, metric: str, name: str, label: str) -> None:
    mean, two_errors = mean_and_band(record.curves[metric])
    epochs = np.arange(1, len(mean) + 1)
    axes.plot(epochs, mean, label=label, **style.line(name))
    style.band(axes, list(epochs), list(mean - two_errors), list(mean + two_errors), style.colour(name))


def _percent_axis(axes: Axes, decimals: int) -> None:
    # No steps of 2.5 %, which a label without decimals would misstate.
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def _epoch_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("epoch")


def draw_panels(context: Context, panels: Sequence[Panel], stem: str, draw: Draw) -> None:
    """One panel per set, in a wide layout and one for phones, with one legend above all."""
    wide = _layout(panels, draw, columns=3, width=style.WIDE)
    narrow = _layout(panels, draw, columns=1 if len(panels) < 3 else 2, width=style.NARROW * 1.25)
    style.save(wide, context, stem, narrow=narrow)


def _layout(panels: Sequence[Panel], draw: Draw, columns: int, width: float) -> Figure:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = style.subplots(rows, columns, width=width, height=0.75 + 2.15 * rows)
    with style.use():
        every = list(grid.flat)
        for axes, panel in zip(every, panels, strict=False):
            draw(axes, panel)
            axes.set_title(panel.label, fontsize=9.5)
        for axes in every[len(panels) :]:
            axes.set_visible(False)
        for number, axes in enumerate(every[: len(panels)]):
            if number % columns:
                axes.set_ylabel("")
            if number + columns < len(panels):
                axes.set_xlabel("")
        handles, labels = every[0].get_legend_handles_labels()
        # Labels name the method alone; what differs from set to set (the tuned learning rate) stands in the table.
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 4 if columns > 2 else 2))
    return figure


def accuracy(context: Context, panels: Sequence[Panel]) -> None:
    """The paper's Figure 3."""
    records = context.records

    def draw(axes: Axes, panel: Panel) -> None:
        shown = _draw_methods(axes, panel, records, "accuracy", context.peers)
        tops = [mean_and_band(record.curves["accuracy"])[0] for record in shown]
        # The interesting part is the top: leave out the first steep epochs, which would flatten everything else.
        early = max(panel.epochs // 20, 1)
        low = min(float(np.nanmin(mean[early:] if len(mean) > early else mean)) for mean in tops)
        high = max(float(np.nanmax(mean)) for mean in tops)
        margin = 0.08 * max(high - low, 0.005)
        axes.set_ylim(low - margin, high + 2 * margin)
        _percent_axis(axes, decimals=0 if high - low > 0.04 else 1)
        axes.set_ylabel("training accuracy")
        _epoch_axis(axes)

    draw_panels(context, panels, "figure3", draw)


def loss(context: Context, panels: Sequence[Panel]) -> None:
    """The same for the loss, which the paper does not show; baselines tuned for it."""
    records = context.records

    def draw(axes: Axes, panel: Panel) -> None:
        shown = _draw_methods(axes, panel, records, "loss", context.peers, tune_for="loss")
        ends = [mean_and_band(record.curves["loss"])[0] for record in shown]
        early = max(panel.epochs // 20, 1)
        high = max(float(np.nanmax(mean[early:] if len(mean) > early else mean)) for mean in ends)
        low = min(float(np.nanmin(mean)) for mean in ends)
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axes.set_ylabel("training loss")
        _epoch_axis(axes)

    draw_panels(context, panels, "figure3-loss", draw)


def _draw_methods(
    axes: Axes, panel: Panel, records: RecordStore, metric: str, peers: bool, tune_for: str = "accuracy"
) -> list[Record]:
    shown: list[Record] = []
    for name in BASELINES:
        tuned = tune(panel, records, name, tune_for)
        _curve(axes, tuned.record, metric, name, f"{OPTIMIZERS[name].title} (tuned)")
        shown.append(tuned.record)
    for name in PEERS if peers else ():
        record = panel.record(records, name, {})
        if record is not None:
            _curve(axes, record, metric, OPTIMIZERS[name].title, OPTIMIZERS[name].title)
            shown.append(record)
    record = panel.record(records, "gradagrad", DEFAULT)
    if record is not None:
        _curve(axes, record, metric, "gradagrad", "GradaGrad (untuned)")
        shown.append(record)
    return shown


def sensitivity(context: Context, panels: Sequence[Panel]) -> None:
    """Final accuracy against the learning rate one starts from: what tuning buys, and who needs it."""
    records = context.records

    def draw(axes: Axes, panel: Panel) -> None:
        scores: list[float] = []
        for name in BASELINES:
            tuned = tune(panel, records, name)
            axes.plot(tuned.grid, tuned.scores, label=OPTIMIZERS[name].title, **style.line(name))
            scores += tuned.scores
        finals = [
            float(panel.final(record).mean())
            for lr in INITIAL_RATES
            if (record := panel.record(records, "gradagrad", setting(lr=lr)))
        ]
        axes.plot(INITIAL_RATES, finals, label="GradaGrad", marker="o", markersize=3.5, **style.line("gradagrad"))
        lowest, best = float(np.nanmin([*scores, *finals])), float(np.nanmax([*scores, *finals]))
        axes.set_xscale("log")
        axes.set_xlim(3e-7, 3e2)
        axes.set_xticks([1e-6, 1e-4, 1e-2, 1.0, 1e2])
        span = max(best - lowest, 0.05)
        axes.set_ylim(lowest - 0.05 * span, best + 0.06 * span)
        _percent_axis(axes, decimals=0)
        axes.set_xlabel("learning rate, or γ₀")
        axes.set_ylabel("final accuracy")

    draw_panels(context, panels, "figure3-sensitivity", draw)


def learning_rates(context: Context, panels: Sequence[Panel]) -> None:
    """How GradaGrad's learning rates from different γ₀ come together."""
    records = context.records
    shades = style.ramp(len(INITIAL_RATES))

    def draw(axes: Axes, panel: Panel) -> None:
        for lr, shade in zip(reversed(INITIAL_RATES), shades, strict=True):
            record = panel.record(records, "gradagrad", setting(lr=lr))
            if record is None:
                continue
            mean = np.exp(np.log(np.asarray(record.curves[LEARNING_RATE], dtype=np.float64)).mean(axis=0))
            axes.plot(np.arange(1, len(mean) + 1), mean, color=shade, label=f"γ₀ = {lr:g}", linewidth=1.6)
        tuned = tune(panel, records, "adagrad")
        mean = np.asarray(tuned.record.curves[LEARNING_RATE], dtype=np.float64).mean(axis=0)
        axes.plot(np.arange(1, len(mean) + 1), mean, label="AdaGrad (tuned)", **style.line("adagrad"))
        axes.set_yscale("log")
        axes.set_ylabel("median learning rate")
        _epoch_axis(axes)

    draw_panels(context, panels, "figure3-learning-rates", draw)
