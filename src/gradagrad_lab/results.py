"""What an experiment hands to the report: sentences with verdicts, tables, pictures and the settings to run it again.

Plain data, no drawing and no HTML: an experiment fills these in, ``report.py`` renders them.
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

Verdict = Literal["holds", "holds in part", "does not hold", "not tested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, what was measured about it, and what follows."""

    text: str
    evidence: str
    verdict: Verdict

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            allowed = ", ".join(repr(verdict) for verdict in VERDICTS)
            raise ValueError(f"verdict must be one of {allowed}, got {self.verdict!r}.")


@dataclass(frozen=True)
class Table:
    """Cells are text, ready to print; columns whose cells are all numbers are aligned as numbers by the report."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"every row of table {self.title!r} must have {len(self.columns)} cells like its header, "
                    f"row {number} has {len(row)}."
                )


@dataclass(frozen=True)
class Picture:
    """A drawn figure: ``<out>/figures/<stem>.png`` and ``.svg``, and a narrow layout for phones where one was saved."""

    title: str
    stem: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(f"alt of picture {self.title!r} must describe it in words for who cannot see it, got ''.")


@dataclass(frozen=True)
class Source:
    """Where an experiment's data came from: file or generator, origin, and any caveat (reconstructed, partial …)."""

    name: str
    origin: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One experiment of the report."""

    key: str
    title: str
    intro: str
    claims: list[Claim] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    summary: str = ""
    """One line for the top of the page; without it the first claim's evidence stands in."""
    sources: list[Source] = field(default_factory=list)
