"""The report page: one HTML file that needs no network and no other file.

Sections come in as plain data (`gradagrad_lab.report.content`). Every picture becomes inline SVG in the page's own
colours. The numbers of every picture and table are written beside the page as CSV.
"""

import base64
import csv
import hashlib
import io
import json
import platform
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from gradagrad_lab.context import Context, Size, usable_cores
from gradagrad_lab.methods import rule_of
from gradagrad_lab.records import git_hash, versions, write_atomically
from gradagrad_lab.report import style
from gradagrad_lab.report.content import VERDICTS, Claim, Picture, Section, Table, Verdict, Whose
from gradagrad_lab.study import count

_NUMBER = re.compile(r"[-+−±]?[\d.,]+(e[-+−]?\d+)?( ?%| ?×| ?s)?( ?± ?[\d.,]+(e[-+−]?\d+)?)?|[-–—]|", re.IGNORECASE)
_OWNERS: dict[Whose, str] = {"paper": "The paper’s experiments", "proof": "The paper’s proofs", "ours": "Our own"}
RECORDS = Path(__file__).resolve().parents[3] / "docs" / "records"
"""What the figures said at the full size; absent where the package is installed without its documentation."""


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
    "not decidable at this size": Look("?", "untested", "are not decidable at this size"),
    "not tested": Look("–", "untested", "not tested"),
}


def write_report(sections: Sequence[Section], context: Context) -> Path:
    """Writes the page, with the pictures and the numbers beside it, and returns its path."""
    page, beside = _render(sections, context)
    for file, content in beside.items():
        write_atomically(context.out / file, content, wait=False)
    path = context.out / "report.html"
    write_atomically(path, page.encode())
    return path


def render(sections: Sequence[Section], context: Context) -> str:
    """The page as text."""
    return _render(sections, context)[0]


def _render(sections: Sequence[Section], context: Context) -> tuple[str, dict[str, bytes]]:
    """The page and what is written beside it."""
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
        quick=context.quick,
        heading=_heading(sections, claims),
        missing="".join(section.missing for section in sections),
        counts=[
            (words, _tally(claim for claim in claims if claim.whose == whose))
            for whose, words in _OWNERS.items()
            if any(claim.whose == whose for claim in claims)
        ],
        sections=[_section(section, context, beside) for section in sections],
        command=command(sections, context),
        machine=machine.items(),
        sources=_sources(sections),
    )
    return page, beside


def _heading(sections: Sequence[Section], claims: Sequence[Claim]) -> str:
    """A page that judges nothing about the paper is named after what it shows."""
    if any(claim.whose != "ours" for claim in claims) or not sections:
        return "How far the paper’s claims hold on this machine"
    return sections[0].title


def overall(claims: Sequence[Claim]) -> Verdict:
    """The verdict of a section on the paper's claims, or on ours if it has none of the paper's."""
    own: list[Verdict] = [claim.verdict for claim in claims if claim.whose != "ours"] or [
        claim.verdict for claim in claims
    ]
    decided: set[Verdict] = {verdict for verdict in own if verdict in VERDICTS[:3]}
    if not decided:
        return own[0] if own else "not tested"
    return decided.pop() if len(decided) == 1 else "holds in part"


