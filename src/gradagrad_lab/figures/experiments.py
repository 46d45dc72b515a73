"""The experiments that `gradagrad reproduce` knows, in the order of the report. A module is imported when it is run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gradagrad_lab.errors import unknown

if TYPE_CHECKING:
    from gradagrad_lab.study import Study

ALL = "all"
SHOWS = {
    "figure1": "what one step does to the learning rate",
    "figure2": "|x| from good and bad initial rates",
    "figure3": "logistic regression on six data sets against tuned baselines",
    "figure4": "DLRM with embedding tables: what ρ does to a bad γ₀",
    "bound": "Theorem 3: measured suboptimality against the bound, and against ours",
    "figure5": "ours: whether the upper bound on γ can be removed",
}


def study_of(name: str) -> Study:
    """The study of an experiment: ``STUDY`` of the module of that name, or of ``study`` in the folder of that name."""
    home = f"gradagrad_lab.figures.{name}"
    module = import_module(home)
    return (module if hasattr(module, "STUDY") else import_module(f"{home}.study")).STUDY


def chosen(name: str) -> list[str]:
    """The experiments that a name selects."""
    if name != ALL and name not in SHOWS:
        raise unknown("experiment", name, (*SHOWS, ALL))
    return list(SHOWS) if name == ALL else [name]
