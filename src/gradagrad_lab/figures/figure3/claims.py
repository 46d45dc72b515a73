"""What Figure 3 says about the paper's sentences, and about ours."""

import numpy as np

from gradagrad_lab.figures.figure3.plan import (
    DEFAULT,
    ENDS,
    INITIAL_RATES,
    RHOS,
    SCALAR_BASELINE,
    SCALAR_RHOS,
    labels,
    setting,
)
from gradagrad_lab.figures.figure3.results import POINT, Contest, Results, mean_difference
from gradagrad_lab.figures.figure3.tables import signed
from gradagrad_lab.methods import power_of_two
from gradagrad_lab.report.content import Claim, Verdict
from gradagrad_lab.report.style import power
from gradagrad_lab.study import count

MATCH = (
    "A match on a data set: not below the lowest of the three tuned methods by more than 2 standard errors, and within "
    "one point of the best. Holds: a match on every data set at β = 0 and at β = 0.9; in part: on every data set at "
    "one of them, or on at least half of the data sets at both"
)
MATCH_OURS = "A match as above. Holds: on every data set; in part: on at least half"
_OURS = (
    "AutoGradaGrad, untuned, matches the training accuracy of the tuned methods at its parameters y.",
    "AutoGradaGrad, untuned, matches them at its average x̄.",
    "AutoGradaGrad, untuned, matches them at x̄ even if they are averaged too, and tuned for that.",
)


def all_claims(results: Results) -> list[Claim]:
    """The paper's sentences first."""
    paper = [matches(results.contests), *(judge(results) for judge in (_rho, _limit, _scalar))]
    return [*paper, *map(_ours, _OURS, results.ours), _repairs(results)]


def matches(found: dict[str, list[Contest]]) -> Claim:
    """The headline, at both β."""
    sentences: list[str] = []
    counts: list[float] = []
    for beta, group in found.items():
        differences = [one.difference(one.best) for one in group]
        worst = group[int(np.argmin(differences))]
        yes = [one.trial for one in group if one.matches]
        no = [one.trial for one in group if not one.matches]
        counts.append(len(yes) / len(group))
        sentences.append(
            f"{beta}: a match on {len(yes)} of {len(group)} data sets"
            + (f" (not on {labels(no)})" if no else "")
            + f"; mean difference to the best of three {signed(mean_difference(group))} points, lowest "
            f"{signed(min(differences))} on {worst.trial.label}; to the lowest of three "
            + ", ".join(signed(one.difference(one.lowest)) for one in group)
        )
    verdict: Verdict = "does not hold"
    if min(counts) == 1:
        verdict = "holds"
    elif max(counts) == 1 or min(counts) >= 0.5:
        verdict = "holds in part"
    if any(one.matches is None for group in found.values() for one in group):
        verdict = "not tested"
    return Claim(
        "GradaGrad matches the training accuracy of benchmark methods without tuning (γ₀ = 1, ρ = 2).",
        f"The paper does not state the momentum β, so both are shown. {'. '.join(sentences)}.",
        verdict,
        criterion=MATCH,
        fixed="after",
        number=", ".join(f"{signed(mean_difference(group))} points at {beta}" for beta, group in found.items()),
    )


def _rho(results: Results) -> Claim:
    losses: list[float] = []
    for trial in results.trials:
        scores = {rho: results.final(trial, setting(rho=rho)) for rho in RHOS}
        losses.append(scores[2.0] - max(scores.values()))
    worst = min(losses)
    verdict: Verdict = "does not hold"
    if np.median(losses) > -POINT:
        verdict = "holds" if worst > -POINT else "holds in part"
    return Claim(
        "ρ = 2 is the recommended default: adaptive without excessive instability.",
        f"At γ₀ = 1, ρ = 2 loses at most {100 * abs(worst):.2f} percentage points to the best of ρ = 1, 2, 4 "
        f"and 10 (chosen per data set after the fact) over {len(results.trials)} data sets.",
        verdict,
        criterion="At most one point is lost on every data set; in part: on the median data set",
        number=f"{signed(worst)} points at worst",
    )


