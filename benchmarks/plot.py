"""The picture of a benchmark: ratios as bars, growth as lines. Reads the record, measures nothing."""

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
    rows, grown = rows_of(report, "results"), rows_of(report, "scaling")
    threads = max((row["threads"] for row in rows), default=0)
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = plt.subplots(2, 4, figsize=(24, 14), height_ratios=(2, 1), layout="constrained")
    for axis in axes.flat[len(names) : 4]:
        axis.set_visible(False)
    for axis, name in zip(axes[0], names, strict=False):
        _bars(axis, name, [row for row in rows if row["workload"] == name])
    _lines(axes[1][0], grown, "size", "elements", "elements of one tensor", "elements")
    _lines(axes[1][1], grown, "touched rows", "touched", "touched rows", "touched")
    _lines(axes[1][2], grown, "table size", "rows", "rows of the table, 4,096 touched", "touched")
    _state(axes[1][3], [row for row in rows if names and row["workload"] == names[0] and row["threads"] == threads])
    figure.suptitle(
        f"Time of one step, torch {report['torch']}, {report['cores']} cores: medians of interleaved rounds. "
        f"Dark bars: threads = {threads}" + (", pale: 1" if any(row["threads"] < threads for row in rows) else ""),
        fontsize=15,
    )
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _bars(axis: Any, name: str, rows: list[Row]) -> None:
    """One line per contender, a bar per number of threads, sorted by the largest number."""
    threads = sorted({row["threads"] for row in rows}, reverse=True)
    by_thread = [{row["contender"]: row for row in rows if row["threads"] == n} for n in threads]
    order = sorted(by_thread[0].values(), key=lambda row: row["ratio"], reverse=True)
    height = 0.8 / len(threads)
    for k, own in enumerate(by_thread):
        places = [i + (len(threads) - 1 - 2 * k) * height / 2 for i in range(len(order))]
        ratios = [own[row["contender"]]["ratio"] if row["contender"] in own else 0.0 for row in order]
        axis.barh(places, ratios, height, color=[COLORS[row["family"]] for row in order], alpha=1.0 if k == 0 else 0.4)
        for place, ratio in zip(places, ratios, strict=True):
            axis.text(ratio * 1.05, place, f"{ratio:.2f}", va="center", fontsize=8 if k == 0 else 6)
    axis.set_yticks(range(len(order)), [row["contender"] for row in order], fontsize=9)
    axis.set_ylim(-0.6, len(order) - 0.4)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlim(min(row["ratio"] for row in rows) / 1.5, max(row["ratio"] for row in rows) * 2.2)
    reference = "Adagrad sparse" if name == "embedding table" else "Adam fused"
    axis.set_title(f"{name} ({rows[0]['elements']:,} elements)", fontsize=11)
    axis.set_xlabel(f"time relative to {reference}")


def _lines(axis: Any, rows: list[Row], workload: str, key: str, label: str, unit: str) -> None:
    """Nanoseconds per element or touched row, so that what grows as it should is a level line."""
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
        axis.legend(fontsize=9)
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(axis="y", which="both", labelsize=8)
    axis.grid(alpha=0.3, which="both")


def _state(axis: Any, rows: list[Row]) -> None:
    rows = sorted(
        (row for row in rows if row["state_bytes"] is not None), key=lambda row: row["state_bytes"], reverse=True
    )
    axis.barh(range(len(rows)), [row["state_bytes"] for row in rows], color=[COLORS[row["family"]] for row in rows])
    axis.set_yticks(range(len(rows)), [row["contender"] for row in rows], fontsize=7)
    axis.set_xlabel("bytes of state per parameter")


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_suffix(".png"))
