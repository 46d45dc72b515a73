"""Figure 1: what one step does to the learning rate, as a function of v/α.

The naive rule γ/√(α + v) has a pole at v = −α. The reparametrised rule leaves α alone there and lets γ grow. Its curves
come from steps of `gradagrad.GradaGrad` itself, one coordinate for each value of v.
"""

import warnings
from typing import Any

import numpy as np
import torch

from gradagrad import GradaGrad
from gradagrad_lab.context import Context
from gradagrad_lab.report import style
from gradagrad_lab.report.content import About, Claim, Panel, Picture, Table
from gradagrad_lab.study import Floats, Frame, Plan, Study

Curves = dict[str, Floats]
RHO = 2.0
POINTS = 701
NEAR_ZERO = (-0.1, -0.01, -0.001)

# A clip works on the ratio of the two gradients, so v alone does not decide it: one curve where it is out of reach
# (the new gradient is far smaller than the last), one for equal gradients, where v = (1 − ρ)g².
NEW_GRADIENT = 1e-4


def naive(ratio: Floats) -> Floats:
    """Learning rate after the step over that before, for γ/√(α + v); infinite from v = −α on, where no root exists."""
    with np.errstate(divide="ignore"):
        return 1.0 / np.sqrt(np.maximum(1.0 + ratio, 0.0))


