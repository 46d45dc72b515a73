"""The record of `benchmarks.speed`: ``python -m benchmarks.plot docs/records/speed.json [--write]`` prints its tables.

With --write the tables and the picture go into docs/performance.md.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from benchmarks import pages
from benchmarks.record import RunFile

Row = dict[str, Any]
WORKLOAD, TABLE = "ResNet-50-like list", "embedding table"
COLOURS = {"ours": "#d1495b", "torch": "#3d7fb5", "peers": "#8a8d91"}
FAMILIES = {"ours": "gradagrad", "torch": "torch, fused", "peers": "other parameter-free methods"}
BARS = (
    "Prodigy",
    "D-Adaptation Adam",
    "Schedule-Free AdamW",
    "AutoGradaGrad",
    "GradaGrad, element",
    "GradaGrad, group",
)
BARS += ("Adam fused", "Adagrad fused")
ELEMENT = ("element", "element, momentum 0.9", "element, bf16 state", "element, without the kernel", "element, lazy")
SHOWN = tuple(f"GradaGrad, {name}" for name in (*ELEMENT, "row", "row, lazy", "tensor", "group"))
SHOWN += ("AutoGradaGrad", "AutoGradaGrad, bf16 state", "Adagrad fused", "SGD fused, momentum", "SparseAdam")
SHOWN += ("Schedule-Free AdamW", "Prodigy", "D-Adaptation Adam", "DoG")


def rows_of(record: RunFile) -> list[Row]:
    return [row for table in record.runs.values() for row in table["rows"]]


@pages.styled
def draw(record: RunFile, path: Path) -> None:
    """One panel with eight bars."""
    rows = rows_of(record)
    threads = max(row["threads"] for row in rows)
    found = {row["contender"]: row for row in rows if row["workload"] == WORKLOAD and row["threads"] == threads}
    chosen = [found[name] for name in BARS if name in found]
    figure, axis = plt.subplots(figsize=(8, 6), layout="constrained")
    axis.barh(
        [row["contender"].removesuffix(" fused") for row in chosen],
        [row["ratio"] for row in chosen],
        color=[COLOURS[row["family"]] for row in chosen],
    )
    for place, row in enumerate(chosen):
        axis.text(row["ratio"] + 0.06, place, f"{row['ratio']:.2f}", va="center")
    axis.axvline(1.0, color=pages.INK, linewidth=1, linestyle="--")
    axis.set(
        xlim=(0, 1.13 * max((row["ratio"] for row in chosen), default=1)), xlabel="time of one step, fused Adam = 1"
    )
    axis.grid(visible=False)
    handles = [Patch(color=COLOURS[family], label=label) for family, label in FAMILIES.items()]
    axis.legend(handles=handles, loc="upper right")
    pages.save(figure, path)


def table(rows: list[Row], names: list[str], threads: int) -> str:
    """One line for each contender: the ratio on each workload, and the bytes of state."""
    heads = [f"{name} ({next(r['elements'] for r in rows if r['workload'] == name):,} elements)" for name in names]
    lines: list[list[str]] = []
    for contender in dict.fromkeys(row["contender"] for row in rows):
        own = {row["workload"]: row for row in rows if row["contender"] == contender and row["workload"] in names}
        if contender in SHOWN and own:
            ratios = [f"{own[name]['ratio']:.2f}" if name in own else "" for name in names]
            size = max(row["state_bytes"] for row in own.values())
            lines.append([contender, *ratios, f"{size:.1f}"])
    return pages.table([f"threads = {threads}", *heads, "state, bytes per parameter"], lines)


def text(record: RunFile) -> str:
    """The tables of docs/performance.md, and for README.md the range over all dense workloads."""
    rows = rows_of(record)
    parts = [f"Made with {record.made_with()}."]
    for threads in sorted({row["threads"] for row in rows}):
        own = [row for row in rows if row["threads"] == threads]
        dense = [name for name in dict.fromkeys(row["workload"] for row in own) if name != TABLE]
        parts += [table(own, names, threads) for names in (dense, [TABLE]) if {r["workload"] for r in own} & {*names}]
    lines: list[list[str]] = []
    for contender in dict.fromkeys(row["contender"] for row in rows):
        ratios = [row["ratio"] for row in rows if row["contender"] == contender and row["workload"] != TABLE]
        if contender in SHOWN and ratios:
            lines.append([contender, f"{min(ratios):.2f} to {max(ratios):.2f}"])
    return "\n\n".join([*parts, pages.table(["", "smallest and largest ratio to fused Adam"], lines)])


def write(record: RunFile) -> None:
    """Puts the picture and the tables into docs/performance.md."""
    draw(record, pages.DOCS / "pictures" / "speed.png")
    page = pages.DOCS / "performance.md"
    picture = "![Time of one step of eight optimizers, fused Adam = 1](pictures/speed.png)"
    page.write_text(pages.filled(page.read_text(), "speed", lambda _: f"{picture}\n\n{text(record)}"))


if __name__ == "__main__":
    source = RunFile(Path(sys.argv[1]))
    if sys.argv[2:] == ["--write"]:
        write(source)
    print(text(source))
