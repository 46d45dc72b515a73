"""The experiments that `gradagrad reproduce` knows, in the order of the report."""

from gradagrad_lab.errors import USAGE, UserError
from gradagrad_lab.figures import figure1, figure2
from gradagrad_lab.figures.bound import study as bound
from gradagrad_lab.figures.figure3 import study as figure3
from gradagrad_lab.figures.figure4 import study as figure4
from gradagrad_lab.figures.suite import study as suite

ALL = "all"
STUDIES = {module.STUDY.name: module.STUDY for module in (suite, figure1, figure2, figure3, figure4, bound)}


def chosen(name: str) -> list[str]:
    """The experiments that a name selects."""
    if name != ALL and name not in STUDIES:
        raise UserError(f"experiment must be one of {', '.join(STUDIES)} or {ALL}, got {name!r}.", USAGE)
    return list(STUDIES) if name == ALL else [name]
