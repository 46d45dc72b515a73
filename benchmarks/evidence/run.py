"""Plans, trains and records runs. A record is written after every run, so an interruption loses at most one."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import subprocess
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.evidence.methods import HIGHEST, LOWEST, METHODS, OURS, ROWS, SWEEPS, SWEPT, Row, rate, rule_digest
from benchmarks.evidence.workloads import WORKLOADS, Task, Workload
from gradagrad.kernel.load import kernel_status
from gradagrad_lab.runs.average import Average
from gradagrad_lab.runs.optimizers import evaluation_point

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "records"
Measures = dict[str, dict[str, dict[str, float]]]


class Job(NamedTuple):
    """One run of a workload."""

    method: str
    value: float
    seed: int
    steps: int

    @property
    def key(self) -> str:
        return f"{self.method} | {self.value:g} | seed {self.seed} | {self.steps} steps"


def _measured(task: Task, places: dict[str, Any], *parts: str) -> Measures:
    """Measures by place and part."""
    found: Measures = {}
    for place, enter in places.items():
        with contextlib.ExitStack() as stack:
            if enter is not None:
                stack.enter_context(enter())
                stack.enter_context(task.fresh_statistics())
            found[place] = {part: {k: float(f"{v:.5g}") for k, v in task.measure(part).items()} for part in parts}
    return found


def train(workload: Workload, job: Job, advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Trains once. Runs that are shorter than the workload's serve tuning, and never see the test set."""
    torch.manual_seed(job.seed)
    task = workload.make(job.seed)
    torch.manual_seed(job.seed)
    method = METHODS[job.method]
    optimizers = method.make(task.dense, task.tables, job.value)
    cosine = [lambda step: 0.5 * (1 + math.cos(math.pi * step / job.steps))] if method.cosine else []
    schedules = [LambdaLR(one, shape) for one in optimizers for shape in cosine]
    average = None
    places: dict[str, Any] = {"last": None}  # where the run is measured, and how to get there
    if hasattr(optimizers[0], "eval"):  # Schedule-Free evaluates at an average of its own
        optimizers[0].train()
        places = {"last": functools.partial(evaluation_point, optimizers[0])}
    elif hasattr(optimizers[0], "averaged"):
        places["averaged"] = optimizers[0].averaged
    elif not task.tables:
        average = Average(task.dense, power=2)
        places["averaged"] = average.averaged
    final = job.steps >= workload.steps
    stops = {max(1, round(share * job.steps)) for share in workload.points} if final else set()
    curve: dict[str, list[Any]] = {place: [] for place in places}
    seconds = 0.0
    for step in range(job.steps):
        begin = time.process_time()
        loss = task.loss(step)
        for one in optimizers:
            one.zero_grad()
        loss.backward()
        for one in (*optimizers, *schedules):
            one.step()
        seconds += time.process_time() - begin
        if average is not None:
            average.update()
        advance()
        if not math.isfinite(loss.item()):
            return {"diverged": step + 1}
        if step + 1 in stops:
            for place, found in _measured(task, places, "test").items():
                curve[place].append([step + 1, *found["test"].values()])
    measures = _measured(task, places, *(("train", "validation") if final else ("validation",)))
    for place in places if final else ():
        measures[place]["test"] = dict(zip(("loss", "accuracy"), curve[place][-1][1:], strict=False))
    size = sum(parameter.numel() for parameter in (*task.dense, *task.tables))
    ms = float(f"{1000 * seconds / job.steps:.4g}")
    return {"ms": ms, **measures, **({"curve": curve} if final else {}), "size": size}


