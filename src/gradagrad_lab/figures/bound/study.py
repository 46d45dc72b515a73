"""Theorem 3 on a box: the averaged iterate against the bound; the proof's steps, and what v and g·g′ do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradagrad_lab.context import Context
from gradagrad_lab.figures.bound import agreement
from gradagrad_lab.figures.bound.claims import all_claims, summary
from gradagrad_lab.figures.bound.proofs import Noiseless, Settings
from gradagrad_lab.figures.bound.tables import NAMES, all_tables
from gradagrad_lab.figures.bound.theorem import Measured, OnBox, Results, read
from gradagrad_lab.problems.toy import AbsoluteValue, BoxRegression, Loss
from gradagrad_lab.report import style
from gradagrad_lab.report.content import About, Panel, Picture, Source
from gradagrad_lab.stacked import ComputedProblem
from gradagrad_lab.study import Frame, Method, Plan, Run, Study, runs_of

INITIAL = (2.0, 1.0, 0.1, 0.01)
"""γ₀; the first is D∞, the cap."""
STEPS = {"quick": 1024, "full": 16384}
SEEDS = 10
PROBLEMS = {
    "absolute": OnBox(BoxRegression("absolute"), "absolute"),
    "logistic": OnBox(BoxRegression("logistic"), "logistic"),
    # From x₀ = 3/4·γ₀ every early step jumps over the minimum, so gradients alternate in sign and v = (1 + ρ)·g².
    "alternating": OnBox(AbsoluteValue(start_at=0.75, dtype=torch.float64), "alternating"),
}


@dataclass(frozen=True)
class Group:
    """Settings of one problem that share seeds and length."""

    problem: OnBox
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    steps: int


def _methods(initial: Sequence[float], *pairs: tuple[float, float]) -> tuple[Method, ...]:
    return tuple(
        Method.of("gradagrad", lr=first, rho=rho, momentum=momentum) for rho, momentum in pairs for first in initial
    )


def groups(context: Context) -> list[Group]:
    """What is run against the bound: ρ = 2 and 10, with and without momentum, also from γ₀ = D∞."""
    seeds, steps = context.seed_range(SEEDS), STEPS["quick" if context.quick else "full"]
    return [
        Group(PROBLEMS["absolute"], _methods(INITIAL, (2.0, 0.0), (2.0, 0.9), (10.0, 0.0)), seeds, steps),
        Group(PROBLEMS["logistic"], _methods(INITIAL, (2.0, 0.0), (10.0, 0.0)), seeds, steps),
        Group(PROBLEMS["alternating"], _methods((2.0, 1.0), (2.0, 0.0), (2.0, 0.9), (10.0, 0.0)), (0,), 1024),
    ]


class Computation(ComputedProblem):
    """Numbers that need no seeds: the statements without noise, or how gradients agree; the label says which."""

    def __init__(self, label: str) -> None:
        self.label = label

    def config(self) -> dict[str, Any]:
        return {"kind": "bound: " + self.label}

    def measures(self, method: Method, size: int) -> Mapping[str, int]:
        return {name: len(values) for name, values in _SHAPES[self.label].items()}

    def compute(self, size: int) -> dict[str, list[float]]:
        return _COMPUTED[self.label](size)


_LOSSES: tuple[Loss, ...] = ("absolute", "logistic")
NOISELESS: list[tuple[Loss, Settings]] = [
    (loss, Settings(initial, rho, momentum, cap=2.0))
    for loss in _LOSSES
    for rho in (2.0, 10.0)
    for momentum in (0.0, 0.9)
    for initial in INITIAL
]
STATEMENTS = ("Lemma 1", "Theorem 2", "Theorem 3", "Lemma 4", "Lemma 7", "Lemma 9", "Lemma 10")


def check_statements(steps: int) -> dict[str, list[float]]:
    """By how much each statement failed at worst, run by run; at most 0 where it held at every step."""
    found: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for loss, settings in NOISELESS:
        problem = Noiseless(loss)
        for name, check in problem.statements(problem.follow(settings, steps)).items():
            found[name].append(check.worst)
    return found


def observe_agreement(steps: int) -> dict[str, list[float]]:
    """Cosines and sizes of v by batch and γ₀, flattened; E[v] and growth by ratio and ρ; growth at ρ = 1 and 2."""
    seen = [
        agreement.observe(initial, batch, steps=steps) for batch in agreement.BATCHES for initial in agreement.INITIAL
    ]
    noise = [agreement.noise(ratio, rho) for ratio in agreement.RATIOS for rho in agreement.NOISY_RHO]
    grown = [
        agreement.growth_of(rho, initial, capped=capped) for capped in (False, True) for rho, initial in agreement.GROWN
    ]
    return {
        "cosine": [one.cosine for one in seen],
        "size of v": [size for one in seen for size in one.sizes],
        "noise": [value for one in noise for value in one],
        "growth": grown,
    }


_SHAPES: dict[str, dict[str, Sequence[Any]]] = {
    "statements": dict.fromkeys(STATEMENTS, NOISELESS),
    "agreement": {
        "cosine": range(len(agreement.BATCHES) * len(agreement.INITIAL)),
        "size of v": range(len(agreement.BATCHES) * len(agreement.INITIAL) * len(agreement.LOOKS)),
        "noise": range(len(agreement.RATIOS) * len(agreement.NOISY_RHO) * len(agreement.Noise._fields)),
        "growth": range(2 * len(agreement.GROWN)),
    },
}
_COMPUTED = {"statements": check_statements, "agreement": observe_agreement}
COMPUTED = {
    "statements": Run(Computation("statements"), Method.of("gradagrad"), 0, 200),
    "agreement": Run(Computation("agreement"), Method.of("gradagrad"), 0, agreement.STEPS),
}


def plan(context: Context) -> Plan:
    """Runs against the bound, and the two computations."""
    chosen = groups(context)
    runs = [run for group in chosen for run in runs_of(group.problem, group.methods, group.seeds, group.steps)]
    return Plan([*runs, *COMPUTED.values()], details=chosen)


def read_all(frame: Frame) -> Results:
    """All settings in the order of the plan, and both computations' numbers by measure."""
    measured = [
        read(frame, group.problem, method, group.seeds, group.steps)
        for group in frame.details
        for method in group.methods
    ]
    computed = {name: values for run in COMPUTED.values() for name, values in frame.record(run).curves.items()}
    return Results(measured, computed, frame.details[0].steps)


