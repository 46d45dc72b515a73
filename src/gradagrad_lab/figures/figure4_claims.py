"""What Figure 4's runs say about the paper's sentences, computed from records alone."""

from __future__ import annotations

import numpy as np

from gradagrad_lab.figures.figure4_draw import TITLES, initial_text
from gradagrad_lab.figures.figure4_read import Floats, Results, comparable
from gradagrad_lab.figures.figure4_runs import CLICK_RATE, DRAWN, INITIAL, RHO
from gradagrad_lab.figures.figure4_tables import best_cell, spread_over_initial
from gradagrad_lab.figures.figure4_train import DIAGONAL_RHO
from gradagrad_lab.results import Claim, Verdict

SMALL_RHO = (2.0, 10.0)
LARGE_RHO = (100.0, 200.0, 500.0)


def all_claims(results: Results) -> list[Claim]:
    """Every claim with its evidence and verdict."""
    return [
        lack_of_adaptivity(results),
        alike_for_large(results),
        mechanism(results),
        stability(results),
        diagonal(results),
        drop_in(results),
    ]


def share_verdict(share: float) -> Verdict:
    """A verdict from the share of cases in which a sentence is true."""
    return "holds" if share >= 0.9 else "does not hold" if share <= 0.1 else "holds in part"


def lag(losses: Floats) -> Floats:
    """(ρ, seeds): how much worse the smallest γ₀ ends than the best γ₀ of the same ρ and seed."""
    losses = comparable(losses)
    return losses[:, -1] - losses.min(axis=1)


def lack_of_adaptivity(results: Results) -> Claim:
    """Small ρ, small γ₀: does it stay behind?"""
    rows = [RHO.index(rho) for rho in SMALL_RHO]
    behind = lag(results.scalar("held-out loss"))[rows]
    stuck = behind > results.alike
    parts = [
        f"at ρ = {rho:g} on {int(one.sum())} of {one.size} initialisations (mean distance {values.mean():.3f})"
        for rho, one, values in zip(SMALL_RHO, stuck, behind, strict=True)
    ]
    return Claim(
        "Values of ρ = 2 and ρ = 10 show a significant lack of adaptivity.",
        f"From γ₀ = 1e−6 the held-out loss stays more than {results.alike:.3f} behind the best γ₀ of the same ρ "
        f"{' and '.join(parts)}.",
        share_verdict(float(stuck.mean())),
    )


def alike_for_large(results: Results) -> Claim:
    """Large ρ: do all γ₀ end alike?"""
    rows = [RHO.index(rho) for rho in LARGE_RHO]
    texts: list[str] = []
    shares: list[float] = []
    for bias, words in ((DRAWN, "as DLRM draws it"), (CLICK_RATE, "at the click rate's logit")):
        together = spread_over_initial(results.scalar("held-out loss", bias))[rows] <= results.alike
        counts = ", ".join(f"{int(one.sum())} at ρ = {rho:g}" for rho, one in zip(LARGE_RHO, together, strict=True))
        texts.append(
            f"with the last bias {words} the four γ₀ end within {results.alike:.3f} of one another on {counts}"
        )
        shares.append(float(together.mean()))
    return Claim(
        "For large ρ each of these rates (γ₀ = 1, 1e−2, 1e−4, 1e−6) performs similarly.",
        f"Of {len(results.plan.seeds)} initialisations, {'; '.join(texts)}. One initialisation can show either.",
        share_verdict(shares[0]),
    )


def mechanism(results: Results) -> Claim:
    """Our own sentence, not the paper's."""
    steps: list[float] = []
    first: list[float] = []
    recovered: list[bool] = []
    for bias in (DRAWN, CLICK_RATE):
        steps += results.agreeing_steps(RHO[-1], INITIAL[-1], bias).tolist()
        first += results.scalar("opening agreement", bias)[-1, -1][:, 0].tolist()
        recovered += (lag(results.scalar("held-out loss", bias))[-1] <= results.alike).tolist()
    good = [count for count, fine in zip(steps, recovered, strict=True) if fine]
    stuck = [count for count, fine in zip(steps, recovered, strict=True) if not fine]
    verdict: Verdict = "not tested"
    told = f"all {len(good)} initialisations recovered" if good else f"none of {len(stuck)} initialisations recovered"
    if good and stuck:
        told = (
            f"the {len(good)} initialisations that recovered had {min(good):.0f} to {max(good):.0f} agreeing steps, "
            f"the {len(stuck)} that did not {min(stuck):.0f} to {max(stuck):.0f}"
        )
        ordered = float(np.mean([a > b for a in good for b in stuck]))
        verdict = "holds" if ordered >= 0.95 else "holds in part" if ordered > 0.7 else "does not hold"
    positive = sum(product > 0 for product in first)
    return Claim(
        "(Ours.) A small γ₀ recovers at large ρ only if the first gradients go on agreeing: the "
        "first negative ⟨g, g_prev⟩ "
        "puts ρ·|⟨g, g_prev⟩| into α, and from then on a larger ρ no longer helps.",
        f"From γ₀ = 1e−6 at ρ = {RHO[-1]:g}, over both settings of the last bias: {told}. The very first product was "
        f"positive on {positive} of {len(first)}.",
        verdict,
    )


