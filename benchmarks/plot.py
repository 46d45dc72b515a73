"""The record of `benchmarks.speed`: ``python -m benchmarks.plot docs/records/speed.json [--write]`` prints its tables.

With --write the tables and the picture go into docs/performance.md. A cell is the range over thread counts.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from gradagrad_lab import pages
from gradagrad_lab.records import RunFile

Row = dict[str, Any]
LARGE, TABLE = ("one tensor", "ResNet-50-like list"), "embedding table"
COLOURS = {"ours": "#d1495b", "torch": "#3d7fb5", "peers": "#8a8d91"}
FAMILIES = {"ours": "gradagrad", "torch": "torch, fused", "peers": "other parameter-free"}
BARS = ("Prodigy", "D-Adaptation Adam", "Schedule-Free AdamW", "AutoGradaGrad", "GradaGrad, element")
BARS += ("GradaGrad, group", "Adam fused", "Adagrad fused")
ELEMENT = ("element", "element, momentum 0.9", "element, bf16 state", "element, without the kernel", "element, lazy")
SHOWN = tuple(f"GradaGrad, {name}" for name in (*ELEMENT, "row", "row, lazy", "tensor", "group"))
SHOWN += ("AutoGradaGrad", "AutoGradaGrad, bf16 state", "Adagrad fused", "SGD fused, momentum", "SparseAdam")
SHOWN += ("Schedule-Free AdamW", "Prodigy", "D-Adaptation Adam", "DoG")


def rows_of(record: RunFile) -> list[Row]:
    return [row for table in record.runs.values() for row in table["rows"]]


def ratios(rows: list[Row], contender: str, *workloads: str) -> list[float]:
    return [row["ratio"] for row in rows if row["contender"] == contender and row["workload"] in workloads]


def span(values: list[float]) -> str:
    """The smallest and the largest value, or one where both read the same."""
    digits = 2 if max(values, default=0.0) < 10 else 0
    return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values)))) if values else ""


@pages.styled
def draw(record: RunFile, path: Path) -> None:
    """One panel with eight bars: solid up to the smallest ratio on large tensors, pale up to the largest."""
    rows = rows_of(record)
    family = {row["contender"]: row["family"] for row in rows}
    found = {name: values for name in BARS if (values := ratios(rows, name, *LARGE))}
    colours = [COLOURS[family[name]] for name in found]
    names = [name.removesuffix(" fused") for name in found]
    figure, axis = plt.subplots(figsize=(5, 4.4), layout="constrained")
    axis.barh(names, [max(values) for values in found.values()], color=colours, alpha=0.45)
    axis.barh(names, [min(values) for values in found.values()], color=colours)
    for place, values in enumerate(found.values()):
        axis.text(max(1.0, *values), place, f" {span(values)}", va="center")
    axis.axvline(1.0, color=pages.INK, linewidth=1, linestyle="--")
    largest = max((max(values) for values in found.values()), default=1.0)
    axis.set(xlim=(0, 1.5 * largest), xlabel="time of one step, fused Adam = 1")
    axis.grid(visible=False)
    handles = [Patch(color=COLOURS[family], label=label) for family, label in FAMILIES.items()]
    figure.legend(handles=handles, loc="outside upper left", ncols=2)
    pages.save(figure, path)


def table(rows: list[Row], names: list[str]) -> str:
    """A line for each contender: its ratios on each workload, and the bytes of state."""
    heads = [f"{name}, {next(r['elements'] for r in rows if r['workload'] == name):,} elements" for name in names]
    lines: list[list[str]] = []
    for contender in dict.fromkeys(row["contender"] for row in rows):
        sizes = [r["state_bytes"] for r in rows if r["contender"] == contender and r["workload"] in names]
        if contender in SHOWN and sizes:
            cells = [span(ratios(rows, contender, name)) for name in names]
            lines.append([contender, *cells, " to ".join(dict.fromkeys(f"{s:.2g}" for s in (min(sizes), max(sizes))))])
    return pages.table(["", *heads, "state, bytes per parameter"], lines)


def text(record: RunFile) -> str:
    """The tables of docs/performance.md."""
    rows = rows_of(record)
    loads = [run["load"] for run in record.runs.values()]
    threads = " and ".join(map(str, sorted({row["threads"] for row in rows})))
    kinds = list(dict.fromkeys(row["workload"] for row in rows))
    made = [f"on {note['date']} at commit {note['commit'][:7]} (torch {note['torch']})" for note in record.made]
    when = " and ".join(dict.fromkeys(made))
    parts = [
        f"Measured {when} on {record.made[0]['cores']} cores, with {threads} threads; a cell is the range over both. "
        f"The load of the machine was {span(loads)} before each measurement (0 is idle).",
        table(rows, [name for name in kinds if name != TABLE]),
    ]
    if TABLE in kinds:
        parts += ["Sparse gradients of an embedding table, sparse Adagrad = 1:", table(rows, [TABLE])]
    return "\n\n".join(parts)


def write(record: RunFile) -> None:
    """Puts the picture and the tables into docs/performance.md."""
    draw(record, pages.DOCS / "pictures" / "speed.png")
    page = pages.DOCS / "performance.md"
    picture = "![Time of one step of eight optimizers, fused Adam = 1](pictures/speed.png)"
    note = "*On large tensors. A bar is solid up to the smallest ratio and pale up to the largest.*"
    page.write_text(pages.filled(page.read_text(), "speed", lambda _: "\n\n".join([picture, note, text(record)])))


if __name__ == "__main__":
    source = RunFile(Path(sys.argv[1]))
    if sys.argv[2:] == ["--write"]:
        write(source)
    print(text(source))
