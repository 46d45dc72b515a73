"""Verdicts of Figure 3 on the paper's sentences and on ours."""

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
from gradagrad_lab.figures.figure3.results import POINT, Contest, Results, mean_difference, signed
from gradagrad_lab.methods import power_of_two
from gradagrad_lab.report.content import Claim, Table, Verdict
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
    """The paper's sentences first; none about a user's own data."""
    if results.context.files:
        return []
    paper = [matches(results.contests), *(judge(results) for judge in (_rho, _limit, _scalar))]
    return [*paper, *map(_ours, _OURS, results.ours), _repairs(results)]


def _verdict(whole: bool, part: bool) -> Verdict:
    return "holds" if whole else "holds in part" if part else "does not hold"


def matches(found: dict[str, list[Contest]]) -> Claim:
    """The headline, at both β."""
    counts = [sum(bool(one.matches) for one in group) / len(group) for group in found.values()]
    verdict = _verdict(min(counts) == 1, max(counts) == 1 or min(counts) >= 0.5)
    if any(one.matches is None for group in found.values() for one in group):
        verdict = "not tested"
    rows = [
        {
            "momentum": beta,
            "matches": f"{sum(bool(one.matches) for one in group)} of {len(group)}",
            **{one.trial.label: signed(one.difference(one.best)) for one in group},
            "mean": signed(mean_difference(group)),
        }
        for beta, group in found.items()
    ]
    return Claim(
        "GradaGrad matches the training accuracy of benchmark methods without tuning (γ₀ = 1, ρ = 2).",
        "Each cell is the distance from the best of the three tuned methods, in points. The paper does not state β.",
        verdict,
        criterion=MATCH,
        fixed="after",
        number=", ".join(f"{signed(mean_difference(group))} points at {beta}" for beta, group in found.items()),
        table=Table.of("", rows),
    )


def _rho(results: Results) -> Claim:
    scores = {
        trial.label: [results.final(trial, setting(rho=rho)) for rho in RHOS] for trial in results.trials
    }  # the best of them is chosen per data set after the fact
    losses = {label: found[RHOS.index(2.0)] - max(found) for label, found in scores.items()}
    worst = min(losses.values())
    return Claim(
        "ρ = 2 is the recommended default: adaptive without excessive instability.",
        "Each cell is what ρ = 2 loses at γ₀ = 1, in points, to the best ρ of 1, 2, 4 and 10, chosen after the fact.",
        _verdict(worst > -POINT, bool(np.median(list(losses.values())) > -POINT)),
        criterion="At most one point is lost on every data set; in part: on the median data set",
        number=f"{signed(worst)} points at worst",
        table=Table.of("", [{label: signed(loss) for label, loss in losses.items()}]),
    )


def _limit(results: Results) -> Claim:
    rows: list[dict[str, str]] = []
    met: list[bool] = []
    for trial in results.trials:
        best = results.choice(trial, "adagrad").lr
        if best < 1:
            own = results.finals(trial, DEFAULT)
            smaller = [results.finals(trial, setting(lr=lr)) for lr in INITIAL_RATES if lr < 1]
            gain = max(float((found - own).mean()) for found in smaller)
            met.append(gain > 0)
            rows.append(
                {"data set": trial.label, "AdaGrad's best lr": power_of_two(best), "smaller γ₀ gains": signed(gain)}
            )
    return Claim(
        "γ only increases, so the initial γ₀ must be no larger than the optimal one.",
        "The table lists the data sets on which γ₀ = 1 lies above AdaGrad's best rate, and the points that the best of "
        "six smaller γ₀ gains." + ("" if rows else " There are none."),
        _verdict(all(met), any(met)) if met else "not tested",
        criterion="On every such data set some smaller γ₀ ends higher than γ₀ = 1",
        fixed="after",
        number=f"{sum(met)} of {count(len(met), 'data set')}",
        table=Table.of("", rows) if rows else None,
    )


def _ours(text: str, group: list[Contest]) -> Claim:
    """Whether no tuning is needed: AutoGradaGrad, on the paper's own experiment."""
    no = [one.trial for one in group if not one.matches]
    verdict = _verdict(not no, 2 * len(no) <= len(group))
    if any(one.matches is None for one in group):
        verdict = "not tested"
    return Claim(
        text,
        f"It matches on {len(group) - len(no)} of {len(group)} data sets. Cells are points from the best of three.",
        verdict,
        whose="ours",
        criterion=MATCH_OURS,
        fixed="after",
        number=f"{signed(mean_difference(group))} points",
        table=Table.of("", [{one.trial.label: signed(one.difference(one.best)) for one in group}]),
    )


def _repairs(results: Results) -> Claim:
    gaps = {
        trial: float((results.finals(trial, setting(lr=1e-6)) - results.finals(trial, DEFAULT)).mean())
        for trial in results.trials
    }
    far = [trial for trial, gap in gaps.items() if gap <= -POINT]
    near = len(gaps) - len(far)
    return Claim(
        "GradaGrad recovers from γ₀ = 1e-6 under mini-batch noise, too (the paper says that small values “can "
        "potentially be used”).",
        f"Each cell is the distance from γ₀ = 1, in points. It is more than a point below on {labels(far)}.",
        _verdict(not far, near > 0),
        whose="ours",
        criterion="Within one point of γ₀ = 1 on every data set",
        number=f"{near} of {count(len(gaps), 'data set')}",
        table=Table.of("", [{trial.label: signed(gap) for trial, gap in gaps.items()}]),
    )


def _scalar(results: Results) -> Claim:
    """Beside AdaGrad-norm, which has one step size too."""
    settings = [(lr, rho) for lr in ENDS for rho in SCALAR_RHOS]
    tuned = [float(results.tuned(trial, SCALAR_BASELINE).mean()) for trial in results.trials]
    gaps = np.array(
        [
            [
                results.final(trial, setting(lr=lr, rho=rho, granularity="group")) - other
                for trial, other in zip(results.trials, tuned, strict=True)
            ]
            for lr, rho in settings
        ]
    )
    better = (gaps[1::2] > gaps[::2]).mean()
    rows = [
        {"setting": f"ρ = {rho:g}, γ₀ = {power(lr)}"}
        | {trial.label: signed(gap, 1) for trial, gap in zip(results.trials, row, strict=True)}
        for (lr, rho), row in zip(settings, gaps, strict=True)
    ]
    return Claim(
        "The scalar variant requires larger ρ for high-noise problems.",
        "Each cell is the distance from tuned AdaGrad-norm, which has one step size too, in points.",
        _verdict(bool(better > 0.75), bool(better > 0.5)),
        criterion="ρ = 10 ends above ρ = 2 in over three quarters of all data sets and γ₀; in part: over half",
        fixed="after",
        number=f"{better:.0%} of the cases",
        table=Table.of("", rows),
    )
