"""The tables of Figure 4, from records alone."""

import math

import numpy as np

from gradagrad_lab.average import AVERAGED
from gradagrad_lab.figures.figure4.results import (
    DIAGONAL,
    DIAGONAL_RHO,
    INITIAL,
    TITLES,
    Results,
    comparable,
    initial_text,
)
from gradagrad_lab.report.content import Table
from gradagrad_lab.study import Floats

DIAGONAL_TITLES = {"gradagrad element": "element", "gradagrad row": "row-wise tables, element networks"}


def all_tables(results: Results) -> list[Table]:
    """The figure's tables, the most telling first."""
    grids = [scalar_table(results, metric) for metric in ("loss", "AUC")]
    if results.setup.paper:
        return grids
    return [optimizer_table(results), *grids, *(diagonal_table(results, name) for name in DIAGONAL)]


def scalar_table(results: Results, metric: str) -> Table:
    """One number of the scalar grid."""
    values = results.scalar(metric)
    words = "log-loss" if metric == "loss" else metric
    return Table(
        f"Scalar GradaGrad, held-out {words}",
        ["ρ", *(f"γ₀ = {initial_text(initial)}" for initial in INITIAL)],
        [[f"{rho:g}", *(mean_and_range(cell) for cell in row)] for rho, row in zip(results.rhos, values, strict=True)],
        f"Mean over {len(results.plan.seeds)} initialisations (lowest–highest). {references(results, metric)}",
    )


def references(results: Results, metric: str) -> str:
    """What the numbers are to be compared with."""
    known = results.references
    if metric == "AUC":
        return f"The teacher's own AUC is {known['teacher AUC']:.4f}." if results.has_teacher else ""
    teacher = f"The teacher's own loss is {known['teacher']:.4f}; always" if results.has_teacher else "Always"
    return f"{teacher} predicting the click rate gives {known['base rate']:.4f}."


def mean_and_range(values: Floats) -> str:
    """A cell: mean, range and how many diverged."""
    finite = values[np.isfinite(values) & (values < 10)]
    lost = len(values) - len(finite)
    if not len(finite):
        return "diverged"
    text = f"{finite.mean():.4f}" + f" ({finite.min():.3f}–{finite.max():.3f})" * (len(finite) > 1)
    return text + (f", {lost} diverged" if lost else "")


def optimizer_table(results: Results) -> Table:
    """The best of every optimizer."""
    rows: list[list[str]] = []
    for name, title in TITLES.items():
        losses, areas = results.baseline(name, "loss"), results.baseline(name, "AUC")
        rows.append([title, f"lr = {results.rate(name)}", *numbers(losses, areas)])
    losses, areas = results.scalar("loss"), results.scalar("AUC")
    row, column = best_cell(losses)
    chosen = f"γ₀ = {initial_text(INITIAL[column])}, ρ = {results.rhos[row]:g}"
    rows.append(["GradaGrad, scalar", chosen, *numbers(losses[row, column], areas[row, column])])
    for name in DIAGONAL:
        losses, areas = results.diagonal(name, "loss"), results.diagonal(name, "AUC")
        row, column = best_cell(losses)
        chosen = f"γ₀ = {initial_text(INITIAL[column])}, ρ = {DIAGONAL_RHO[row]:g}"
        rows.append(
            [f"GradaGrad, {name.removeprefix('gradagrad ')}", chosen, *numbers(losses[row, column], areas[row, column])]
        )
    rows.append(["AutoGradaGrad (ours), y", "untuned", *numbers(results.ours("loss"), results.ours("AUC"))])
    averaged = results.ours(AVERAGED + "loss")
    rows.append(["AutoGradaGrad (ours), x̄", "untuned", *numbers(averaged, np.full_like(averaged, np.nan))])
    return Table(
        "Every optimizer at its best",
        ["optimizer", "setting", "log-loss", "std. error", "AUC", "seeds"],
        rows,
        "Held-out rows. Learning rates, and GradaGrad's γ₀ and ρ, are chosen for the lowest mean loss on these "
        "rows, in favour of each. “Row”: tables by rows, networks by elements. " + references(results, "loss"),
    )


def best_cell(losses: Floats) -> tuple[int, int]:
    """(ρ, γ₀) of the lowest mean."""
    means = comparable(losses).mean(axis=2)
    row, column = np.unravel_index(int(means.argmin()), means.shape)
    return int(row), int(column)


def numbers(losses: Floats, areas: Floats) -> list[str]:
    """Cells of one optimizer: loss, its standard error, AUC, seeds."""
    error = losses.std(ddof=1) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
    shown = f"{error:.4f}" if math.isfinite(error) else "–"
    area = f"{np.nanmean(areas):.4f}" if np.isfinite(areas).any() else "–"
    return [f"{losses.mean():.4f}", shown, area, str(len(losses))]


def spread_over_initial(losses: Floats) -> Floats:
    """(ρ, seeds): worst minus best over γ₀."""
    losses = comparable(losses)
    return losses.max(axis=1) - losses.min(axis=1)


def diagonal_table(results: Results, name: str) -> Table:
    """The element or the row-wise variant, losing cases included."""
    losses = results.diagonal(name, "loss")
    return Table(
        f"GradaGrad, {DIAGONAL_TITLES[name]}, lazy: held-out log-loss",
        ["ρ", *(f"γ₀ = {initial_text(initial)}" for initial in INITIAL)],
        [[f"{rho:g}", *(mean_and_range(cell) for cell in row)] for rho, row in zip(DIAGONAL_RHO, losses, strict=True)],
        f"Initialisations: {len(results.plan.few_seeds)}. “Diverged”: not finite, or above 10. "
        + references(results, "loss"),
    )
