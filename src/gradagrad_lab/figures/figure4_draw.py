"""The pictures of Figure 4, drawn from records."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradagrad_lab import style
from gradagrad_lab.figures.figure4_read import Floats, Results
from gradagrad_lab.figures.figure4_runs import CLICK_RATE, DRAWN, INITIAL, RHO

TITLES = {
    "sgd": "SGD, tuned",
    "adagrad": "AdaGrad, tuned",
    "row-wise adagrad": "row-wise AdaGrad, tuned",
    "adam": "Adam / SparseAdam, tuned",
}


def initial_text(initial: float) -> str:
    """γ₀ as it is written in legends."""
    return {1.0: "1", 1e-2: "1e−2", 1e-4: "1e−4", 1e-6: "1e−6"}.get(initial, f"{initial:g}")


def grid(results: Results, bias: str, stem: str) -> None:
    """One panel per ρ: every seed thin, the mean thick."""
    wide = _grid(results, bias, rows=2, columns=3, width=style.WIDE, height=5.6)
    narrow = _grid(results, bias, rows=3, columns=2, width=style.NARROW * 1.25, height=7.6)
    style.save(wide, results.context, stem, narrow=narrow)


def _grid(results: Results, bias: str, rows: int, columns: int, width: float, height: float) -> Figure:
    curves = results.scalar("excess", bias)  # (ρ, γ₀, seeds, points)
    seen = results.steps * results.plan.setup.batch / 1000
    tuned = results.baseline("adagrad", "excess").mean(axis=0)
    low, high = limits(results)
    with style.use():
        figure, axes_grid = style.subplots(rows, columns, width=width, height=height, sharex=True, sharey=True)
        for number, (rho, of_rho, axes) in enumerate(zip(RHO, curves, axes_grid.flat, strict=True)):
            for initial, runs, shade in zip(INITIAL, of_rho, style.ramp(len(INITIAL)), strict=True):
                for run in runs:
                    axes.plot(seen, shown(run, high), color=shade, linewidth=0.7, alpha=0.4)
                mean = shown(runs, high).mean(axis=0)
                axes.plot(seen, mean, color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
            axes.plot(seen, tuned, label=TITLES["adagrad"], **style.line("adagrad"))
            axes.set_title(f"ρ = {rho:g}")
            axes.set(xlim=(0, seen[-1]), ylim=(low, high))
            if number >= len(RHO) - columns:
                axes.set_xlabel("thousand rows seen")
            if number % columns == 0:
                axes.set_ylabel("loss − teacher's" if results.has_teacher else "training loss")
        handles, labels = axes_grid.flat[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=5 if columns == 3 else 3,
            handlelength=1.6,
            columnspacing=1.2,
        )
    return figure


def limits(results: Results) -> tuple[float, float]:
    """From tuned AdaGrad's best to a little above what always predicting the click rate gives."""
    teacher = results.references["teacher"] if results.has_teacher else 0.0
    base = results.references["base rate"] - teacher
    best = float(results.baseline("adagrad", "excess").mean(axis=0).min())
    span = base - best
    return best - 0.15 * span, base + 0.75 * span


def shown(curve: Floats, high: float) -> Floats:
    """A curve for drawing: what left the picture, or is not finite, is held just above its upper edge."""
    return np.clip(np.nan_to_num(curve, nan=np.inf, posinf=np.inf), None, high * 1.05)


def mechanism(results: Results, stem: str) -> None:
    """The first ⟨g, g_prev⟩ against how the run ended: what decides whether a small γ₀ is repaired."""
    wide = _mechanism(results, 1, 3, style.WIDE, 3.7)
    narrow = _mechanism(results, 3, 1, style.NARROW, 8.4)
    style.save(wide, results.context, stem, narrow=narrow)


def _mechanism(results: Results, rows: int, columns: int, width: float, height: float) -> Figure:
    low, high = limits(results)
    rho, initial = RHO[-1], INITIAL[-1]
    tuned = float(final(results.baseline("adagrad", "excess")).mean())
    shade = style.ramp(len(INITIAL))[-1]
    with style.use():
        figure, panels = style.subplots(rows, columns, width=width, height=height)
        left, middle, right = panels.flat
        for bias, filled in ((DRAWN, True), (CLICK_RATE, False)):
            ends = shown(final(results.scalar("excess", bias)[-1, -1]), high)
            products = results.scalar("opening agreement", bias)[-1, -1]
            growths = results.scalar("opening growth", bias)[-1, -1]
            steps = results.agreeing_steps(rho, initial, bias)
            look = {"s": 46, "facecolors": shade if filled else style.PAPER, "edgecolors": shade, "linewidths": 1.4}
            label = f"last bias {'as drawn' if filled else 'at the click rate'}"
            left.scatter(products[:, 0], ends, label=label, zorder=3, **look)
            middle.scatter(steps, ends, zorder=3, **look)
            for growth_of_run in growths:
                numbers = np.arange(1, len(growth_of_run) + 1)
                right.plot(
                    numbers, growth_of_run, color=shade, linewidth=1.5, linestyle="-" if filled else (0, (2, 1.4))
                )
        for axes in (left, middle):
            axes.axhline(tuned, **{**style.line("adagrad"), "linewidth": 1.2})
            axes.set(ylim=(low, high))
        left.set_ylabel("final loss − teacher's" if results.has_teacher else "final training loss")
        if columns == 1:
            middle.set_ylabel(left.get_ylabel())
        style.note(
            middle, "AdaGrad, tuned", (0.97, tuned), xycoords=middle.get_yaxis_transform(), ha="right", va="bottom"
        )
        left.axvline(0, color=style.MUTED, linewidth=0.9)
        left.set(xlim=(-1.05, 1.35), xlabel="first ⟨g, g_prev⟩ / |g|²")
        middle.set(xlabel="steps before a negative product")
        middle.set_xlim(left=0)
        right.set(yscale="log", xlabel="step", title="γ / γ₀")
        right.set_xlim(1, growths.shape[1])
        left.set_title("the first product …")
        middle.set_title("… and the first negative one")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2 if columns > 1 else 1, handletextpad=0.3)
    return figure


