"""What the suite trains: its problems, its contestants, and the baselines' grids.

A problem is a `TrainingProblem` and a line in `PROBLEMS` with its role: conclusions are drawn on held-out problems, on
which nobody has chosen anything. A contestant is an optimizer of `gradagrad_lab.methods`, read at its last iterate or
at an average.
"""

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
from gradagrad_lab.data import keel, libsvm
from gradagrad_lab.errors import DATA, UserError, unknown
from gradagrad_lab.methods import OPTIMIZERS, PEERS, entry_of
from gradagrad_lab.problems import convex, language, nets, tables
from gradagrad_lab.problems import keel as on_keel
from gradagrad_lab.problems.fresh import SECOND_HELD_OUT
from gradagrad_lab.problems.training import Kind, TrainingProblem
from gradagrad_lab.single import MEASURES, Single, loss_of, outcome_of
from gradagrad_lab.study import Method, Plan, Run
from gradagrad_lab.train import Training
from gradagrad_lab.tune import Tuning

Role = Literal["development", "looked at", "held out"]
ROLE_MEANING = (
    "Development: rules and defaults were chosen on it. Looked at: results on it were seen before the rule had its "
    "final form. Held out: nobody has chosen anything on it; its size and number of steps were set before our method "
    "was run on it."
)
PROTOCOL = 2  # raised when a change of a problem makes old records incomparable
FULL_SEEDS, QUICK_SEEDS = 5, 2
FULL_TUNING_SEEDS, QUICK_TUNING_SEEDS = 2, 1
GAMMA0: float = inspect.signature(AutoGradaGrad).parameters["gamma0"].default
# Learning rates are 10^(place/2): where each search begins, and where it gives up.
START = {"sgd": (-4, -3, -2, -1, 0), "adagrad": (-3, -2, -1, 0, 1), "adam": (-6, -5, -4, -3, -2)}
LIMITS, HALF_DECADE = (-24, 8), 10**0.5
LAST, AVERAGED = "last", "averaged"


@dataclass(frozen=True)
class Entry:
    """A problem of the suite. ``quick``: part of the quick size; ``needs``: a LIBSVM data set that must be at hand."""

    problem: TrainingProblem
    role: Role
    quick: bool = False
    needs: str = ""

    @property
    def name(self) -> str:
        return self.problem.name

    def at_hand(self, data_dir: Path | None) -> bool:
        if self.needs:
            return libsvm.find(self.needs, data.folders(data_dir)) is not None
        return "KEEL" not in self.problem.describe or keel.at_hand(data_dir)


_SIZES = ((16, 1500), (128, 1000))  # batch and steps: the batch alone decides the number of steps
_CHOSEN_ON = (("glass", 16), ("vehicle", 16), ("usps", 128))
_SETS = [
    Entry(convex.logistic(name, batch, steps), "development" if (name, batch) in _CHOSEN_ON else "looked at",
          quick=(name, batch) == ("glass", 16), needs=name)
    for name in ("glass", "vehicle", "vowel", "letter", "usps")
    for batch, steps in _SIZES
]  # fmt: skip
_STAND_INS = [  # for machines without LIBSVM data sets
    Entry(convex.logistic(name, batch, steps), "looked at", quick=batch == 16)
    for name in ("iris", "digits")
    for batch, steps in _SIZES
]
_QUICK = (on_keel.satimage, on_keel.twonorm, on_keel.ring)
_OTHERS = [
    Entry(nets.mlp, "development", quick=True),
    Entry(nets.cnn, "looked at"),
    Entry(language.characters, "looked at"),
    Entry(tables.clicks, "looked at"),
    Entry(tables.factorisation, "development", quick=True),
    Entry(convex.logistic("breast_cancer", 16, 1500), "looked at", quick=True),
    Entry(convex.logistic("protein", 16, 1500), "looked at", needs="protein"),
    Entry(nets.autoencoder, "looked at"),
    Entry(language.skipgram, "looked at"),
    *(Entry(problem, "held out", quick=problem in _QUICK) for problem in SECOND_HELD_OUT),
]
PROBLEMS: dict[str, Entry] = {entry.name: entry for entry in (*_SETS, *_STAND_INS, *_OTHERS)}


def problems_at_hand(data_dir: Path | None = None, *, quick: bool = False, on: str = "") -> list[Entry]:
    """What can be trained here: LIBSVM data sets that are on disk, bundled replacements where none is, and all others.

    ``on``: some of them, names or roles ("held-out") with commas between, whatever their size.
    """
    sets = [entry for entry in _SETS if entry.at_hand(data_dir)] or _STAND_INS
    here = [*sets, *(entry for entry in _OTHERS if entry.at_hand(data_dir))]
    if not on:
        return [entry for entry in here if entry.quick or not quick]
    found: dict[str, Entry] = {}
    for word in words_of(on):
        own = {entry.name: entry for entry in here if word in (entry.name, _role(entry))}
        if not own:
            raise UserError(f"The data of {word} are not on this machine; `gradagrad data list` shows what is.", DATA)
        found |= own
    return list(found.values())