def recorded(section: Section, context: Context) -> tuple[str, dict[str, str]]:
    """Beside a quick run: the date of the recorded full size, and its number for each claim."""
    path = RECORDS / f"{section.key}.json"
    if not (context.quick and section.claims and path.is_file()):
        return "", {}
    record = json.loads(path.read_text("utf-8"))
    ours = {True: " (an older AutoGradaGrad)", False: ""}[record["rule of AutoGradaGrad"] != rule_of("autogradagrad")]
    found = {one["text"]: one["number"] + ours * ("AutoGradaGrad" in one["text"]) for one in record["claims"]}
    verdicts = {one["text"]: f"{LOOKS[one['verdict']].sign} {found[one['text']]}" for one in record["claims"]}
    return max(run["date"] for run in record["made"]), verdicts


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def _play(folder: Traversable) -> dict[str, Markup]:
    """The page to play with, as the documentation has it. The browser runs no script but the one of this hash."""
    script = "".join(_text(folder / name) for name in ("rules.js", "runs.js", "play.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"html": Markup(_text(folder / "play.html")), "script": Markup(script), "hash": Markup(f"sha256-{digest}")}


def command(sections: Sequence[Section], context: Context) -> str:
    """The command that makes this page again."""
    words = ["gradagrad", "reproduce"]
    if len(sections) == 1:  # the command takes one experiment or all
        words.append(sections[0].key)
    words += ["--size", "paper"] if context.size is Size.PAPER else [f"--{context.size}"]
    given: dict[str, Any] = {name: getattr(context, name) for name in ("seeds", "first_seed", "softmax", "rows", "on")}
    given |= {"only": ",".join(context.only), "data_dir": context.data_dir}
    for name, value in given.items():
        if value is not None and value is not False and value != "":
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    for name, values in {"gamma0": context.gamma0, "rho": context.rho, "data": context.files}.items():
        words += [word for value in values for word in (f"--{name}", f"{value:g}" if name != "data" else str(value))]
    return shlex.join([*words, "--out", str(context.out)])


def duration(seconds: float) -> str:
    """A duration in words."""
    if seconds < 0.95:
        return "under a second"
    if round(seconds) < 90:
        return count(round(seconds), "second")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else count(minutes, "minute")
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{minutes / 60 / 24:.1f} days"


def _lead(sections: Sequence[Section], context: Context, machine: dict[str, str]) -> str:
    total = duration(sum(section.seconds for section in sections))
    now = datetime.now().astimezone()
    return (
        ("" if context.quick else f"The {context.size} size. ")
        + f"{total[0].upper()}{total[1:]} of computing (finished runs are not repeated) on {machine['Processor']}, "
        f"{machine['System']}. "
        f"Written {now.day} {now:%B %Y, %H:%M}."
    )


def describe() -> dict[str, str]:
    """The machine and the versions that produced a result: name → value, the most important first."""
    cpu = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.*)", cpu.read_text("utf-8")) if cpu.exists() else None
    processor = named[1] if named else platform.processor() or platform.machine()
    facts = {"Processor": f"{' '.join(processor.split())}, {count(usable_cores(), 'core')}"}
    facts["System"] = f"{platform.system()} {platform.machine()}"
    facts |= {"Python" if name == "python" else name: value for name, value in versions().items()}
    facts |= {name: version(name) for name in ("scipy", "matplotlib")} | {"Commit": git_hash()}
    return {name: value for name, value in facts.items() if value}


def _anchor(section: Section) -> str:
    return re.sub(r"[^a-z0-9]+", "-", section.key.lower()).strip("-") or "section"


def _glance(section: Section) -> dict[str, Any]:
    """A section's line of the table at the top."""
    return {
        "title": section.title,
        "short": section.title.partition(":")[0],
        "paper": section.paper,
        "summary": section.summary or (section.claims[0].evidence if section.claims else ""),
        "number": section.number,
        "verdict": overall(section.claims),
        "look": LOOKS[overall(section.claims)],
        "judged": bool(section.claims),
        "recorded": "",
    }


def _section(section: Section, context: Context, beside: dict[str, bytes]) -> dict[str, Any]:
    anchor = _anchor(section)
    date, full = recorded(section, context)
    headline = next((full.get(claim.text, "") for claim in section.claims if claim.number == section.number), "")
    tables = [
        _table(table, _csv(beside, f"{anchor}-table-{number}", [table.columns, *table.rows]))
        for number, table in enumerate(section.tables, start=1)
    ]
    return {
        **_glance(section),
        "recorded": f"full size, {date}: {headline}" if headline else "",
        "date": date,
        "anchor": anchor,
        "time": f"Took {duration(section.seconds)}.",
        "paragraphs": [part.strip() for part in section.intro.split("\n\n") if part.strip()],
        "claims": [
            {
                "claim": claim,
                "look": LOOKS[claim.verdict],
                "full": full.get(claim.text, ""),
                "table": claim.table and _table(claim.table),
            }
            for claim in section.claims
        ],
        "pictures": [_picture(picture, beside) for picture in section.pictures],
        "tables": tables,
        "settings": section.settings.items(),
        "command": command([section], context).partition(" --out")[0],
    }


def _tally(claims: Iterable[Claim]) -> list[tuple[Verdict, Look, int]]:
    verdicts = [claim.verdict for claim in claims]
    return [(verdict, LOOKS[verdict], verdicts.count(verdict)) for verdict in VERDICTS if verdict in verdicts]


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
    # The table at the top shows the first panel again, by its id.
    (title, first), *others = drawn.panels
    box = re.search(r'viewBox="([^"]*)"', first)
    named = first.replace("<svg ", f'<svg id="{picture.stem}-panel" ', 1)
    return {
        "thumbnail": (f"{picture.stem}-panel", box[1] if box else ""),
        "title": picture.title.rstrip("."),
        "caption": picture.caption,
        "alt": picture.alt,
        "panels": [(words, Markup(svg)) for words, svg in ((title, named), *others)],
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
