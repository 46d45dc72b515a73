"""The numbers and tables of Figure 4, read from records. Nothing here trains."""

import math
from functools import cached_property

import numpy as np

from gradagrad_lab.average import AVERAGED
from gradagrad_lab.figures.figure4.plan import DIAGONAL, DIAGONAL_RHO, INITIAL, TITLES, Figure4Plan, of_rule
from gradagrad_lab.methods import power_of_two
from gradagrad_lab.problems.clicks.runs import AUTO, REFERENCES, SCALAR, Setup
from gradagrad_lab.report.content import Table
from gradagrad_lab.study import Floats, Frame, Method

ENOUGH_STEPS, ENOUGH_HELD_OUT = 1000, 2_000
"""Below this nothing is judged: γ cannot grow from 1e-6 in fewer steps, and the held-out loss has an error of more than
0.01."""
_NUMBERS = ("loss", "AUC", AVERAGED + "loss")
SHOWN = {"gradagrad element": "element", "gradagrad row": "row-wise tables, element networks"}


def initial_text(initial: float) -> str:
    """γ₀ as the paper writes it."""
    return f"{initial:g}" if initial > 1e-3 else f"{initial:.0e}".replace("e-0", "e−")


def comparable(losses: Floats) -> Floats:
    """Losses with those that are not finite, or absurd, at a large number: comparisons then need no special case."""
    return np.minimum(np.nan_to_num(losses, nan=np.inf, posinf=np.inf), 1e3)


def best_cell(losses: Floats) -> tuple[int, int]:
    """(ρ, γ₀) of the lowest mean."""
    means = comparable(losses).mean(axis=2)
    row, column = np.unravel_index(int(means.argmin()), means.shape)
    return int(row), int(column)


