"""The suite's problems, and what each was used for before. Conclusions are drawn on those used for nothing.

A new problem is a `TrainingProblem` (name, title, kind, steps, batch, builder) and a line in `_OTHERS` with its role.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gradagrad_lab import data
from gradagrad_lab.data import keel, libsvm
from gradagrad_lab.errors import DATA, UserError, unknown
from gradagrad_lab.problems import convex, language, nets, tables
from gradagrad_lab.problems import keel as on_keel
from gradagrad_lab.problems.fresh import SECOND_HELD_OUT
from gradagrad_lab.problems.training import TrainingProblem

Role = Literal["development", "looked at", "held out"]
ROLE_MEANING = (
    "Development: rules and defaults were chosen on it. Looked at: results on it were seen before the rule had its "
    "final form. Held out: nobody has chosen anything on it; its size and number of steps were set before our method "
    "was run on it."
)


_CHOSEN_ON = (("glass", 16), ("vehicle", 16), ("usps", 128))


@dataclass(frozen=True)
class Entry:
    """A problem of the suite. ``quick``: part of the quick size; ``needs``: a LIBSVM data set that must be at hand,
    or a function of the data folder that says whether its data are."""

    problem: TrainingProblem
    role: Role
    quick: bool = False
    needs: str | Callable[[Path | None], bool] = ""

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def set_name(self) -> str:
        """The LIBSVM data set it reads; empty where it reads none."""
        return self.needs if isinstance(self.needs, str) else ""

    def at_hand(self, data_dir: Path | None) -> bool:
        if isinstance(self.needs, str):
            return not self.needs or libsvm.find(self.needs, data.folders(data_dir)) is not None
        return self.needs(data_dir)


_SMALL, _LARGE = (16, 1500), (128, 1000)  # batch and steps: the batch alone decides the number of steps
_SETS: list[Entry] = [
    Entry(convex.logistic(name, batch, steps), "development" if (name, batch) in _CHOSEN_ON else "looked at",
          quick=(name, batch) == ("glass", 16), needs=name)
    for name in ("glass", "vehicle", "vowel", "letter", "usps")
    for batch, steps in (_SMALL, _LARGE)
]  # fmt: skip
"""Logistic regression on the LIBSVM data sets at two batch sizes."""
_STAND_INS: list[Entry] = [
    Entry(convex.logistic(name, batch, steps), "looked at", quick=batch == 16)
    for name in ("iris", "digits")
    for batch, steps in (_SMALL, _LARGE)
]
"""For machines without LIBSVM data sets. Digits were used for the nets, so neither counts as held out."""
_OTHERS: list[Entry] = [
    Entry(convex.badly_scaled, "development"),
    Entry(convex.quadratic, "development"),
    Entry(nets.mlp, "development", quick=True),
    Entry(nets.deep_plain, "development"),
    Entry(nets.cnn, "looked at"),
    Entry(language.characters, "looked at"),
    Entry(tables.clicks, "looked at"),
    Entry(tables.factorisation, "development", quick=True),
    Entry(convex.logistic("breast_cancer", 16, 1500), "looked at", quick=True),
    Entry(convex.wine, "looked at"),
    Entry(convex.diabetes, "looked at"),
    Entry(convex.logistic("protein", 16, 1500), "looked at", needs="protein"),
    Entry(convex.hinge, "development"),
    Entry(nets.autoencoder, "looked at"),
    Entry(nets.recurrent, "looked at"),
    Entry(nets.coordinates, "looked at"),
    Entry(language.skipgram, "looked at"),
    *(
        Entry(
            problem,
            "held out",
            quick=problem in (on_keel.satimage, on_keel.twonorm, on_keel.ring),
            needs=keel.at_hand if "KEEL" in problem.describe else "",
        )
        for problem in SECOND_HELD_OUT
    ),
]
PROBLEMS: dict[str, Entry] = {entry.name: entry for entry in (*_SETS, *_STAND_INS, *_OTHERS)}


def problems_at_hand(data_dir: Path | None = None, *, quick: bool = False, on: str = "") -> list[Entry]:
    """What can be trained here: LIBSVM data sets that are on disk, bundled stand-ins where none is, and all others.

    ``on``: some of them, names or roles ("held-out") with commas between, whatever their size.
    """
    sets = [entry for entry in _SETS if entry.at_hand(data_dir)] or _STAND_INS
    others = [entry for entry in _OTHERS if entry.at_hand(data_dir)]
    if not on:
        return [entry for entry in (*sets, *others) if entry.quick or not quick]
    found: dict[str, Entry] = {}
    for word in words_of(on):
        own = {entry.name: entry for entry in (*sets, *others) if word in (entry.name, _role(entry))}
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
