"""Figures 3 and 4 at the full size, kept as small records that the documentation quotes.

python -m gradagrad_lab.figures.page figure3 --out FOLDER   trains what FOLDER lacks, writes docs/records/figure3.json
python -m gradagrad_lab.figures.page                        writes the tables of docs/reproducing.md anew

Figure 3 takes half an hour on one core and Figure 4 a third of that. After a change of AutoGradaGrad's rule or defaults
only its runs are trained again, if FOLDER still holds the others: eleven minutes for Figure 3, seconds for Figure 4.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from gradagrad_lab import pages
from gradagrad_lab.context import Context, Size
from gradagrad_lab.data import data_folder
from gradagrad_lab.figures.experiments import study_of
from gradagrad_lab.methods import rule_of
from gradagrad_lab.records import write_atomically
from gradagrad_lab.report.page import command
from gradagrad_lab.study import conduct

PAGE = pages.DOCS / "reproducing.md"
OURS = "autogradagrad"
KEPT = {"figure3": (0, 1), "figure4": (0, 1)}
"""Which of a figure's tables are recorded."""


def write_record(name: str, context: Context) -> None:
    """Writes what the figure says at this size, with the dates, commits and versions of the runs behind it."""
    section = conduct(study_of(name), context)
    made = {
        (
            run.made["date"],
            run.made["commit"][:7] + run.made["commit"][40:],
            run.made["torch"],
            run.config["optimizer"] == OURS,
        )
        for run in context.records.used()
    }
    content: dict[str, Any] = {
        "made": [dict(zip(("date", "commit", "torch", "ours"), one, strict=True)) for one in sorted(made)],
        "rule of AutoGradaGrad": rule_of(OURS),
        "command": command([section], context).partition(" --data-dir")[0].partition(" --out")[0],
        "summary": section.summary,
        "claims": [
            {key: getattr(one, key) for key in ("text", "verdict", "number", "evidence")} for one in section.claims
        ],
        "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in section.tables],
    }
    content["tables"] = [content["tables"][place] for place in KEPT[name]]
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_atomically(pages.DOCS / "records" / f"{name}.json", text.encode())


def _made(record: dict[str, Any], ours: bool) -> str:
    """When and from which commits our runs, or the others, were made."""
    return ", ".join(f"{one['date']} at commit {one['commit']}" for one in record["made"] if one["ours"] == ours)


def block(name: str) -> str:
    """A record as the page shows it: when it was made, and a table."""
    record = json.loads((pages.DOCS / "records" / f"{name}.json").read_text("utf-8"))
    made, ours = (_made(record, ours) for ours in (False, True))
    head = f"`{record['command']}`, run on {made}" + (f" (AutoGradaGrad on {ours})" if ours != made else "")
    outdated = record["rule of AutoGradaGrad"] != rule_of(OURS)
    head += "; AutoGradaGrad's rule has changed since:" if outdated else ":"
    first, second = record["tables"]
    if name == "figure4":
        return f"{head}\n\n{pages.table(first['columns'], first['rows'])}\n\n{record['summary']}"
    columns = ["", *(row[0].partition(" (")[0] for row in first["rows"]), "mean"]
    rows: list[list[str]] = []
    wanted = {"GradaGrad, β = 0": (first, 6), "GradaGrad, β = 0.9": (first, 11), "AutoGradaGrad, y": (second, 7)}
    wanted |= {"AutoGradaGrad, x̄": (second, 8), "AutoGradaGrad, x̄, against averages of the tuned three": (second, 9)}
    # The means as the claims state them: those of rounded cells can differ in the last digit.
    stated = " ".join(record["claims"][place]["number"] for place in (0, 4, 5, 6))
    means = re.findall(r"[+−]\d+\.\d+(?= points)", stated)
    for (words, (table, place)), mean in zip(wanted.items(), means, strict=True):
        rows.append([words, *(row[place] for row in table["rows"]), mean])
    return f"{head}\n\n{pages.table(columns, rows)}"


def page(text: str) -> str:
    """The page with every marked block written anew."""
    return pages.filled(text, "record", block)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="?", choices=tuple(KEPT))
    parser.add_argument("--out", type=Path, default=Path("gradagrad-results"))
    parser.add_argument("--rows", type=int, help="fewer rows for Figure 4")
    options = parser.parse_args()
    if options.figure:
        write_record(options.figure, Context(options.out, data_folder(None), Size.FULL, rows=options.rows))
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
