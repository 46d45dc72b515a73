"""The pictures of Figure 3."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from gradagrad_lab.data import CATALOGUE
from gradagrad_lab.figures.figure3.plan import DEFAULT, INITIAL_RATES, MOMENTUM, OURS, Trial, labels, setting
from gradagrad_lab.figures.figure3.results import Results
from gradagrad_lab.methods import BASELINES, OPTIMIZERS
from gradagrad_lab.problems.logistic import AVERAGED
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.study import Floats, count

_SMALL = (2.9, 2.35)
SMOOTHED = 9
"""Epochs in a running mean. Without it the noise of eight curves covers everything else."""
Curves = dict[str, tuple[str, Floats]]
"""By label: family of colours, and (mean, two standard errors) by epoch."""


def pictures(results: Results) -> list[Picture]:
    """Accuracy as the paper shows it, and how much the learning rate matters."""
    trials = results.trials
    sets = labels(trials)

    def panels(draw: Callable[[Axes, Trial], None]) -> list[Panel]:
        return [Panel(lambda axes, one=trial: draw(axes, one), trial.label) for trial in trials]

    absent = [] if len(results.missing) == len(CATALOGUE) else results.missing
    smoothed = f"running means over {SMOOTHED} epochs; " if trials[0].epochs > 4 * SMOOTHED else ""
    return [
        Picture(
            "Training accuracy",
            "figure3",
            f"Mean of {count(len(trials[0].seeds), 'seed')}, {smoothed}the first steep epochs lie below the picture. "
            "Baselines at the learning rate with the highest accuracy over the last epochs, "
            "GradaGrad at γ₀ = 1 and ρ = 2 with and without momentum, AutoGradaGrad (ours) at its defaults, at its "
            "parameters y and its average x̄. Grey: the best of the tuned three with an average like that. Bands of "
            "two standard errors: GradaGrad and AutoGradaGrad." + results.reduction,
            "Training accuracy by epoch of tuned Adam, SGD and AdaGrad, untuned GradaGrad and AutoGradaGrad on "
            f"{sets}." + (f" Empty panels: {', '.join(absent)}, not found." if absent else ""),
            [
                *panels(lambda axes, trial: accuracy(axes, curves_of(results, trial))),
                *(Panel(lambda axes, one=name: _absent(axes, one), name) for name in absent),
            ],
            size=_SMALL,
        ),
        Picture(
            "Who needs tuning",
            "figure3-sensitivity",
            "Training accuracy over the last epochs against the learning rate; for GradaGrad (no momentum) against γ₀, "
            f"1e-6 to 1.{results.reduction}",
            f"Final accuracy against learning rate for Adam, SGD, AdaGrad and GradaGrad on {sets}.",
            panels(lambda axes, trial: _sensitivity(axes, results, trial)),
            size=_SMALL,
        ),
    ]


def mean_and_band(values: Floats) -> Floats:
    """(2, epochs): mean over seeds and two standard errors; no band for a single seed."""
    mean = values.mean(axis=0)
    if values.shape[0] < 2:
        return np.stack([mean, np.zeros_like(mean)])
    return np.stack([mean, 2 * values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])])


def smooth(curve: Floats) -> Floats:
    """Running means over `SMOOTHED` epochs, over fewer at both ends; short curves stay as they are."""
    if curve.shape[-1] <= 4 * SMOOTHED:
        return curve
    reach = np.minimum(np.minimum(np.arange(curve.shape[-1]), np.arange(curve.shape[-1])[::-1]), SMOOTHED // 2)
    return np.stack([curve[..., k - r : k + r + 1].mean(axis=-1) for k, r in enumerate(reach)], axis=-1)


def without_start(axes: Axes, means: list[Floats]) -> float:
    """Fits the axis to all but the first steep epochs, which would flatten the rest; returns the range of the rest."""
    rest = np.concatenate([mean[max(len(mean) // 20, 1) :] if len(mean) > 1 else mean for mean in means])
    rest = rest[np.isfinite(rest)]
    span = float(np.ptp(rest)) if len(rest) else 0.0
    if len(rest):
        margin = 0.08 * max(span, 0.005)
        axes.set_ylim(rest.min() - margin, rest.max() + 2 * margin)
    return span


def _percent_axis(axes: Axes, decimals: int) -> None:
    # No steps of 2.5 %, which a label without decimals would misstate.
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=decimals))


def epoch_axis(axes: Axes) -> None:
    """Labels the axis with whole epochs."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("epoch")


def curves_of(results: Results, trial: Trial) -> Curves:
    """All curves of a panel."""
    averaged = results.ours[-1][results.trials.index(trial)].best
    wanted: dict[str, tuple[str, Any, str]] = {
        f"{OPTIMIZERS[name].title} (tuned)": (name, results.choice(trial, name).method, "accuracy")
        for name in BASELINES
    }
    wanted["best of three tuned, averaged"] = ("averaged", results.choice(trial, averaged, AVERAGED).method, AVERAGED)
    wanted["GradaGrad (untuned)"] = ("gradagrad", DEFAULT, "accuracy")
    wanted["GradaGrad, β = 0.9 (untuned)"] = ("gradagrad momentum", MOMENTUM, "accuracy")
    wanted["ours: AutoGradaGrad, y (untuned)"] = ("autogradagrad", OURS, "accuracy")
    wanted["ours: AutoGradaGrad, x̄ (untuned)"] = ("autogradagrad averaged", OURS, AVERAGED)
    return {
        label: (family, mean_and_band(results.curves(trial, method, metric)))
        for label, (family, method, metric) in wanted.items()
    }


def accuracy(axes: Axes, curves: Mapping[str, tuple[str, Floats]]) -> None:
    """A panel of Figure 3."""
    means: list[Floats] = []
    for label, (family, found) in curves.items():
        mean, two_errors = smooth(found)
        epochs, look = np.arange(1, len(mean) + 1), style.line(family)
        axes.plot(epochs, mean, label=label, **look)
        if "gradagrad" in family:
            style.band(axes, epochs, mean - two_errors, mean + two_errors, look["color"])
        means.append(mean)
    epoch_axis(axes)
    _percent_axis(axes, decimals=0 if without_start(axes, means) > 0.04 else 1)


def _absent(axes: Axes, name: str) -> None:
    """The place of a data set that was not found."""
    words = f"not found here\n\ngradagrad data fetch {name}"
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=style.MUTED, fontsize=9)
    axes.set(xticks=[], yticks=[])


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