def _limit(results: Results) -> Claim:
    sentences: list[str] = []
    met: list[bool] = []
    for trial in results.trials:
        best = results.choice(trial, "adagrad").lr
        if best < 1:
            gain = max(
                float((results.finals(trial, setting(lr=lr)) - results.finals(trial, DEFAULT)).mean())
                for lr in INITIAL_RATES
                if lr < 1
            )
            met.append(gain > 0)
            sentences.append(
                f"{trial.label}: AdaGrad's best rate {power_of_two(best)}, a smaller γ₀ gains {signed(gain)}"
            )
    verdict: Verdict = "holds" if met and all(met) else "holds in part" if any(met) else "does not hold"
    return Claim(
        "γ only increases, so the initial γ₀ must be no larger than the optimal one.",
        f"Data sets on which γ₀ = 1 lies above AdaGrad's best rate: {'; '.join(sentences) or 'none'} (points, the best "
        "of six smaller γ₀).",
        verdict if sentences else "not tested",
        criterion="On every such data set some smaller γ₀ ends higher than γ₀ = 1",
        fixed="after",
        number=f"{sum(met)} of {count(len(met), 'data set')}",
    )


def _ours(text: str, group: list[Contest]) -> Claim:
    """Whether no tuning is needed: AutoGradaGrad, on the paper's own experiment."""
    no = [one.trial for one in group if not one.matches]
    verdict: Verdict = "holds" if not no else "holds in part" if 2 * len(no) <= len(group) else "does not hold"
    if any(one.matches is None for one in group):
        verdict = "not tested"
    sentences = ", ".join(f"{one.trial.label} {signed(one.difference(one.best))}" for one in group)
    return Claim(
        text,
        f"A match on {len(group) - len(no)} of {len(group)} data sets. Points from the best of three: {sentences}.",
        verdict,
        whose="ours",
        criterion=MATCH_OURS,
        fixed="after",
        number=f"{signed(mean_difference(group))} points",
    )


def _repairs(results: Results) -> Claim:
    gaps = [
        float((results.finals(trial, setting(lr=1e-6)) - results.finals(trial, DEFAULT)).mean())
        for trial in results.trials
    ]
    near = [trial for trial, gap in zip(results.trials, gaps, strict=True) if gap > -POINT]
    far = [trial for trial in results.trials if trial not in near]
    return Claim(
        "GradaGrad recovers from γ₀ = 1e-6 under mini-batch noise, too (the paper says that small values “can "
        "potentially be used”).",
        f"From γ₀ = 1e-6, accuracy ends within one percentage point of γ₀ = 1, or above it, on {len(near)} of "
        f"{len(results.trials)} data sets; below on: {labels(far)}. Lowest difference {signed(min(gaps))} points.",
        "holds" if not far else ("holds in part" if near else "does not hold"),
        whose="ours",
        criterion="Within one point of γ₀ = 1 on every data set",
        number=f"{len(near)} of {count(len(results.trials), 'data set')}",
    )


def _scalar(results: Results) -> Claim:
    """Beside AdaGrad-norm, which has one step size too."""
    gaps = np.array(
        [
            [
                results.final(trial, setting(lr=lr, rho=rho, granularity="group"))
                - float(results.tuned(trial, SCALAR_BASELINE).mean())
                for lr in ENDS
                for rho in SCALAR_RHOS
            ]
            for trial in results.trials
        ]
    )
    sentences = "; ".join(
        f"ρ = {rho:g} from γ₀ = {power(lr)}: " + ", ".join(signed(gap, 1) for gap in gaps[:, place])
        for place, (lr, rho) in enumerate((lr, rho) for lr in ENDS for rho in SCALAR_RHOS)
    )
    better = (gaps[:, 1::2] > gaps[:, ::2]).mean()
    return Claim(
        "The scalar variant requires larger ρ for high-noise problems.",
        f"Points from tuned AdaGrad-norm, which has one step size too, on {labels(results.trials)}: {sentences}.",
        "holds" if better > 0.75 else "holds in part" if better > 0.5 else "does not hold",
        criterion="ρ = 10 ends above ρ = 2 in over three quarters of all data sets and γ₀; in part: over half",
        fixed="after",
        number=f"{better:.0%} of the cases",
    )
