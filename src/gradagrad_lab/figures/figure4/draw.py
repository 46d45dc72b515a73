"""The pictures of Figure 4, drawn from records."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradagrad_lab.figures.figure4.claims import in_a_sentence
from gradagrad_lab.figures.figure4.results import INITIAL, TITLES, Results, initial_text
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.study import Floats


def pictures(results: Results) -> list[Picture]:
    """All that can be drawn; none where a curve would be a single point."""
    if len(results.steps) < 2:
        return []
    what = "Training loss minus the teacher's on the same rows" if results.has_teacher else "Training loss"
    each = f"thin: each of {len(results.plan.seeds)} initialisations, thick: their mean"
    return [
        Picture(
            "Training loss for each ρ and γ₀",
            "figure4",
            f"{what}; {each}. Curves that leave the picture are held at its upper edge. The dashed line is the level "
            f"that tuned AdaGrad ends at.{results.reduction}",
            f"A panel for each ρ, each with the training loss from four γ₀, of tuned AdaGrad and of AutoGradaGrad "
            f"against the rows seen. {in_a_sentence(results)}",
            _losses(results),
        ),
        Picture(
            "γ, the numerator",
            "figure4-gamma",
            f"γ = γ₀ · growth by the rows seen; {each} (geometric).",
            "A panel for each ρ: γ on a logarithmic axis from four γ₀. It only rises.",
            _growth(results),
        ),
    ]


def _by_rho(results: Results, draw: Callable[[Any, int], None]) -> list[Panel]:
    return [Panel(lambda axes, row=row: draw(axes, row), f"ρ = {rho:g}") for row, rho in enumerate(results.rhos)]


def _losses(results: Results) -> list[Panel]:
    """A panel for each ρ: training loss from four γ₀, AutoGradaGrad's, and tuned AdaGrad's level."""
    curves = results.scalar("excess")
    seen = results.steps * results.setup.batch / 1000
    low, high = limits(results)

    def draw(axes: Any, row: int) -> None:
        for initial, runs, shade in zip(INITIAL, curves[row], style.ramp(len(INITIAL)), strict=True):
            for run in runs:
                axes.plot(seen, shown(run, high), color=shade, linewidth=0.7, alpha=0.4)
            mean = shown(runs, high).mean(axis=0)
            axes.plot(seen, mean, color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
        if results.best:
            auto = results.ours("excess").mean(axis=0)
            axes.plot(seen, shown(auto, high), label="ours: AutoGradaGrad (untuned)", **style.line("autogradagrad"))
            level = float(final(results.baseline("adagrad", "excess")).mean())
            axes.plot(seen, np.full(len(seen), level), label=f"{TITLES['adagrad']}: its level", **style.line("adagrad"))
        axes.set(xlim=(0, seen[-1]), ylim=(low, high), xlabel="thousand rows seen")
        axes.set_ylabel("loss − teacher's" if results.has_teacher else "training loss")

    return _by_rho(results, draw)


def limits(results: Results) -> tuple[float, float]:
    """From the best to a little above what always predicting the click rate gives."""
    teacher = results.references["teacher"] if results.has_teacher else 0.0
    base = results.references["base rate"] - teacher
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


def _growth(results: Results) -> list[Panel]:
    """γ itself: how far each run's numerator has come."""
    values = results.scalar("growth")
    gammas = values * np.array(INITIAL)[:, None, None]
    low, high = (float(end(gammas[np.isfinite(gammas)])) for end in (np.min, np.max))
    seen = results.steps * results.setup.batch / 1000

    def draw(axes: Any, row: int) -> None:
        for initial, runs, shade in zip(INITIAL, values[row], style.ramp(len(INITIAL)), strict=True):
            for run in runs:
                axes.plot(seen, initial * run, color=shade, linewidth=0.8, alpha=0.45)
            mean = np.exp(np.log(runs).mean(axis=0))
            axes.plot(seen, initial * mean, color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
        axes.set(yscale="log", xlim=(0, seen[-1]), ylim=(low / 2, high * 2), xlabel="thousand rows seen", ylabel="γ")

    return _by_rho(results, draw)
