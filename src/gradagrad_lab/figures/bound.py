"""Theorems 3 and D beside runs: two problems on a box, and what is proved of them."""

from typing import Any, NamedTuple

import numpy as np

from gradagrad.rules.gradagrad import Settings
from gradagrad_lab.context import Context
from gradagrad_lab.figures.theorem import TheoremD, follow
from gradagrad_lab.problems.toy import BoxRegression
from gradagrad_lab.report import style
from gradagrad_lab.report.content import About, Claim, Panel, Picture, Table
from gradagrad_lab.study import Floats, Frame, Plan, Study

INITIAL = (2.0, 1.0, 0.1, 0.01)
"""γ₀; the first is D∞."""
KINDS = ((2.0, 0.0, True), (2.0, 0.0, False), (2.0, 0.9, False), (10.0, 0.0, True), (10.0, 0.0, False))
"""ρ, β and whether γ has the paper's cap D∞."""
PROBLEMS = {"absolute deviations": BoxRegression("absolute"), "logistic": BoxRegression("logistic")}
DIAMETER = 2.0
"""D∞, the width of the box."""
SEEDS = 10
STEPS = {True: 1024, False: 16384}


class Measured(NamedTuple):
    """One setting on one problem: curves over the number of averaged iterates. ``gaps`` are f(x̄) − f* by seed."""

    name: str
    rho: float
    momentum: float
    capped: bool
    initial: float
    iterates: Floats
    gaps: Floats
    printed: Floats
    theorem_d: Floats

    @property
    def upper(self) -> Floats:
        """The mean over seeds plus two standard errors."""
        return self.gaps.mean(axis=0) + 2 * self.gaps.std(axis=0) / np.sqrt(max(len(self.gaps) - 1, 1))

    def closest(self, bound: str) -> float:
        """The smallest ratio of a bound to what was measured."""
        return float((getattr(self, bound) / self.upper).min())


def checkpoints(steps: int) -> Floats:
    """Powers of √2, and the last step."""
    return np.unique(np.append(np.round(2 ** (np.arange(int(2 * np.log2(steps)) + 1) / 2)), float(steps)))


def measure(name: str, seeds: tuple[int, ...], steps: int, momentum: float) -> list[Measured]:
    """All settings of one problem and one momentum, in one run of the rule."""
    problem, iterates = PROBLEMS[name], checkpoints(steps)
    kinds = [(rho, capped, first) for rho, beta, capped in KINDS if beta == momentum for first in INITIAL]
    rho, capped, first = (np.array(column)[:, None, None] for column in zip(*kinds, strict=True))
    cap = np.where(capped, DIAMETER, np.inf)
    settings = Settings(first, rho, momentum, gamma_max=cap, grad_bound=1.0, project=lambda x, _: np.clip(x, -1, 1))
    draws = [np.random.default_rng([seed, 0]).integers(problem.rows, size=steps) for seed in seeds]
    rows, start = np.stack(draws, axis=1), np.ones((len(kinds), len(seeds), problem.dimension))
    head = (2 * momentum / (1 - momentum) + rho) * (problem.value(start) - problem.minimum[0])[..., None]
    bound, mean = TheoremD(settings, DIAMETER, capped), np.zeros(start.shape)
    gaps: list[Floats] = []
    right: list[Floats] = []
    for k, step in enumerate(follow(lambda k, x: problem.gradient(x, rows[k]), start, steps, settings)):
        mean += (step.x - mean) / (k + 1)
        error, iterate = bound.add(step)
        if k + 1 in iterates:
            gaps.append(problem.value(mean) - problem.minimum[0])
            right.append((head[..., 0] + (error + iterate).sum(axis=2)).mean(axis=1) / (2 * (k + 1)))
    constant = 3 * np.sqrt(2 + rho) * problem.dimension * DIAMETER**2 / first
    printed = head.mean(axis=1) / (2 * iterates) + constant[:, 0] / np.sqrt(iterates)
    curves = zip(kinds, np.stack(gaps, axis=2), printed, np.stack(right, axis=1), strict=True)
    return [Measured(name, rho, momentum, capped, first, iterates, *rest) for (rho, capped, first), *rest in curves]


def plan(context: Context) -> Plan:
    """Nothing is trained before: the runs take seconds."""
    return Plan()


def compute(frame: Frame) -> list[Measured]:
    """Every run."""
    seeds, steps = frame.context.seed_range(SEEDS), STEPS[frame.context.quick]
    return [c for name in PROBLEMS for beta in (0.0, 0.9) for c in measure(name, seeds, steps, beta)]


