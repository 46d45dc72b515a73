"""Figure 1: what one step does to the learning rate, as a function of v/α.

The naive rule γ/√(α + v) has a pole at v = −α. The reparametrised rule leaves α alone there and lets γ grow. Its curves
come from `gradagrad.rule.adapt`, the very lines that the optimizers run.
"""

import time
from typing import Any

import numpy as np
import torch

from gradagrad.rule import Settings, adapt
from gradagrad.steps.ops import tensor_ops
from gradagrad_lab import style
from gradagrad_lab.context import Context
from gradagrad_lab.records import Record
from gradagrad_lab.results import Claim, Picture, Section, Table

RHO = 2.0
CONFIG: dict[str, Any] = {"experiment": "figure1", "rho": RHO, "from": -4.0, "to": 3.0, "points": 701}

# A clip works on the ratio of the two gradients, so v alone does not decide it: one curve where it is out of reach
# (the new gradient is far smaller than the last), one for equal gradients, where v = (1 − ρ)g².
NEW_GRADIENT_SQUARED = 1e-9


def naive(ratio: np.ndarray) -> np.ndarray:
    """Learning rate after the step over that before, for γ/√(α + v); infinite from v = −α on, where no root exists."""
    with np.errstate(divide="ignore"):
        return 1.0 / np.sqrt(np.maximum(1.0 + ratio, 0.0))


def reparametrised(ratio: np.ndarray, *, equal_gradients: bool = False) -> np.ndarray:
    """The same for our rule, with α = 1: ``ratio`` is v before any clip."""
    v = torch.as_tensor(ratio, dtype=torch.float64)
    falling = v < 0
    smaller = -v / (RHO - 1.0) if equal_gradients else torch.full_like(v, NEW_GRADIENT_SQUARED)
    gradient_squared = torch.where(falling, smaller, v)
    product = torch.where(falling, (gradient_squared - v) / RHO, torch.zeros_like(v))
    one = torch.ones_like(v)
    settings = Settings(lr=1.0, rho=RHO)
    growth, accumulator = adapt(gradient_squared, product, one, one, settings, tensor_ops(torch.float64))
    return (growth / accumulator.sqrt()).numpy()


def compute() -> Record:
    """Both rules over the range of the figure, and how they part near 0."""
    ratio = np.linspace(CONFIG["from"], CONFIG["to"], CONFIG["points"])
    near = -np.logspace(-1, -3, 3)
    curves = {
        "ratio": ratio.tolist(),
        "naive": naive(ratio).tolist(),
        "reparametrised": reparametrised(ratio).tolist(),
        "clipped": reparametrised(ratio, equal_gradients=True).tolist(),
        "near zero": near.tolist(),
        "disagreement near zero": (np.abs(reparametrised(near) - naive(near)) / near**2).tolist(),
    }
    return Record(dict(CONFIG), [], "done", curves)


def run(context: Context) -> Section:
    """Compute if missing, draw and describe."""
    started = time.perf_counter()
    record = context.records.ensure(CONFIG, [], compute)
    curves = {name: np.asarray(values) for name, values in record.curves.items()}
    style.save(draw(curves, style.WIDE, 3.9), context, "figure1", narrow=draw(curves, style.NARROW, 4.1))
    return describe(curves, time.perf_counter() - started)


def draw(curves: dict[str, np.ndarray], width: float, height: float) -> Any:
    """Both rules over v/α. Reads a record's curves, computes nothing."""
    narrow = width < 6
    with style.use():
        figure, grid = style.subplots(width=width, height=height)
        axes = grid[0, 0]
        ratio = curves["ratio"]
        defined = np.isfinite(curves["naive"])
        bend = ratio <= -3
        axes.axvline(-1, color=style.MUTED, linewidth=0.9, linestyle=(0, (1.5, 2)))
        axes.plot(
            ratio[bend], curves["clipped"][bend], color=style.colour("gradagrad"), linewidth=1.5, linestyle=(0, (3, 2))
        )
        axes.plot(ratio[defined], curves["naive"][defined], **style.line("adagrad"))
        axes.plot(ratio, curves["reparametrised"], **style.line("gradagrad"))
        axes.plot(0, 1, "o", color=style.INK, markersize=5, zorder=5)
        axes.set(xlim=(-4, 3), ylim=(0, 4.6), xlabel="v/α", title="Learning rate after the step ÷ before")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.set_yticks([0, 1, 2, 3, 4])
        style.note(axes, "naive γ/√(α+v)", (-0.84, 3.75), shade=style.colour("adagrad"))
        style.note(axes, "no root left of −1", (-1.1, 4.3), shade=style.MUTED, ha="right", fontsize=9)
        style.note(
            axes,
            "GradaGrad",
            (-2.6 if narrow else -2.05, 2.15 if narrow else 2.02),
            shade=style.colour("gradagrad"),
            fontweight="bold",
        )
        style.note(
            axes,
            "clip, equal\ngradients" if narrow else "clip for equal gradients, ρ = 2",
            (-3.9, 1.45 if narrow else 1.65),
            shade=style.colour("gradagrad"),
            fontsize=9,
        )
        style.note(axes, "same slope here", (0.12, 1.1), fontsize=9)
        style.note(
            axes,
            "v > 0: AdaGrad" if narrow else "v > 0: both are AdaGrad",
            (0.9 if narrow else 1.2, 0.28),
            shade=style.MUTED,
            fontsize=9,
        )
    return figure