def words_of(on: str) -> list[str]:
    """The names and roles in a list with commas between, or an error that lists all of them."""
    known = (*PROBLEMS, *dict.fromkeys(map(_role, PROBLEMS.values())))
    words = [word.strip() for word in on.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise unknown("--on", word, known)
    return words


def _role(entry: Entry) -> str:
    return entry.role.replace(" ", "-")


@dataclass(frozen=True)
class Contestant:
    """One line of the tables. ``by_kind`` are options that its documentation gives for a kind of problem."""

    key: str
    title: str
    optimizer: str
    side: Literal["tuned", "peer", "gradagrad", "ours"]
    averaged: bool = False
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    by_kind: dict[Kind, dict[str, Any]] = field(default_factory=dict, hash=False)

    def method(self, kind: Kind) -> Method:
        return Method.of(self.optimizer, **{**self.options, **self.by_kind.get(kind, {})})


def _both(*given: Any, **more: Any) -> tuple[Contestant, Contestant]:
    """The same at its last iterate and at the average of its iterates: two readings of the same runs."""
    one = Contestant(*given, **more)
    return one, replace(one, key=f"{one.key}-averaged", title=f"{one.title}, averaged", averaged=True)


def _readings(name: str) -> int:
    """An optimizer that is evaluated at an average of its own is read once."""
    return 2 - OPTIMIZERS[name].averages


_MOMENTUM, _GROUP = {"momentum": 0.9}, {"granularity": "group"}
_ELEMENT: dict[Kind, dict[str, Any]] = {"net": {"lr": 0.01}, "embeddings": {"lr": 0.01, "lazy": True}}
_SCALAR: dict[Kind, dict[str, Any]] = {"net": {"lr": 1e-4, "rho": 100.0}, "embeddings": {"lr": 1e-4, "rho": 100.0}}
OURS, OURS_AVERAGED = _both("ours", "AutoGradaGrad", "autogradagrad", "ours")
CONTESTANTS: tuple[Contestant, ...] = (
    *_both("sgd", "SGD, momentum 0.9, tuned", "sgd", "tuned", options=_MOMENTUM),
    *_both("adagrad", "AdaGrad, tuned", "adagrad", "tuned"),
    *_both("adam", "Adam, tuned", "adam", "tuned"),
    *(OURS, OURS_AVERAGED),
    *(
        one
        for name in PEERS
        for one in _both(name, OPTIMIZERS[name].title, name, "peer")[: 2 - OPTIMIZERS[name].averages]
    ),
    *_both("element", "GradaGrad element, as documented", "gradagrad", "gradagrad", by_kind=_ELEMENT),
    *_both("group", "GradaGrad group, as documented", "gradagrad", "gradagrad", False, _GROUP, _SCALAR),
)
BY_KEY: dict[str, Contestant] = {one.key: one for one in CONTESTANTS}


@dataclass(frozen=True)
class SuiteProblem:
    """A problem by name: small enough to be sent to another process. ``version``: which copy of a LIBSVM data set it
    reads, by the hash of the file."""

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
    found = libsvm.find(entry.needs, data.folders(data_dir)) if entry.needs else None
    version = hashlib.sha256(found.path.read_bytes()).hexdigest()[:16] if found else ""
    return SuiteProblem(entry.name, data_dir, version)


@dataclass
class Size:
    """How large the suite runs."""

    entries: list[Entry]
    seeds: tuple[int, ...]
    tuning_seeds: int
    data_dir: Path | None = None
    steps: int | None = None
    contestants: tuple[Contestant, ...] = CONTESTANTS
    missing: list[str] = field(default_factory=list)
    _tunings: dict[tuple[str, str], Tuning] = field(default_factory=dict)

    def run(self, entry: Entry, method: Method, seed: int) -> Run:
        return Run(_problem(entry, self.data_dir), method, seed, self.steps or entry.problem.steps)

    def tuning(self, entry: Entry, name: str) -> Tuning:
        """A baseline's search, at its last iterate and at the average, which often needs a larger rate."""
        if (entry.name, name) not in self._tunings:
            goals = {
                LAST: lambda record: loss_of(outcome_of(record.curves), False),
                AVERAGED: lambda record: loss_of(outcome_of(record.curves), True),
            }
            problem, steps = _problem(entry, self.data_dir), self.steps or entry.problem.steps
            grid = (START[name], HALF_DECADE, self.tuning_seeds, LIMITS)
            method = BY_KEY[name].method(entry.problem.kind)
            self._tunings[entry.name, name] = Tuning(problem, method, self.seeds, steps, goals, *grid)
        return self._tunings[entry.name, name]

    def untuned(self) -> list[Run]:
        """All runs that need no tuning, problem by problem, so that an interrupted suite has finished some of them."""
        untuned = [one for one in self.contestants if one.side != "tuned"]
        pairs = [(entry, one.method(entry.problem.kind)) for entry in self.entries for one in untuned]
        return list(dict.fromkeys(self.run(entry, method, seed) for entry, method in pairs for seed in self.seeds))


def size_of(context: Context) -> Size:
    """What the quick or the full size trains; peers that are not installed are left out and named."""
    quick = context.quick
    seeds = context.seed_range(QUICK_SEEDS if quick else FULL_SEEDS)
    missing = sorted({one.optimizer for one in CONTESTANTS if not _installed(one.optimizer)})
    return Size(
        problems_at_hand(context.data_dir, quick=quick, on=context.on),
        seeds,
        min(len(seeds), QUICK_TUNING_SEEDS if quick else FULL_TUNING_SEEDS),
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


def plan(context: Context) -> Plan:
    """Everything the size needs."""
    size = size_of(context)
    return Plan(size.untuned(), [size.tuning(entry, name) for entry in size.entries for name in START], size)