class Results:
    """All numbers of the figure. Losses that are not finite stay so: they are a result."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.plan: Figure4Plan = frame.details

    @property
    def setup(self) -> Setup:
        return self.plan.setup

    @property
    def enough(self) -> bool:
        """Whether there was enough to train on for a verdict."""
        return self.setup.steps >= ENOUGH_STEPS and self.setup.held_out >= ENOUGH_HELD_OUT

    @cached_property
    def references(self) -> dict[str, float]:
        run = self.plan.run(of_rule(SCALAR, INITIAL[0], self.rhos[0]), self.plan.seeds[0])
        return dict(zip(REFERENCES, self.frame.record(run).curves["references"], strict=True))

    @property
    def has_teacher(self) -> bool:
        return not self.setup.criteo

    @property
    def steps(self) -> Floats:
        """Steps done at each point of a curve."""
        return self.setup.points

    @property
    def rhos(self) -> tuple[float, ...]:
        return self.plan.rhos

    def _grid(self, name: str, rhos: tuple[float, ...], seeds: tuple[int, ...], metric: str) -> Floats:
        """(ρ, γ₀, seeds), or one dimension more for a curve."""
        return np.array([[self._of(of_rule(name, initial, rho), metric, seeds) for initial in INITIAL] for rho in rhos])

    def scalar(self, metric: str) -> Floats:
        return self._grid(SCALAR, self.rhos, self.plan.seeds, metric)

    def diagonal(self, name: str, metric: str) -> Floats:
        """The results of the element or the row-wise variant."""
        return self._grid(name, DIAGONAL_RHO, self.plan.few_seeds, metric)

    @cached_property
    def best(self) -> dict[str, float]:
        """Each baseline's tuned learning rate; empty at the paper's size."""
        return {tuning.method.optimizer: self.frame.choice(tuning).lr for tuning in self.plan.tunings}

    def rate(self, name: str) -> str:
        return power_of_two(self.best[name])

    def baseline(self, name: str, metric: str) -> Floats:
        """(seeds,), or (seeds, points) for a curve, at the tuned learning rate."""
        return self._of(of_rule(name, self.best[name]), metric, self.plan.seeds)

    def ours(self, metric: str) -> Floats:
        """The results of AutoGradaGrad, which has nothing to tune."""
        return self._of(of_rule(AUTO), metric, self.plan.seeds)

    def _of(self, method: Method, metric: str, seeds: tuple[int, ...]) -> Floats:
        values = np.array([self.frame.curve(self.plan.run(method, seed), metric) for seed in seeds])
        return values[..., 0] if metric in _NUMBERS else values

    @cached_property
    def gain(self) -> float:
        """What tuned AdaGrad (at the paper's size the best of the grid) gains over always predicting the click rate:
        the scale of all comparisons."""
        if "adagrad" in self.best:
            reached = float(np.nanmean(self.baseline("adagrad", "loss")))
        else:
            reached = float(comparable(self.scalar("loss")).mean(axis=2).min())
        return self.references["base rate"] - reached

    @property
    def alike(self) -> float:
        """The largest difference that counts as alike; `gradagrad_lab.figures.figure4.claims` says why."""
        return 0.1 * self.gain

    def ends(self) -> tuple[float, float]:
        """The mean held-out loss of AutoGradaGrad's average, and of tuned AdaGrad."""
        return float(self.ours(AVERAGED + "loss").mean()), float(self.baseline("adagrad", "loss").mean())

    @property
    def reduction(self) -> str:
        """A sentence on what differs from the paper's experiment; empty if nothing does."""
        setup, said = self.setup, list[str]()
        if not setup.paper:
            said.append(f"{setup.steps:,} steps, smaller networks and tables than the paper's")
        if setup.rows < self.plan.planned_rows:
            said.append(f"{setup.rows:,} rows to train on, where {self.plan.planned_rows:,} were planned")
        if self.has_teacher:
            said.append("a synthetic stream in place of Criteo's rows")
        return f" Differences to the paper: {'; '.join(said)}." if said else ""


def all_tables(results: Results) -> list[Table]:
    """The figure's tables, the most telling first."""
    seeds = f"Mean over {len(results.plan.seeds)} initialisations (lowest–highest)."
    grids = [
        _grid_table(
            f"Scalar GradaGrad, held-out {words}",
            *(results.rhos, results.scalar(metric), f"{seeds} {_references(results, metric)}"),
        )
        for metric, words in (("loss", "log-loss"), ("AUC", "AUC"))
    ]
    if results.setup.paper:
        return grids
    few = f"Initialisations: {len(results.plan.few_seeds)}. “Diverged”: not finite, or above 10."
    diagonal = [
        _grid_table(f"GradaGrad, {words}, lazy: held-out log-loss", DIAGONAL_RHO, results.diagonal(name, "loss"), few)
        for name, words in SHOWN.items()
    ]
    return [_optimizers(results), *grids, *diagonal]


def _grid_table(title: str, rhos: tuple[float, ...], values: Floats, note: str) -> Table:
    """ρ by γ₀."""
    rows = [[f"{rho:g}", *map(_mean_and_range, row)] for rho, row in zip(rhos, values, strict=True)]
    return Table(title, ["ρ", *(f"γ₀ = {initial_text(initial)}" for initial in INITIAL)], rows, note)


def _mean_and_range(values: Floats) -> str:
    """A cell: mean, range and how many diverged."""
    finite = values[np.isfinite(values) & (values < 10)]
    lost = len(values) - len(finite)
    if not len(finite):
        return "diverged"
    text = f"{finite.mean():.4f}" + f" ({finite.min():.3f}–{finite.max():.3f})" * (len(finite) > 1)
    return text + (f", {lost} diverged" if lost else "")


def _references(results: Results, metric: str) -> str:
    """The numbers to compare with."""
    known = results.references
    if metric == "AUC":
        return f"The teacher's own AUC is {known['teacher AUC']:.4f}." if results.has_teacher else ""
    teacher = f"The teacher's own loss is {known['teacher']:.4f}; always" if results.has_teacher else "Always"
    return f"{teacher} predicting the click rate gives {known['base rate']:.4f}."


def _optimizers(results: Results) -> Table:
    """The best of every optimizer."""
    rows = [
        [title, f"lr = {results.rate(name)}", *_cells(*(results.baseline(name, what) for what in ("loss", "AUC")))]
        for name, title in TITLES.items()
    ]
    for name in (SCALAR, *DIAGONAL):
        rhos = results.rhos if name == SCALAR else DIAGONAL_RHO
        losses, areas = (
            results.scalar(what) if name == SCALAR else results.diagonal(name, what) for what in ("loss", "AUC")
        )
        row, column = best_cell(losses)
        chosen = f"γ₀ = {initial_text(INITIAL[column])}, ρ = {rhos[row]:g}"
        own = name.removeprefix("gradagrad ")
        rows.append([f"GradaGrad, {own}", chosen, *_cells(losses[row, column], areas[row, column])])
    averaged = results.ours(AVERAGED + "loss")
    rows.append(["AutoGradaGrad (ours), y", "untuned", *_cells(results.ours("loss"), results.ours("AUC"))])
    rows.append(["AutoGradaGrad (ours), x̄", "untuned", *_cells(averaged, np.full_like(averaged, np.nan))])
    return Table(
        "Every optimizer at its best",
        ["optimizer", "setting", "log-loss", "std. error", "AUC", "seeds"],
        rows,
        "Held-out rows. Learning rates, and GradaGrad's γ₀ and ρ, are chosen for the lowest mean loss on these "
        "rows, in favour of each. “Row”: tables by rows, networks by elements. " + _references(results, "loss"),
    )


def _cells(losses: Floats, areas: Floats) -> list[str]:
    """Loss, its standard error, AUC, seeds."""
    error = losses.std(ddof=1) / math.sqrt(len(losses)) if len(losses) > 1 else math.nan
    area = f"{np.nanmean(areas):.4f}" if np.isfinite(areas).any() else "–"
    return [f"{losses.mean():.4f}", f"{error:.4f}" if math.isfinite(error) else "–", area, str(len(losses))]
