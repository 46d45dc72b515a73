"""Tables, pictures and the page, all from the records."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.evidence.methods import METHODS, OURS, ROWS, SWEEPS, Row
from benchmarks.evidence.run import Job, Records, train
from benchmarks.evidence.workloads import WORKLOADS, Task, Workload

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
MARKS = re.compile(r"(<!-- evidence: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
T_95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776}  # Student's t for 95 %, by the number of seeds
AVERAGED = ROWS[-1]
OTHERS = [ROWS[0], *(row for row in ROWS if row.label in ("Schedule-Free AdamW, default", "Prodigy, default"))]
INK = "#7f8790"
COLORS = {"AdamW": "#4c8fd6", "SGD": INK, "Schedule-Free AdamW": "#3f9e5f", "Prodigy": "#b58416", "Adagrad": "#a067c0"}
COLORS |= {"GradaGrad": "#a067c0", OURS: "#e0475b"}
COLORED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
STYLE: Any = {"font.size": 11, **dict.fromkeys(COLORED, INK)}
DRAWN = ("AdamW + cosine, tuned", "AdamW, default", "Schedule-Free AdamW, tuned", "Schedule-Free AdamW, default",
         "Prodigy, default", "GradaGrad, as documented", AVERAGED.label)  # fmt: skip
QUICK = {"fashion-mlp": 300, "fashion-cnn": 40, "fashion-vit": 40, "gpt": 8}
QUICK_METHODS = ("AdamW", "Schedule-Free AdamW", "Prodigy", "GradaGrad", OURS)


def values(own: Records, row: Row, part: str, metric: str) -> dict[int, float]:
    """A number for each finished seed; infinity for a run that diverged."""
    runs = {job.seed: run for job in own.finals(row) if (run := own.get(job))}
    at = "averaged" if row.averaged else "last"
    return {seed: run.get(at, {}).get(part, {}).get(metric, math.inf) for seed, run in runs.items()}


def _cell(found: Collection[float], form: str = ".4f") -> str:
    """The mean and a 95 % interval."""
    if not found:
        return "missing"
    if lost := sum(not math.isfinite(value) for value in found):
        return f"diverged ({lost} of {len(found)})"
    mean = f"{statistics.mean(found):{form}}".replace("-", "−")
    if len(found) == 1:
        return f"{mean} (1 seed)"
    half = T_95[len(found)] * statistics.stdev(found) / len(found) ** 0.5
    return f"{mean} ± {half:{form.strip('+')}}" + f" ({len(found)} seeds)" * (len(found) < 3)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _made(own: Records) -> str:
    """Dates, commits and versions of a workload's records."""
    ours = {own.made(key)["commit"] for key in own.runs if key.startswith(OURS)}
    notes = [own.made(key) for key in own.runs]
    names = ("torch", "schedulefree", "prodigyopt")
    versions = sorted({f"{name} {note[name]}" for note in notes for name in names if name in note})
    dates, commits = (", ".join(sorted({note[what] for note in notes})) for what in ("date", "commit"))
    commits += f" (AutoGradaGrad: {', '.join(sorted(ours)) or 'none'})"
    return (
        f"Made on {dates} from {commits} with {', '.join(versions)}."
        if notes
        else "No runs are recorded yet: all rows are missing."
    )


def _older(own: Records, row: Row) -> str:
    """A remark on rows whose records were made with another rule of AutoGradaGrad."""
    return " (an older rule)" * any(own.outdated(job.key) for job in own.finals(row) if own.get(job))


def table(own: Records) -> str:
    """The table of one workload. A row without runs says so."""
    work, sizes = own.workload, {run["size"] for run in own.runs.values() if "size" in run}
    size = f"{max(sizes):,} trained parameters, " if sizes else ""
    lines = [f"### {work.title}", "", f"{size}{work.steps:,} steps, {work.seeds} seeds (± 95 %). {_made(own)}", ""]
    if not own.runs:
        return "\n".join(lines[:-1])
    accuracy = ["accuracy"] if work.metric == "accuracy" else []
    heads = ["method", "lr", *(["test accuracy, %"] if accuracy else []), "test loss", "training loss", "ms a step"]
    lines += [_line(heads), "|---" * len(heads) + "|"]
    for row in own.rows():
        value, done = own.value(row), [job.key for job in own.finals(row) if own.get(job)]
        cells = [row.label + _older(own, row)]
        cells.append("none" if row.method == OURS else "?" if value is None else f"{value:g}")
        right = [100 * value for value in values(own, row, "test", "accuracy").values()]
        cells += [_cell(right, ".2f")] * len(accuracy)
        cells += [_cell(values(own, row, part, "loss").values()) for part in ("test", "train")]
        speed = [own.runs[key]["ms"] for key in done if "ms" in own.runs[key]]
        lines.append(_line([*cells, f"{statistics.median(speed):.3g}" if speed else ""]))
    return "\n".join(lines)


def _gains(own: Records, other: Row) -> list[float]:
    """How much better AutoGradaGrad's average is than another row, in per cent of that row's test metric, by seed."""
    sign = 100 if own.workload.metric == "accuracy" else -100
    mine, theirs = (values(own, row, "test", own.workload.metric) for row in (AVERAGED, other))
    pairs = [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]
    return [sign * (x - y) / y for x, y in pairs if math.isfinite(x + y)]


