"""The tables of Figure 3."""

from collections.abc import Sequence

import numpy as np

from gradagrad_lab.figures.figure3.plan import (
    DEFAULT,
    ENDS,
    HEADLINES,
    INITIAL_RATES,
    MOMENTUM,
    PLAIN,
    PRINTED,
    RHOS,
    SCALAR_BASELINE,
    SCALAR_RHOS,
    Trial,
    setting,
)
from gradagrad_lab.figures.figure3.results import TWO_ERRORS, Contest, Results, standard_error
from gradagrad_lab.report.content import Table
from gradagrad_lab.report.style import power
from gradagrad_lab.runs.optimizers import BASELINES, GROWTH, OPTIMIZERS, PEERS, power_of_two
from gradagrad_lab.runs.study import Method


def percent(value: float, digits: int = 2) -> str:
    """A share in %."""
    return f"{100 * value:.{digits}f}" if np.isfinite(value) else "diverged"


def signed(value: float, digits: int = 2) -> str:
    """A difference in percentage points."""
    return f"{100 * value:+.{digits}f}".replace("-", "−") if np.isfinite(value) else "–"


def _name(results: Results, trial: Trial, optimizer: str) -> str:
    return f"{OPTIMIZERS[optimizer].title}, lr {power_of_two(results.choice(trial, optimizer).lr)}"


def main(results: Results, found: dict[str, list[Contest]], title: str) -> Table:
    """Against the best and the lowest of three tuned methods, at both β."""
    trials = [one.trial for one in found["β = 0"]]
    columns = ["data set", "best tuned", "accuracy", "lowest tuned", "accuracy"]
    for beta in HEADLINES:
        columns += [beta, "to the best", "to the lowest", "± 2 SE", "match"]
    rows: list[list[str]] = []
    for place, trial in enumerate(trials):
        first = found["β = 0"][place]
        row = [trial.label]
        for name in (first.best, first.lowest):
            row += [_name(results, trial, name), percent(float(first.others[name].mean()))]
        for one in (group[place] for group in found.values()):
            row += [
                percent(float(one.own.mean())),
                signed(one.difference(one.best)),
                signed(one.difference(one.lowest)),
                percent(TWO_ERRORS * one.error(one.lowest)) if np.isfinite(one.error(one.lowest)) else "–",
                {True: "yes", False: "no", None: "one seed"}[one.matches],
            ]
        rows.append(row)
    means = [f"{signed(float(np.mean([one.difference(one.best) for one in group])))}" for group in found.values()]
    return Table(
        title,
        columns,
        rows,
        note=f"{_protocol(trials)} Differences are taken seed by seed (both see the same mini-batches). Match: not "
        "below the lowest of the three tuned methods by more than 2 standard errors, and within one point of the best. "
        f"Mean difference to the best: {means[0]} at β = 0, {means[1]} at β = 0.9. The best of three was picked after "
        f"seeing the results, in its favour.",
    )


def _protocol(trials: Sequence[Trial]) -> str:
    seeds = len(trials[0].seeds)
    lengths = ", ".join(f"{trial.label} {trial.epochs} epochs, last {trial.window}" for trial in trials)
    if len({(trial.epochs, trial.window) for trial in trials}) == 1:
        lengths = f"{trials[0].epochs} epochs, mean over the last {trials[0].window}"
    return f"Batch 16, {seeds} seeds; {lengths}."


