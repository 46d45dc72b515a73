"""Figure 5, which the paper does not have: can the upper bound on γ be removed? It uses the hardest kind of noise.

f(x) = εx over [0, D], with gradients ±1 of mean ε. The minimum is the edge at 0, and γ grows by chance agreement alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradagrad.rules import auto
from gradagrad.rules.gradagrad import Settings
from gradagrad.sklearn.ops import ArrayOps
from gradagrad.torch_ops.ops import reduction
from gradagrad_lab.figures.bound import checkpoints, plan
from gradagrad_lab.figures.theorem import follow
from gradagrad_lab.report import style
from gradagrad_lab.report.content import About, Claim, Panel, Picture
from gradagrad_lab.study import Floats, Frame, Study

RHOS = np.array([2.0, 5.0, 10.0])
CAPS = {"no cap": "others", "D∞, as printed": "adagrad", "D∞, v as below it": "adam", "travelled": "gradagrad"}
"""The caps on γ, and how they are drawn."""
SLOPE, DIAMETER, START = 0.1, 2.0, 0.5
"""ε, D and γ₀."""
LOSSES = ("(x − 1)²/2", "|x − 1|", "f = 0", "|x|")
"""What AutoGradaGrad is given: one element, 1 above the minimum, with normal noise."""
MINIMA, NOISE = np.array([[1], [1], [1], [0]]), np.array([[1], [1], [1], [3]])
STEPS, SEEDS = {True: 16_384, False: 131_072}, 20


class Results(NamedTuple):
    """Means over seeds, (ρ, cap, step): of γ/√α (geometric), and of f(x̄) − f*; (loss, step): of Auto's γ."""

    steps: Floats
    rate: Floats
    gap: Floats
    gamma: Floats
    stopped: int  # runs of AutoGradaGrad on |x| whose average ends more than 0.01 from 0

    def exponent(self, curve: Floats) -> float:
        """The exponent of the number of steps, fitted to the later half of its logarithmic scale."""
        late = self.steps >= self.steps[-1] ** 0.5
        return float(np.polyfit(np.log(self.steps[late]), np.log(curve[late]), 1)[0])


def compute(frame: Frame) -> Results:
    """Every ρ, cap and seed, side by side. Runs with the same seed see the same signs."""
    steps, seeds = STEPS[frame.context.quick], frame.context.seed_range(SEEDS)
    draws, rho = [np.random.default_rng([seed, 5]) for seed in seeds], RHOS[:, None, None]
    none, printed, soft, _ = np.eye(len(CAPS), dtype=bool)[:, :, None]
    cap = np.where(printed, DIAMETER, np.inf)
    settings = Settings(START, rho, gamma_max=cap, grad_bound=1.0, project=lambda x, _: np.clip(x, 0.0, DIAMETER))
    start = np.full((len(RHOS), len(CAPS), len(seeds)), DIAMETER / 2)
    signs: Floats = start

    def far(x: Floats) -> Floats:
        soft_cap = (DIAMETER - START) * 2 / rho
        return np.where(none | printed, np.inf, np.where(soft, soft_cap, x - start)) ** 2

    def gradient(k: int, x: Floats) -> Floats:
        nonlocal signs
        if k % 4096 == 0:
            signs = np.where(np.stack([d.random(4096) for d in draws], axis=1) < (1 + SLOPE) / 2, 1.0, -1.0)
        return np.broadcast_to(signs[k % 4096], x.shape)

    mean, counts, rates, gaps = np.zeros(start.shape), checkpoints(steps), [], []
    for k, step in enumerate(follow(gradient, start, steps, settings, far)):
        mean += (step.x - mean) / (k + 1)
        if k + 1 in counts:
            rates.append(np.log(step.next_gamma / np.sqrt(step.next_alpha)).mean(axis=2))
            gaps.append(SLOPE * mean.mean(axis=2))
    return Results(counts, np.exp(np.stack(rates, axis=2)), np.stack(gaps, axis=2), *gammas(seeds, counts))


def gammas(seeds: tuple[int, ...], counts: Floats) -> tuple[Floats, int]:
    """AutoGradaGrad's part of the results. Every run has one tensor of one element."""
    rule, s, ops, random = auto.RULE, auto.Settings(), ArrayOps(), np.random.default_rng(seeds)
    state = {f.key: np.full((len(LOSSES), len(seeds)), getattr(s, str(f.start), f.start)) for f in rule.fields(s)}
    state["x"], found = MINIMA + np.ones(len(seeds)), []
    for k in range(int(counts[-1])):
        off = state["x"] - MINIMA
        slopes = np.stack([off[0], np.sign(off[1]), 0 * off[2], np.sign(off[3])])
        block, factors = rule.decide((), state, s, ops)
        given = {**state, "g": slopes + NOISE * random.normal(size=len(seeds))}
        new, statistics = rule.move(given, factors, s, reduction("element"), ops)
        state = {**rule.learn(statistics, rule.report(statistics, block, 1.0, s, ops), block, s, ops), **new}
        if k + 1 in counts:
            found.append(np.log(state["gamma"]).mean(axis=1))
    return np.exp(np.stack(found, axis=1)), int((np.abs(rule.average(state, s)[-1]) > 0.01).sum())


