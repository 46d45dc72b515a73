"""Tables, pictures and pages, all from the records."""

import dataclasses
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt

from gradagrad_lab import held_out, pages
from gradagrad_lab.evidence.methods import (
    AVERAGED,
    FREE,
    METHODS,
    OURS,
    PLUS,
    RADAM,
    ROWS,
    SWEEPS,
    TUNED_FREE,
    UNTUNED,
    Row,
)
from gradagrad_lab.evidence.run import FEW, Job, Records, half_width, train
from gradagrad_lab.evidence.workloads import WORKLOADS
from gradagrad_lab.methods import rule_of
from gradagrad_lab.problems.held_out import CHOSEN

PAGE = pages.DOCS / "benchmarks.md"
COLORS = {"AdamW": "#3f7fc4", "Schedule-Free AdamW": "#35915a", "Prodigy + Schedule-Free": "#a8780f"}
COLORS |= {"AdaGrad": "#9a62bb", "Schedule-Free RAdam": "#7a4fc9", "Prodigy": "#a8780f", OURS: "#e0475b"}
SECONDARY = [row for row in ROWS if row.method in ("SGD", "SGD, cosine") or row == Row("AdamW", tuned=True)]
FIRST_SCREEN = ("gpt", "fashion-mlp", "fashion-cnn")
QUICK = {"fashion-mlp": 300, "fashion-cnn": 40, "fashion-vit": 40, "gpt": 8}
QUICK_METHODS = ("AdamW", "Schedule-Free AdamW", "Prodigy", "GradaGrad", OURS)
Seeds = dict[int, float]


def _cell(found: Collection[float], form: str = ".4f") -> str:
    """The mean and a 95 % interval."""
    if not found:
        return "missing"
    if lost := sum(not math.isfinite(value) for value in found):
        return f"diverged ({lost} of {len(found)})"
    if len(found) == 1:
        return f"{next(iter(found)):{form}} (1 seed)"
    seeds = f" ({len(found)} seeds)" * (len(found) != FEW)
    return f"{statistics.mean(found):{form}} ± {half_width(found):{form}}{seeds}"


def _measure(own: Records, row: Row) -> str:
    """A row's test metric, accuracies in per cent."""
    found = own.values(row, "test", own.workload.metric).values()
    return _cell([100 * x for x in found], ".2f") if own.workload.metric == "accuracy" else _cell(found)


def _label(own: Records, row: Row) -> str:
    older = any(own.outdated(job.key) for job in own.done(row))
    return row.label + " (an older rule)" * older


def table(own: Records, full: bool = True) -> str:
    """The table of one workload; ``full``: all rows and losses, what they were made with, and what is missing."""
    work, sizes = own.workload, [run["size"] for run in own.runs.values() if "size" in run]
    lines = [f"### {work.title}", "", f"{max(sizes, default=0):,} trained parameters, {work.steps:,} steps.", ""]
    losses = [part for part in ("test", "train") if full and (part, work.unit) != ("test", "loss")]
    heads = [f"test {work.unit}", *(f"{part} loss" for part in losses)]
    trained = [row for row in own.rows() if own.values(row, "test", "loss")]
    rows: list[list[str]] = []
    for row in (row for row in trained if full or row not in SECONDARY):
        cells = [_measure(own, row), *(_cell(own.values(row, part, "loss").values()) for part in losses)]
        lr = "none" if row.method == OURS else f"{own.value(row):g}" + "*" * own.shortly_tuned(row)
        rows.append([_label(own, row), lr, *cells])
    lines.append(pages.table(["method", "lr", *heads], rows))
    if full:
        absent = [row.label for row in own.rows() if row not in trained]
        lines += ["", f"Made with {own.made_with()}. Not trained: {'; '.join(absent) or 'none'}."]
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A line of a summary: errors or losses by seed of AutoGradaGrad's average, tuned methods and untuned ones."""

    title: str
    ours: Seeds
    adamw: Seeds
    free: Seeds
    untuned: dict[str, Seeds]

    def best(self) -> str:
        """The untuned rival with the least mean."""
        return min(self.untuned, key=lambda name: statistics.mean(self.untuned[name].values()), default="")

    def against(self, other: Mapping[int, float]) -> list[float]:
        """AutoGradaGrad's errors divided by another method's, by seed: seeds share their start and their batches."""
        return [self.ours[x] / y for x, y in other.items() if math.isfinite(self.ours.get(x, math.inf) / y)]


def workload_case(own: Records) -> Case:
    """A whole training; accuracies count as errors, and AdamW is tuned as this workload usually is."""

    def errors(row: Row) -> Seeds:
        found = own.values(row, "test", own.workload.metric) if row in own.rows() else {}
        return {seed: 1 - x if own.workload.metric == "accuracy" and x <= 1 else x for seed, x in found.items()}

    old = " (an older rule)" * ("older rule" in _label(own, AVERAGED))
    untuned = {row.label: found for row in (Row("AdamW"), *UNTUNED) if (found := errors(row))}
    title = own.workload.title + " †" * own.workload.chosen + old
    return Case(title, errors(AVERAGED), errors(own.reference), errors(TUNED_FREE), untuned)


