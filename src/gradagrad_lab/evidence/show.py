"""Tables, pictures and the page, all from the records."""

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence
from typing import Any

import matplotlib.pyplot as plt

from gradagrad_lab import pages
from gradagrad_lab.evidence.methods import AVERAGED, COMPARED, FIRST_SCREEN, METHODS, OURS, ROWS, SWEEPS, Row
from gradagrad_lab.evidence.run import FEW, Job, Records, half_width, train
from gradagrad_lab.evidence.workloads import WORKLOADS

PAGE = pages.DOCS / "benchmarks.md"
COLORS = {"AdamW": "#3f7fc4", "Schedule-Free AdamW": "#35915a", "Prodigy": "#a8780f", "AdaGrad": "#9a62bb"}
COLORS |= {"SGD": pages.INK, "GradaGrad": "#9a62bb", OURS: "#e0475b"}
DRAWN = (AVERAGED, Row("AdamW"), *COMPARED)
SECONDARY = [row for row in ROWS if row.method in ("SGD", "SGD, cosine", "Prodigy, cosine")] + [ROWS[1]]
QUICK = {"fashion-mlp": 300, "fashion-cnn": 40, "fashion-vit": 40, "gpt": 8}
QUICK_METHODS = ("AdamW", "Schedule-Free AdamW", "Prodigy", "GradaGrad", OURS)


def _cell(found: Collection[float], form: str = ".4f") -> str:
    """The mean and a 95 % interval."""
    if not found:
        return "missing"
    if lost := sum(not math.isfinite(value) for value in found):
        return f"diverged ({lost} of {len(found)})"
    mean = f"{statistics.mean(found):{form}}".replace("-", "−")
    if len(found) == 1:
        return f"{mean} (1 seed)"
    return f"{mean} ± {half_width(found):{form.strip('+')}}" + f" ({len(found)} seeds)" * (len(found) != FEW)


def table(own: Records, full: bool = True) -> str:
    """The table of one workload; ``full``: all rows and losses, what they were made with, and what is missing."""
    work, sizes = own.workload, [run["size"] for run in own.runs.values() if "size" in run]
    lines = [f"### {work.title}", "", f"{max(sizes, default=0):,} trained parameters, {work.steps:,} steps.", ""]
    measures = {"test accuracy, %": ("test", "accuracy")} if work.metric == "accuracy" else {}
    measures |= {"test loss": ("test", "loss")} if full or not measures else {}
    measures |= {"training loss": ("train", "loss")} if full else {}
    rows: list[list[str]] = []
    trained = [row for row in own.rows() if own.values(row, "test", "loss")]
    for row in (row for row in trained if full or row not in SECONDARY):
        found = {name: own.values(row, *what).values() for name, what in measures.items()}
        cells = [_cell([100 * x for x in xs], ".2f") if "%" in name else _cell(xs) for name, xs in found.items()]
        ms = statistics.median(own.runs[job.key].get("ms", math.nan) for job in own.finals(row) if own.get(job))
        lr = "none" if row.method == OURS else f"{own.value(row):g}"
        older = any(own.outdated(job.key) for job in own.finals(row) if own.get(job))
        rows.append([row.label + " (an older rule)" * older, lr, *cells, f"{ms:.3g}"])
    lines.append(pages.table(["method", "lr", *measures, "ms a step"], rows))
    if full:
        absent = [row.label for row in own.rows() if row not in trained]
        lines += ["", f"Made with {own.made_with()}. Not trained: {'; '.join(absent) or 'none'}."]
    return "\n".join(lines)


def _gains(own: Records, other: Row) -> list[float]:
    """How much better AutoGradaGrad's average is than another row, in per cent of that row's test metric, by seed."""
    sign = 100 if own.workload.metric == "accuracy" else -100
    mine, theirs = (own.values(row, "test", own.workload.metric) for row in (AVERAGED, other))
    return [sign * (mine[x] - y) / y for x, y in theirs.items() if x in mine and math.isfinite(mine[x] + y)]


def summary(records: Sequence[Records]) -> str:
    """AutoGradaGrad's average beside others, worst first. Seeds are compared in pairs: they share batches."""
    gains = {own: found for own in records if (found := [_gains(own, other) for other in COMPARED])[0]}
    rows = [
        [f"{own.workload.title}, {own.workload.metric}" + " (an older rule)" * ("older rule" in table(own))]
        + [_cell(gain, "+.2f") if row in own.rows() else "–" for row, gain in zip(COMPARED, gains[own], strict=True)]
        for own in sorted(gains, key=lambda own: statistics.mean(gains[own][0]))
    ]
    return pages.table(["against, %", *(other.label for other in COMPARED)], rows)


def _style(method: str, dash: str) -> dict[str, Any]:
    ours = method.startswith(OURS)
    return {
        "color": COLORS.get(method.partition(",")[0], pages.INK),
        "linestyle": dash,
        "lw": 3 if ours else 1.8,
        "zorder": 2 + ours,
    }


def _save(figure: Any, name: str, shown: dict[str, Any], below: float) -> None:
    """``below`` is the height of the legend in inches."""
    figure.legend(shown.values(), shown, loc="lower center", ncols=2, fontsize=11)
    figure.tight_layout(rect=(0, below / figure.get_figheight(), 1, 1))
    pages.save(figure, PAGE.parent / "pictures" / f"evidence-{name}.png")


