"""Plans, trains and records runs. A record is written after every run, so an interruption loses at most one."""

import functools
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gradagrad_lab.average import OWN, Average
from gradagrad_lab.evidence import methods
from gradagrad_lab.evidence.methods import COSINE, GRID, METHODS, OURS, ROWS, START, SWEEPS, TUNED_FREE, USUAL, Row
from gradagrad_lab.evidence.workloads import WORKLOADS, Task, Workload
from gradagrad_lab.methods import evaluation_point, rule_of
from gradagrad_lab.pages import DOCS
from gradagrad_lab.records import RunFile
from gradagrad_lab.single import follow
from gradagrad_lab.tune import best_place, rate

PLACES = {rate(place): place for place in GRID}
FEW, MANY, T_95 = 3, 5, {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776}  # seeds, and Student's t for 95 % by their number


def half_width(found: Collection[float]) -> float:
    """Half the width of a 95 % interval."""
    return T_95[len(found)] * statistics.stdev(found) / len(found) ** 0.5


class Job(NamedTuple):
    """One run of a workload."""

    method: str
    value: float
    seed: int
    steps: int

    @property
    def key(self) -> str:
        return f"{self.method} | {self.value:g} | seed {self.seed} | {self.steps} steps"


def _measured(task: Task, places: dict[str, Any], *parts: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, enter in places.items():
        with enter() if enter else nullcontext(), task.fresh_statistics() if enter else nullcontext():
            found[place] = {part: {k: float(f"{v:.5g}") for k, v in task.measure(part).items()} for part in parts}
    return found


def train(workload: Workload, job: Job, advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Trains once. Runs that are shorter than the workload's serve tuning, and never see the test set."""
    torch.manual_seed(job.seed)
    task = workload.make(job.seed)
    torch.manual_seed(job.seed)
    method = METHODS[job.method]
    optimizers = methods.make(method, task.dense, task.tables, job.value, job.steps)
    average = None
    places: dict[str, Any] = {"last": None}  # where the run is measured, and how to get there
    if hasattr(optimizers[0], "averaged"):
        places["averaged"] = optimizers[0].averaged
    elif hasattr(optimizers[0], "eval"):  # Schedule-Free evaluates at an average of its own
        places = {"last": functools.partial(evaluation_point, optimizers[0])}
    elif not task.tables:
        average = Average(task.dense, OWN)
        places["averaged"] = average.averaged
    final = job.steps >= workload.steps
    stops = {max(1, round(share * job.steps)) for share in workload.points} if final else set()
    curve: dict[str, list[Any]] = {place: [] for place in places}
    seconds, begin = 0.0, time.process_time()
    for step, loss in enumerate(follow(task, optimizers, range(job.steps)), start=1):
        seconds += time.process_time() - begin
        if average is not None:
            average.update()
        advance()
        if not math.isfinite(loss.item()):
            return {"diverged": step}
        if step in stops:
            for place, found in _measured(task, places, "test").items():
                curve[place].append([step, *found["test"].values()])
        begin = time.process_time()
    measures = _measured(task, places, *(("train", "validation") if final else ("validation",)))
    for place in places if final else ():
        measures[place]["test"] = dict(zip(("loss", "accuracy"), curve[place][-1][1:], strict=False))
    facts = {"ms": float(f"{1000 * seconds / job.steps:.4g}"), "size": sum(p.numel() for p in task.dense + task.tables)}
    return {**facts, **measures, **({"curve": curve} if final else {})}


class Records(RunFile):
    """The finished runs of one workload."""

    def __init__(self, name: str, folder: Path = DOCS / "records") -> None:
        super().__init__(folder / f"{name}.json")
        self.name, self.workload, self._rule = name, WORKLOADS[name], rule_of("autogradagrad")

    def outdated(self, key: str) -> bool:
        """Whether a run was made with another rule of AutoGradaGrad."""
        return key.startswith(OURS) and self.runs[key].get("rule") != self._rule

    def add(self, job: Job, found: dict[str, Any]) -> None:
        rule = {"rule": self._rule} if job.method.startswith(OURS) else {}
        self.put({**found, "made": self.note(), **rule}, job.key)
        self.save()

    def get(self, job: Job, averaged: bool = False) -> dict[str, Any] | None:
        """A run, or None if it is missing or lacks an average that is asked for."""
        found = self.runs.get(job.key)
        return None if found and averaged and not {"averaged", "diverged"} & set(found) else found

    def best(self, row: Row) -> tuple[float | None, list[Job]]:
        """The rate with the best validation metric, or None, and the runs that tuning still needs.

        Short runs find its neighbourhood, or another workload does. For the rivals of the summary, runs of whole length
        then decide.
        """
        if self.workload.like:
            known, missing = Records(self.workload.like, self.path.parent).best(row)[0], []
            place = None if known is None else PLACES[known]
        else:
            place, missing = self._search(row, short=True)
        if place is None:
            return None, missing
        refined, missing = self._search(row, start=(place,))
        wanted = self.workload.refined and row in (self.reference, TUNED_FREE)
        return rate(place if refined is None else refined), missing * wanted

    def shortly_tuned(self, row: Row) -> bool:
        """Whether the rate is the best of shorter runs only."""
        value = self.value(row)
        return row.tuned and value is not None and self._search(row, start=(PLACES[value],))[0] is None

    def _search(self, row: Row, short: bool = False, start: Sequence[int] = ()) -> tuple[int | None, list[Job]]:
        losses: dict[int, float] = {}
        jobs = {x: Job(row.method, rate(x), 0, self.workload.tuning if short else self.workload.steps) for x in GRID}
        for place, job in jobs.items():
            if found := self.get(job, row.averaged):
                measures = found.get("averaged" if row.averaged else "last", {}).get("validation", {})
                accurate = self.workload.metric == "accuracy" and measures
                losses[place] = 1.0 - measures["accuracy"] if accurate else measures.get("loss", math.inf)
        best, missing = best_place(losses, start or START[row.method], GRID)
        return best, [jobs[place] for place in missing]

    @property
    def reference(self) -> Row:
        """Tuned AdamW as this workload is usually trained."""
        return USUAL if self.workload.text else COSINE

    def rows(self) -> list[Row]:
        """The rows that this workload can have. Schedule-Free and Prodigy take no sparse gradients."""
        rows = [row for row in ROWS if row != USUAL or self.workload.text]
        if self.name == "clicks":
            return [row for row in rows if METHODS[row.method].sparse and (row.method == OURS or not row.averaged)]
        rows = [row for row in rows if row.method != "GradaGrad by element"]
        return [row for row in rows if not self.workload.rows or row in self.workload.rows]

    def value(self, row: Row) -> float | None:
        return self.best(row)[0] if row.tuned else METHODS[row.method].lr

    def seeds(self, method: str, value: float | None, count: int = FEW) -> list[Job]:
        """A run of whole length for each seed, or none while the learning rate is not known."""
        count = min(count, self.workload.seeds) if count == FEW else count
        return [Job(method, value, seed, self.workload.steps) for seed in range(count) if value is not None]

    def finals(self, row: Row) -> list[Job]:
        return self.seeds(row.method, self.value(row))

    def done(self, row: Row) -> list[Job]:
        """The finished runs of whole length; those that another rule made only where there are no others."""
        jobs = [job for job in self.seeds(row.method, self.value(row), MANY) if self.get(job, row.averaged)]
        return [job for job in jobs if not self.outdated(job.key)] or jobs

    def values(self, row: Row, part: str, metric: str) -> dict[int, float]:
        """A number for each finished seed; infinity for a run that diverged."""
        runs = {job.seed: self.runs[job.key].get("averaged" if row.averaged else "last", {}) for job in self.done(row)}
        return {seed: run.get(part, {}).get(metric, math.inf) for seed, run in runs.items()}

    def sweep(self, method: str) -> list[Job]:
        return [Job(method, rate(place), 0, self.workload.steps) for place in SWEEPS[method]]

    def missing(self) -> list[Job]:
        """The runs to be made next: what tuning needs, one seed of every row, the other seeds, the pictures."""
        jobs = [(job, row.averaged) for row in self.rows() if row.tuned for job in self.best(row)[1]]
        finals = [(job, row.averaged) for row in self.rows() for job in self.finals(row)]
        jobs += sorted(finals, key=lambda pair: pair[0].seed)
        if self.workload.swept:
            jobs += [(job, False) for method in SWEEPS for job in self.sweep(method)]
        lacking = [job for job, averaged in jobs if self.get(job, averaged) is None or self.outdated(job.key)]
        return list(dict.fromkeys(lacking))

    def seconds(self, jobs: Iterable[Job]) -> float:
        """An estimate for some runs, measuring included."""
        known = [run["ms"] / 1000 for run in self.runs.values() if "ms" in run]
        return 1.3 * (sum(known) / len(known) if known else self.workload.seconds) * sum(job.steps for job in jobs)
