"""Verdicts of Figure 4's runs on the paper's sentences, computed from records alone.

The criteria were fixed before any run from the initialisations 100 to 105, the defaults. They use nothing but the
paper's words and the noise to be expected:

- The scale is G, what tuned AdaGrad gains over always predicting the click rate.
- Alike: within a tenth of G. Tuned SGD and tuned AdaGrad are about a sixth of G apart, and those are clearly not alike.
- A run has a setback when its training curve rises above its own lowest point by more than a quarter of G, or by four
  times the largest sampling error of one of the curve's points, if that is more.
- A sentence about initialisations holds if true of nine in ten, does not if true of at most one in ten.

The criterion of `counterparts` was written last, when all but AdaGrad-norm's results were known.
"""

from dataclasses import replace

import numpy as np

from gradagrad_lab.figures.figure4.plan import DIAGONAL_RHO, INITIAL, TITLES
from gradagrad_lab.figures.figure4.results import (
    ENOUGH_HELD_OUT,
    ENOUGH_STEPS,
    Results,
    best_cell,
    comparable,
    initial_text,
)
from gradagrad_lab.problems.clicks.runs import NORM
from gradagrad_lab.report.content import Claim, Table, Verdict
from gradagrad_lab.study import Floats, count

SMALL_RHO = (2.0, 10.0)
LARGE_RHO = (100.0, 200.0, 500.0)
LEVEL = 0.002  # of a mean held-out loss: about two standard errors
SEEN = range(6)
"""Initialisations whose results were known when the criteria were written."""


def all_claims(results: Results) -> list[Claim]:
    """Every claim with its evidence and verdict; no verdict where there was too little to train on."""
    if results.frame.context.rho:
        return []  # the paper's sentences are about its own list of ρ
    judged = [lack_of_adaptivity, alike_for_large, stability]
    if not results.setup.paper:
        judged += [diagonal, counterparts]
    found = [judge(results) for judge in judged]
    if results.enough:
        return found
    setup = results.setup
    why = (
        f"This size has {setup.steps} steps and {setup.held_out:,} held-out rows. A verdict needs at least "
        f"{ENOUGH_STEPS:,} and {ENOUGH_HELD_OUT:,}. "
    )
    return [replace(claim, evidence=why + claim.evidence, verdict="not decidable at this size") for claim in found]


def how_judged(results: Results) -> str:
    """When the criteria were fixed and on which runs they are applied, for the reader of the report."""
    seeds = results.plan.seeds
    known = [seed for seed in seeds if seed in SEEN]
    where = "and before all others."
    if known:
        where += f" The results of {len(known)} of the {len(seeds)} here had been seen, so these verdicts confirm"
        where += " nothing by themselves."
    return (
        f"Alike means within {results.alike:.3f}, a tenth of what "
        f"{'tuned AdaGrad' if results.best else 'the best of the grid'} gains over always predicting the click rate; a "
        "sentence holds if true of nine initialisations in ten. These criteria were fixed after runs from the "
        f"initialisations {SEEN[0]} to {SEEN[-1]} {where}"
    )


def share_verdict(share: float) -> Verdict:
    """A verdict from the share of cases in which a sentence is true."""
    return "holds" if share >= 0.9 else "does not hold" if share <= 0.1 else "holds in part"


def lag(losses: Floats) -> Floats:
    """(ρ, seeds): how much worse the smallest γ₀ ends than the best γ₀ of the same ρ and seed."""
    losses = comparable(losses)
    return losses[:, -1] - losses.min(axis=1)


def spread(losses: Floats) -> Floats:
    """(ρ, seeds): worst minus best over γ₀."""
    losses = comparable(losses)
    return losses.max(axis=1) - losses.min(axis=1)


