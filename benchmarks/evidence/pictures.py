"""The pictures of the page: transparent, in tones that can be read on white and on black."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.evidence.methods import METHODS, OURS, ROWS
from benchmarks.evidence.run import Records

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
INK = "#7f8790"
STYLE = {"font.size": 11, "axes.titlesize": 12, **dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor"), INK)}  # fmt: skip
LINES: dict[str, tuple[str, str, float]] = {
    "AdamW + cosine, tuned": ("#4c8fd6", "--", 1.6),
    "AdamW, default": ("#4c8fd6", "-", 1.6),
    "Schedule-Free AdamW, tuned": ("#3f9e5f", "--", 1.6),
    "Schedule-Free AdamW, default": ("#3f9e5f", "-", 1.6),
    "Prodigy, default": ("#b58416", "-", 1.6),
    "GradaGrad, as documented": ("#a067c0", "-", 1.6),
    "**AutoGradaGrad**, averaged": ("#e0475b", "-", 3.0),
}
SWEPT: dict[str, tuple[str, str, float, str]] = {
    "AdamW": ("AdamW", "-", 1.6, "#4c8fd6"),
    "AdamW, cosine": ("AdamW + cosine", "--", 1.6, "#4c8fd6"),
    "SGD, cosine": ("SGD + cosine", "--", 1.6, INK),
    "Schedule-Free AdamW": ("Schedule-Free AdamW", "-", 1.6, "#3f9e5f"),
    "Prodigy": ("Prodigy", "-", 1.6, "#b58416"),
    "Adagrad": ("Adagrad", "-", 1.6, "#a067c0"),
    OURS: ("AutoGradaGrad, lr varied", "-", 3.0, "#e0475b"),
    f"{OURS}, γ₀": ("AutoGradaGrad, γ₀ varied", ":", 3.0, "#e0475b"),
}


def _save(figure: Any, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110, transparent=True)
    plt.close(figure)


def curves(records: dict[str, Records]) -> None:
    """The test metric over steps, a panel for each workload: means over the seeds at seven points."""
    across = min(3, len(records))
    down = -(-len(records) // across)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(down, across, figsize=(4 * across, 3.1 * down + 0.8), squeeze=False)
        for panel in panels.flat[len(records) :]:
            panel.set_visible(False)
        shown: dict[str, Any] = {}
        for panel, own in zip(panels.flat, records.values(), strict=False):
            shown |= _panel(panel, own)
        order = [label for label in LINES if label in shown]
        names = [label.replace("*", "") for label in order]
        figure.legend([shown[label] for label in order], names, loc="lower center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0.7 / figure.get_figheight(), 1, 1))
        _save(figure, "evidence-curves")


def _panel(panel: Any, own: Records) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    classes, ends = own.workload.metric == "accuracy", list[float]()
    for row in (row for row in own.rows() if row.label in LINES):
        jobs = [own.final(row, seed) for seed in range(own.workload.seeds)]
        at = "averaged" if row.averaged else "last"
        seeds = [run["curve"][at] for job in jobs if job and (run := own.get(job)) and "curve" in run]
        if not seeds:
            continue
        steps = [point[0] for point in seeds[0]]
        means = [statistics.mean(seed[k][2 if classes else 1] for seed in seeds) for k in range(len(steps))]
        color, dash, width = LINES[row.label]
        means = [100 * mean for mean in means] if classes else means
        (shown[row.label],) = panel.plot(steps, means, dash, color=color, linewidth=width)
        ends += means[2:]
    panel.set_title(own.workload.title)
    panel.set_ylabel("test accuracy, %" if classes else "test loss")
    panel.set_xlabel("steps")
    if ends:  # all of what comes after a tenth of the run, but no more than a part of what happens before
        ends.sort()
        low, high = ends[len(ends) // 12 if classes else 0], ends[-1 if classes else -1 - len(ends) // 12]
        room = 0.06 * (high - low) or 0.1
        panel.set_ylim(low - room, high + room)
    panel.grid(alpha=0.25)
    return shown


def robustness(own: Records) -> None:
    """The final test accuracy over the learning rate that was given, from 1e-6 to 1."""
    with plt.rc_context(STYLE):
        figure, panel = plt.subplots(figsize=(8, 4.6))
        for method, (label, dash, width, color) in SWEPT.items():
            at = "averaged" if method.startswith(OURS) else "last"
            points: list[tuple[float, float]] = []
            for job in sorted(own.sweep(method), key=lambda job: job.value):
                if run := own.get(job):
                    points.append((job.value, 100 * run.get(at, {}).get("test", {}).get("accuracy", 0.1)))
            if points:
                panel.plot(*zip(*points, strict=True), dash, color=color, linewidth=width, label=label, zorder=width)
        panel.set_xscale("log")
        panel.set_ylim(50, 91)
        panel.set_xlabel("the learning rate given (γ₀ for the dotted line)")
        panel.set_ylabel("test accuracy after 5 epochs, %")
        panel.set_title(own.workload.title)
        panel.grid(alpha=0.25)
        panel.legend(frameon=False, loc="lower center", ncols=2)
        figure.tight_layout()
        _save(figure, "evidence-robustness")


assert {row.label for row in ROWS} >= set(LINES) and set(METHODS) >= set(SWEPT)  # noqa: PT018
