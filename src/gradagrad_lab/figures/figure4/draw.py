"""The pictures of Figure 4, drawn from records."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradagrad_lab.figures.figure4.claims import recovered_in_words
from gradagrad_lab.figures.figure4.results import INITIAL, RHO, TITLES, Results, initial_text
from gradagrad_lab.problems.clicks.runs import CLICK_RATE, DRAWN
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.runs.study import Floats


def pictures(results: Results) -> list[Picture]:
    """All that can be drawn; none where a curve would be a single point."""
    if len(results.steps) < 2:
        return []
    seeds, fate = len(results.plan.seeds), recovered_in_words(results)
    what = "Training loss minus the teacher's on the same rows" if results.has_teacher else "Training loss"
    found = [
        Picture(
            "Training loss for each ρ and γ₀",
            "figure4",
            f"{what}; thin: each of {seeds} initialisations, thick: their mean. Curves that leave the picture are held "
            f"at its upper edge.{results.reduction}",
            "Six panels, one for each ρ from 2 to 500, each with the training loss from four γ₀ and of tuned AdaGrad "
            f"against the rows seen. {fate}",
            _losses(results, DRAWN),
        ),
        Picture(
            "γ, the numerator",
            "figure4-gamma",
            "γ = γ₀ · growth by the rows seen, last bias as drawn; thin: each initialisation, thick: geometric mean.",
            "Six panels, one for each ρ: γ on a logarithmic axis from four γ₀. It only rises.",
            _growth(results),
        ),
    ]
    if results.setup.paper:
        return found
    return [
        found[0],
        Picture(
            "The same with the last bias at the click rate's logit",
            "figure4-click-rate",
            "DLRM draws its last bias from N(0, 1); here it is the logit of the click rate, so that the first "
            "predictions are right on average. What this changes is in the table of initialisations.",
            "The same six panels, the model's last bias set to the logit of the click rate.",
            _losses(results, CLICK_RATE),
        ),
        Picture(
            "The first products of consecutive gradients, and how the run ends",
            "figure4-mechanism",
            "From γ₀ = 1e−6 at ρ = 500, one mark or line per initialisation. First panel: the first product alone. "
            "Second: steps in which γ could grow before the first negative product, which puts ρ·|⟨g, g_prev⟩| into α. "
            "Third: γ/γ₀ in the first steps.",
            "Three panels. Final loss against the first inner product of consecutive gradients; final loss against the "
            "number of steps before the first negative product; growth of γ over the first steps.",
            _mechanism(results),
        ),
        found[1],
        Picture(
            "Held-out loss beside tuned optimizers",
            "figure4-contest",
            "A dot per initialisation, a bar for the mean; learning rates of the tuned ones are tuned on this "
            "number. ▸: runs that ended to the right of the picture or not finite.",
            "Held-out log-loss of tuned SGD, AdaGrad, AdaGrad-norm, row-wise AdaGrad and Adam and of GradaGrad's "
            "variants from four γ₀.",
            [Panel(lambda axes: _contest(axes, results))],
            columns=1,
            size=(5.6, 0.6 + 0.25 * len(contestants(results))),
        ),
    ]


def _by_rho(draw: Callable[[Any, int, float], None]) -> list[Panel]:
    return [Panel(lambda axes, row=row, rho=rho: draw(axes, row, rho), f"ρ = {rho:g}") for row, rho in enumerate(RHO)]


def _losses(results: Results, bias: str) -> list[Panel]:
    """A panel for each ρ: training loss from four γ₀, and tuned AdaGrad's."""
    curves = results.scalar("excess", bias)
    seen = results.steps * results.setup.batch / 1000
    low, high = limits(results)

    def draw(axes: Any, row: int, rho: float) -> None:
        for initial, runs, shade in zip(INITIAL, curves[row], style.ramp(len(INITIAL)), strict=True):
            for run in runs:
                axes.plot(seen, shown(run, high), color=shade, linewidth=0.7, alpha=0.4)
            mean = shown(runs, high).mean(axis=0)
            axes.plot(seen, mean, color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
        if results.best:
            tuned = results.baseline("adagrad", "excess").mean(axis=0)
            axes.plot(seen, tuned, label=TITLES["adagrad"], **style.line("adagrad"))
        axes.set(xlim=(0, seen[-1]), ylim=(low, high), xlabel="thousand rows seen")
        axes.set_ylabel("loss − teacher's" if results.has_teacher else "training loss")

    return _by_rho(draw)


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


def _mechanism(results: Results) -> list[Panel]:
    """The first ⟨g, g_prev⟩ against how the run ended: what decides whether a small γ₀ is repaired."""
    low, high = limits(results)
    rho, initial = RHO[-1], INITIAL[-1]
    tuned = float(final(results.baseline("adagrad", "excess")).mean())
    shade = style.ramp(len(INITIAL))[-1]
    words = {DRAWN: "last bias as drawn", CLICK_RATE: "last bias at the click rate"}

    def against(axes: Any, values: Callable[[str], Floats], label: str) -> None:
        for bias, face in ((DRAWN, shade), (CLICK_RATE, style.PAPER)):
            ends = shown(final(results.scalar("excess", bias)[-1, -1]), high)
            look = {"markerfacecolor": face, "color": shade, "markersize": 6.5, "linestyle": "none"}
            axes.plot(values(bias), ends, "o", label=words[bias], zorder=3, **look)
        axes.axhline(tuned, **{**style.line("adagrad"), "linewidth": 1.2})
        axes.set(ylim=(low, high), xlabel=label)
        axes.set_ylabel("final loss − teacher's" if results.has_teacher else "final training loss")

    def first(axes: Any) -> None:
        against(axes, lambda bias: results.scalar("opening agreement", bias)[-1, -1][:, 0], "first ⟨g, g_prev⟩ / |g|²")
        axes.axvline(0, color=style.MUTED, linewidth=0.9)
        axes.set(xlim=(-1.05, 1.35))

    def before(axes: Any) -> None:
        against(axes, lambda bias: results.agreeing_steps(rho, initial, bias), "steps before a negative product")
        axes.set_xlim(left=0)

    def opening(axes: Any) -> None:
        for bias, dash in ((DRAWN, "-"), (CLICK_RATE, (0, (2, 1.4)))):
            for growth in results.scalar("opening growth", bias)[-1, -1]:
                axes.plot(np.arange(1, len(growth) + 1), growth, color=shade, linewidth=1.5, linestyle=dash)
        axes.set(yscale="log", xlabel="step")

    return [
        Panel(first, "The first product …"),
        Panel(before, "… and the first negative one"),
        Panel(opening, "γ / γ₀"),
    ]


def final(curves: Floats) -> Floats:
    """The end of a training curve: the mean over its last quarter."""
    points = curves.shape[-1]
    return curves[..., points - max(points // 4, 1) :].mean(axis=-1)


def contestants(results: Results) -> list[tuple[str, str, Floats]]:
    """The rows of the picture of held-out losses: (title, colour family, loss per seed)."""
    families = {"row-wise adagrad": "adagrad", "adagrad-norm": "adagrad"}
    entries = [(title, families.get(name, name), results.baseline(name, "loss")) for name, title in TITLES.items()]
    scalar = results.scalar("loss")
    for rho in (2.0, 100.0):
        for column, initial in enumerate(INITIAL):
            title = f"scalar, ρ = {rho:g}, γ₀ = {initial_text(initial)}"
            entries.append((title, "gradagrad", scalar[RHO.index(rho), column]))
    for name, words in (("gradagrad element", "element"), ("gradagrad row", "row-wise")):
        losses = results.diagonal(name, "loss")
        for column, initial in enumerate(INITIAL):
            title = f"{words}, ρ = 2, γ₀ = {initial_text(initial)}"
            entries.append((title, "autogradagrad", losses[0, column]))
    return entries


def _contest(axes: Any, results: Results) -> None:
    """Held-out loss of everything beside everything: a dot per seed, a bar for the mean."""
    entries = contestants(results)
    teacher = results.references["teacher"] if results.has_teacher else 0.0
    base = results.references["base rate"] - teacher
    values = [np.nan_to_num(losses - teacher, nan=np.inf, posinf=np.inf) for _, _, losses in entries]
    best = min(float(losses.min()) for losses in values)
    right = base + 0.25 * (base - best)
    for position, ((_, family, _), losses) in enumerate(zip(entries, values, strict=True)):
        shade = style.colour(family)
        inside = losses[losses <= right]
        if len(inside):  # an empty line would take up room in the layout
            axes.plot(inside, [position] * len(inside), "o", color=shade, markersize=4.5, alpha=0.55, clip_on=False)
        mean = losses.mean()
        if mean <= right:
            axes.plot([mean, mean], [position - 0.32, position + 0.32], color=shade, linewidth=2.6)
        if gone := len(losses) - len(inside):  # outside the picture, where no dot can lie under it
            axes.text(right, position, f"▸ {gone} of {len(losses)}", color=shade, ha="left", va="center", fontsize=8)
    axes.axvline(base, color=style.MUTED, linewidth=1.0)
    style.note(axes, "click rate alone", (base, -0.75), shade=style.MUTED, ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(entries)), [title for title, _, _ in entries])
    axes.set_ylim(len(entries) - 0.4, -1.1)
    axes.set_xlim(best - 0.04 * (right - best), right)
    axes.grid(axis="x")
    axes.set_xlabel("held-out log-loss − teacher's" if teacher else "held-out log-loss")


def _growth(results: Results) -> list[Panel]:
    """γ itself: how far each run's numerator has come."""
    values = results.scalar("growth")
    gammas = values * np.array(INITIAL)[:, None, None]
    low, high = (float(end(gammas[np.isfinite(gammas)])) for end in (np.min, np.max))
    seen = results.steps * results.setup.batch / 1000

    def draw(axes: Any, row: int, rho: float) -> None:
        for initial, runs, shade in zip(INITIAL, values[row], style.ramp(len(INITIAL)), strict=True):
            for run in runs:
                axes.plot(seen, initial * run, color=shade, linewidth=0.8, alpha=0.45)
            mean = np.exp(np.log(runs).mean(axis=0))
            axes.plot(seen, initial * mean, color=shade, linewidth=2.3, label=f"γ₀ = {initial_text(initial)}")
        axes.set(yscale="log", xlim=(0, seen[-1]), ylim=(low / 2, high * 2), xlabel="thousand rows seen", ylabel="γ")

    return _by_rho(draw)
