"""What the suite trains: every problem at hand, every contestant, the sweep of γ₀ and the baselines' grids."""

import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gradagrad import AutoGradaGrad
from gradagrad_lab import data
from gradagrad_lab.context import Context
from gradagrad_lab.data import libsvm
from gradagrad_lab.errors import UserError
from gradagrad_lab.figures.suite.catalogue import PROBLEMS, Entry, problems_at_hand
from gradagrad_lab.methods import OPTIMIZERS, PEERS, entry_of
from gradagrad_lab.problems.training import Kind
from gradagrad_lab.single import MEASURES, Single, loss_of, outcome_of
from gradagrad_lab.study import Method, Plan, Run
from gradagrad_lab.train import Training
from gradagrad_lab.tune import Tuning

PROTOCOL = 2  # raised when a change of a problem makes old records incomparable
FULL_SEEDS, QUICK_SEEDS = 5, 2
FULL_TUNING_SEEDS, QUICK_TUNING_SEEDS = 2, 1
SWEEP_SEEDS = 2
DEFAULT_GAMMA0: float = inspect.signature(AutoGradaGrad).parameters["gamma0"].default
# The sweep of γ₀; "flat" is asked for between these two.
SWEEP = tuple(sorted({1e-8, 1e-6, DEFAULT_GAMMA0, 1e-2, 1.0}))
QUICK_SWEEP = tuple(sorted({1e-6, DEFAULT_GAMMA0, 1e-2}))
FLAT_FROM, FLAT_TO = 1e-6, 1e-2
# Learning rates are 10^(place/2). What each baseline is called, and where its search begins and gives up.
TUNED: dict[str, tuple[str, Method]] = {
    "sgd": ("SGD, momentum 0.9", Method.of("sgd", momentum=0.9)),
    "adagrad": ("AdaGrad", Method.of("adagrad")),
    "adam": ("Adam", Method.of("adam")),
}
START: dict[str, tuple[int, ...]] = {
    "sgd": (-4, -3, -2, -1, 0),
    "adagrad": (-3, -2, -1, 0, 1),
    "adam": (-6, -5, -4, -3, -2),
}
LIMITS, HALF_DECADE = (-24, 8), 10**0.5
LAST, AVERAGED = "last", "averaged"


@dataclass(frozen=True)
class Contestant:
    """One line of the tables: an optimizer, its options and whether the averaged iterate is judged.

    ``by_kind`` are options that its documentation gives for a kind of problem. For a tuned one ``tuned`` names the
    baseline in `TUNED`.
    """

    key: str
    title: str
    optimizer: str
    side: Literal["tuned", "peer", "gradagrad", "ours"]
    averaged: bool = False
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    by_kind: dict[Kind, dict[str, Any]] = field(default_factory=dict, hash=False)
    tuned: str = ""

    def method(self, kind: Kind) -> Method:
        return Method.of(self.optimizer, **{**self.options, **self.by_kind.get(kind, {})})


def _both(*given: Any, **more: Any) -> tuple[Contestant, Contestant]:
    """The same at its last iterate and at the average of its iterates: two readings of the same runs."""
    one = Contestant(*given, **more)
    return one, replace(one, key=f"{one.key}-averaged", title=f"{one.title}, averaged", averaged=True)


_ELEMENT: dict[Kind, dict[str, Any]] = {"net": {"lr": 0.01}, "embeddings": {"lr": 0.01, "lazy": True}}
_SCALAR: dict[Kind, dict[str, Any]] = {"net": {"lr": 1e-4, "rho": 100.0}, "embeddings": {"lr": 1e-4, "rho": 100.0}}
_GROUP = {"granularity": "group"}
_tuned = [
    _both(key, f"{title}, tuned", method.optimizer, "tuned", options=dict(method.options), tuned=key)
    for key, (title, method) in TUNED.items()
]
_peers = [_both(name, OPTIMIZERS[name].title, name, "peer") for name in PEERS]
# At its parameters y and at its own average x̄.
OURS, OURS_AVERAGED = _both("ours", "AutoGradaGrad", "autogradagrad", "ours")
CONTESTANTS: tuple[Contestant, ...] = (
    *(one[place] for place in (0, 1) for one in _tuned),
    *(OURS, OURS_AVERAGED),
    *(plain for plain, _ in _peers),
    *(averaged for _, averaged in _peers if not OPTIMIZERS[averaged.optimizer].averages),
    *_both("element", "GradaGrad element, as documented", "gradagrad", "gradagrad", by_kind=_ELEMENT),
    *_both(
        "group", "GradaGrad group, as documented", "gradagrad", "gradagrad", False, {"granularity": "group"}, _SCALAR
    ),
)
BY_KEY: dict[str, Contestant] = {one.key: one for one in CONTESTANTS}