def lack_of_adaptivity(results: Results) -> Claim:
    """Small ρ, small γ₀: does it stay behind?"""
    behind = lag(results.scalar("loss"))[[results.rhos.index(rho) for rho in SMALL_RHO]]
    stuck = behind > results.alike
    rows = [
        {"ρ": f"{rho:g}", "stays behind": f"{int(one.sum())} of {one.size}", "mean distance": f"{values.mean():.3f}"}
        for rho, one, values in zip(SMALL_RHO, stuck, behind, strict=True)
    ]
    return Claim(
        "Values of ρ = 2 and ρ = 10 show a significant lack of adaptivity.",
        f"The cells count initialisations from which γ₀ = 1e−6 stays over {results.alike:.3f} behind the best γ₀.",
        share_verdict(float(stuck.mean())),
        criterion="more than a tenth of AdaGrad's gain behind, on nine initialisations in ten",
        number=f"{int(stuck.sum())} of {stuck.size} runs stay behind",
        table=Table.of("", rows),
    )


def alike_for_large(results: Results) -> Claim:
    """Large ρ: do all γ₀ end alike?"""
    apart = spread(results.scalar("loss"))[[results.rhos.index(rho) for rho in LARGE_RHO]]
    together = apart <= results.alike
    rows = [
        {
            "ρ": f"{rho:g}",
            f"within {results.alike:.3f}": f"{int((one <= results.alike).sum())} of {one.size}",
            "within twice that": f"{int((one <= 2 * results.alike).sum())} of {one.size}",
        }
        for rho, one in zip(LARGE_RHO, apart, strict=True)
    ]
    return Claim(
        "For large ρ each of these rates (γ₀ = 1, 1e−2, 1e−4, 1e−6) performs similarly.",
        "The cells count initialisations from which the four γ₀ end close together. One alone can show either.",
        share_verdict(float(together.mean())),
        criterion="within a tenth of AdaGrad's gain of one another, on nine initialisations in ten",
        number=f"alike in {int(together.sum())} of {together.size} cases",
        table=Table.of("", rows),
    )


def rises(results: Results) -> Floats:
    """(ρ, γ₀, seeds): how far each training curve rose above its own lowest point so far."""
    curves = comparable(results.scalar("excess"))
    return (curves - np.minimum.accumulate(curves, axis=-1)).max(axis=-1)


def setback_bound(results: Results) -> float:
    """The rise from which on it counts as a setback."""
    rows = (results.steps[1] - results.steps[0] if len(results.steps) > 1 else 1) * results.setup.batch
    # 0.5: standard deviation of the loss of one row where the click rate, a quarter, is always predicted.
    return float(max(0.25 * results.gain, 4 * 0.5 / np.sqrt(rows)))


def setbacks(results: Results) -> Floats:
    """(ρ, γ₀, seeds): 1 where a run's training curve rose far above its own lowest point, or the run broke."""
    broken = comparable(results.scalar("loss")) >= 10
    return ((rises(results) > setback_bound(results)) | broken).astype(np.float64)


def stability(results: Results) -> Claim:
    """How often training goes back, for each ρ."""
    counted = setbacks(results)
    runs, by_rho = counted[0].size, counted.sum(axis=(1, 2))
    median = np.median(rises(results), axis=(1, 2))
    rows = [
        {"ρ": f"{rho:g}", "setbacks": f"{int(found)} of {runs}", "median rise": f"{rise:.3f}"}
        for rho, found, rise in zip(results.rhos, by_rho, median, strict=True)
    ]
    stable, less_stable = by_rho[0] <= 0.1 * runs, by_rho[1:].max() > by_rho[0]
    return Claim(
        "The default ρ = 2 is highly stable; larger values of ρ may result in less stable training.",
        f"In a setback, the training loss rises by more than {setback_bound(results):.3f} above its own lowest point.",
        "holds" if stable and less_stable else "holds in part" if stable or less_stable else "does not hold",
        criterion="at most one run in ten has a setback at ρ = 2, and more at some larger ρ",
        number=f"{int(by_rho[0])} setbacks at ρ = 2, {int(by_rho[1:].max())} at most at a larger ρ",
        table=Table.of("", rows),
    )


