"""Plans, trains and records runs. A record is written after every run, so an interruption loses at most one."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.evidence.methods import (
    HIGHEST, LOWEST, METHODS, OURS, ROWS, SWEEPS, SWEPT, Row, rate, rule_digest,
)  # fmt: skip
from benchmarks.evidence.workloads import WORKLOADS, Task, Workload

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "records"


class Job(NamedTuple):
    """One run of a workload."""

    method: str
    value: float
    seed: int
    steps: int

    @property
    def key(self) -> str:
        return f"{self.method} | {self.value:g} | seed {self.seed} | {self.steps} steps"


class Average:
    """x̄ += 3/(k + 2)·(x − x̄): weights that grow like k², as AutoGradaGrad's do while γ is constant."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters, self._steps = list(parameters), 0
        self._average = [parameter.detach().clone() for parameter in parameters]

    @torch.no_grad()
    def update(self) -> None:
        self._steps += 1
        torch._foreach_lerp_(self._average, self._parameters, 3 / (self._steps + 2))

    @contextlib.contextmanager
    def averaged(self):
        """The average in place of the parameters."""
        kept = [parameter.detach().clone() for parameter in self._parameters]
        with torch.no_grad():
            torch._foreach_copy_(self._parameters, self._average)
            yield
            torch._foreach_copy_(self._parameters, kept)


@contextlib.contextmanager
def _evaluation_mode(optimizer: Any):
    optimizer.eval()
    yield
    optimizer.train()


def _measured(task: Task, places: dict[str, Any], *parts: str) -> dict[str, dict[str, dict[str, float]]]:
    """Measures by place (last, averaged) and part."""
    found: dict[str, dict[str, dict[str, float]]] = {}
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
    optimizers: list[Any] = method.make(task.dense, task.tables, job.value)
    schedules = [
        LambdaLR(one, lambda step: 0.5 * (1 + math.cos(math.pi * step / job.steps)))
        for one in optimizers
        if method.cosine
    ]
    average: Average | None = None
    if hasattr(optimizers[0], "eval"):  # Schedule-Free evaluates at an average of its own
        places: dict[str, Any] = {"last": functools.partial(_evaluation_mode, optimizers[0])}
        optimizers[0].train()
    elif hasattr(optimizers[0], "averaged"):
        places = {"last": None, "averaged": optimizers[0].averaged}
    else:
        average = None if task.tables else Average(task.dense)
        places = {"last": None} | ({"averaged": average.averaged} if average else {})
    final = job.steps >= workload.steps
    stops = {max(1, round(share * job.steps)) for share in workload.points} if final else set()
    curve: dict[str, list[Any]] = {place: [] for place in places}
    seconds, recent = 0.0, 0.0
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
        recent = loss.item()
        advance()
        if not math.isfinite(recent):
            return {"diverged": step + 1}
        if step + 1 in stops:
            for place, found in _measured(task, places, "test").items():
                curve[place].append([step + 1, *found["test"].values()])
    found: dict[str, Any] = _measured(task, places, *(("train", "validation") if final else ("validation",)))
    for place in places if final else ():
        found[place]["test"] = dict(zip(("loss", "accuracy"), curve[place][-1][1:], strict=False))
    size = sum(parameter.numel() for parameter in (*task.dense, *task.tables))
    ms = float(f"{1000 * seconds / job.steps:.4g}")
    return {"ms": ms, **found, **({"curve": curve} if final else {}), "size": size}


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
    return {"date": time.strftime("%Y-%m-%d"), "threads": str(torch.get_num_threads()), **found}


