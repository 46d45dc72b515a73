"""Draws the record of `benchmarks.speed`: ratios as bars, growth as lines."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

from benchmarks.record import rows_of

COLORS = {"ours": "#d1495b", "torch": "#30638e", "peers": "#8a8d91", "probe": "#edae49"}
LINES = ["#d1495b", "#e08e45", "#7b4b94", "#3a7d44"]

Row = dict[str, Any]


def draw(report: dict[str, Any], path: Path) -> None:
    """Draws two pictures: bars, and lines over the size."""
    rows = rows_of(report, "results")
    threads = max((row["threads"] for row in rows), default=0)
    title = f"Time of one step, torch {report['torch']}, {report['cores']} cores: medians of interleaved rounds.\n"
    title += f"Dark bars: threads = {threads}" + (", pale: 1" if any(row["threads"] < threads for row in rows) else "")
    with plt.rc_context({"font.size": 12}):
        _draw_bars(rows, title, path)
        _draw_growth(rows_of(report, "scaling"), [row for row in rows if row["threads"] == threads], path)


def _draw_bars(rows: list[Row], title: str, path: Path) -> None:
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = plt.subplots(2, 2, figsize=(12, 15), layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        _bars(axis, name, [row for row in rows if row["workload"] == name])
    figure.suptitle(title)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw_growth(grown: list[Row], rows: list[Row], path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(12, 10), layout="constrained")
    _lines(axes[0][0], grown, "size", "elements", "elements of one tensor", "elements")
    _lines(axes[0][1], grown, "touched rows", "touched", "touched rows", "touched")
    _lines(axes[1][0], grown, "table size", "rows", "rows of the table, 4,096 touched", "touched")
    _state(axes[1][1], [row for row in rows if row["workload"] == rows[0]["workload"]])
    figure.savefig(growth_path(path), dpi=100)
    plt.close(figure)


def growth_path(path: Path) -> Path:
    """The path of the second picture."""
    return path.with_stem(f"{path.stem}-growth")


def _bars(axis: Any, name: str, rows: list[Row]) -> None:
    """Draws a bar per contender and number of threads, sorted by the ratio at the largest number."""
    threads = sorted({row["threads"] for row in rows}, reverse=True)
    by_thread = [{row["contender"]: row for row in rows if row["threads"] == n} for n in threads]
    order = sorted(by_thread[0].values(), key=lambda row: row["ratio"], reverse=True)
    height = 0.8 / len(threads)
    for k, own in enumerate(by_thread):
        places = [i + (len(threads) - 1 - 2 * k) * height / 2 for i in range(len(order))]
        ratios = [own[row["contender"]]["ratio"] if row["contender"] in own else 0.0 for row in order]
        axis.barh(places, ratios, height, color=[COLORS[row["family"]] for row in order], alpha=1.0 if k == 0 else 0.4)
        for place, ratio in zip(places, ratios, strict=True):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # keeps the number legible over the line at 1
            axis.text(ratio * 1.05, place, f"{ratio:.2f}", va="center", fontsize=10 if k == 0 else 8, bbox=box)
    axis.set_yticks(range(len(order)), [row["contender"] for row in order], fontsize=11)
    axis.set_ylim(-0.6, len(order) - 0.4)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlim(min(row["ratio"] for row in rows) / 1.5, max(row["ratio"] for row in rows) * 2.2)
    reference = "Adagrad sparse" if name == "embedding table" else "Adam fused"
    axis.set_title(f"{name} ({rows[0]['elements']:,} elements)", fontsize=13, loc="right")
    axis.set_xlabel(f"time relative to {reference}")


def _lines(axis: Any, rows: list[Row], workload: str, key: str, label: str, unit: str) -> None:
    """Draws nanoseconds per element or touched row, so linear growth is a level line."""
    chosen = [row for row in rows if row["workload"] == workload]
    colors = iter(LINES)
    for name in dict.fromkeys(row["contender"] for row in chosen):
        own = sorted((row for row in chosen if row["contender"] == name), key=lambda row: row[key])
        family = own[0]["family"]
        color = next(colors, "black") if family == "ours" else COLORS[family]
        costs = [1e9 * row["median_seconds"] / row[unit] for row in own]
        style = "-" if family == "ours" else "--"
        axis.loglog([row[key] for row in own], costs, style, color=color, marker="o", markersize=4, label=name)
    axis.set_xlabel(label)
    axis.set_ylabel("ns per element" if unit == "elements" else "ns per touched row")
    if chosen:
        axis.legend(fontsize=11)
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(axis="y", which="both", labelsize=10)
    axis.grid(alpha=0.3, which="both")


def _state(axis: Any, rows: list[Row]) -> None:
    rows = sorted(
        (row for row in rows if row["state_bytes"] is not None), key=lambda row: row["state_bytes"], reverse=True
    )
    axis.barh(range(len(rows)), [row["state_bytes"] for row in rows], color=[COLORS[row["family"]] for row in rows])
    axis.set_yticks(range(len(rows)), [row["contender"] for row in rows], fontsize=10)
    axis.set_xlabel("bytes of state per parameter")


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_suffix(".png"))
