"""Figures 3 and 4 at the full size, kept as small records that the documentation quotes.

python -m gradagrad_lab.figures.page figure3 --out FOLDER   trains what FOLDER lacks, writes docs/records/figure3.json
python -m gradagrad_lab.figures.page                        draws the pictures, writes the tables of docs/reproducing.md

Figure 3 takes half an hour on one core and Figure 4 a third of that. After a change of AutoGradaGrad's rule or defaults
only its runs are trained again, if FOLDER still holds the others: eleven minutes for Figure 3, seconds for Figure 4.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

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
SIGNS = (("o", "#d9622b"), ("s", "#b8860b"), ("^", "#8b6be8"), ("D", "#8b6be8"), ("x", pages.INK))
GAMMAS = (("o", "#d9622b"), ("s", "#b8860b"), ("^", "#35915a"), ("D", "#3f7fc4"))
ALT = {
    "figure3": "Points of training accuracy from the best tuned method on six data sets and in the mean",
    "figure4": "Held-out loss over ρ from four initial rates, beside tuned AdaGrad and AutoGradaGrad",
}
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


def _read(name: str) -> dict[str, Any]:
    return json.loads((pages.DOCS / "records" / f"{name}.json").read_text("utf-8"))


def _made(record: dict[str, Any], ours: bool) -> str:
    """When and from which commits our runs, or the others, were made."""
    return ", ".join(f"{one['date']} at commit {one['commit']}" for one in record["made"] if one["ours"] == ours)


def _differences(record: dict[str, Any]) -> tuple[list[str], dict[str, list[str]]]:
    """Figure 3: the data sets, and for each method its points from the best tuned one, their mean last."""
    first, second = record["tables"]
    wanted = {"GradaGrad, β = 0": (first, 6), "GradaGrad, β = 0.9": (first, 11), "AutoGradaGrad, y": (second, 7)}
    wanted |= {"AutoGradaGrad, x̄": (second, 8), "AutoGradaGrad, x̄, against averages of the tuned three": (second, 9)}
    # The means as the claims state them: those of rounded cells can differ in the last digit.
    stated = " ".join(record["claims"][place]["number"] for place in (0, 4, 5, 6))
    means = re.findall(r"[+−]\d+\.\d+(?= points)", stated)
    found = {
        words: [*(row[place] for row in table["rows"]), mean]
        for (words, (table, place)), mean in zip(wanted.items(), means, strict=True)
    }
    return [row[0].partition(" (")[0] for row in first["rows"]], found


def block(name: str) -> str:
    """A record as the page shows it: its picture, when it was made, and a table."""
    record = _read(name)
    made, ours = (_made(record, ours) for ours in (False, True))
    head = f"`{record['command']}`, run on {made}" + (f" (AutoGradaGrad on {ours})" if ours != made else "")
    outdated = record["rule of AutoGradaGrad"] != rule_of(OURS)
    head += "; AutoGradaGrad's rule has changed since:" if outdated else ":"
    shown = f"![{ALT[name]}](pictures/{name}.png)\n\n{head}\n\n"
    if name == "figure4":
        first = record["tables"][0]
        return f"{shown}{pages.table(first['columns'], first['rows'])}\n\n{record['summary']}"
    sets, found = _differences(record)
    return shown + pages.table(["", *sets, "mean"], [[words, *cells] for words, cells in found.items()])


@pages.styled
def draw() -> None:
    """The pictures of both figures at the full size, from their records."""
    sets, found = _differences(_read("figure3"))
    figure, panel = plt.subplots(figsize=(6.6, 5.0), layout="constrained")
    for (words, cells), (sign, shade) in zip(found.items(), SIGNS, strict=True):
        values = [float(cell.replace("−", "-")) for cell in cells]
        panel.plot(values, range(len(values)), sign, color=shade, markersize=9, fillstyle="none", mew=2, label=words)
    panel.axvline(0, color=pages.INK, linewidth=1)
    panel.axhline(len(sets) - 0.5, color=pages.INK, linewidth=0.5)
    panel.set(yticks=range(len(sets) + 1), yticklabels=[*sets, "mean"], ylim=(len(sets) + 0.5, -0.5))
    panel.set_xlabel("training accuracy, points from the best tuned method")
    figure.legend(loc="outside upper left", fontsize=11)
    pages.save(figure, pages.DOCS / "pictures" / "figure3.png")

    best, grid = _read("figure4")["tables"]
    ends = {row[0]: float(row[2]) for row in best["rows"]}
    figure, panel = plt.subplots(figsize=(6.6, 4.6), layout="constrained")
    rho: tuple[float, ...] = ()
    for place, (sign, shade) in zip(range(1, len(grid["columns"])), GAMMAS, strict=True):
        cells = [[float(number) for number in re.findall(r"\d\.\d+", row[place])] for row in grid["rows"]]
        rho, mean, low, high = zip(
            *((float(row[0]), *cell) for row, cell in zip(grid["rows"], cells, strict=True) if len(cell) == 3),
            strict=True,
        )
        shifted = [value * 1.06 ** (place - 2.5) for value in rho]
        panel.plot(shifted, mean, f"{sign}-", color=shade, fillstyle="none", mew=2, label=grid["columns"][place])
        panel.vlines(shifted, low, high, color=shade, linewidth=1.2)
    for name, dash, shade in (("AdaGrad, tuned", "--", pages.INK), ("AutoGradaGrad (ours), x̄", "-", SIGNS[2][1])):
        panel.axhline(ends[name], color=shade, linestyle=dash, label=name)
    panel.set(xscale="log", xlabel="ρ", ylabel="held-out log-loss", xticks=rho, xticklabels=[f"{one:g}" for one in rho])
    panel.minorticks_off()
    figure.legend(loc="outside upper left", ncols=3, fontsize=11)
    pages.save(figure, pages.DOCS / "pictures" / "figure4.png")


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
    draw()
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
