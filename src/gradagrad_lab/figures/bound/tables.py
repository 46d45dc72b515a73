"""The tables of the section on Theorem 3, and how its computed numbers are read."""

import math

import numpy as np

from gradagrad_lab.figures.bound import agreement
from gradagrad_lab.figures.bound.slips import Slip, slips
from gradagrad_lab.figures.bound.theorem import Measured, Results
from gradagrad_lab.report.content import Table

NAMES = {"absolute": "least absolute deviations", "logistic": "logistic regression", "alternating": "alternating |x|"}
ROUNDING = 1e-9
"""Differences up to this, of the size of the sides, are rounding: some statements hold with equality."""
Numbers = dict[str, list[float]]

NAMED = ("Lemma 1", "Theorem 2", "Lemma 4", "Lemma 7", "Lemma 9", "Lemma 10")


def all_tables(results: Results) -> list[Table]:
    """Runs, slips, statements, agreement, noise."""
    computed = results.computed
    return [_runs(results.measured), _slips(slips()), _statements(computed), _agreement(computed), _noise(computed)]


def settings() -> list[tuple[int, float]]:
    """Batch and γ₀ of the runs that were observed, in the order of their numbers."""
    return [(batch, initial) for batch in agreement.BATCHES for initial in agreement.INITIAL]


def sizes(computed: Numbers) -> dict[tuple[int, float], list[float]]:
    """|v|/α at every look, by setting."""
    count = len(agreement.LOOKS)
    parts = [computed["size of v"][at : at + count] for at in range(0, len(computed["size of v"]), count)]
    return dict(zip(settings(), parts, strict=True))


def noise_rows(computed: Numbers) -> list[agreement.Noise]:
    """The rows of the computation on noise."""
    width = len(agreement.Noise._fields)
    flat = computed["noise"]
    return [agreement.Noise(*flat[at : at + width]) for at in range(0, len(flat), width)]


def exponent(curve: Measured) -> str:
    """The fitted exponent of n with its error."""
    mean, error = curve.rate
    text = f"{mean:.2f} ± {error:.2f}" if curve.gaps.shape[0] > 1 else f"{mean:.2f}"
    return text.replace("-", "−")


def _runs(measured: list[Measured]) -> Table:
    rows = [
        {
            "problem": NAMES[curve.name].removeprefix("least ").removesuffix(" regression"),
            "ρ": f"{curve.rho:g}",
            "β": f"{curve.momentum:g}",
            "γ₀": f"{curve.initial:g}",
            "n + 1": f"{int(curve.iterates[-1])}",
            "f(x̄) − f*": f"{curve.mean[-1]:.2g}",
            "printed ÷ measured": f"{curve.closest():.1f}",
            "safe ÷ measured": f"{curve.closest('cap corrected'):.1f}",
            "fitted exponent": exponent(curve),
            "largest α ÷ (n + 1)G∞²": f"{curve.sums.max():.2f}",
            "largest γ": f"{curve.numerator:.2g}",
        }
        for curve in measured
    ]
    note = (
        "“÷ measured” is the smallest ratio over all checkpoints, with two standard errors added to the measured mean; "
        "“safe” carries √(1+ρ) more and 1+ρ for √(2+ρ). The exponent of n is fitted per seed over the later "
        "half of the logarithmic scale, ± its standard error."
    )
    return Table.of("Every run", rows, note)


def _slips(slips: list[Slip]) -> Table:
    rows = [
        [slip.where, slip.printed, slip.example, f"{slip.left:.4g}", f"{slip.right:.4g}", slip.instead]
        for slip in slips
    ]
    note = (
        "Each row is a run of the optimizer (Algorithm 1 as printed is transcribed) on which the printed step, left ≤ "
        "right, is false. Also: Lemma 6 asks for ρ ≥ 1 and does not use it; γ₀ ≤ D∞ is needed and not stated."
    )
    return Table(
        "Steps that are false as printed", ["where", "as printed", "run", "left", "right", "instead"], rows, note
    )


def _statements(computed: Numbers) -> Table:
    rows = []
    for name in (*NAMED, "Theorem 3"):
        worst = np.array(computed[name])
        rows.append(
            [name, str(int((worst <= ROUNDING).sum())), str(len(worst)), f"{worst.max():+.1e}".replace("-", "−")]
        )
    note = "Worst: left minus right over the larger of the two, over all steps and runs; rounding leaves about 1e-12."
    return Table("Every statement, without noise", ["statement", "runs in which it held", "of", "worst"], rows, note)


def _agreement(computed: Numbers) -> Table:
    cosine = dict(zip(settings(), computed["cosine"], strict=True))
    rows = [
        [str(batch or "all 200"), f"{initial:g}", f"{cosine[batch, initial]:+.2f}", *(f"{size:.1g}" for size in sizes)]
        for (batch, initial), sizes in sizes(computed).items()
    ]
    columns = ["rows per step", "γ₀", "mean cosine of g and g′", *(f"|v|/α at step {look}" for look in agreement.LOOKS)]
    return Table("How consecutive gradients agree", columns, rows, "Logistic regression, scalar variant, ρ = 2.")


def _noise(computed: Numbers) -> Table:
    rows = [
        {
            "μ²/σ²": f"{row.ratio:g}",
            "ρ": f"{row.rho:g}",
            "threshold 1/(ρ−1)": f"{1 / (row.rho - 1):.2g}",
            "σ² − (ρ−1)μ²": f"{row.predicted:.4g}",
            "mean of v": f"{row.measured:.4g} ± {row.error:.2g}",
            "γ/γ₀ after 200 steps": f"{row.growth:.3g}" if row.growth < 1e6 else f"10^{math.log10(row.growth):.0f}",
        }
        for row in noise_rows(computed)
    ]
    return Table.of("Signal, noise and ρ", rows, "4,096 independent coordinates, σ = 1; γ/γ₀ is their median.")
