"""A study: which runs must exist, their records, and what a figure says about them.

A `Run` is one training, fully described: a problem, a method, a seed and a size. Its configuration, which contains a
digest of what the rule does, is the key of its record. A figure is a module or a folder of `gradagrad_lab.figures`
that ends in

    STUDY = Study(name="figure2", title="…", plan=plan, read=read, draw=draw, tables=tables, …)

``plan(context)`` says which runs must exist. ``read(frame)`` reads their records into one object, and the other
functions take that object. A new figure is added to the list in `gradagrad_lab.figures.experiments`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.methods import rule_of
from gradagrad_lab.records import Record, key_of
from gradagrad_lab.report.content import About, Claim, Picture, Section, Table

if TYPE_CHECKING:
    from gradagrad_lab.context import Context
    from gradagrad_lab.train import Training
    from gradagrad_lab.tune import Choice, Tuning

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """An optimizer and its options, as sorted pairs so that methods can be compared; make one with `Method.of`.

    ``follows`` names the optimizer whose rule a figure's own variant follows ("gradagrad scalar" follows "gradagrad").
    """

    optimizer: str
    options: tuple[tuple[str, Any], ...] = ()
    follows: str = ""

    @classmethod
    def of(cls, optimizer: str, *, follows: str = "", **options: Any) -> Method:
        return cls(optimizer, tuple(sorted(options.items())), follows)

    def but(self, **options: Any) -> Method:
        """A copy of the method with some options changed or added."""
        return Method.of(self.optimizer, follows=self.follows, **{**dict(self.options), **options})

    def __getitem__(self, option: str) -> Any:
        return dict(self.options)[option]

    def config(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer,
            "options": dict(self.options),
            "rule": rule_of(self.follows or self.optimizer),
        }


class Problem(Protocol):
    """A problem to train. It knows how its runs are trained together (see `gradagrad_lab.stacked`) and what
    they measure. It must be small enough to be sent to another process."""

    @property
    def label(self) -> str: ...

    def config(self) -> dict[str, Any]:
        """The identity of the problem in a record: data by hash, sizes, precision."""
        ...

    def measures(self, method: Method, size: int) -> Mapping[str, int]:
        """The names that a run records, and how many points each has. A record with other lengths is not used. A run
        whose last "loss" is not finite has diverged."""
        ...

    def together(self, runs: Sequence[Run]) -> list[list[Run]]:
        """The runs in groups that are trained side by side."""
        ...

    def cost(self, runs: Sequence[Run]) -> float:
        """Seconds that training such a group takes, roughly: the progress bar's unit."""
        ...

    def begin(self, runs: Sequence[Run]) -> Training:
        """A group of runs, ready to be trained."""
        ...


@dataclass(frozen=True, eq=False)
class Run:
    """One training. ``size`` is how long, in the problem's unit: epochs or steps."""

    problem: Problem
    method: Method
    seed: int
    size: int

    @functools.cached_property
    def measures(self) -> dict[str, int]:
        return dict(self.problem.measures(self.method, self.size))

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        return {"problem": self.problem.config(), **self.method.config(), "size": self.size, "measures": self.measures}

    @functools.cached_property
    def key(self) -> str:
        return key_of(self.config, [self.seed])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def runs_of(problem: Problem, methods: Iterable[Method], seeds: Sequence[int], size: int) -> list[Run]:
    """Every method from every seed."""
    return [Run(problem, method, seed, size) for method in methods for seed in seeds]


def count(number: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True)
class Plan:
    """The runs that must exist before a figure can be drawn. ``details`` is for the figure's own use."""

    runs: Sequence[Run] = ()
    tunings: Sequence[Tuning] = ()
    details: Any = None


class Frame:
    """The records of a study. Figures see nothing else, so they cannot train."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self.context = context
        self.plan = plan
        self._choices: dict[tuple[int, str], Choice] = {}

    @property
    def details(self) -> Any:
        return self.plan.details

    def record(self, run: Run) -> Record:
        found = self.context.records.find(run)
        if found is None:
            raise KeyError(f"no record of {run.method} on {run.problem.label}, seed {run.seed}, size {run.size}")
        return found

    def curve(self, run: Run, measure: str) -> Floats:
        """One measure of one run, point by point."""
        return np.asarray(self.record(run).curves[measure], dtype=np.float64)

    def curves(self, problem: Problem, method: Method, seeds: Sequence[int], size: int, measure: str) -> Floats:
        """One measure from several seeds: (seeds, points)."""
        return np.stack([self.curve(Run(problem, method, seed, size), measure) for seed in seeds])

    def choice(self, tuning: Tuning, goal: str = "") -> Choice:
        """The choice of tuning for one of its goals (the first, unless named)."""
        from gradagrad_lab.tune import choose

        place = id(tuning), goal
        if place not in self._choices:
            self._choices[place] = choose(tuning, self.context.records, goal)
        return self._choices[place]


@dataclass(frozen=True)
class Study:
    """A figure: what it is called, what it needs, and what it makes of the results that ``read`` returns."""

    name: str
    title: str
    plan: Callable[[Context], Plan]
    read: Callable[[Frame], Any]
    draw: Callable[[Any], list[Picture]]
    tables: Callable[[Any], list[Table]]
    claims: Callable[[Any], list[Claim]]
    about: Callable[[Any], About]


def conduct(study: Study, context: Context) -> Section:
    """Train what is missing, then draw, tabulate and judge from the records."""
    started = time.perf_counter()
    frame = Frame(context, train(study.plan(context), context, study.name))
    return present(study, frame, time.perf_counter() - started)


def train(plan: Plan, context: Context, name: str) -> Plan:
    """Train everything planned that has no record. Grids of tuned baselines grow while they must."""
    from gradagrad_lab import pool
    from gradagrad_lab.tune import needed

    wanted = [*plan.runs, *(run for tuning in plan.tunings for run in tuning.first())]
    pool.train_missing(context, wanted, f"{name}: training")
    for number in range(1, 1000):
        more = [run for tuning in plan.tunings for run in needed(tuning, context.records)]
        if not more:
            break
        pool.train_missing(context, more, f"{name}: tuning, round {number}")
    return plan


def present(study: Study, frame: Frame, seconds: float = 0.0) -> Section:
    """Draw everything and state what it shows; reads records only."""
    results = study.read(frame)
    about, claims = study.about(results), study.claims(results)
    if bare := [claim.text for claim in claims if claim.verdict != "not tested" and not claim.criterion]:
        raise ValueError(f"every verdict needs a criterion; these have none: {bare}")
    return Section(
        key=study.name,
        title=about.title or study.title,
        claims=claims,
        tables=study.tables(results),
        pictures=study.draw(results),
        seconds=seconds,
        **{name: value for name, value in vars(about).items() if name != "title"},
    )
