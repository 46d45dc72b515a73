"""The page a person opens: one HTML file that needs no network and no other file.

Sections come in as plain data (`gradagrad_lab.report.content`). Every picture becomes inline SVG in the page's own
colours. The numbers of every picture and table are written beside the page as CSV.
"""

import base64
import csv
import hashlib
import io
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from gradagrad_lab.report import style
from gradagrad_lab.report.content import VERDICTS, Claim, Picture, Section, Table, Verdict, Whose
from gradagrad_lab.report.machine import describe
from gradagrad_lab.runs.context import Context, Size
from gradagrad_lab.runs.records import write_atomically

_NUMBER = re.compile(r"[-+−±]?[\d.,]+(e[-+−]?\d+)?( ?%| ?×| ?s)?( ?± ?[\d.,]+(e[-+−]?\d+)?)?|[-–—]|", re.IGNORECASE)
_OWNERS: dict[Whose, str] = {"paper": "The paper’s sentences", "ours": "Our own"}


@dataclass(frozen=True)
class Look:
    """How a verdict looks: a sign, a colour and the words for several of them."""

    sign: str
    css: str
    several: str


LOOKS: dict[Verdict, Look] = {
    "holds": Look("✓", "holds", "hold"),
    "holds in part": Look("◐", "part", "hold in part"),
    "does not hold": Look("✕", "fails", "do not hold"),
    "not tested": Look("–", "untested", "not tested"),
}


def write_report(sections: Sequence[Section], context: Context) -> Path:
    """Write ``<out>/report.html`` in one stroke, the pictures and the numbers beside it, and return its path."""
    page, beside = _render(sections, context)
    for name, content in beside.items():
        write_atomically(context.out / name, content, wait=False)
    path = context.out / "report.html"
    write_atomically(path, page.encode())
    return path


def render(sections: Sequence[Section], context: Context) -> str:
    """The page as text."""
    return _render(sections, context)[0]


