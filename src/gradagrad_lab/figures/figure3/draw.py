"""The pictures of Figure 3."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from gradagrad_lab.figures.figure3.plan import DEFAULT, INITIAL_RATES, MOMENTUM, Trial, labels, setting
from gradagrad_lab.figures.figure3.results import Results
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.runs.optimizers import BASELINES, LEARNING_RATE, OPTIMIZERS, PEERS
from gradagrad_lab.runs.study import Floats, Method

_SMALL = (2.9, 2.35)


def pictures(results: Results) -> list[Picture]:
    """Accuracy as the paper shows it, with the zoom beside it; loss, sensitivity and learning rates."""
    trials, reduced = results.trials, results.reduction
    sets, seeds = labels(trials), len(trials[0].seeds)
    mean = f"Mean of {seeds} seeds with a band of two standard errors."

    def panels(draw: Callable[[Axes, Trial], None]) -> list[Panel]:
        return [Panel(lambda axes, one=trial: draw(axes, one), trial.label) for trial in trials]

    accuracy = [
        Panel(lambda axes, one=trial, near=near: _accuracy(axes, results, one, near), trial.label + (", zoom" * near))
        for trial in trials
        for near in (False, True)
    ]
    return [
        Picture(
            "Training accuracy",
            "figure3",
            f"{mean} Left: the whole run; right: its top alone. Baselines at the learning rate with the highest "
            f"accuracy over the last epochs, GradaGrad at γ₀ = 1 and ρ = 2, with and without momentum.{reduced}",
            f"Training accuracy by epoch of tuned Adam, SGD and AdaGrad and untuned GradaGrad on {sets}, each set "
            "twice: whole, where the curves can hardly be distinguished, and magnified.",
            accuracy,
            columns=2,
            size=(4.2, 2.2),
        ),
        Picture(
            "Training loss",
            "figure3-loss",
            f"{mean} Here the baselines are tuned for the lowest loss.{reduced}",
            f"Training loss by epoch of tuned Adam, SGD and AdaGrad and untuned GradaGrad on {sets}.",
            panels(lambda axes, trial: _loss(axes, results, trial)),
            size=_SMALL,
        ),
        Picture(
            "Who needs tuning",
            "figure3-sensitivity",
            "Training accuracy over the last epochs against the learning rate; for GradaGrad (no momentum) against γ₀, "
            f"1e-6 to 1.{reduced}",
            f"Final accuracy against learning rate for Adam, SGD, AdaGrad and GradaGrad on {sets}.",
            panels(lambda axes, trial: _sensitivity(axes, results, trial)),
            size=_SMALL,
        ),
        Picture(
            "GradaGrad's learning rates from different γ₀",
            "figure3-learning-rates",
            "Median over coordinates of γ/√α at the end of each epoch (geometric mean over seeds), with tuned "
            f"AdaGrad's for comparison.{reduced}",
            f"Median learning rate by epoch of GradaGrad from seven initial values and of tuned AdaGrad on {sets}.",
            panels(lambda axes, trial: _learning_rates(axes, results, trial)),
            size=_SMALL,
        ),
    ]


def mean_and_band(values: Floats) -> tuple[Floats, Floats]:
    """Mean over seeds and two standard errors; no band for a single seed."""
    mean = values.mean(axis=0)
    if values.shape[0] < 2:
        return mean, np.zeros_like(mean)
    return mean, 2 * values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])


def _percent_axis(axes: Axes, decimals: int) -> None:
    # No steps of 2.5 %, which a label without decimals would misstate.
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def _epoch_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("epoch")


def _methods(results: Results, trial: Trial, metric: str) -> list[tuple[str, str, Method]]:
    """Label, family of colours and method of everyone in the picture."""
    peers = PEERS if results.context.peers else ()
    return [
        *(
            (f"{OPTIMIZERS[name].title} (tuned)", name, results.choice(trial, name, metric).method)
            for name in BASELINES
        ),
        *((OPTIMIZERS[name].title, OPTIMIZERS[name].title, Method.of(name)) for name in peers),
        ("GradaGrad (untuned)", "gradagrad", DEFAULT),
        ("GradaGrad, β = 0.9 (untuned)", "gradagrad momentum", MOMENTUM),
    ]


def _draw_methods(axes: Axes, results: Results, trial: Trial, metric: str, band: bool = True) -> list[Floats]:
    shown: list[Floats] = []
    for label, family, method in _methods(results, trial, metric):
        mean, two_errors = mean_and_band(results.curves(trial, method, metric))
        epochs = np.arange(1, len(mean) + 1)
        look = style.line(family)
        axes.plot(epochs, mean, label=label, **look)
        if band:
            style.band(axes, epochs, mean - two_errors, mean + two_errors, look["color"])
        shown.append(mean)
    _epoch_axis(axes)
    return shown


def _accuracy(axes: Axes, results: Results, trial: Trial, zoom: bool) -> None:
    means = _draw_methods(axes, results, trial, "accuracy", band=zoom)
    high = max(float(np.nanmax(mean)) for mean in means)
    if not zoom:
        axes.set_ylim(0, 1.02)
        _percent_axis(axes, 0)
        return
    # The top alone: leave out the first steep epochs, which would flatten everything else.
    early = max(trial.epochs // 20, 1)
    low = min(float(np.nanmin(mean[early:] if len(mean) > early else mean)) for mean in means)
    margin = 0.08 * max(high - low, 0.005)
    axes.set_ylim(low - margin, high + 2 * margin)
    _percent_axis(axes, decimals=0 if high - low > 0.04 else 1)


def _loss(axes: Axes, results: Results, trial: Trial) -> None:
    means = _draw_methods(axes, results, trial, "loss")
    early = max(trial.epochs // 20, 1)
    high = max(float(np.nanmax(mean[early:] if len(mean) > early else mean)) for mean in means)
    low = min(float(np.nanmin(mean)) for mean in means)
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def _sensitivity(axes: Axes, results: Results, trial: Trial) -> None:
    scores: list[float] = []
    for name in BASELINES:
        choice = results.choice(trial, name)
        heights = [-score if np.isfinite(score) else np.nan for score in choice.scores]
        axes.plot(choice.grid, heights, label=OPTIMIZERS[name].title, **style.line(name))
        scores += heights
    finals = [results.final(trial, setting(lr=lr)) for lr in INITIAL_RATES]
    axes.plot(INITIAL_RATES, finals, label="GradaGrad", marker="o", markersize=3.5, **style.line("gradagrad"))
    lowest, best = float(np.nanmin([*scores, *finals])), float(np.nanmax([*scores, *finals]))
    axes.set_xscale("log")
    axes.set_xlim(3e-7, 3e2)
    axes.set_xticks([1e-6, 1e-4, 1e-2, 1.0, 1e2], ["1e−6", "1e−4", "0.01", "1", "100"])
    span = max(best - lowest, 0.05)
    axes.set_ylim(lowest - 0.05 * span, best + 0.06 * span)
    _percent_axis(axes, decimals=0)
    axes.set_xlabel("learning rate, or γ₀")


def _learning_rates(axes: Axes, results: Results, trial: Trial) -> None:
    shades = style.ramp(len(INITIAL_RATES))
    for lr, shade in zip(reversed(INITIAL_RATES), shades, strict=True):
        mean = np.exp(np.log(results.curves(trial, setting(lr=lr), LEARNING_RATE)).mean(axis=0))
        axes.plot(np.arange(1, len(mean) + 1), mean, color=shade, label=f"γ₀ = {style.power(lr)}", linewidth=1.6)
    mean = results.curves(trial, results.choice(trial, "adagrad").method, LEARNING_RATE).mean(axis=0)
    axes.plot(np.arange(1, len(mean) + 1), mean, label="AdaGrad (tuned)", **style.line("adagrad"))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: style.power(value).replace("-", "−"))
    _epoch_axis(axes)
