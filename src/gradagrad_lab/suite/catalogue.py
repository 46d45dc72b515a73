"""The suite's problems, and for what each has been used before: conclusions are drawn on those used for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gradagrad_lab import data
from gradagrad_lab.data import CATALOGUE, libsvm
from gradagrad_lab.errors import USAGE, UserError
from gradagrad_lab.problems import convex, language, nets, tables
from gradagrad_lab.problems.training import TrainingProblem

Status = Literal["development", "seen", "held out"]
STATUS_WORDS: dict[Status, str] = {
    "development": "development",
    "seen": "seen by the prototype",
    "held out": "held out",
}
STATUS_MEANING = (
    "Development: rules and defaults were chosen on it. Seen by the prototype: it was looked at while the method was "
    "invented. Held out: nobody has chosen anything on it; its size and number of steps were set before our method "
    "was run on it."
)


@dataclass(frozen=True)
class Entry:
    """A problem of the suite. ``needs``: a LIBSVM set that must be at hand; ``quick``: part of the quick size."""

    problem: TrainingProblem
    status: Status
    quick: bool = False
    needs: str = ""

    @property
    def name(self) -> str:
        return self.problem.name


def _sets() -> list[Entry]:
    """Logistic regression on the LIBSVM sets at two batch sizes; the number of steps depends on the batch alone."""
    small, large = (16, 1500), (128, 1000)
    wanted: list[tuple[str, tuple[int, int], Status, bool]] = [
        ("glass", small, "development", True),
        ("glass", large, "seen", False),
        ("vehicle", small, "development", False),
        ("vehicle", large, "seen", False),
        ("vowel", small, "seen", False),
        ("vowel", large, "seen", False),
        ("letter", small, "seen", False),
        ("letter", large, "seen", False),
        ("usps", small, "seen", False),
        ("usps", large, "development", False),
    ]
    return [
        Entry(convex.logistic(name, batch, steps), status, quick, needs=name)
        for name, (batch, steps), status, quick in wanted
    ]


def _stand_ins() -> list[Entry]:
    """Where no LIBSVM set is at hand. Digits were used for the nets, so neither counts as held out."""
    found = [
        convex.logistic(name, batch, steps) for name in ("iris", "digits") for batch, steps in ((16, 1500), (128, 1000))
    ]
    return [Entry(problem, "seen", quick=problem.batch == 16) for problem in found]


_OTHERS: list[Entry] = [
    Entry(convex.badly_scaled, "development"),
    Entry(convex.quadratic, "development", quick=True),
    Entry(nets.mlp, "development", quick=True),
    Entry(nets.deep_plain, "development"),
    Entry(nets.cnn, "seen"),
    Entry(language.characters, "seen"),
    Entry(tables.clicks, "seen"),
    Entry(tables.factorisation, "development", quick=True),
    Entry(convex.logistic("breast_cancer", 16, 1500), "held out", quick=True),
    Entry(convex.wine, "held out"),
    Entry(convex.diabetes, "held out", quick=True),
    Entry(convex.logistic("protein", 16, 1500), "held out", needs="protein"),
    Entry(convex.hinge, "held out", quick=True),
    Entry(nets.autoencoder, "held out", quick=True),
    Entry(nets.recurrent, "held out"),
    Entry(nets.coordinates, "held out"),
    Entry(language.skipgram, "held out"),
]
PROBLEMS: dict[str, Entry] = {entry.name: entry for entry in (*_sets(), *_stand_ins(), *_OTHERS)}


def problems_at_hand(data_dir: Path | None = None, *, quick: bool = False) -> list[Entry]:
    """What can be trained here: LIBSVM sets that are on disk, bundled stand-ins where none is, and all others."""
    places = data.folders(data_dir)
    present = {name for name in CATALOGUE if libsvm.find(name, places) is not None}
    sets = [entry for entry in _sets() if entry.needs in present]
    if not any(name in present for name in {entry.needs for entry in _sets()}):
        sets = _stand_ins()
    others = [entry for entry in _OTHERS if not entry.needs or entry.needs in present]
    return [entry for entry in (*sets, *others) if entry.quick or not quick]


def problem_of(name: str) -> Entry:
    """The problem of this name, or an error that lists all names."""
    if name not in PROBLEMS:
        raise UserError(f"problem must be one of {', '.join(PROBLEMS)}, got {name!r}.", USAGE)
    return PROBLEMS[name]