def reasons(results: Results) -> Table:
    """Why GradaGrad ends where it does: how γ₀ compares with AdaGrad's best rate, and how far γ grew."""
    rows: list[list[str]] = []
    for trial in results.trials:
        best = results.choice(trial, "adagrad").lr
        growth = float(np.median(results.curves(trial, DEFAULT, GROWTH)[:, -1]))
        finals = {lr: results.final(trial, setting(lr=lr)) for lr in INITIAL_RATES}
        favourite = max(finals, key=lambda lr: finals[lr])
        why = "γ₀ = 1 is about right"
        if best < 1:
            why = "γ₀ = 1 is above the optimum, and γ only grows: the limitation the paper states"
        elif best > 1:
            why = f"γ₀ = 1 is below the optimum, and γ grew {growth:.2f}-fold under noise"
        rows.append(
            [trial.label, power_of_two(best), f"{growth:.3f}", f"{favourite:g}", percent(finals[favourite]), why]
        )
    return Table(
        "Why: γ₀ = 1 against AdaGrad's best rate",
        ["data set", "AdaGrad's best lr", "γ/γ₀ at the end (median)", "best γ₀ of seven", "its accuracy", "reading"],
        rows,
        note="No momentum. It differs from AdaGrad with lr = γ₀ by the v it sums instead of g², and by γ's growth.",
    )


def tuning(results: Results) -> Table:
    """What tuning chose for each baseline."""
    rows: list[list[str]] = []
    for trial in results.trials:
        for name in (*BASELINES, SCALAR_BASELINE):
            choice = results.choice(trial, name)
            values = results.finals(trial, choice.method)
            rows.append(
                [
                    trial.label,
                    OPTIMIZERS[name].title,
                    f"{power_of_two(choice.grid[0])} … {power_of_two(choice.grid[-1])}",
                    power_of_two(choice.lr),
                    percent(float(values.mean())),
                    percent(2 * standard_error(values)) if len(values) > 1 else "–",
                    f"{results.finals(trial, choice.method, 'loss').mean():.4f}",
                    "still at the end" if choice.at_end else "extended" if choice.extended else "",
                ]
            )
    return Table(
        "The baselines after tuning",
        ["data set", "method", "grid", "best lr", "accuracy in %", "± 2 SE", "loss there", "remark"],
        rows,
        note="Tuned for accuracy on powers of two; a grid whose best value lay at an end was extended by three powers.",
    )


def _ratio(loss: float, best: float) -> str:
    """How many times the best; a separable data set can be fitted to a loss of zero, which no ratio compares with."""
    return f"{loss / best:.3f}" if best > 0 else "–"


def loss(results: Results) -> Table:
    """The loss, which accuracy can hide."""
    rows: list[list[str]] = []
    for trial in results.trials:
        losses = {
            name: float(np.nan_to_num(results.tuned(trial, name, "loss").mean(), nan=np.inf)) for name in BASELINES
        }
        best = min(losses, key=lambda name: losses[name])
        row = [trial.label, f"{OPTIMIZERS[best].title}, lr {power_of_two(results.choice(trial, best, 'loss').lr)}"]
        row.append(f"{losses[best]:.4f}")
        for method in (DEFAULT, MOMENTUM, setting(lr=1e-6)):
            own = float(results.finals(trial, method, "loss").mean())
            row += [f"{own:.4f}", _ratio(own, losses[best])]
        rows.append(row)
    return Table(
        "Training loss, where the baselines are tuned for loss instead",
        [
            "data set",
            "best baseline",
            "its loss",
            "γ₀ = 1, β = 0",
            "ratio",
            "γ₀ = 1, β = 0.9",
            "ratio",
            "γ₀ = 1e-6",
            "ratio",
        ],
        rows,
        note="The paper shows accuracy only.",
    )


def initial_rates(results: Results) -> Table:
    """What a too small initial learning rate costs."""
    shown = {f"γ₀ = {power(lr)}": setting(lr=lr) for lr in INITIAL_RATES}
    return _accuracies(results, "GradaGrad (ρ = 2, β = 0) from different γ₀", shown)


def _accuracies(results: Results, title: str, methods: dict[str, Method], note: str = "") -> Table:
    """A row for every method, a column for every data set."""
    rows = [
        [words, *(percent(results.final(trial, method), 1) for trial in results.trials)]
        for words, method in methods.items()
    ]
    return Table(
        f"{title}: training accuracy in %", ["setting", *(trial.label for trial in results.trials)], rows, note
    )


