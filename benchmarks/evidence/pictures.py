"""The pictures of the page: transparent, in tones that can be read on white and on black."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.evidence.methods import OURS
from benchmarks.evidence.run import Records

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
INK, BLUE, GREEN, GOLD, VIOLET, RED = "#7f8790", "#4c8fd6", "#3f9e5f", "#b58416", "#a067c0", "#e0475b"
COLORED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
STYLE: Any = {"font.size": 11, **dict.fromkeys(COLORED, INK)}
ROWS = {
    "AdamW + cosine, tuned": (BLUE, "--", 1.6),
    "AdamW, default": (BLUE, "-", 1.6),
    "Schedule-Free AdamW, tuned": (GREEN, "--", 1.6),
    "Schedule-Free AdamW, default": (GREEN, "-", 1.6),
    "Prodigy, default": (GOLD, "-", 1.6),
    "GradaGrad, as documented": (VIOLET, "-", 1.6),
    "**AutoGradaGrad**, averaged": (RED, "-", 3.0),
}
SWEEPS = {
    "AdamW": (BLUE, "-", 1.6),
    "AdamW, cosine": (BLUE, "--", 1.6),
    "SGD, cosine": (INK, "--", 1.6),
    "Schedule-Free AdamW": (GREEN, "-", 1.6),
    "Prodigy": (GOLD, "-", 1.6),
    "Adagrad": (VIOLET, "-", 1.6),
    OURS: (RED, "-", 3.0),
    f"{OURS}, γ₀": (RED, ":", 3.0),
}


def _save(figure: Any, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.png", dpi=110, transparent=True)
    plt.close(figure)


def curves(records: list[Records]) -> None:
    """The test metric over steps, a panel for each workload: means over the seeds."""
    across = min(3, len(records))
    down = -(-len(records) // across)
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(down, across, figsize=(4 * across, 3.1 * down + 0.8), squeeze=False)
        for panel in panels.flat[len(records) :]:
            panel.set_visible(False)
        shown: dict[str, Any] = {}
        for panel, own in zip(panels.flat, records, strict=False):
            shown |= _panel(panel, own)
        order = [label for label in ROWS if label in shown]
        names = [label.replace("*", "") for label in order]
        figure.legend([shown[label] for label in order], names, loc="lower center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0.7 / figure.get_figheight(), 1, 1))
        _save(figure, "evidence-curves")


def _panel(panel: Any, own: Records) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    classes, ends = own.workload.metric == "accuracy", list[float]()
    for row in (row for row in own.rows() if row.label in ROWS):
        at = "averaged" if row.averaged else "last"
        seeds = [run["curve"][at] for job in own.finals(row) if (run := own.get(job)) and "curve" in run]
        points = list(zip(*seeds, strict=True))
        means = [statistics.mean(100 * own[2] if classes else own[1] for own in point) for point in points]
        if means:
            color, dash, width = ROWS[row.label]
            (shown[row.label],) = panel.plot([point[0][0] for point in points], means, dash, color=color, lw=width)
            ends += means[2:]
    panel.set(title=own.workload.title, xlabel="steps", ylabel="test accuracy, %" if classes else "test loss")
    if ends:  # a method that is far behind is cut off, so that the others can be told apart
        ends.sort()
        cut = len(ends) // 12
        low, high = (ends[cut], ends[-1]) if classes else (ends[0], ends[-1 - cut])
        panel.set_ylim(low - 0.06 * (high - low) - 1e-3, high + 0.06 * (high - low) + 1e-3)
    panel.grid(alpha=0.25)
    return shown


def robustness(own: Records) -> None:
    """The final test accuracy over the learning rate given, one seed."""
    with plt.rc_context(STYLE):
        figure, panel = plt.subplots(figsize=(8, 4.6))
        for method, (color, dash, width) in SWEEPS.items():
            at = "averaged" if method.startswith(OURS) else "last"
            runs = {job.value: run for job in own.sweep(method) if (run := own.get(job))}
            accuracies = [100 * runs[x].get(at, {}).get("test", {}).get("accuracy", 0.1) for x in sorted(runs)]
            label = method + " varied" * (dash == ":") + " (lr varied)" * (method == OURS)
            panel.plot(sorted(runs), accuracies, dash, color=color, lw=width, label=label, zorder=width)
        panel.set(xscale="log", ylim=(50, 91), xlabel="learning rate given (dotted: γ₀)", title=own.workload.title)
        panel.set_ylabel("test accuracy after 5 epochs, %")
        panel.grid(alpha=0.25)
        panel.legend(frameon=False, loc="lower center", ncols=2)
        figure.tight_layout()
        _save(figure, "evidence-robustness")