def draw(results: Results) -> list[Picture]:
    """f at the average with each cap, and the step without a cap."""
    panels = [Panel(lambda axes, i=i: _gaps(axes, results, i), f"f(average), ρ = {RHOS[i]:g}") for i in (0, 2)]
    ours = [(f"ρ = {rho:g}", row[0], -1 / (1 + rho), -1, 1.5) for rho, row in zip(RHOS, results.rate, strict=True)]
    others = [*zip(LOSSES, results.gamma, (-1, np.nan, -0.36, np.nan), (14, 27, 8, 21), (3, 3, 0.1, 2), strict=True)]
    panels += [Panel(lambda axes: _falls(axes, results.steps, ours), "Step γ/√α without a cap")]
    panels += [Panel(lambda axes: _falls(axes, results.steps, others), "γ of AutoGradaGrad")]
    return [
        Picture(
            "Can the upper bound on γ be removed?",
            "figure5",
            f"f(x) = {SLOPE}x over [0, {DIAMETER:g}] with gradients ±1, from γ₀ = {START}, means over seeds. "
            "The travelled cap γ₀ + (ρ/2)·|x − x₀| does not know D∞. Dotted: the slopes −1/(1 + ρ); for "
            "AutoGradaGrad, on one element with normal noise (three times as large on |x|), −1 and −0.36.",
            "Four panels. Without a cap, f at the average falls slowly, at ρ = 10 hardly at all; with each of three "
            "caps it falls along nearly straight lines. The uncapped step and AutoGradaGrad's γ fall as predicted.",
            panels,
            columns=2,
            size=(2.5, 2.2),
        )
    ]


def _gaps(axes: Any, results: Results, i: int) -> None:
    for (cap, look), curve in zip(CAPS.items(), results.gap[i], strict=True):
        axes.plot(results.steps, curve, label=cap, **style.line(look))
    axes.set(xscale="log", yscale="log", xlabel="iterates averaged", ylim=(results.gap.min() / 2, 0.15))


def _falls(axes: Any, steps: Floats, curves: Sequence[tuple[str, Floats, float, int, float]]) -> None:
    for (name, curve, slope, place, lift), shade in zip(curves, style.ramp(len(curves)), strict=True):
        axes.plot(steps, curve, color=shade, label=name)
        axes.plot(steps, curve[-1] * (steps / steps[-1]) ** slope, color=shade, linestyle=(0, (1, 2)))
        style.note(axes, name, (steps[place], lift * curve[place]), shade=shade, fontsize=8, ha="right")
    axes.set(xscale="log", yscale="log", xlabel="step k", ylim=(None, 1))
    axes.tick_params(which="minor", labelleft=False)


def claims(results: Results) -> list[Claim]:
    """The answer, and why."""
    rate, predicted = np.array([results.exponent(row[0]) for row in results.rate]), -1 / (1 + RHOS)
    none, *caps = np.array([[results.exponent(curve) for curve in row] for row in results.gap]).T
    ratio = results.gap[:, :, -1] / results.gap[:, 1:2, -1]
    falls = [results.exponent(curve) for curve in results.gamma]
    off, over = np.abs(rate - predicted).max(), ratio[:, 3].max()
    at = f"at ρ = {', '.join(f'{rho:g}' for rho in RHOS)}"
    return [
        Claim(
            "Can the upper bound on γ be removed? It does not appear to be necessary in practice.",
            f"Exponents of n of f(average) {at}: {listed(none)} without a cap, with any of three caps at most "
            f"{listed([np.max(caps)])}. It ends at up to {ratio[:, 0].max():.0f} times f with the printed cap.",
            "does not hold" if max(none) > -0.25 else "holds",
            criterion="without a cap, f(average) falls faster than n^−0.25 for every ρ",
            fixed="after",
            number=f"n^{listed([max(none)])} without a cap",
        ),
        Claim(
            "Without a cap, the step γ/√α falls like k^(−1/(1 + ρ)) under sign noise.",
            f"Exponents of k {at}: {listed(rate)}. Proved: {listed(predicted)}.",
            "holds" if off < 0.03 else "does not hold",
            whose="ours",
            criterion="within 0.03 for every ρ",
            number=f"within {off:.3f}",
        ),
        Claim(
            "A cap that needs no D∞ will do: γ ≤ γ₀ + (ρ/2)·|x − x₀|.",
            f"f(average) ends at {ratio[:, 3].min():.2f} to {over:.2f} times f with the printed cap.",
            "holds" if over < 2 else "holds in part",
            whose="ours",
            criterion="at most twice f with the printed cap at the end, for every ρ",
            number=f"{over:.1f} times the printed cap's at most",
        ),
        Claim(
            "AutoGradaGrad needs no cap: its votes bring γ down under noise.",
            f"Exponents of k on {', '.join(LOSSES)}: {listed(falls)}. Runs on |x| with an average "
            f"that ends more than 0.01 from 0, because γ falls too far: {results.stopped}.",
            "holds in part" if results.stopped else "holds" if max(falls[:2]) < -0.5 else "does not hold",
            whose="ours",
            criterion="faster than 1/√k on the first two, and no run on |x| that stops early",
            fixed="after",
            number=f"{results.stopped} of the runs on |x| stop early",
        ),
    ]


def listed(exponents: Any) -> str:
    """Exponents with minus signs."""
    return ", ".join(f"{a:.2f}" for a in exponents).replace("-", "−")


def about(results: Results) -> About:
    """Words around the figure."""
    none, travelled = (listed([results.exponent(results.gap[2, cap])]) for cap in (0, 3))
    return About(
        intro="On a linear function with gradients ±1, agreement is nearly chance. Without a cap, γ then grows so fast "
        "that the step falls more slowly than 1/√k. A cap from the distance travelled keeps the rate (docs/theory.md).",
        paper="“Can the upper bound on γ be removed? It does not appear to be necessary in practice.”",
        number=f"n^{none} without a cap",
        summary=f"No: at ρ = 10, f(average) falls like n^{none} without a cap, and like n^{travelled} with a cap that "
        "is computed from the travelled distance.",
        settings={"steps": f"{results.steps[-1]:.0f}", "precision": "float64"},
    )


STUDY = Study("figure5", "Figure 5, ours: can the cap on γ go?", plan, compute, draw, lambda _: [], claims, about)
