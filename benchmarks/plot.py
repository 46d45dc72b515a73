"""The picture of a benchmark: ratios as bars, growth as lines. Reads the record, measures nothing."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

COLORS = {"ours": "#d1495b", "torch": "#30638e", "peers": "#8a8d91", "probe": "#edae49"}


def draw(report: dict[str, Any], path: Path) -> None:
    rows = report["results"]
    threads = max(row["threads"] for row in rows)
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = plt.subplots(2, 4, figsize=(20, 12), height_ratios=(2.2, 1), layout="constrained")
    for axis, name in zip(axes[0], names, strict=True):
        _bars(axis, name, [row for row in rows if row["workload"] == name and row["threads"] == threads])
    _lines(axes[1][0], report["scaling"], "size", "elements", "elements")
    _lines(axes[1][1], report["scaling"], "touched rows", "touched", "touched rows")
    _lines(axes[1][2], report["scaling"], "table size", "rows", "rows of the table, 4,096 touched")
    _state(axes[1][3], [row for row in rows if row["workload"] == names[0] and row["threads"] == threads])
    figure.suptitle(
        f"Time of one step, {threads} threads, torch {report['torch']}: median of interleaved rounds", fontsize=14
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _bars(axis: Any, name: str, rows: list[dict[str, Any]]) -> None:
    rows = sorted(rows, key=lambda row: row["ratio"], reverse=True)
    axis.barh(range(len(rows)), [row["ratio"] for row in rows], color=[COLORS[row["family"]] for row in rows])
    axis.set_yticks(range(len(rows)), [row["contender"] for row in rows], fontsize=8)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())
    low, high = min(row["ratio"] for row in rows), max(row["ratio"] for row in rows)
    axis.set_xlim(low / 1.5, high * 2.0)
    for i, row in enumerate(rows):
        axis.text(row["ratio"] * 1.04, i, f"{row['ratio']:.2f}", va="center", fontsize=8)
    reference = "Adagrad sparse" if name == "embedding table" else "Adam fused"
    axis.set_title(f"{name} ({rows[0]['elements']:,} elements)", fontsize=10)
    axis.set_xlabel(f"time relative to {reference}")


def _lines(axis: Any, rows: list[dict[str, Any]], workload: str, key: str, label: str) -> None:
    chosen = [row for row in rows if row["workload"] == workload]
    for name in dict.fromkeys(row["contender"] for row in chosen):
        own = [row for row in chosen if row["contender"] == name]
        style = {"color": COLORS["torch"], "linestyle": "--"} if own[0]["family"] == "torch" else {}
        axis.loglog(
            [r[key] for r in own],
            [1e3 * r["median_seconds"] for r in own],
            marker="o",
            markersize=3,
            label=name,
            **style,
        )
    axis.set_xlabel(label)
    axis.set_ylabel("ms per step")
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def _state(axis: Any, rows: list[dict[str, Any]]) -> None:
    rows = sorted(
        (row for row in rows if row["state_bytes"] is not None), key=lambda row: row["state_bytes"], reverse=True
    )
    axis.barh(range(len(rows)), [row["state_bytes"] for row in rows], color=[COLORS[row["family"]] for row in rows])
    axis.set_yticks(range(len(rows)), [row["contender"] for row in rows], fontsize=6)
    axis.set_xlabel("bytes of state per parameter")


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_suffix(".png"))