def final(curves: Floats) -> Floats:
    """The end of a training curve: the mean over its last quarter."""
    points = curves.shape[-1]
    return curves[..., points - max(points // 4, 1) :].mean(axis=-1)


def contest(results: Results, entries: list[tuple[str, str, Floats]], stem: str) -> None:
    """Held-out loss of everything beside everything: a dot per seed, a bar for the mean."""
    teacher = results.references["teacher"] if results.has_teacher else 0.0
    base = results.references["base rate"] - teacher
    for narrow in (False, True):
        figure = _contest(entries, teacher, base, narrow)
        name = f"{stem}-narrow" if narrow else stem
        style.save(figure, results.context, name)


def _contest(entries: list[tuple[str, str, Floats]], teacher: float, base: float, narrow: bool) -> Figure:
    with style.use():
        figure, grid_of_one = style.subplots(
            width=style.NARROW * 1.15 if narrow else style.WIDE, height=0.9 + 0.29 * len(entries)
        )
        axes: Axes = grid_of_one[0, 0]
        values = [np.nan_to_num(losses - teacher, nan=np.inf, posinf=np.inf) for _, _, losses in entries]
        best = min(float(losses.min()) for losses in values)
        right = base + 0.25 * (base - best)
        for position, ((_title, family, _), losses) in enumerate(zip(entries, values, strict=True)):
            shade = style.colour(family)
            inside = losses[losses <= right]
            if len(inside):  # an empty line would take up room in the layout
                axes.plot(inside, [position] * len(inside), "o", color=shade, markersize=4.5, alpha=0.55, clip_on=False)
            mean = losses.mean()
            if mean <= right:
                axes.plot([mean, mean], [position - 0.32, position + 0.32], color=shade, linewidth=2.6)
            gone = len(losses) - len(inside)
            if gone:
                # Outside the picture, where no dot can lie under it.
                text = f"▸ {gone} of {len(losses)}" if not narrow else f"▸ {gone}/{len(losses)}"
                axes.text(right, position, text, color=shade, ha="left", va="center", fontsize=8.5)
        axes.axvline(base, color=style.MUTED, linewidth=1.0)
        style.note(axes, "click rate alone", (base, -0.75), shade=style.MUTED, ha="center", va="center", fontsize=8.5)
        axes.set_yticks(range(len(entries)), [title for title, _, _ in entries])
        axes.set_ylim(len(entries) - 0.4, -1.1)
        axes.set_xlim(best - 0.04 * (right - best), right)
        axes.grid(axis="x")
        axes.set_xlabel("held-out log-loss − teacher's" if teacher else "held-out log-loss")
    return figure


def growth(results: Results, stem: str) -> None:
    """γ itself: how far each run's numerator has come."""
    wide = _growth(results, 2, 3, style.WIDE, 5.4)
    narrow = _growth(results, 3, 2, style.NARROW * 1.25, 7.6)
    style.save(wide, results.context, stem, narrow=narrow)


def _growth(results: Results, rows: int, columns: int, width: float, height: float) -> Figure:
    values = results.scalar("growth", DRAWN)
    seen = results.steps * results.plan.setup.batch / 1000
    with style.use():
        figure, panels = style.subplots(rows, columns, width=width, height=height, sharex=True, sharey=True)
        for number, (rho, of_rho, axes) in enumerate(zip(RHO, values, panels.flat, strict=True)):
            for initial, runs, shade in zip(INITIAL, of_rho, style.ramp(len(INITIAL)), strict=True):
                for run in runs:
                    axes.plot(seen, initial * run, color=shade, linewidth=0.8, alpha=0.45)
                mean = np.exp(np.log(runs).mean(axis=0))
                axes.plot(seen, initial * mean, color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
            axes.set_title(f"ρ = {rho:g}")
            axes.set(yscale="log", xlim=(0, seen[-1]))
            if number >= len(RHO) - columns:
                axes.set_xlabel("thousand rows seen")
            if number % columns == 0:
                axes.set_ylabel("γ")
        handles: Any
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4 if columns == 3 else 2, handlelength=1.6)
    return figure