@functools.cache
def _made() -> dict[str, str]:
    """When, from which commit and with what this process trains. "+": the library had changes beside the commit."""

    def git(*words: str) -> str:
        return subprocess.run(("git", "-C", str(FOLDER.parent), *words), capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "-uno", "--", ":/src/gradagrad")
    found = {"commit": git("log", "-1", "--format=%h") + ("+" if changed else "")}
    for package in ("torch", "schedulefree", "prodigyopt", "transformers"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    here = {"threads": str(torch.get_num_threads()), "kernel": str(kernel_status().loaded)}
    return {"date": time.strftime("%Y-%m-%d"), **here, **found}


class Records:
    """The finished runs of one workload, in a file with a line for each."""

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        self.name, self.workload = name, WORKLOADS[name]
        self._path = folder / f"{name}.json"
        content = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
        self._made: list[dict[str, str]] = content.get("made", [])
        self.runs: dict[str, dict[str, Any]] = content.get("runs", {})
        self._rule = rule_digest()

    def outdated(self, key: str) -> bool:
        """Whether a run was made with another rule of AutoGradaGrad."""
        return key.startswith(OURS) and self.runs[key].get("rule") != self._rule

    def add(self, job: Job, found: dict[str, Any]) -> None:
        """Keeps a run, and writes the file under another name first, so that it is whole at any time."""
        if (made := _made()) not in self._made:
            self._made.append(made)
        rule = {"rule": self._rule} if job.method.startswith(OURS) else {}
        self.runs[job.key] = {**found, "made": self._made.index(made), **rule}
        lines = [json.dumps(key, ensure_ascii=False) + ": " + json.dumps(run) for key, run in sorted(self.runs.items())]
        text = f'{{"made": {json.dumps(self._made)},\n"runs": {{\n' + ",\n".join(lines) + "\n}}\n"
        scratch = self._path.with_suffix(".part")
        scratch.write_text(text, "utf-8")
        scratch.replace(self._path)

    def made(self, key: str) -> dict[str, str]:
        return self._made[self.runs[key]["made"]]

    def get(self, job: Job | None) -> dict[str, Any] | None:
        return None if job is None else self.runs.get(job.key)

    def best(self, method: str, averaged: bool) -> tuple[float | None, list[float]]:
        """The rate with the least validation loss, or None, and the rates to be tried before it is known."""
        if self.workload.like:
            return Records(self.workload.like, self._path.parent).best(method, averaged)
        losses: dict[int, float] = {}
        for place in range(LOWEST, HIGHEST + 1):
            if found := self.get(Job(method, rate(place), 0, self.workload.tuning)):
                measures = found.get("averaged" if averaged else "last", found.get("last", {}))
                losses[place] = measures.get("validation", {}).get("loss", math.inf)
        if missing := [rate(place) for place in METHODS[method].start if place not in losses]:
            return None, missing
        best = min(losses, key=losses.__getitem__)
        missing = [rate(place) for place in (best - 1, best + 1) if place not in losses and LOWEST <= place <= HIGHEST]
        return (None, missing) if missing else (rate(best), [])

    def rows(self) -> list[Row]:
        """The rows that this workload can have. Schedule-Free and Prodigy take no sparse gradients."""
        rows = [row for row in ROWS if not self.workload.methods or row.method in self.workload.methods]
        if self.name == "clicks":
            rows = [row for row in rows if METHODS[row.method].sparse and (row.method == OURS or not row.averaged)]
        return rows

    def value(self, row: Row) -> float | None:
        return self.best(row.method, row.averaged)[0] if row.tuned else METHODS[row.method].default

    def finals(self, row: Row) -> list[Job]:
        """A run of whole length for each seed, or none while the learning rate is not known."""
        value, seeds = self.value(row), range(self.workload.seeds)
        return [] if value is None else [Job(row.method, value, seed, self.workload.steps) for seed in seeds]

    def sweep(self, method: str) -> list[Job]:
        """The runs of the picture of robustness, whole decades first."""
        places = sorted(SWEPT, key=lambda place: (place % 2, place))
        return [Job(method, rate(place), 0, self.workload.steps) for place in places]

    def missing(self, main: bool = False) -> list[Job]:
        """The runs to be made next, most useful first: the main rows, the picture of robustness, the other rows."""
        jobs = self._jobs([row for row in self.rows() if row.main])
        if self.workload.swept:
            jobs += [job for name in SWEEPS for job in self.sweep(name)]
        if not main:
            jobs += self._jobs([row for row in self.rows() if not row.main])
        return [job for job in dict.fromkeys(jobs) if self.get(job) is None or self.outdated(job.key)]

    def _jobs(self, rows: list[Row]) -> list[Job]:
        """What tuning needs, one seed of every row, then the other seeds."""
        tuned = [row for row in rows if row.tuned and not self.workload.like]
        values = [(row.method, value) for row in tuned for value in self.best(row.method, row.averaged)[1]]
        finals = sorted((job for row in rows for job in self.finals(row)), key=lambda job: job.seed)
        return [Job(method, value, 0, self.workload.tuning) for method, value in values] + finals

    def seconds(self, jobs: Iterable[Job]) -> float:
        """An estimate for some runs, measuring included."""
        known = [run["ms"] / 1000 for run in self.runs.values() if "ms" in run]
        return 1.3 * (sum(known) / len(known) if known else self.workload.seconds) * sum(job.steps for job in jobs)