def diagonal(results: Results) -> Claim:
    """The element variant at the paper's recommended ρ."""
    losses = np.nan_to_num(results.diagonal("gradagrad element", "loss"), nan=np.inf)
    tuned = results.ends()[1]
    at_default = losses[0].mean(axis=1)  # ρ = 2, by γ₀
    rows = [[f"{value:.4f}" if value < 10 else "diverged" for value in (*at_default, tuned)]]
    close = at_default - tuned <= results.alike
    broken = losses[1:] > results.references["base rate"]
    return Claim(
        "The diagonal scaling variant of GradaGrad performs well with ρ = 2.",
        f"The table shows the held-out loss of the element variant (lazy) at ρ = 2. At ρ = "
        f"{' and '.join(f'{rho:g}' for rho in DIAGONAL_RHO[1:])} it ended worse than the click rate alone in "
        f"{int(broken.sum())} of {broken.size} runs.",
        "holds" if close.all() else "holds in part" if close.any() else "does not hold",
        criterion="alike tuned AdaGrad from all four γ₀: holds; from some: in part",
        number=f"{int(close.sum())} of {close.size} γ₀",
        table=Table("", [*(f"γ₀ = {initial_text(initial)}" for initial in INITIAL), "AdaGrad, tuned"], rows),
    )


def counterparts(results: Results) -> Claim:
    """Each variant at its best beside the AdaGrad that has as many step sizes."""
    variants = {"scalar": (results.scalar("loss"), NORM)}
    variants["row-wise"] = (results.diagonal("gradagrad row", "loss"), "row-wise adagrad")
    variants["element"] = (results.diagonal("gradagrad element", "loss"), "adagrad")
    rows: list[dict[str, str]] = []
    level: list[bool] = []
    for words, (losses, other) in variants.items():
        own, tuned = float(losses[best_cell(losses)].mean()), float(results.baseline(other, "loss").mean())
        level.append(own <= tuned + LEVEL)
        rows.append(
            {"variant": words, "at its best": f"{own:.4f}", "beside": TITLES[other], "its loss": f"{tuned:.4f}"}
        )
    return Claim(
        "At its best γ₀ and ρ each variant equals the tuned AdaGrad that has as many step sizes: scalar with "
        "AdaGrad-norm, row-wise with row-wise AdaGrad, element with AdaGrad.",
        "All settings were chosen on these held-out losses. (The paper calls the method a drop-in replacement for its "
        "interface and theory; it does not say this.)",
        "holds" if all(level) else "holds in part" if any(level) else "does not hold",
        whose="ours",
        criterion=f"not above its counterpart by more than {LEVEL} in the mean: all three holds, some in part",
        fixed="after",
        number=f"{sum(level)} of 3 variants",
        table=Table.of("", rows),
    )


def in_a_sentence(results: Results) -> str:
    """One sentence on what the picture shows."""
    losses, rhos = results.scalar("loss"), results.rhos
    near, caught = spread(losses) <= results.alike, lag(losses)[0] <= results.alike
    large = [row for row, rho in enumerate(rhos) if rho >= LARGE_RHO[0]]
    parts: list[str] = []
    if large:
        sign, cases = "=" if len(large) == 1 else "≥", near[large]
        parts.append(
            f"with ρ {sign} {rhos[large[0]]:g} the four γ₀ end close together (within {results.alike:.3f}) in "
            f"{int(cases.sum())} of {cases.size} cases ({len(large)} ρ × {count(cases.shape[1], 'initialisation')})"
        )
    if not large or large[0]:
        some = f"catches up in {int(caught.sum())} of {count(caught.size, 'initialisation')}"
        parts.append(f"at ρ = {rhos[0]:g}, γ₀ = 1e-6 {some if caught.any() else 'never catches up'}")
    text = "; ".join(parts)
    text = f"{text[0].upper()}{text[1:]}."
    if results.best:
        own, tuned = results.ends()
        text += f" Untuned AutoGradaGrad (averaged) ends at {own:.4f}; tuned AdaGrad ends at {tuned:.4f}."
    return text
