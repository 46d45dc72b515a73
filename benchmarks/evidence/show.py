"""Tables and the page, all from the records."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.evidence import pictures
from benchmarks.evidence.methods import METHODS, OURS, ROWS, Row
from benchmarks.evidence.run import Job, Records, train
from benchmarks.evidence.workloads import WORKLOADS, Batch, Task, Workload

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
MARKS = re.compile(r"(<!-- evidence: ([\w-]+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
T_95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776}  # Student's t for 95 %, by the number of seeds
REFERENCE, AVERAGED = ROWS[0], ROWS[-1]
PEERS = ("Schedule-Free AdamW, default", "Prodigy, default")
QUICK = {"fashion-mlp": 300, "fashion-cnn": 60, "fashion-vit": 60, "gpt": 12}
QUICK_METHODS = ("AdamW", "Schedule-Free AdamW", "Prodigy", "GradaGrad", OURS)


def finals(own: Records, row: Row) -> list[tuple[str, dict[str, Any]]]:
    """The finished whole runs of a row, by key."""
    jobs = [own.final(row, seed) for seed in range(own.workload.seeds)]
    return [(job.key, run) for job in jobs if job is not None and (run := own.get(job)) is not None]


def values(own: Records, row: Row, part: str, metric: str) -> list[float]:
    """One number for each seed; infinity for a run that diverged."""
    at = "averaged" if row.averaged else "last"
    return [run.get(at, {}).get(part, {}).get(metric, math.inf) for _, run in finals(own, row)]


def _cell(found: Sequence[float], percent: bool) -> str:
    if not found:
        return "missing"
    if not all(math.isfinite(value) for value in found):
        return f"diverged ({sum(not math.isfinite(value) for value in found)} of {len(found)})"
    scale, digits = (100, 2) if percent else (1, 4)
    mean = f"{scale * statistics.mean(found):.{digits}f}"
    if len(found) == 1:
        return f"{mean} (1 seed)"
    half = T_95[len(found)] * statistics.stdev(found) / len(found) ** 0.5
    return f"{mean} ± {scale * half:.{digits}f}"


def table(own: Records) -> str:
    """The table of one workload. A row without runs says so."""
    work, sizes = own.workload, {run["size"] for run in own.runs.values() if "size" in run}
    size = f"{max(sizes):,} trained parameters, " if sizes else ""
    lines = [f"### {work.title}", "", f"{size}{work.steps:,} steps, {work.seeds} seeds (± 95 %).", ""]
    classes = work.metric == "accuracy"
    lines.append(f"| method | lr | {'test accuracy, % | ' if classes else ''}test loss | training loss | ms a step |")
    lines.append("|---" * (6 if classes else 5) + "|")
    for row in own.rows():
        value, runs = own.value(row), finals(own, row)
        cells = [_cell(values(own, row, "test", "accuracy"), percent=True)] if classes else []
        cells += [_cell(values(own, row, part, "loss"), percent=False) for part in ("test", "train")]
        speed = [run["ms"] for _, run in runs if "ms" in run]
        label = row.label + (" (an older rule)" if any(own.outdated(key) for key, _ in runs) else "")
        shown = "none" if row.method == OURS else "?" if value is None else f"{value:g}"
        cells = [label, shown, *cells, f"{statistics.median(speed):.3g}" if speed else ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _gain(own: Records, ours: Row, other: Row) -> float | None:
    """How much better ours is, in per cent of the other's test metric."""
    pairs = [values(own, row, "test", own.workload.metric) for row in (ours, other)]
    if not all(pairs) or not all(math.isfinite(value) for found in pairs for value in found):
        return None
    mine, theirs = (statistics.mean(found) for found in pairs)
    return 100 * (mine - theirs) / theirs * (1 if own.workload.metric == "accuracy" else -1)