def draw(results: Results) -> list[Picture]:
    """Two problems log-log with the bounds, and the sum α against what the proof assumes of it."""
    plain = [curve for curve in results.measured if curve.momentum == 0]
    shown = [curve for curve in plain if curve.rho == 2]
    lowest = 10 ** np.floor(np.log10(min(curve.mean.min() for curve in shown if curve.name != "alternating")))
    panels = [
        Panel(lambda axes, name=name: _gaps(axes, [c for c in shown if c.name == name], lowest), title)
        for name, title in (("absolute", "Absolute deviations"), ("logistic", "Logistic"))
    ]
    panels.append(Panel(lambda axes: _sums(axes, [c for c in plain if c.initial == 1.0]), "α ÷ (n + 1)·G∞²"))
    seeds = results.measured[0].gaps.shape[0]
    excess = {rho: max(float(c.sums.max()) for c in plain if c.rho == rho) for rho in (2.0, 10.0)}
    return [
        Picture(
            "Measured suboptimality and the bounds",
            "bound",
            f"Averaged iterate at ρ = 2, mean over {seeds} seeds with two standard errors, no momentum. "
            "Bounds are drawn for γ₀ = 1; they are proportional to 1/γ₀. The last panel, from γ₀ = 1 (dotted: ρ = "
            "10): the largest α of any coordinate over what the proof assumes, which is the line at 1.",
            "Three panels. On both problems the measured suboptimality falls far below all bounds, the later the "
            f"smaller the initial rate. In the third panel the alternating problem climbs to {excess[2.0]:.1f} times "
            f"what the proof assumes at ρ = 2 and {excess[10.0]:.1f} times at ρ = 10.",
            panels,
        )
    ]