class Records:
    """The finished runs of one workload, in a file with a line for each. Without a folder they stay in memory."""

    def __init__(self, name: str, folder: Path | None = FOLDER) -> None:
        self.name, self.workload = name, WORKLOADS[name]
        self._path = folder / f"{name}.json" if folder else None
        content = json.loads(self._path.read_text()) if self._path and self._path.exists() else {}
        self._made: list[dict[str, str]] = content.get("made", [])
        self.runs: dict[str, dict[str, Any]] = content.get("runs", {})
        self._donor = Records(self.workload.like, folder) if self.workload.like else self

    def outdated(self, key: str) -> bool:
        """Whether a run was made with another rule of AutoGradaGrad."""
        return key.startswith(OURS) and self.runs[key].get("rule") != rule_digest()

    def add(self, job: Job, found: dict[str, Any]) -> None:
        made = _made()
        if made not in self._made:
            self._made.append(made)
        rule = {"rule": rule_digest()} if job.method.startswith(OURS) else {}
        self.runs[job.key] = {**found, "made": self._made.index(made), **rule}
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = [json.dumps(key, ensure_ascii=False) + ": " + json.dumps(run) for key, run in sorted(self.runs.items())]
        head = f'{{"made": {json.dumps(self._made)},\n"runs": {{\n'
        scratch = self._path.with_suffix(".part")
        scratch.write_text(head + ",\n".join(text) + "\n}}\n")
        scratch.replace(self._path)

    def made(self, key: str) -> dict[str, str]:
        return self._made[self.runs[key]["made"]]

    def get(self, job: Job) -> dict[str, Any] | None:
        return self.runs.get(job.key)

    def _validation(self, method: str, place: int, at: str) -> float:
        found = self.get(Job(method, rate(place), 0, self.workload.tuning))
        assert found is not None
        loss = found.get(at, found.get("last", {})).get("validation", {}).get("loss", math.inf)
        return loss if math.isfinite(loss) else math.inf

    def best(self, method: str, averaged: bool) -> tuple[float | None, list[float]]:
        """The rate with the least validation loss, or None, and the rates to be tried before it is known."""
        if self._donor is not self:
            return self._donor.best(method, averaged)
        tuning = self.workload.tuning
        if missing := [place for place in METHODS[method].start if self.get(Job(method, rate(place), 0, tuning)) is None]:
            return None, [rate(place) for place in missing]
        tried = [place for place in range(LOWEST, HIGHEST + 1) if self.get(Job(method, rate(place), 0, tuning))]
        best = min(tried, key=lambda place: self._validation(method, place, "averaged" if averaged else "last"))
        missing = [place for place in (best - 1, best + 1) if place not in tried and LOWEST <= place <= HIGHEST]
        return (None, [rate(place) for place in missing]) if missing else (rate(best), [])

    def rows(self) -> list[Row]:
        """The rows that this workload can have: Schedule-Free and Prodigy take no sparse gradients."""
        asked = self.workload.methods or tuple(METHODS)
        rows = [row for row in ROWS if row.method in asked]
        if self.name == "clicks":
            rows = [row for row in rows if METHODS[row.method].sparse and (row.method == OURS or not row.averaged)]
        return rows

    def value(self, row: Row) -> float | None:
        return self.best(row.method, row.averaged)[0] if row.tuned else METHODS[row.method].default

    def final(self, row: Row, seed: int) -> Job | None:
        value = self.value(row)
        return None if value is None else Job(row.method, value, seed, self.workload.steps)

    def missing(self, without: Iterable[str] = ()) -> list[Job]:
        """The runs to be made next, most useful first: the main rows, the picture of robustness, the other rows."""
        left_out = tuple(without) or ("-",)
        rows = [row for row in self.rows() if not row.method.startswith(left_out)]
        jobs = self._jobs([row for row in rows if row.main])
        if self.workload.swept:
            jobs += [job for name in SWEEPS if not name.startswith(left_out) for job in self.sweep(name)]
        jobs += self._jobs([row for row in rows if not row.main])
        return [job for job in dict.fromkeys(jobs) if self.get(job) is None or self.outdated(job.key)]

    def _jobs(self, rows: list[Row]) -> list[Job]:
        """What tuning needs, one seed of every row, then the other seeds."""
        tuned = [row for row in rows if row.tuned and self._donor is self]
        values = [(row.method, value) for row in tuned for value in self.best(row.method, row.averaged)[1]]
        jobs = [Job(method, value, 0, self.workload.tuning) for method, value in values]
        finals = [self.final(row, seed) for seed in range(self.workload.seeds) for row in rows]
        return jobs + [job for job in finals if job is not None]

    def sweep(self, method: str) -> list[Job]:
        """The runs of the picture of robustness, whole decades first."""
        places = sorted(SWEPT, key=lambda place: (place % 2, place))
        return [Job(method, rate(place), 0, self.workload.steps) for place in places]

    def seconds(self, jobs: Iterable[Job]) -> float:
        """An estimate for some runs, measuring included."""
        known = [run["ms"] / 1000 for run in self.runs.values() if "ms" in run]
        return 1.3 * (sum(known) / len(known) if known else self.workload.seconds) * sum(job.steps for job in jobs)
