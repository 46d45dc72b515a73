"""The pictures of Figure 4, drawn from records."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradagrad_lab.figures.figure4.claims import in_a_sentence
from gradagrad_lab.figures.figure4.plan import INITIAL, TITLES
from gradagrad_lab.figures.figure4.results import Results, initial_text
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.study import Floats


def pictures(results: Results) -> list[Picture]:
    """All that can be drawn; none where a curve would be a single point."""
    if len(results.steps) < 2:
        return []
    what = "Training loss minus the teacher's on the same rows" if results.has_teacher else "Training loss"
    each = f"thin: each of {len(results.plan.seeds)} initialisations, thick: their mean"
    growth = results.scalar("growth") * np.array(INITIAL)[:, None, None]
    finite = growth[np.isfinite(growth)]
    return [
        Picture(
            "Training loss for each ρ and γ₀",
            "figure4",
            f"{what}; {each}. Curves that leave the picture are held at its upper edge. The dashed line is "
            f"tuned AdaGrad's final loss.{results.reduction}",
            f"A panel for each ρ, each with the training loss from four γ₀, of tuned AdaGrad and of AutoGradaGrad "
            f"against the rows seen. {in_a_sentence(results)}",
            _by_rho(results, lambda axes, row: _losses(axes, results, row)),
        ),
        Picture(
            "γ, the numerator",
            "figure4-gamma",
            f"γ = γ₀ · growth by the rows seen; {each} (geometric).",
            "A panel for each ρ: γ on a logarithmic axis from four γ₀. It only rises.",
            _by_rho(results, lambda axes, row: _growth(axes, results, growth[row], finite)),
        ),
    ]


def _by_rho(results: Results, draw: Callable[[Any, int], None]) -> list[Panel]:
    return [Panel(lambda axes, row=row: draw(axes, row), f"ρ = {rho:g}") for row, rho in enumerate(results.rhos)]


def _each_and_mean(axes: Any, results: Results, curves: Floats, mean: Callable[[Floats], Floats]) -> Floats:
    """Every run from the four γ₀ and their mean, over thousands of rows."""
    seen = results.steps * results.setup.batch / 1000
    for initial, runs, shade in zip(INITIAL, curves, style.ramp(len(INITIAL)), strict=True):
        for run in runs:
            axes.plot(seen, run, color=shade, linewidth=0.7, alpha=0.4)
        axes.plot(seen, mean(runs), color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
    axes.set(xlim=(0, seen[-1]), xlabel="thousand rows seen")
    return seen


def _losses(axes: Any, results: Results, row: int) -> None:
    """Training loss from four γ₀, AutoGradaGrad's, and tuned AdaGrad's final loss."""
    low, high = limits(results)
    curves = shown(results.scalar("excess")[row], high)
    seen = _each_and_mean(axes, results, curves, lambda runs: runs.mean(axis=0))
    if results.best:
        auto = shown(results.ours("excess").mean(axis=0), high)
        axes.plot(seen, auto, label="ours: AutoGradaGrad (untuned)", **style.line("autogradagrad"))
        level = float(final(results.baseline("adagrad", "excess")).mean())
        axes.plot(seen, np.full(len(seen), level), label=f"{TITLES['adagrad']}: final", **style.line("adagrad"))
    axes.set(ylim=(low, high), ylabel="loss − teacher's" if results.has_teacher else "training loss")


def limits(results: Results) -> tuple[float, float]:
    """From the best to a little above what always predicting the click rate gives."""
    base = results.references["base rate"] - (results.references["teacher"] if results.has_teacher else 0.0)
    if results.best:
        best = float(results.baseline("adagrad", "excess").mean(axis=0).min())
    else:
        best = float(np.nanmin(results.scalar("excess").mean(axis=2)))
    span = max(base - best, 1e-3)
    return best - 0.15 * span, base + 0.75 * span


def shown(curve: Floats, high: float) -> Floats:
    """A curve for drawing: what left the picture, or is not finite, is held just above its upper edge."""
    return np.clip(np.nan_to_num(curve, nan=np.inf, posinf=np.inf), None, high * 1.05)


def final(curves: Floats) -> Floats:
    """The end of a training curve: the mean over its last quarter."""
    points = curves.shape[-1]
    return curves[..., points - max(points // 4, 1) :].mean(axis=-1)


def _growth(axes: Any, results: Results, gammas: Floats, every: Floats) -> None:
    """γ itself: how far each run's numerator has come."""
    _each_and_mean(axes, results, gammas, lambda runs: np.exp(np.log(runs).mean(axis=0)))
    axes.set(yscale="log", ylim=(every.min() / 2, every.max() * 2), ylabel="γ")