def _gaps(axes: Any, curves: list[Measured], lowest: float) -> None:
    for curve, shade in zip(curves, style.ramp(len(curves)), strict=True):
        axes.plot(curve.iterates, curve.mean, color=shade, label=f"measured, γ₀ = {curve.initial:g}")
        low = np.maximum(curve.mean - 2 * curve.error, 1e-12)
        style.band(axes, curve.iterates, low, curve.mean + 2 * curve.error, shade)
    first = next(curve for curve in curves if curve.initial == 1.0)
    for form, dash in (("printed", (0, (4, 2))), ("cap corrected", "-")):
        words = {"printed": "printed bound", "cap corrected": "safe bound"}[form]
        axes.plot(first.iterates, first.bounds[form], color=style.INK, linewidth=1.3, linestyle=dash, label=words)
    axes.set(xscale="log", yscale="log", xlabel="iterates averaged, n + 1", ylabel="f(average) − f*")
    axes.set_ylim(0.5 * lowest, 2e3)


def _sums(axes: Any, curves: list[Measured]) -> None:
    looks = {"absolute": "adagrad", "logistic": "adam", "alternating": "gradagrad"}
    for curve in curves:
        look = {**style.line(looks[curve.name]), "linestyle": "-" if curve.rho == 2 else (0, (1.5, 1.5))}
        axes.plot(curve.iterates, curve.sums, label=f"{NAMES[curve.name]}, ρ = {curve.rho:g}", **look)
    axes.axhline(1.0, color=style.MUTED, linewidth=1.1, linestyle=(0, (1.5, 2)))
    for place, (name, look) in enumerate(looks.items()):
        where = (0.02 + 0.34 * place, 0.97)
        words = NAMES[name].removeprefix("least ").split()[0]
        style.note(axes, words, where, xycoords="axes fraction", va="top", shade=style.colour(look), fontsize=8)
    axes.set(xscale="log", yscale="log", ylim=(0.04, 40), xlabel="n + 1")


_INTRO = """\
Theorem 3 bounds the averaged iterate of GradaGrad on a convex problem over a bounded set. Two problems on the box \
[−1, 1]¹⁰ test it, one row drawn at random per step: least absolute deviations, which is not smooth, and logistic \
regression, which is. Their minima come from a linear program and from L-BFGS-B. A third, |x| from x₀ = 0.75, jumps \
over its minimum at nearly every early step, so that its gradients alternate in sign.

Then the proof itself. Without noise each of the paper's statements is an inequality between numbers and is checked at \
every step of 32 runs. Some steps of the proofs are false as printed. A table below shows each with a run of the \
optimizer that contradicts it and with what holds instead. None of them makes the theorem false."""


def about(results: Results) -> About:
    """Words around the figure."""
    return About(
        intro=_INTRO,
        paper="The averaged iterate converges at a rate of 1/√n, with a bound whose constant is printed.",
        number=f"{min(curve.closest() for curve in results.measured):.0f} times to spare",
        summary=summary(results.measured),
        settings={
            "box": "[−1, 1]¹⁰, start in the corner (1, …, 1)",
            "G∞ and D∞": "1 and 2 (the width of the box)",
            "steps": f"{results.steps}, one row of 200 per step; 1024 for |x|",
            "seeds": str(results.measured[0].gaps.shape[0]),
            "optimizer": "GradaGrad(lr=γ₀, rho=ρ, momentum=β, grad_bound=1, gamma_max=2, projection=Box(-1, 1))",
            "average": "torch.optim.swa_utils.AveragedModel, equal weights, from x₀ on",
            "precision": "float64",
        },
        sources=[Source("two regressions on a box", "generated, seed 0", "200 rows, 10 features in [−1, 1]")],
    )


STUDY = Study(
    name="bound",
    shows="Theorem 3: measured suboptimality against the bound, and the steps of its proof",
    title="Theorem 3: the bound, and the steps of its proof",
    plan=plan,
    read=read_all,
    draw=draw,
    tables=all_tables,
    claims=all_claims,
    about=about,
)