def exam_cases() -> list[Case]:
    """Small held-out problems, as their command recorded them: final training losses."""
    results, what = held_out.Results(PAGE.parent / "records" / "auto-held-out.json"), held_out.TABLES[""]
    entries = [held_out.ENTRIES[name] for name in what.peers]
    rivals = {entry.title + ", default" * (entry.name in what.grids): 2 - entry.averages for entry in entries}
    cases: list[Case] = []
    last = f"{OURS}, γ₀ = {what.starts[-1]:g}"  # what is trained last
    finished = [key for key, own in results.runs.items() if "2" in own.get(last, {})]
    for problem in (dataclasses.replace(what.problems[0], name=key) for key in finished):

        def losses(method: str, at: int, runs: dict[str, Any] = results.runs[problem.name]) -> Seeds:
            return {seed: runs[method][str(seed)][at] for seed in range(what.seeds)}

        cosine, free = (results.tuned(problem, x, 0, what.grids[x])[0] for x in ("adamw cosine", "schedulefree"))
        untuned = {one + ", averaged" * at: losses(one, at) for one, places in rivals.items() for at in range(places)}
        old = " (an older rule)" * (results.runs[problem.name][OURS]["rule"] != rule_of("autogradagrad"))
        title = problem.name + " †" * (problem.name in CHOSEN) + old
        cases.append(Case(title, losses(OURS, 1), losses(cosine, 0), losses(free, 0), untuned))
    return cases


def summary(cases: Sequence[Case]) -> str:
    """AutoGradaGrad's average divided by others, worst first."""
    dense = [case for case in cases if len(case.untuned) > 1]
    rivals = [name for name in cases[0].untuned if all(name in case.untuned for case in dense)]
    single = max(rivals, key=lambda name: _mean([case.against(case.untuned[name]) for case in dense]), default="")
    found: dict[Case, list[list[float]]] = {}
    for case in cases:
        rival = (case.untuned.get(name, {}) for name in (case.best(), single))
        found[case] = [case.against(seeds) for seeds in (*rival, case.adamw, case.free)]
    rows: list[list[str]] = []
    for case in sorted(found, key=lambda case: -_mean(found[case][:1])):
        first, *others = map(_ratio, found[case])
        rows.append([case.title, f"{first} ({case.best().removesuffix(', default')})", *others])
    columns = list(zip(*found.values(), strict=True))
    worst = [max(_mean([one]) for one in ratios if one) for ratios in columns]
    rows += [
        [f"**{name}**", *(f"{x:.2f}" for x in xs)] for name, xs in (("mean", map(_mean, columns)), ("worst", worst))
    ]
    heads = ("the best untuned", single, "AdamW + cosine, tuned", "Schedule-Free AdamW, tuned")
    return pages.table(["AutoGradaGrad ÷", *heads], rows)


def ranking(cases: Sequence[Case]) -> str:
    """Every untuned method divided by the best one of each problem."""
    methods = [case.untuned | {f"**{OURS}**, averaged": case.ours} for case in cases]
    losses = [{name: statistics.mean(seeds.values()) for name, seeds in one.items()} for one in methods]
    ratios = {name: [one[name] / min(one.values()) for one in losses] for name in losses[0]}
    ranks = {name: statistics.mean(sorted(one.values()).index(one[name]) + 1 for one in losses) for name in ratios}
    rows = [
        [name, f"{_mean([ratios[name]]):.2f}", f"{max(ratios[name]):.2f}", str(sum(x > 1.5 for x in ratios[name])),
         f"{ranks[name]:.1f}"]
        for name in sorted(ratios, key=lambda name: _mean([ratios[name]]))
    ]  # fmt: skip
    return pages.table(["untuned method", "mean", "worst", "problems above 1.5", "mean rank"], rows)


def _mean(found: Sequence[Collection[float]]) -> float:
    """The geometric mean over problems of the geometric means over seeds; 1 if there is nothing."""
    return statistics.geometric_mean([statistics.geometric_mean(one) for one in found if one] or [1.0])


def _ratio(found: Collection[float]) -> str:
    """A geometric mean and a 95 % interval."""
    if len(found) < 2:
        return f"{next(iter(found)):.2f} (1 seed)" if found else "–"
    mean = _mean([found])
    return f"{mean:.2f} ± {mean * half_width([math.log(one) for one in found]):.2f}"


def _drawn(own: Records) -> dict[str, Row]:
    """AutoGradaGrad and its closest rivals by name."""
    rows = {row.label.replace("*", ""): row for row in (AVERAGED, FREE, TUNED_FREE, RADAM, PLUS)}
    return rows | {"AdamW + cosine, tuned": own.reference}


def _style(row: Row) -> dict[str, Any]:
    ours, dash = row.method == OURS, "-" if not row.tuned else "--"
    color = COLORS.get(row.method.partition(",")[0], pages.INK)
    return {"color": color, "linestyle": dash, "lw": 3 if ours else 1.8, "zorder": 2 + ours}


