"""The experiments that `gradagrad reproduce` knows, in the order of the report."""

from gradagrad_lab.errors import unknown
from gradagrad_lab.figures import figure1, figure2
from gradagrad_lab.figures.bound import study as bound
from gradagrad_lab.figures.figure3 import study as figure3
from gradagrad_lab.figures.figure4 import study as figure4
from gradagrad_lab.figures.suite import study as suite

ALL = "all"
STUDIES = {module.STUDY.name: module.STUDY for module in (figure1, figure2, figure3, figure4, bound, suite)}


def chosen(name: str) -> list[str]:
    """The experiments that a name selects."""
    if name != ALL and name not in STUDIES:
        raise unknown("experiment", name, (*STUDIES, ALL))
    return list(STUDIES) if name == ALL else [name]
