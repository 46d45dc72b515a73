"""The page a person opens: one HTML file that needs no network, no script and no other file.

Sections come in as plain data (`gradagrad_lab.results`), pictures from ``<out>/figures``. A picture that was drawn in
our style is shown as its dark twin on a dark screen, and in its narrow layout, where it has one, on a phone.
"""

import base64
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from gradagrad_lab import style
from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.machine import describe
from gradagrad_lab.records import write_atomically
from gradagrad_lab.results import VERDICTS, Claim, Picture, Section, Table, Verdict

# Beyond this many bytes a vector picture costs a phone more than it gives; the PNG is embedded instead.
LARGEST_SVG = 1_500_000

_NUMBER = re.compile(r"[-+−±]?[\d.,]+(e[-+−]?\d+)?( ?%| ?×| ?s)?( ?± ?[\d.,]+(e[-+−]?\d+)?)?|[-–—]|", re.IGNORECASE)


@dataclass(frozen=True)
class Look:
    """A verdict is told by a word, a sign and a colour, in that order of importance."""

    sign: str
    css: str
    several: str


LOOKS: dict[Verdict, Look] = {
    "holds": Look("✓", "holds", "hold"),
    "holds in part": Look("◐", "part", "hold in part"),
    "does not hold": Look("✕", "fails", "do not hold"),
    "not tested": Look("–", "untested", "not tested"),
}


class ReportContext(Protocol):
    """What the report reads of a `gradagrad_lab.context.Context`."""

    @property
    def out(self) -> Path: ...
    @property
    def data_dir(self) -> Path | None: ...
    @property
    def quick(self) -> bool: ...
    @property
    def seeds(self) -> int | None: ...
    @property
    def first_seed(self) -> int | None: ...
    @property
    def peers(self) -> bool: ...


def write_report(sections: Sequence[Section], context: ReportContext) -> Path:
    """Write ``<out>/report.html`` in one stroke and return its path."""
    path = context.out / "report.html"
    write_atomically(path, render(sections, context).encode())
    return path


def render(sections: Sequence[Section], context: ReportContext) -> str:
    """The page as text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["keep"] = _keep_together
    templates = files("gradagrad_lab") / "templates"
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    claims = [claim for section in sections for claim in section.claims]
    machine = describe()
    return template.render(
        css=Markup((templates / "report.css").read_text(encoding="utf-8")),
        lead=_lead(sections, context, machine),
        summary=f"{_count(len(claims), 'claim')} checked in {_count(len(sections), 'experiment')}.",
        counts=_tally(claims, keep_zero=True),
        sections=[_section(section, context) for section in sections],
        command=command(sections, context),
        machine=machine.items(),
        sources=_sources(sections),
    )


def command(sections: Sequence[Section], context: ReportContext) -> str:
    """What to type to get this page again."""
    words = ["gradagrad", "reproduce"]
    if len(sections) == 1:  # the command takes one experiment or all
        words.append(sections[0].key)
    words.append("--quick" if context.quick else "--full")
    if context.seeds is not None:
        words += ["--seeds", str(context.seeds)]
    if context.first_seed is not None:
        words += ["--first-seed", str(context.first_seed)]
    if context.peers:
        words.append("--peers")
    if context.data_dir is not None:
        words += ["--data-dir", str(context.data_dir)]
    return shlex.join([*words, "--out", str(context.out)])


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 0.95:
        return "under a second"
    if round(seconds) < 90:
        return _count(round(seconds), "second")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else _count(minutes, "minute")
    return f"{minutes // 60} h {minutes % 60} min"


def _lead(sections: Sequence[Section], context: ReportContext, machine: dict[str, str]) -> str:
    size = "quick" if context.quick else "full"
    total = duration(sum(section.seconds for section in sections))
    now = datetime.now().astimezone()
    return (
        f"The {size} size, {total} of computing on {machine['Processor']}, {machine['System']}. "
        f"Written {now.day} {now:%B %Y, %H:%M}."
    )


def _section(section: Section, context: ReportContext) -> dict[str, Any]:
    summary = section.summary or (section.claims[0].evidence if section.claims else "")
    return {
        "anchor": re.sub(r"[^a-z0-9]+", "-", section.key.lower()).strip("-") or "section",
        "title": section.title,
        "summary": summary,
        "time": f"Took {duration(section.seconds)}.",
        "paragraphs": [part.strip() for part in section.intro.split("\n\n") if part.strip()],
        "tally": _tally(section.claims),
        "claims": [
            {"text": claim.text, "evidence": claim.evidence, "verdict": claim.verdict, "look": LOOKS[claim.verdict]}
            for claim in section.claims
        ],
        "pictures": [_picture(picture, context.out / "figures") for picture in section.pictures],
        "tables": [_table(table) for table in section.tables],
        "settings": section.settings.items(),
    }


def _tally(claims: Iterable[Claim], *, keep_zero: bool = False) -> list[tuple[Verdict, Look, int]]:
    verdicts = [claim.verdict for claim in claims]
    counted: list[tuple[Verdict, Look, int]] = [
        (verdict, LOOKS[verdict], verdicts.count(verdict)) for verdict in VERDICTS
    ]
    return [entry for entry in counted if keep_zero or entry[2]]


def _table(table: Table) -> dict[str, Any]:
    numeric = [all(_NUMBER.fullmatch(row[place].strip()) for row in table.rows) for place in range(len(table.columns))]
    return {
        "title": table.title,
        "columns": table.columns,
        "rows": table.rows,
        "note": table.note,
        "numeric": [bool(table.rows) and is_number for is_number in numeric],
    }


def _sources(sections: Sequence[Section]) -> dict[str, Any] | None:
    rows = [[s.name, s.origin, s.note, section.title] for section in sections for s in section.sources]
    return _table(Table("Data", ["data", "origin", "note", "used in"], rows)) if rows else None


def _picture(picture: Picture, folder: Path) -> dict[str, str]:
    shown = {"title": picture.title.rstrip("."), "caption": picture.caption, "alt": picture.alt}
    wide = _drawing(folder / f"{picture.stem}.svg")
    narrow = _drawing(folder / f"{picture.stem}-narrow.svg")
    if wide is None:
        path = folder / f"{picture.stem}.png"
        if not path.exists():
            raise UserError(f"The picture {path} is missing; run the same command again to draw it.", OUTPUT)
        png = path.read_bytes()
        return shown | {"wide_light": _embedded(png, "png"), "wide_dark": "", "narrow_light": "", "narrow_dark": ""}
    return shown | {
        "wide_light": _embedded(wide.encode(), "svg+xml"),
        "wide_dark": _embedded(style.darken(wide).encode(), "svg+xml"),
        "narrow_light": _embedded(narrow.encode(), "svg+xml") if narrow else "",
        "narrow_dark": _embedded(style.darken(narrow).encode(), "svg+xml") if narrow else "",
    }


def _drawing(path: Path) -> str | None:
    if not path.exists() or path.stat().st_size > LARGEST_SVG:
        return None
    return path.read_text(encoding="utf-8")


def _embedded(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _keep_together(text: str) -> str:
    """No line ends inside "γ₀ = 1" or "0.4 ± 0.1"."""
    return re.sub(r" ([=±]) ", "\u00a0\\1\u00a0", text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