def stability(results: Results) -> Claim:
    """From γ₀ = 1, which needs no repair: what does a larger ρ do to where the run ends, and does any run break?"""
    losses = comparable(results.scalar("held-out loss"))
    broken = (losses > results.references["base rate"])[:, :2].sum(axis=(1, 2))  # γ₀ = 1 and 1e-2: they had learnt
    worse = losses[:, 0] - losses[0, 0]  # (ρ, seeds), paired: same start, same rows
    mean = worse.mean(axis=1)
    error = worse.std(axis=1, ddof=1) / np.sqrt(worse.shape[1]) if worse.shape[1] > 1 else np.full(len(RHO), np.inf)
    changes = list(zip(RHO, mean, error, strict=True))[1:]
    told = ", ".join(f"{change:+.4f} ± {uncertain:.4f} at ρ = {rho:g}" for rho, change, uncertain in changes)
    ended = ", ".join(f"{count} at ρ = {rho:g}" for rho, count in zip(RHO, broken, strict=True))
    stable = broken[0] == 0
    less_stable = bool((mean[1:] > 2 * error[1:]).any() or broken[1:].max() > broken[0])
    return Claim(
        "The default ρ = 2 is highly stable; larger values of ρ may result in less stable training.",
        f"From γ₀ = 1 the held-out loss changed against ρ = 2 by {told} (mean and standard error). "
        f"Of {2 * losses.shape[2]} runs from γ₀ = 1 and 1e−2, worse than the click rate alone at the end: {ended}.",
        "holds" if stable and less_stable else "holds in part" if stable or less_stable else "does not hold",
    )


def diagonal(results: Results) -> Claim:
    """The element variant at the paper's recommended ρ."""
    losses = results.diagonal("gradagrad element", "held-out loss")
    tuned = float(results.baseline("adagrad", "held-out loss").mean())
    at_default = losses[0].mean(axis=1)  # ρ = 2, by γ₀
    words = ", ".join(
        f"{value:.4f} from γ₀ = {initial_text(initial)}"
        if value < 10
        else f"diverged from γ₀ = {initial_text(initial)}"
        for initial, value in zip(INITIAL, np.nan_to_num(at_default, nan=np.inf), strict=True)
    )
    close = np.nan_to_num(at_default, nan=np.inf) - tuned <= results.alike
    larger = losses[1:]
    broken = ~np.isfinite(larger) | (larger > results.references["base rate"])
    return Claim(
        "The diagonal scaling variant of GradaGrad performs well with ρ = 2.",
        f"Element variant (lazy) at ρ = 2, held-out: {words}; tuned AdaGrad {tuned:.4f}. At ρ = "
        f"{' and '.join(f'{rho:g}' for rho in DIAGONAL_RHO[1:])} it ended worse than the click rate alone in "
        f"{int(broken.sum())} of {broken.size} runs.",
        "holds" if close.all() else "holds in part" if close.any() else "does not hold",
    )


def drop_in(results: Results) -> Claim:
    """Everyone's best against tuned AdaGrad."""
    tuned = {name: float(results.baseline(name, "held-out loss").mean()) for name in TITLES}
    losses = results.scalar("held-out loss")
    row, column = best_cell(losses)
    scalar = float(losses[row, column].mean())
    others = {name: results.diagonal(name, "held-out loss") for name in ("gradagrad element", "gradagrad row")}
    best = {name: float(values[best_cell(values)].mean()) for name, values in others.items()}
    reference = tuned["adagrad"]
    winner = min(best.values())
    level = 0.002  # about two standard errors of the held-out mean
    return Claim(
        "GradaGrad is a viable drop-in replacement for AdaGrad.",
        f"Best held-out loss of the scalar variant on its whole grid {scalar:.4f} (γ₀ = "
        f"{initial_text(INITIAL[column])}, "
        f"ρ = {RHO[row]:g}), element {best['gradagrad element']:.4f}, row-wise "
        f"{best['gradagrad row']:.4f}; tuned AdaGrad "
        f"{reference:.4f}, row-wise AdaGrad {tuned['row-wise adagrad']:.4f}, Adam {tuned['adam']:.4f}, SGD "
        f"{tuned['sgd']:.4f}. All are chosen on this number; level means within {level}.",
        "holds" if scalar <= reference + level else "holds in part" if winner <= reference + level else "does not hold",
    )