def _save(figure: Any, name: str, shown: dict[str, Any], below: float, columns: int = 2) -> None:
    """``below`` is the height of the legend in inches."""
    figure.legend(shown.values(), shown, loc="lower center", ncols=columns, fontsize=11)
    figure.tight_layout(rect=(0, below / figure.get_figheight(), 1, 1))
    pages.save(figure, PAGE.parent / "pictures" / f"evidence-{name}.png")


def _plotted(panel: Any, own: Records, row: Row) -> Any:
    """The mean curve of the test metric over the seeds; None where there is none."""
    at = "averaged" if row.averaged else "last"
    runs = [own.runs[job.key].get("curve", {}) for job in own.done(row)]
    seeds = [curve[at] for curve in runs if at in curve]
    place, factor = (2, 100) if own.workload.metric == "accuracy" else (1, 1)
    means = [statistics.mean(factor * one[place] for one in points) for points in zip(*seeds, strict=True)]
    return panel.plot([point[0] for point in seeds[0]], means, **_style(row))[0] if seeds else None


@pages.styled
def curves(records: list[Records], name: str = "curves", columns: int = 2) -> None:
    """The test metric over steps of AutoGradaGrad and its closest rivals, a panel for each workload."""
    down = -(-len(records) // columns)
    figure, panels = plt.subplots(down, columns, figsize=(3.3 * columns, 2.6 * down + 1.1), squeeze=False)
    for panel in panels.flat[len(records) :]:
        panel.set_visible(False)
    shown: dict[str, Any] = {}
    for panel, own in zip(panels.flat, records, strict=False):
        for label, row in _drawn(own).items():
            line = _plotted(panel, own, row) if row in own.rows() else None
            shown |= {label: line} if line else {}
        ends = sorted(y for line in panel.lines for y in line.get_ydata()[2:])
        if ends:  # a method that is far behind is cut off, so that the others can be told apart
            cut, classes = len(ends) // 12, own.workload.metric == "accuracy"
            low, high = (ends[cut], ends[-1]) if classes else (ends[0], ends[-1 - cut])
            panel.set_ylim(low - 0.06 * (high - low) - 1e-3, high + 0.06 * (high - low) + 1e-3)
        panel.set_title(own.workload.title.replace(", ", ",\n", 1) + f": test {own.workload.unit}")
        panel.locator_params(axis="x", nbins=4)
    _save(figure, name, shown, 0.95 if columns == 2 else 0.7, columns)


@pages.styled
def robustness(own: Records) -> None:
    """The final test accuracy over the learning rate given, one seed."""
    figure, panel = plt.subplots(figsize=(5.6, 5.2))
    shown: dict[str, Any] = {}
    for method in SWEEPS:
        at = "averaged" if method.startswith(OURS) else "last"
        runs = {job.value: run for job in own.sweep(method) if (run := own.get(job))}
        accuracies = [100 * runs[x].get(at, {}).get("test", {}).get("accuracy", 0.1) for x in sorted(runs)]
        style = _style(Row(method.partition(",")[0]))
        style |= {"linestyle": "--" if "cosine" in method else ":" if "γ₀" in method else "-"}
        shown[f"{OURS}, lr" if method == OURS else method] = panel.plot(sorted(runs), accuracies, **style)[0]
    panel.set(xscale="log", ylim=(50, 91), xlabel="learning rate given (dotted: γ₀)")
    panel.set_title(f"{own.workload.title}: test accuracy, %")
    _save(figure, "robustness", shown, 0.95)


def first_screen(records: Sequence[Records]) -> str:
    """The README's table: the nets of its picture."""
    lines = []
    for name in _drawn(records[0]):
        rows = [(own, _drawn(own)[name]) for own in records]
        old = " (older rule)" * any("older rule" in _label(own, row) for own, row in rows)
        lines.append([name + old, *(_measure(own, row) for own, row in rows)])
    return pages.table(["", *(f"{own.workload.title}: {own.workload.unit}" for own in records)], lines)


def filled(text: str) -> str:
    """A page with every marked block written anew."""
    records = {name: Records(name) for name in WORKLOADS}
    blocks: dict[str, Any] = {name: lambda own=own: table(own, full=False) for name, own in records.items()}
    blocks |= {
        "summary": lambda: summary([case for own in records.values() if (case := workload_case(own)).ours]),
        "exam": lambda: summary(exam_cases()),
        "ranking": lambda: ranking(exam_cases()),
        "first-screen": lambda: first_screen([records[name] for name in FIRST_SCREEN]),
    }
    return pages.filled(text, "evidence", lambda name: blocks[name]())


def write_page() -> None:
    """Writes the tables into the page and the README, and draws their pictures."""
    for page in (PAGE, PAGE.parent.parent / "README.md"):
        page.write_text(filled(page.read_text("utf-8")), "utf-8")
    curves([own for name, work in WORKLOADS.items() if len(work.points) > 2 and (own := Records(name)).runs])
    curves([Records(name) for name in FIRST_SCREEN], "first-screen", len(FIRST_SCREEN))
    robustness(Records("fashion-mlp"))


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