def summary(records: Sequence[Records]) -> str:
    """AutoGradaGrad's average beside three others, worst first. Seeds are compared in pairs: they share batches."""
    rows = [(own, [_gains(own, other) for other in OTHERS]) for own in records]
    shown = sorted((row for row in rows if row[1][0]), key=lambda row: statistics.mean(row[1][0]))
    heads = ["", "metric", *(f"against {other.label}, %" for other in OTHERS)]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for own, gains in shown:
        cells = [_cell(gain, "+.2f") if row in own.rows() else "–" for row, gain in zip(OTHERS, gains, strict=True)]
        lines.append(_line([own.workload.title + _older(own, AVERAGED), own.workload.metric, *cells]))
    absent = [own.workload.title for own, gains in rows if not gains[0]]
    return "\n".join([*lines, "", f"Not trained yet: {'; '.join(absent)}." if absent else "All workloads are trained."])


def _style(method: str, dash: str) -> dict[str, Any]:
    name = method.partition(",")[0]
    return {"color": COLORS[name], "linestyle": dash, "lw": 3 if name == OURS else 1.6}


def _save(figure: Any, name: str) -> None:
    figure.savefig(PAGE.parent / "pictures" / f"{name}.png", dpi=110, transparent=True)
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
        order = [label for label in DRAWN if label in shown]
        names = [label.replace("*", "") for label in order]
        figure.legend([shown[label] for label in order], names, loc="lower center", ncols=4, frameon=False)
        figure.tight_layout(rect=(0, 0.7 / figure.get_figheight(), 1, 1))
        _save(figure, "evidence-curves")


def _panel(panel: Any, own: Records) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    classes, ends = own.workload.metric == "accuracy", list[float]()
    for row in (row for row in own.rows() if row.label in DRAWN):
        at = "averaged" if row.averaged else "last"
        seeds = [run["curve"][at] for job in own.finals(row) if (run := own.get(job)) and "curve" in run]
        points = list(zip(*seeds, strict=True))
        means = [statistics.mean(100 * own[2] if classes else own[1] for own in point) for point in points]
        if means:
            style = _style(row.method, "--" if row.tuned else "-")
            (shown[row.label],) = panel.plot([point[0][0] for point in points], means, **style)
            ends += means[2:]
    panel.set(
        title=own.workload.title + _older(own, AVERAGED),
        xlabel="steps",
        ylabel="test accuracy, %" if classes else "test loss",
    )
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
        figure, panel = plt.subplots(figsize=(8.6, 5))
        for method in SWEEPS:
            at = "averaged" if method.startswith(OURS) else "last"
            runs = {job.value: run for job in own.sweep(method) if (run := own.get(job))}
            accuracies = [100 * runs[x].get(at, {}).get("test", {}).get("accuracy", 0.1) for x in sorted(runs)]
            style = _style(method, "--" if "cosine" in method else ":" if "γ₀" in method else "-")
            label = {OURS: f"{OURS}, lr varied", f"{OURS}, γ₀": f"{OURS}, γ₀ varied"}.get(method, method)
            panel.plot(sorted(runs), accuracies, label=label, zorder=style["lw"], **style)
        panel.set(xscale="log", ylim=(50, 91), xlabel="learning rate given (dotted: γ₀)", title=own.workload.title)
        panel.set_ylabel("test accuracy after 5 epochs, %")
        panel.grid(alpha=0.25)
        figure.legend(loc="lower center", ncols=4, frameon=False, fontsize=10)
        figure.tight_layout(rect=(0, 0.13, 1, 1))
        _save(figure, "evidence-robustness")


def _page(text: str) -> str:
    """The page with every marked block written anew."""
    records = [Records(name) for name in WORKLOADS]
    blocks = {own.name: table(own) for own in records} | {"summary": summary(records)}
    return MARKS.sub(lambda found: f"{found[1]}\n{blocks[found[2]]}\n\n{found[3]}", text)


def write_page() -> None:
    """Writes the tables into the page and draws its pictures."""
    PAGE.write_text(_page(PAGE.read_text("utf-8")), "utf-8")
    curves([own for name in WORKLOADS if (own := Records(name)).runs])
    robustness(Records("fashion-mlp"))


def differences() -> str | None:
    """Says which command to run if the page differs from the records."""
    text = PAGE.read_text("utf-8")
    new = "python -m benchmarks.evidence --page writes it anew"
    return None if _page(text) == text else f"{PAGE.name} differs from the records: {new}."


def _short(work: Workload, steps: int, rows: int) -> Workload:
    """The same for a few steps, measured on a few rows."""

    def make(seed: int) -> Task:
        task = work.make(seed)
        cut = {
            part: (tuple(own[:rows] for own in inputs), names[:rows]) for part, (inputs, names) in task.fixed.items()
        }
        return dataclasses.replace(task, fixed=cut)

    return dataclasses.replace(work, make=make, steps=steps, tuning=steps, points=(1.0,))


def quick(plan: dict[str, int] | None = None, rows: int = 1_000) -> str:
    """A look at a few steps of some workloads with one seed. It supports no conclusion."""
    lines = [_line(["", *QUICK_METHODS]), "|---" * (len(QUICK_METHODS) + 1) + "|"]
    for name, steps in (plan or QUICK).items():
        work, cells = _short(WORKLOADS[name], steps, rows), list[str]()
        for method in QUICK_METHODS:
            found = train(work, Job(method, METHODS[method].default, 0, steps))
            test = found.get("averaged" if method == OURS else "last", {}).get("test", {})
            cells.append(f"{test[work.metric]:.3f}" if test else "diverged")
        lines.append(_line([f"{work.title}: test {work.metric} after {steps} steps", *cells]))
    return "\n".join(lines)