@dataclass(frozen=True)
class SuiteProblem:
    """A problem of the catalogue, by name: small enough to be sent to another process."""

    name: str
    data_dir: Path | None = None
    version: str = ""

    @property
    def label(self) -> str:
        return PROBLEMS[self.name].problem.title

    def config(self) -> dict[str, Any]:
        return {"kind": "suite", "protocol": PROTOCOL, "problem": self.name, "version": self.version}

    def measures(self, method: Method, size: int) -> Mapping[str, int]:
        return MEASURES

    def together(self, runs: Sequence[Run]) -> list[list[Run]]:
        return [[run] for run in runs]

    def cost(self, runs: Sequence[Run]) -> float:
        return sum(run.size for run in runs) * 7e-4

    def begin(self, runs: Sequence[Run]) -> Training:
        (run,) = runs
        task = PROBLEMS[self.name].problem.make(run.seed, self.data_dir, run.size)
        entry = entry_of(run.method.optimizer)
        return Single(task, entry, {**entry.fixed, **dict(run.method.options)}, run.seed, run.size)


@functools.cache
def _problem(entry: Entry, data_dir: Path | None) -> SuiteProblem:
    """Its version says which copy of a LIBSVM data set it reads, by the hash of the file."""
    found = libsvm.find(entry.set_name, data.folders(data_dir)) if entry.set_name else None
    version = hashlib.sha256(found.path.read_bytes()).hexdigest()[:16] if found else ""
    return SuiteProblem(entry.name, data_dir, version)


@dataclass
class Size:
    """How large the suite runs."""

    entries: list[Entry]
    seeds: tuple[int, ...]
    tuning_seeds: int
    sweep: tuple[float, ...]
    sweep_seeds: tuple[int, ...]
    data_dir: Path | None = None
    steps: int | None = None
    contestants: tuple[Contestant, ...] = CONTESTANTS
    missing: list[str] = field(default_factory=list)
    _tunings: dict[tuple[str, str], Tuning] = field(default_factory=dict)

    def run(self, entry: Entry, method: Method, seed: int) -> Run:
        return Run(_problem(entry, self.data_dir), method, seed, self.steps or entry.problem.steps)

    def tuning(self, entry: Entry, key: str) -> Tuning:
        """A baseline's search, at its last iterate and at the average, which often needs a larger rate."""
        if (entry.name, key) not in self._tunings:
            goals = {
                LAST: lambda record: loss_of(outcome_of(record.curves), False),
                AVERAGED: lambda record: loss_of(outcome_of(record.curves), True),
            }
            problem, steps = _problem(entry, self.data_dir), self.steps or entry.problem.steps
            grid = (START[key], HALF_DECADE, self.tuning_seeds, LIMITS)
            self._tunings[entry.name, key] = Tuning(problem, TUNED[key][1], self.seeds, steps, goals, *grid)
        return self._tunings[entry.name, key]

    def sweep_run(self, entry: Entry, gamma0: float, seed: int) -> Run:
        # The default is the default run itself, with nothing said about γ₀.
        options: dict[str, Any] = {} if gamma0 == DEFAULT_GAMMA0 else {"gamma0": gamma0}
        return self.run(entry, Method.of(OURS.optimizer, **options), seed)

    def untuned(self) -> list[Run]:
        """All runs that need no tuning, γ₀'s sweep included; problem by problem, so that an interrupted suite has
        finished some of them."""
        runs: list[Run] = []
        for entry in self.entries:
            methods = [one.method(entry.problem.kind) for one in self.contestants if one.side != "tuned"]
            runs += [self.run(entry, method, seed) for method in methods for seed in self.seeds]
            runs += [self.sweep_run(entry, gamma0, seed) for gamma0 in self.sweep for seed in self.sweep_seeds]
        return list(dict.fromkeys(runs))


def size_of(context: Context) -> Size:
    """What the quick or the full size trains; peers that are not installed are left out and named."""
    quick = context.quick
    seeds = context.seed_range(QUICK_SEEDS if quick else FULL_SEEDS)
    missing = sorted({one.optimizer for one in CONTESTANTS if not _installed(one.optimizer)})
    return Size(
        problems_at_hand(context.data_dir, quick=quick, on=context.on),
        seeds,
        min(len(seeds), QUICK_TUNING_SEEDS if quick else FULL_TUNING_SEEDS),
        QUICK_SWEEP if quick else SWEEP,
        seeds[:SWEEP_SEEDS],
        context.data_dir,
        contestants=tuple(one for one in CONTESTANTS if one.optimizer not in missing),
        missing=[entry_of(name).title for name in missing],
    )


@functools.cache
def _installed(optimizer: str) -> bool:
    try:
        entry_of(optimizer).factory()
    except UserError:
        return False
    return True


def plan_of(size: Size) -> Plan:
    """Everything one size of the suite needs."""
    return Plan(size.untuned(), [size.tuning(entry, key) for entry in size.entries for key in TUNED], size)