def draw(measured: list[Measured]) -> list[Picture]:
    """Both problems with both bounds."""
    panels = [Panel(lambda axes, name=name: _gaps(axes, measured, name), name.capitalize()) for name in PROBLEMS]
    return [
        Picture(
            "What is proved beside what is measured",
            "bound",
            "f(average) − f* at ρ = 2, without cap and momentum, below two bounds.",
            "Two panels with logarithmic axes. Theorem D lies between the printed bound and the measured curve; from "
            "γ₀ = 0.01 it is far below the printed bound.",
            panels,
            columns=2,
            size=(4.2, 2.7),
        )
    ]


def _gaps(axes: Any, measured: list[Measured], name: str) -> None:
    for first, shade in zip((1.0, 0.01), style.ramp(2), strict=True):
        c = next(c for c in measured if c[:5] == (name, 2.0, 0.0, False, first))
        looks: tuple[tuple[Floats, Any, str], ...] = (
            (c.gaps.mean(axis=0), "-", "measured"), (c.theorem_d, (0, (4, 1.5)), "Theorem D"),
            (c.printed, (0, (1, 1.5)), "Theorem 3"),
        )  # fmt: skip
        for curve, dash, what in looks:
            axes.plot(c.iterates, curve, color=shade, linestyle=dash, label=f"{what}, γ₀ = {first:g}")
    axes.set(xscale="log", yscale="log", xlabel="iterates averaged, n + 1")


def nearest(measured: list[Measured]) -> dict[str, float]:
    """The smallest ratio of each bound to what was measured. Theorem 3 asks for the cap."""
    capped = min(c.closest("printed") for c in measured if c.capped)
    return {"printed": capped, "theorem_d": min(c.closest("theorem_d") for c in measured)}


def claims(measured: list[Measured]) -> list[Claim]:
    """Every sentence with its evidence and verdict."""
    near = nearest(measured)
    words = {
        "printed": ("Theorem 3: f at the averaged iterate is at most the printed bound above f*.", "with the cap"),
        "theorem_d": ("Theorem D bounds it by AdaGrad's bound at the mean γ, without a cap.", "with and without cap"),
    }
    return [
        Claim(
            text,
            f"All settings {which}, every checkpoint: at its closest, {near[bound]:.1f} times what was measured.",
            "holds" if near[bound] >= 1 else "does not hold",
            whose="paper" if bound == "printed" else "ours",
            criterion="never exceeded by the mean over seeds plus two standard errors",
            number=f"{near[bound]:.0f} times to spare",
        )
        for bound, (text, which) in words.items()
    ]


def tables(measured: list[Measured]) -> list[Table]:
    """A row for each setting."""
    rows = [
        {
            "problem": c.name, "ρ": f"{c.rho:g}", "β": f"{c.momentum:g}", "cap": "D∞" if c.capped else "–",
            "γ₀": f"{c.initial:g}", "f(x̄) − f*": f"{c.gaps[:, -1].mean():.2g}",
            "Theorem D ÷ measured": f"{c.closest('theorem_d'):.1f}",
            "Theorem 3 ÷ measured": f"{c.closest('printed'):.1f}",
        }
        for c in measured
    ]  # fmt: skip
    note = "“÷ measured” is the smallest ratio over all checkpoints, with two standard errors added to the mean."
    return [Table.of("Every run", rows, note)]


def about(measured: list[Measured]) -> About:
    """Words around the figure."""
    near = nearest(measured)
    return About(
        intro="Theorem 3 bounds GradaGrad's averaged iterate on a convex problem over a bounded set. Theorem D, ours, "
        "bounds it by AdaGrad's bound at the mean γ, with momentum and without a cap (docs/theory.md). Two generated "
        "problems of 200 rows on the box [−1, 1]¹⁰ test both from a corner, one random row per step.",
        paper="The averaged iterate converges at a rate of 1/√n, with a bound whose constant is printed.",
        number=f"{near['printed']:.0f} times to spare",
        summary=f"At its closest, the printed bound is {near['printed']:.1f} times what was measured. Theorem D's is "
        f"{near['theorem_d']:.1f} times.",
        settings={"steps, seeds": f"{measured[0].iterates[-1]:.0f}, {len(measured[0].gaps)}", "precision": "float64"},
    )


STUDY = Study("bound", "Theorem 3: the bound, and ours", plan, compute, draw, tables, claims, about)
