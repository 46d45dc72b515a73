"""The experiments that `gradagrad reproduce` knows, in the order of the report."""

from __future__ import annotations

from gradagrad_lab.errors import USAGE, UserError
from gradagrad_lab.figures import figure1, figure2
from gradagrad_lab.figures.bound import study as bound
from gradagrad_lab.figures.figure3 import study as figure3
from gradagrad_lab.figures.figure4 import study as figure4
from gradagrad_lab.figures.suite import study as suite
from gradagrad_lab.runs.study import Figure

ALL = "all"
FIGURES: tuple[Figure, ...] = (suite, figure1, figure2, figure3, figure4, bound)
EXPERIMENTS = {figure.STUDY.name: figure for figure in FIGURES}


def chosen(name: str) -> list[Figure]:
    """The experiments a name selects."""
    if name == ALL:
        return list(FIGURES)
    if name not in EXPERIMENTS:
        raise UserError(f"experiment must be one of {', '.join(EXPERIMENTS)} or {ALL}, got {name!r}.", USAGE)
    return [EXPERIMENTS[name]]
