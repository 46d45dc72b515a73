"""What Figure 4 plans at each size, and its numbers, read from records into arrays. Nothing here trains."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradagrad_lab.average import AVERAGED
from gradagrad_lab.methods import power_of_two
from gradagrad_lab.problems.clicks.rows import Setup
from gradagrad_lab.problems.clicks.runs import AUTO, NORM, REFERENCES, SCALAR, ClickProblem
from gradagrad_lab.study import Floats, Frame, Method, Run
from gradagrad_lab.tune import Tuning

INITIAL = (1.0, 1e-2, 1e-4, 1e-6)
RHO = (2.0, 10.0, 50.0, 100.0, 200.0, 500.0)
# The diagonal variants, for which the paper recommends ρ = 2.
DIAGONAL = ("gradagrad element", "gradagrad row")
DIAGONAL_RHO = (2.0, 10.0, 50.0)
# Where each baseline's search begins, in powers of two; it goes on while the best lies at an end.
GRIDS: dict[str, tuple[int, ...]] = {
    "sgd": (-3, -2, -1, 0),
    "adagrad": (-7, -6, -5, -4),
    NORM: (-2, -1, 0, 1),
    "row-wise adagrad": (-7, -6, -5, -4),
    "adam": (-11, -10, -9, -8),
}
_NAMES = ("SGD", "AdaGrad", "AdaGrad-norm", "row-wise AdaGrad", "Adam")
TITLES = {key: f"{name}, tuned" for key, name in zip(GRIDS, _NAMES, strict=True)}
ENOUGH_STEPS, ENOUGH_HELD_OUT = 50, 2_000
"""Below this nothing is judged: a curve has too few points, and the held-out loss an error of more than 0.01."""


def of_rule(name: str, lr: float | None = None, rho: float | None = None) -> Method:
    """One optimizer setting; ours and those built from ours say whose rule they follow."""
    follows = "gradagrad" if name not in ("sgd", "adagrad", "adam", AUTO) else ""
    given = {"lr": lr, "rho": rho}
    return Method.of(name, follows=follows, **{key: value for key, value in given.items() if value is not None})


def initial_text(initial: float) -> str:
    """γ₀ as the paper writes it."""
    return f"{initial:g}" if initial > 1e-3 else f"{initial:.0e}".replace("e-0", "e−")


@dataclass(frozen=True)
class Figure4Plan:
    """Data, model and seeds; at the paper's size only the scalar grid is trained."""

    setup: Setup
    seeds: tuple[int, ...]
    few_seeds: tuple[int, ...]
    """For what is trained on a large grid: the diagonal variants, and the first pass of tuning."""
    planned_rows: int
    rhos: tuple[float, ...] = RHO

    def run(self, method: Method, seed: int) -> Run:
        return Run(ClickProblem(self.setup), method, seed, self.setup.steps)

    def scalar_runs(self) -> list[Run]:
        return [
            self.run(of_rule(SCALAR, initial, rho), seed)
            for seed in self.seeds
            for rho in self.rhos
            for initial in INITIAL
        ]

    def other_runs(self) -> list[Run]:
        """Both diagonal variants and AutoGradaGrad; nothing at the paper's size."""
        if self.setup.paper:
            return []
        return [self.run(of_rule(AUTO), seed) for seed in self.seeds] + [
            self.run(of_rule(name, initial, rho), seed)
            for seed in self.few_seeds
            for name in DIAGONAL
            for rho in DIAGONAL_RHO
            for initial in INITIAL
        ]

    @cached_property
    def tunings(self) -> tuple[Tuning, ...]:
        """Each baseline at the learning rate of lowest held-out loss: in its favour, as the paper tunes on what it
        reports. None at the paper's size."""
        return () if self.setup.paper else tuple(self._tuning(name, places) for name, places in GRIDS.items())

    def _tuning(self, name: str, places: tuple[int, ...]) -> Tuning:
        goals = {"held-out loss": lambda record: float(record.curves["loss"][0])}
        few, steps = len(self.few_seeds), self.setup.steps
        return Tuning(ClickProblem(self.setup), of_rule(name), self.seeds, steps, goals, places, scouts=few)


def comparable(losses: Floats) -> Floats:
    """Losses with those that are not finite, or absurd, at a large number: comparisons then need no special case."""
    return np.minimum(np.nan_to_num(losses, nan=np.inf, posinf=np.inf), 1e3)


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
        found = [
            [
                [self.frame.curve(self.plan.run(of_rule(name, initial, rho), seed), metric) for seed in seeds]
                for initial in INITIAL
            ]
            for rho in rhos
        ]
        values = np.array(found)
        return values[..., 0] if metric in ("loss", "AUC") else values

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
        return self._of(of_rule(name, self.best[name]), metric)

    def ours(self, metric: str) -> Floats:
        """The same for AutoGradaGrad, which has nothing to tune."""
        return self._of(of_rule(AUTO), metric)

    def _of(self, method: Method, metric: str) -> Floats:
        values = np.array([self.frame.curve(self.plan.run(method, seed), metric) for seed in self.plan.seeds])
        return values[..., 0] if metric in ("loss", "AUC", AVERAGED + "loss") else values

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
        """What counts as alike; `gradagrad_lab.figures.figure4.claims` says why."""
        return 0.1 * self.gain

    @property
    def reduction(self) -> str:
        """What differs from the paper's experiment, in a sentence; empty where nothing does."""
        setup, said = self.setup, list[str]()
        if not setup.paper:
            said.append(f"{setup.steps:,} steps, smaller networks and tables than the paper's")
        if setup.rows < self.plan.planned_rows:
            said.append(f"{setup.rows:,} rows to train on, where {self.plan.planned_rows:,} were planned")
        if self.has_teacher:
            said.append("a synthetic stream in place of Criteo's rows")
        return f" Differences to the paper: {'; '.join(said)}." if said else ""
