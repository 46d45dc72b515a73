"""The record of `benchmarks.speed`: ``python -m benchmarks.plot docs/records/speed.json [--write]`` prints its tables.

With --write the tables and the picture go into docs/performance.md.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from benchmarks.record import rows_of

Row = dict[str, Any]
WORKLOAD, TABLE = "ResNet-50-like list", "embedding table"
COLOURS = {"ours": "#d1495b", "torch": "#3d7fb5", "peers": "#8a8d91"}
FAMILIES = {"ours": "gradagrad", "torch": "torch, fused", "peers": "other parameter-free methods"}
INK = "#808080"
"""Legible on white and on black, because the picture has no background."""
BARS = {
    "Prodigy": "Prodigy",
    "D-Adaptation Adam": "D-Adaptation Adam",
    "Schedule-Free AdamW": "Schedule-Free AdamW",
    "auto": "AutoGradaGrad",
    "element": "GradaGrad, element",
    "group": "GradaGrad, group",
    "Adam fused": "Adam",
    "Adagrad fused": "Adagrad",
}
FULL_NAMES = {
    "element": "GradaGrad, element",
    "element, momentum": "GradaGrad, element, momentum 0.9",
    "element, bf16 state": "GradaGrad, element, bf16 state",
    "row": "GradaGrad, row",
    "tensor": "GradaGrad, tensor",
    "group": "GradaGrad, group",
    "auto": "AutoGradaGrad",
    "auto, bf16 state": "AutoGradaGrad, bf16 state",
    "element, foreach": "GradaGrad, element, without the kernel",
    "element, lazy": "GradaGrad, element, lazy",
    "row, lazy": "GradaGrad, row, lazy",
}
SHOWN = (*FULL_NAMES, "Adagrad fused", "SGD fused, momentum", "SparseAdam", "Schedule-Free AdamW", "Prodigy")
SHOWN += ("D-Adaptation Adam", "DoG")


def draw(report: dict[str, Any], path: Path) -> None:
    """One panel with eight bars."""
    rows = rows_of(report, "results")
    threads = max(row["threads"] for row in rows)
    found = {row["contender"]: row for row in rows if row["workload"] == WORKLOAD and row["threads"] == threads}
    chosen = [found[name] for name in BARS if name in found]
    inked = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    with plt.rc_context({"font.size": 15, **dict.fromkeys(inked, INK)}):
        figure, axis = plt.subplots(figsize=(8, 6), layout="constrained")
        axis.barh(
            [BARS[row["contender"]] for row in chosen],
            [row["ratio"] for row in chosen],
            color=[COLOURS[row["family"]] for row in chosen],
        )
        for place, row in enumerate(chosen):
            axis.text(row["ratio"] + 0.06, place, f"{row['ratio']:.2f}", va="center")
        axis.axvline(1.0, color=INK, linewidth=1, linestyle="--")
        axis.set_xlim(0, 1.13 * max(row["ratio"] for row in chosen))
        axis.set_xlabel("time of one step, fused Adam = 1")
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["bottom", "left"]].set_color(INK)
        handles = [Patch(color=COLOURS[family], label=label) for family, label in FAMILIES.items()]
        axis.legend(handles=handles, loc="upper right", frameon=False)
        figure.savefig(path, dpi=100, transparent=True)
        plt.close(figure)


def table(rows: list[Row], names: list[str], threads: int) -> str:
    """One line for each contender: the ratio on each workload, and the bytes of state."""
    head = [f"{name} ({next(r['elements'] for r in rows if r['workload'] == name):,} elements)" for name in names]
    lines = [
        f"| threads = {threads} | {' | '.join(head)} | state, bytes per parameter |",
        "|---" * (len(names) + 2) + "|",
    ]
    for contender in dict.fromkeys(row["contender"] for row in rows):
        own = {row["workload"]: row for row in rows if row["contender"] == contender and row["workload"] in names}
        if contender in SHOWN and own:
            ratios = [f"{own[name]['ratio']:.2f}" if name in own else "" for name in names]
            size = max(row["state_bytes"] or 0.0 for row in own.values())
            lines.append(f"| {FULL_NAMES.get(contender, contender)} | {' | '.join(ratios)} | {size:.1f} |")
    return "\n".join(lines)


def text(report: dict[str, Any]) -> str:
    """The tables of docs/performance.md, and for README.md the range over all dense workloads."""
    rows = rows_of(report, "results")
    parts = [f"Commit {report['commit']}, {report['date']}, torch {report['torch']}, {report['cores']} cores."]
    for threads in sorted({row["threads"] for row in rows}):
        own = [row for row in rows if row["threads"] == threads]
        dense = [name for name in dict.fromkeys(row["workload"] for row in own) if name != TABLE]
        parts += [table(own, names, threads) for names in (dense, [TABLE]) if {r["workload"] for r in own} & {*names}]
    lines = ["| | smallest and largest ratio to fused Adam |", "|---|---|"]
    for contender in dict.fromkeys(row["contender"] for row in rows):
        ratios = [row["ratio"] for row in rows if row["contender"] == contender and row["workload"] != TABLE]
        if contender in SHOWN and ratios:
            lines.append(f"| {FULL_NAMES.get(contender, contender)} | {min(ratios):.2f} to {max(ratios):.2f} |")
    return "\n\n".join([*parts, "\n".join(lines)])


def write(report: dict[str, Any], docs: Path) -> None:
    """Puts the picture and the tables into docs/performance.md."""
    draw(report, docs / "pictures" / "speed.png")
    page = docs / "performance.md"
    before, _, rest = page.read_text().partition("<!-- speed -->")
    picture = "![Time of one step of eight optimizers, fused Adam = 1](pictures/speed.png)"
    block = f"<!-- speed -->\n\n{picture}\n\n{text(report)}\n\n<!-- end -->"
    page.write_text(before + block + rest.partition("<!-- end -->")[2])


if __name__ == "__main__":
    source = json.loads(Path(sys.argv[1]).read_text())
    if sys.argv[2:] == ["--write"]:
        write(source, Path(__file__).resolve().parents[1] / "docs")
    print(text(source))