def _render(sections: Sequence[Section], context: Context) -> tuple[str, dict[str, bytes]]:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["keep"] = _keep_together
    templates = files("gradagrad_lab.report") / "templates"
    template = environment.from_string(_text(templates / "report.html.j2"))
    palette = (
        f":root {{ {style.css_variables()} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {style.css_variables(dark=True)} }} }}\n"
    )
    claims = [claim for section in sections for claim in section.claims]
    machine = describe()
    beside: dict[str, bytes] = {}
    page = template.render(
        css=Markup("\n".join((palette, *(_text(templates / name) for name in ("report.css", "play/play.css"))))),
        play=_play(templates / "play"),
        lead=_lead(sections, context, machine),
        summary=f"{_count(len(claims), 'claim')} checked in {_count(len(sections), 'experiment')}.",
        counts=[
            (words, _tally((claim for claim in claims if claim.whose == whose), keep_zero=True))
            for whose, words in _OWNERS.items()
            if any(claim.whose == whose for claim in claims)
        ],
        answers=[(_anchor(section), section.answers) for section in sections if section.answers],
        sections=[_section(section, context, beside) for section in sections],
        command=command(sections, context),
        machine=machine.items(),
        sources=_sources(sections),
    )
    return page, beside


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def _play(folder: Traversable) -> dict[str, Markup]:
    """The page to play with, as the documentation has it. The browser runs no script but the one of this hash."""
    script = "".join(_text(folder / name) for name in ("rules.js", "runs.js", "play.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "html": Markup(_text(folder / "play.html")),
        "script": Markup(script),
        "hash": Markup(f"sha256-{digest}"),
    }


def command(sections: Sequence[Section], context: Context) -> str:
    """What to type to get this page again."""
    words = ["gradagrad", "reproduce"]
    if len(sections) == 1:  # the command takes one experiment or all
        words.append(sections[0].key)
    words += ["--size", "paper"] if context.size is Size.PAPER else [f"--{context.size}"]
    given = {name: getattr(context, name) for name in ("seeds", "first_seed", "peers", "softmax", "rows", "on")}
    for name, value in {**given, "data_dir": context.data_dir}.items():
        if value is not None and value is not False and value != "":
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
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
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{minutes / 60 / 24:.1f} days"


def _lead(sections: Sequence[Section], context: Context, machine: dict[str, str]) -> str:
    total = duration(sum(section.seconds for section in sections))
    now = datetime.now().astimezone()
    return (
        f"The {context.size} size, {total} of computing (finished runs are not repeated) on {machine['Processor']}, "
        f"{machine['System']}. "
        f"Written {now.day} {now:%B %Y, %H:%M}."
    )


def _anchor(section: Section) -> str:
    return re.sub(r"[^a-z0-9]+", "-", section.key.lower()).strip("-") or "section"


def _section(section: Section, context: Context, beside: dict[str, bytes]) -> dict[str, Any]:
    summary = section.summary or (section.claims[0].evidence if section.claims else "")
    anchor = _anchor(section)
    tables = [
        _table(table, _csv(beside, f"{anchor}-table-{number}", [table.columns, *table.rows]))
        for number, table in enumerate(section.tables, start=1)
    ]
    return {
        "anchor": anchor,
        "title": section.title,
        "short": section.title.partition(":")[0],
        "summary": summary,
        "time": f"Took {duration(section.seconds)}.",
        "paragraphs": [part.strip() for part in section.intro.split("\n\n") if part.strip()],
        "tally": _tally(section.claims),
        "claims": [{"claim": claim, "look": LOOKS[claim.verdict]} for claim in section.claims],
        "pictures": [_picture(picture, beside) for picture in section.pictures],
        "tables": tables,
        "settings": section.settings.items(),
        "command": command([section], context).partition(" --out")[0],
    }


def _tally(claims: Iterable[Claim], *, keep_zero: bool = False) -> list[tuple[Verdict, Look, int]]:
    verdicts = [claim.verdict for claim in claims]
    counted: list[tuple[Verdict, Look, int]] = [
        (verdict, LOOKS[verdict], verdicts.count(verdict)) for verdict in VERDICTS
    ]
    return [entry for entry in counted if keep_zero or entry[2]]


def _table(table: Table, link: str = "") -> dict[str, Any]:
    numeric = [all(_NUMBER.fullmatch(row[place].strip()) for row in table.rows) for place in range(len(table.columns))]
    return {
        "title": table.title,
        "columns": table.columns,
        "rows": table.rows,
        "note": table.note,
        "numeric": [bool(table.rows) and is_number for is_number in numeric],
        "link": link,
    }


def _sources(sections: Sequence[Section]) -> dict[str, Any] | None:
    rows = [[s.name, s.origin, s.note, section.title] for section in sections for s in section.sources]
    return _table(Table("Data", ["data", "origin", "note", "used in"], rows)) if rows else None


def _picture(picture: Picture, beside: dict[str, bytes]) -> dict[str, Any]:
    drawn = style.inline(picture)
    sheet = style.sheet(picture)
    for kind in ("png", "svg"):
        beside[f"figures/{picture.stem}.{kind}"] = style.render(sheet, kind)
    numbers = [[panel, line, repr(x), repr(y)] for panel, line, x, y in drawn.numbers]
    return {
        "title": picture.title.rstrip("."),
        "caption": picture.caption,
        "alt": picture.alt,
        "panels": [(title, Markup(svg)) for title, svg in drawn.panels],
        "legend": [(Markup(sample), words) for sample, words in drawn.legend],
        "width": round(96 * picture.size[0]),
        "link": _csv(beside, picture.stem, [["panel", "line", "x", "y"], *numbers]),
        "image": f"figures/{picture.stem}.png",
    }


def _csv(beside: dict[str, bytes], stem: str, rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    beside[f"data/{stem}.csv"] = text.getvalue().encode()
    return f"data/{stem}.csv"


def _keep_together(text: str) -> Markup:
    """No line ends inside "γ₀ = 1" or "0.4 ± 0.1"; text in backticks is code."""
    kept = str(escape(re.sub(r" ([=±]) ", "\u00a0\\1\u00a0", text)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", kept))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