def reparametrised(ratio: Floats, *, equal_gradients: bool = False) -> Floats:
    """The same for our rule, with α = 1: ``ratio`` is v before any clip, one coordinate of the optimizer for each."""
    v = torch.as_tensor(ratio, dtype=torch.float64)
    smaller = (-v / (RHO - 1.0)).clamp(min=0).sqrt() if equal_gradients else torch.full_like(v, NEW_GRADIENT)
    gradient = torch.where(v < 0, smaller, v.clamp(min=0).sqrt())
    last = torch.where(v < 0, (gradient**2 - v) / (RHO * gradient), torch.zeros_like(v))
    x = torch.zeros_like(v, requires_grad=True)
    optimizer = GradaGrad([x], lr=1.0, rho=RHO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a first step of size 1 is what brings α to 1
        x.grad = torch.ones_like(v)
        optimizer.step()
        optimizer.state[x]["momentum"].copy_(last)
        x.grad = gradient
        optimizer.step()
    state = optimizer.state[x]
    return (state["growth"] / state["accumulator"].sqrt()).numpy()


def plan(context: Context) -> Plan:
    """Nothing is trained."""
    return Plan()


def compute(frame: Frame | None = None) -> Curves:
    """Both rules over v/α from −4 to 3, and how they part near 0."""
    ratio, near = np.linspace(-4.0, 3.0, POINTS), np.array(NEAR_ZERO)
    return {
        "ratio": ratio,
        "naive": naive(ratio),
        "reparametrised": reparametrised(ratio),
        "clipped": reparametrised(ratio, equal_gradients=True),
        "near zero": near,
        "disagreement near zero": np.abs(reparametrised(near) - naive(near)) / near**2,
    }


def draw(curves: Curves) -> list[Picture]:
    """Both rules over v/α."""
    return [
        Picture(
            "Learning rate after the step ÷ before",
            "figure1",
            "The change of the learning rate in one step. Dashed on the left: the restricted-increase clip, which "
            "limits one step to a factor ρ when consecutive gradients are equal.",
            "Two curves over v/α from −4 to 3. They coincide for positive v and touch with the same slope at 0. To "
            "the left the naive rule rises without bound towards −1, while GradaGrad rises gently to 2.2 at −4.",
            [Panel(lambda axes: _panel(axes, curves))],
            size=(4.3, 2.7),
        )
    ]


def _panel(axes: Any, curves: Curves) -> None:
    ratio, defined = curves["ratio"], np.isfinite(curves["naive"])
    bend = ratio <= -3
    shade = style.colour("gradagrad")
    axes.axvline(-1, color=style.MUTED, linewidth=0.9, linestyle=(0, (1.5, 2)))
    axes.plot(ratio[defined], curves["naive"][defined], label="naive γ/√(α+v)", **style.line("adagrad"))
    axes.plot(ratio, curves["reparametrised"], label="GradaGrad", **style.line("gradagrad"))
    clip = {"color": shade, "linewidth": 1.5, "linestyle": (0, (3, 2))}
    axes.plot(ratio[bend], curves["clipped"][bend], label="clip for equal gradients, ρ = 2", **clip)
    axes.plot(0, 1, "o", color=style.INK, markersize=5, zorder=5)
    axes.set(xlim=(-4, 3), ylim=(0, 4.6), xlabel="v/α")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.set_yticks([0, 1, 2, 3, 4])
    style.note(axes, "no root left of −1", (-1.1, 4.2), shade=style.MUTED, ha="right", fontsize=9)
    style.note(axes, "same slope here", (0.12, 1.1), fontsize=9)
    style.note(axes, "v > 0: AdaGrad", (0.9, 0.28), shade=style.MUTED, fontsize=9)


def _at(curves: Curves) -> dict[float, tuple[float, float]]:
    points = np.array([-3.0, -2.0, -1.0, -0.99, -0.9, -0.5, -0.1, 0.0, 1.0])
    places = np.searchsorted(curves["ratio"], points - 1e-9)
    both = zip(points, curves["naive"][places], curves["reparametrised"][places], strict=True)
    return {float(point): (float(n), float(o)) for point, n, o in both}


def tables(curves: Curves) -> list[Table]:
    """The curves at some points."""
    rows = [
        [f"{point:g}".replace("-", "−"), "–" if np.isinf(n) else f"{n:.3f}", f"{o:.3f}"]
        for point, (n, o) in _at(curves).items()
    ]
    title = "Factor by which one step changes the learning rate"
    return [Table(title, ["v/α", "naive", "GradaGrad"], rows, "A dash: α + v is not positive.")]


def _growth(curves: Curves) -> str:
    naive, ours = _at(curves)[-0.99]
    return f"×{ours:.2f} where the naive rule gives ×{naive:.0f}"


def claims(curves: Curves) -> list[Claim]:
    """The verdicts of the curves on the paper's sentences."""
    at, ours = _at(curves), curves["reparametrised"]
    steady = bool(np.all(np.isfinite(ours)) and np.all(np.diff(ours) < 0))
    constants = curves["disagreement near zero"]
    above = curves["ratio"] >= 0
    same_above = bool(np.allclose(curves["naive"][above], ours[above]))
    return [
        Claim(
            "Where v is negative the learning rate scales smoothly, while the naive rule γ/√(α + v) quickly explodes.",
            "What one step multiplies the learning rate by. From v = −α on, the naive rule has no value.",
            "holds" if steady and at[-1.0][0] == np.inf else "does not hold",
            criterion="Ours is finite and strictly falling in v from −4 α to 3 α; the naive rule has no value at −α.",
            number=_growth(curves),
        ),
        Claim(
            "The reparametrised rule matches the naive one to first order: their slopes agree at v = 0.",
            "Their difference divided by (v/α)² does not grow towards v = 0, so it is of second order. (The paper's "
            "remark says α − v where it means α + v.)",
            "holds" if bool(np.all(constants < 1)) else "does not hold",
            criterion="The difference divided by (v/α)² stays below 1 as v/α goes to 0.",
            number=f"they differ by {constants[-1]:.2f}·(v/α)²",
            table=Table("", ["v/α = −0.1", "−0.01", "−0.001"], [[f"{constant:.3f}" for constant in constants]]),
        ),
        Claim(
            "For positive v the standard AdaGrad update is used without any reparametrisation.",
            "Both curves coincide for all v ≥ 0." if same_above else "The curves differ for v ≥ 0.",
            "holds" if same_above else "does not hold",
            criterion="Both curves agree to rounding for v ≥ 0.",
            number="equal" if same_above else "different",
        ),
    ]


def about(curves: Curves) -> About:
    """Words around the figure."""
    return About(
        intro="One step changes the sum α under the root by v = g² − ρ·g·m. When consecutive gradients agree, v is "
        "negative. Added to α it would lead to a division by zero at v = −α; GradaGrad leaves α alone and lets the "
        "numerator γ grow.",
        paper="Near v = 0 the reparametrised rule follows the naive one; where that explodes, it grows gently.",
        number=_growth(curves),
        summary=f"When consecutive gradients agree so well that v = −0.99 α, one step multiplies the learning rate by "
        f"{_growth(curves).replace('×', '')}.",
        settings={"ρ": f"{RHO:g}", "points": str(POINTS), "precision": "float64"},
    )


STUDY = Study(
    name="figure1",
    title="Figure 1: growing the numerator instead of shrinking the sum",
    plan=plan,
    read=compute,
    draw=draw,
    tables=tables,
    claims=claims,
    about=about,
)