def summary(records: Sequence[Records]) -> str:
    """AutoGradaGrad's average beside the others, worst first."""
    others = [REFERENCE, *(row for row in ROWS if row.label in PEERS)]
    found = [(own, [_gain(own, AVERAGED, other) for other in others]) for own in records]
    shown = [(own, gains) for own, gains in found if any(gain is not None for gain in gains)]
    shown.sort(key=lambda pair: pair[1][0] if pair[1][0] is not None else math.inf)
    lines = ["| | metric | against " + " | against ".join(row.label for row in others) + " |"]
    lines.append("|---" * (len(others) + 2) + "|")
    for own, gains in shown:
        cells = ["" if gain is None else f"{gain:+.2f} %".replace("-", "−") for gain in gains]
        lines.append(f"| {own.workload.title} | test {own.workload.metric} | " + " | ".join(cells) + " |")
    absent = [own.workload.title for own in records if own not in [other for other, _ in shown]]
    return "\n".join([*lines, "", f"Not trained yet: {', '.join(absent)}." if absent else "All workloads are trained."])


def made(records: Sequence[Records]) -> str:
    """Commits and versions of the records."""
    lines = ["| workload | runs | made on | commits | AutoGradaGrad's commits | torch | peers |", "|---" * 7 + "|"]
    for own in records:
        notes = [own.made(key) for key in own.runs]
        if not notes:
            continue
        auto = [own.made(key)["commit"] for key in own.runs if key.startswith(OURS)]
        cells = [own.name, str(len(notes))]
        for found in ([note["date"] for note in notes], [note["commit"] for note in notes], auto):
            cells.append(", ".join(sorted(set(found))) or "none")
        peers = {f"{name} {note[name]}" for note in notes for name in ("schedulefree", "prodigyopt") if name in note}
        cells += [", ".join(sorted({note["torch"] for note in notes})), ", ".join(sorted(peers))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _page(text: str) -> str:
    """The page with every marked block written anew."""
    records = {name: Records(name) for name in WORKLOADS}
    blocks = {name: table(own) for name, own in records.items()}
    blocks |= {"summary": summary([*records.values()]), "made": made([*records.values()])}
    return MARKS.sub(lambda found: found[1] + blocks[found[2]] + found[3], text)


def write_page() -> None:
    """Writes the tables into the page and draws its pictures."""
    PAGE.write_text(_page(PAGE.read_text()))
    records = {name: Records(name) for name in WORKLOADS}
    pictures.curves({name: own for name, own in records.items() if own.runs and not own.workload.like})
    pictures.robustness(records["fashion-mlp"])


def differences() -> str | None:
    """Says which command to run if the page differs from the records."""
    text = PAGE.read_text()
    if _page(text) == text:
        return None
    return f"{PAGE.name} differs from the records: python -m benchmarks.evidence --page writes it anew."


def _short(work: Workload, steps: int, rows: int) -> Workload:
    """The same for a few steps, measured on a few rows."""

    def make(seed: int) -> Task:
        task = work.make(seed)
        fixed: dict[str, Batch] = {
            part: (tuple(own[:rows] for own in inputs), names[:rows]) for part, (inputs, names) in task.fixed.items()
        }
        return dataclasses.replace(task, fixed=fixed)

    return dataclasses.replace(work, make=make, steps=steps, tuning=steps)


def quick(plan: dict[str, int] | None = None, rows: int = 1_000) -> str:
    """A look at a few steps of some workloads with one seed. It supports no conclusion."""
    lines = ["| | " + " | ".join(QUICK_METHODS) + " |", "|---" * (len(QUICK_METHODS) + 1) + "|"]
    for name, steps in (plan or QUICK).items():
        work, cells = _short(WORKLOADS[name], steps, rows), list[str]()
        for method in QUICK_METHODS:
            found = train(work, Job(method, METHODS[method].default, 0, steps))
            test = found.get("averaged" if method == OURS else "last", {}).get("test", {})
            cells.append(f"{test[work.metric]:.3f}" if test else "diverged")
        lines.append(f"| {work.title}: test {work.metric} after {steps} steps | " + " | ".join(cells) + " |")
    return "\n".join(lines)