def describe(curves: dict[str, np.ndarray], seconds: float) -> Section:
    """What the curves say about the paper's sentences."""
    points = np.array([-3.0, -2.0, -1.0, -0.99, -0.9, -0.5, -0.1, 0.0, 1.0])
    place = np.searchsorted(curves["ratio"], points - 1e-9)
    naive_at, ours_at = curves["naive"][place], curves["reparametrised"][place]
    at = {float(point): (float(n), float(o)) for point, n, o in zip(points, naive_at, ours_at, strict=True)}
    ours = curves["reparametrised"]
    steady = bool(np.all(np.isfinite(ours))) and bool(np.all(np.diff(ours) < 0))
    constants = curves["disagreement near zero"]
    second_order = bool(np.all(constants < 1))
    same_above = bool(
        np.allclose(curves["naive"][curves["ratio"] >= 0], curves["reparametrised"][curves["ratio"] >= 0])
    )
    claims = [
        Claim(
            "Where v is negative the learning rate scales smoothly, while the naive rule γ/√(α + v) quickly explodes.",
            f"At v = −0.99 α the naive rule multiplies the learning rate by {at[-0.99][0]:.1f}, and from −α on it has "
            f"no value; ours multiplies it by {at[-0.99][1]:.2f}, at −α by {at[-1.0][1]:.2f}, at −3 α by "
            f"{at[-3.0][1]:.2f}.",
            "holds" if steady and at[-1.0][0] == np.inf else "does not hold",
        ),
        Claim(
            "The reparametrised rule matches the naive one to first order: their slopes agree at v = 0.",
            "Their difference divided by (v/α)² stays at "
            + ", ".join(f"{constant:.3f}" for constant in constants)
            + " for v/α = −0.1, −0.01, −0.001: the difference is of second order. (The paper's remark says α − v where "
            "it means α + v.)",
            "holds" if second_order else "does not hold",
        ),
        Claim(
            "For positive v the standard AdaGrad update is used without any reparametrisation.",
            "Both curves coincide for all v ≥ 0." if same_above else "The curves differ for v ≥ 0.",
            "holds" if same_above else "does not hold",
        ),
    ]
    rows = [
        [f"{point:g}".replace("-", "−"), "–" if np.isinf(n) else f"{n:.3f}", f"{o:.3f}"] for point, (n, o) in at.items()
    ]
    return Section(
        key="figure1",
        title="Figure 1: growing the numerator instead of shrinking the sum",
        intro="One step changes the sum α under the root by v = g² − ρ·g·m. When consecutive gradients agree, v is "
        "negative. Added to α it would lead to a division by zero at v = −α; GradaGrad leaves α alone and lets the "
        "numerator γ grow.",
        claims=claims,
        pictures=[
            Picture(
                "Learning rate against v/α",
                "figure1",
                "The change of the learning rate in one step. Dashed on the left: the restricted-increase clip, which "
                "limits one step to a factor ρ when consecutive gradients are equal.",
                "Two curves over v/α from −4 to 3. They coincide for positive v and touch with the same slope at 0. To "
                "the left the naive rule rises without bound towards −1, while GradaGrad rises gently to 2.2 at −4.",
            )
        ],
        tables=[
            Table(
                "Factor by which one step changes the learning rate",
                ["v/α", "naive", "GradaGrad"],
                rows,
                "A dash: α + v is not positive.",
            )
        ],
        settings={"ρ": f"{RHO:g}", "points": str(CONFIG["points"]), "precision": "float64"},
        seconds=seconds,
        summary=f"At v = −0.99 α the naive rule multiplies the learning rate by {at[-0.99][0]:.0f}, GradaGrad by "
        f"{at[-0.99][1]:.2f}.",
    )