def _plotted(panel: Any, own: Records, jobs: list[Job], at: str, **style: Any) -> Any:
    """The mean curve of the test metric over some seeds; None where there is none."""
    seeds = [run["curve"][at] for job in jobs if (run := own.get(job)) and at in run.get("curve", {})]
    place, factor = (2, 100) if own.workload.metric == "accuracy" else (1, 1)
    means = [statistics.mean(factor * one[place] for one in points) for points in zip(*seeds, strict=True)]
    return panel.plot([point[0] for point in seeds[0]], means, **style)[0] if seeds else None


@pages.styled
def curves(records: list[Records]) -> None:
    """The test metric over steps, a panel for each workload: means over the seeds."""
    down = -(-len(records) // 2)
    figure, panels = plt.subplots(down, 2, figsize=(6.6, 2.5 * down + 1.1), squeeze=False)
    for panel in panels.flat[len(records) :]:
        panel.set_visible(False)
    shown: dict[str, Any] = {}
    for panel, own in zip(panels.flat, records, strict=False):
        for row in (row for row in own.rows() if row in DRAWN):
            style = _style(row.method, "--" if row.tuned else "-")
            line = _plotted(panel, own, own.finals(row), "averaged" if row.averaged else "last", **style)
            shown |= {row.label.replace("*", ""): line} if line else {}
        ends = sorted(y for line in panel.lines for y in line.get_ydata()[2:])
        if ends:  # a method that is far behind is cut off, so that the others can be told apart
            cut, classes = len(ends) // 12, own.workload.metric == "accuracy"
            low, high = (ends[cut], ends[-1]) if classes else (ends[0], ends[-1 - cut])
            panel.set_ylim(low - 0.06 * (high - low) - 1e-3, high + 0.06 * (high - low) + 1e-3)
        panel.set_title(own.workload.title.replace(", ", ",\n", 1) + f": test {own.workload.metric}")
        panel.locator_params(axis="x", nbins=4)
    _save(figure, "curves", shown, 0.95)


@pages.styled
def robustness(own: Records) -> None:
    """The final test accuracy over the learning rate given, one seed."""
    figure, panel = plt.subplots(figsize=(5.6, 5.2))
    shown: dict[str, Any] = {}
    for method in SWEEPS:
        at = "averaged" if method.startswith(OURS) else "last"
        runs = {job.value: run for job in own.sweep(method) if (run := own.get(job))}
        accuracies = [100 * runs[x].get(at, {}).get("test", {}).get("accuracy", 0.1) for x in sorted(runs)]
        style = _style(method, "--" if "cosine" in method else ":" if "γ₀" in method else "-")
        shown[f"{OURS}, lr" if method == OURS else method] = panel.plot(sorted(runs), accuracies, **style)[0]
    panel.set(xscale="log", ylim=(50, 91), xlabel="learning rate given (dotted: γ₀)")
    panel.set_title(f"{own.workload.title}: test accuracy, %")
    _save(figure, "robustness", shown, 0.95)


@pages.styled
def first_screen(own: Records) -> None:
    """AutoGradaGrad's average over AdamW at several learning rates, for the README: means over the seeds."""
    figure, panel = plt.subplots(figsize=(5.6, 4.2))
    shown = {
        f"AdamW, lr {lr:g}": _plotted(panel, own, own.seeds("AdamW", lr), "last", **_style("AdamW", dash))
        for lr, dash in zip(FIRST_SCREEN, (":", "-.", "-", "--"), strict=True)
    }
    shown[f"{OURS}, no lr"] = _plotted(panel, own, own.finals(AVERAGED), "averaged", **_style(OURS, "-"))
    panel.set(ylim=(70, 90), xlabel="steps", title=f"{own.workload.title}: test accuracy, %")
    _save(figure, "first-screen", shown, 0.7)


def filled(text: str) -> str:
    """The page with every marked block written anew."""
    records = [Records(name) for name in WORKLOADS]
    blocks = {own.name: table(own, full=False) for own in records} | {"summary": summary(records)}
    return pages.filled(text, "evidence", blocks.__getitem__)


def write_page() -> None:
    """Writes the tables into the page and draws its pictures and the README's."""
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    curves([own for name in WORKLOADS if len(WORKLOADS[name].points) > 2 and (own := Records(name)).runs])
    robustness(Records("fashion-mlp"))
    first_screen(Records("fashion-mlp"))


def quick(plan: dict[str, int] | None = None) -> str:
    """A look at a few steps of some workloads with one seed. It supports no conclusion."""
    lines: list[list[str]] = []
    for name, steps in (plan or QUICK).items():
        work = dataclasses.replace(WORKLOADS[name], steps=steps, points=(1.0,))
        lines.append([f"{work.title}: test {work.metric} after {steps} steps"])
        for method in QUICK_METHODS:
            found = train(work, Job(method, METHODS[method].lr, 0, steps))
            test = found.get("averaged" if method == OURS else "last", {}).get("test", {})
            lines[-1].append(f"{test[work.metric]:.3f}" if test else "diverged")
    return pages.table(["", *QUICK_METHODS], lines)