def variants(results: Results) -> Table:
    """Adaptivity, momentum and the scalar variant beside its counterpart."""
    shown = {
        **{f"ρ = {rho:g}, γ₀ = {power(lr)}": setting(lr=lr, rho=rho) for lr in ENDS for rho in RHOS},
        **{f"β = {beta:g}": setting(momentum=beta) for beta in (0.5, 0.9)},
        "β = 0.9, γ₀ = 1e-6": setting(lr=1e-6, momentum=0.9),
        **{
            f"scalar, ρ = {rho:g}, γ₀ = {power(lr)}": setting(lr=lr, rho=rho, granularity="group")
            for lr in ENDS
            for rho in SCALAR_RHOS
        },
    }
    table = _accuracies(
        results,
        "Variants of GradaGrad",
        shown,
        note="Unless stated: per element (Algorithm 2), γ₀ = 1, ρ = 2, no momentum. Scalar: one step size for the "
        "model, Algorithm 1 plus Lemma 4's clip (the printed one violates the inequality the analysis needs); its "
        "counterpart is AdaGrad-norm, which has one step size too.",
    )
    norm = [percent(float(results.tuned(trial, SCALAR_BASELINE).mean()), 1) for trial in results.trials]
    table.rows.append(["AdaGrad-norm, tuned", *norm])
    return table


def peers(results: Results) -> Table:
    """Parameter-free peers at their defaults."""
    shown = {"GradaGrad": DEFAULT, **{OPTIMIZERS[name].title: Method.of(name) for name in PEERS}}
    note = "One run at a time, the same mini-batches; DoG without its averaging of iterates."
    return _accuracies(results, "Parameter-free peers at their defaults", shown, note)


def schedules(results: Results) -> Table:
    """Adam under the schedule of D-Adaptation's paper, by both readings, and the any-time methods beside it."""
    details = results.details
    rows: list[list[str]] = []
    for plain, soft, other in zip(details.softmax, details.softmax_dropped, details.lr_drops, strict=True):
        adam = float(results.tuned(plain, "adam").mean())
        falling = float(results.tuned(soft, "adam").mean())
        again, ovr = (float(results.tuned(trial, "adam", **PLAIN).mean()) for trial in (soft, other))
        anytime = {name: float(results.tuned(plain, name).mean()) for name in ("adagrad", "sgd")}
        own = [results.final(plain, method) for method in HEADLINES.values()]
        rows.append(
            [
                plain.label,
                f"{PRINTED[plain.name]:.1f}",
                percent(again, 1),
                percent(ovr, 1),
                percent(falling, 1),
                percent(adam, 1),
                signed(falling - adam, 1),
                *(percent(value, 1) for value in (*anytime.values(), *own)),
                signed(max(own) - falling, 1),
            ]
        )
    return Table(
        "Second reading: soft-max, and what a schedule buys (training accuracy in %)",
        [
            "data set",
            "Adam, printed",
            "β₁ = 0, soft-max, schedule",
            "β₁ = 0, one-vs-rest, schedule",
            "Adam, soft-max, schedule",
            "Adam, soft-max",
            "schedule's gain",
            "AdaGrad",
            "SGD",
            "GradaGrad, β = 0",
            "β = 0.9",
            "better of both to the schedule",
        ],
        rows,
        note="D-Adaptation's paper, by the same first author, trains these data sets for 100 epochs of batch 16 "
        "without momentum, dividing the learning rate by ten after 60, 80 and 95 of them, and prints Adam's accuracy. "
        "All tuned for the highest accuracy; columns without “schedule” are soft-max with a constant or any-time rate.",
    )


def all_tables(results: Results) -> list[Table]:
    """In the order of the page."""
    title = "GradaGrad untuned against the best and the lowest of three tuned methods: accuracy in %"
    found = [main(results, results.contests, title), reasons(results)]
    if results.details.softmax:
        title = "The same under the second reading, soft-max, 100 epochs: accuracy in %"
        found += [main(results, results.softmax_contests, title), schedules(results)]
    found += [initial_rates(results), variants(results), tuning(results), loss(results)]
    return [*found, peers(results)] if results.context.peers else found
