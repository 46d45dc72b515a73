"""The content of a report: sentences with verdicts, tables, pictures and the settings to run it again.

Plain data, no HTML: an experiment fills these in, ``page.py`` renders them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Whose = Literal["paper", "proof", "ours"]
Fixed = Literal["before", "after"]
Verdict = Literal["holds", "holds in part", "does not hold", "not decidable at this size", "not tested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Table:
    """Cells are text, ready to print; columns whose cells are all numbers are right-aligned in the report."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""

    @classmethod
    def of(cls, title: str, rows: Sequence[dict[str, str]], note: str = "") -> "Table":
        """A table of rows, which all name the same cells."""
        return cls(title, list(rows[0]), [list(row.values()) for row in rows], note)

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"every row of table {self.title!r} must have {len(self.columns)} cells like its header, "
                    f"row {number} has {len(row)}."
                )


@dataclass(frozen=True)
class Claim:
    """One sentence, what was measured about it, and what follows.

    ``whose``: the paper's about an experiment, the paper's in a proof, or ours; counted separately. ``criterion``:
    what would make it hold; ``fixed``: whether that was decided before or after results were seen. ``number``: the one
    that decides, for the short list. ``table``: the numbers behind the evidence, in a few cells.
    """

    text: str
    evidence: str
    verdict: Verdict
    whose: Whose = "paper"
    criterion: str = ""
    fixed: Fixed = "before"
    number: str = ""
    table: Table | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            allowed = ", ".join(repr(verdict) for verdict in VERDICTS)
            raise ValueError(f"verdict must be one of {allowed}, got {self.verdict!r}.")


@dataclass(frozen=True)
class Panel:
    """One part of a picture: draws into matplotlib axes that are made for it."""

    draw: Callable[[Any], None]
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure in panels, which the page sets side by side as the screen allows; ``<out>/figures/<stem>.png`` and
    ``.svg`` show them on one sheet of ``columns``, ``<stem>.csv`` the numbers of every labelled line.

    ``size``: width and height of a panel in inches. The legend is that of the first panel.
    """

    title: str
    stem: str
    caption: str
    alt: str
    panels: Sequence[Panel] = ()
    columns: int = 3
    size: tuple[float, float] = (2.9, 2.3)

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError(
                f"alt of picture {self.title!r} must describe it in words for readers who cannot see it, got ''."
            )


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
    sources: list[Source] = field(default_factory=list)
    paper: str = ""
    number: str = ""
    missing: str = ""


@dataclass(frozen=True)
class About:
    """What a figure says about itself. ``paper``: what the paper shows; ``summary``: what came out here, in a sentence;
    ``number``: the one that matters; ``missing``: what is not reproduced here, and the command that would; ``title``
    replaces the study's."""

    intro: str
    title: str = ""
    summary: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    paper: str = ""
    number: str = ""
    missing: str = ""
