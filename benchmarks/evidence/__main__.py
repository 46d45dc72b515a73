"""Prints the tables from the records, trains what is missing, and writes the page and its pictures.

python -m benchmarks.evidence                      tables, then training of what is missing
python -m benchmarks.evidence --only fashion-mlp   one workload
python -m benchmarks.evidence --show               tables only
python -m benchmarks.evidence --page               tables and pictures of docs/benchmarks.md
python -m benchmarks.evidence --check              fails if the page differs from the records
python -m benchmarks.evidence --quick              two minutes, nothing recorded
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from benchmarks.evidence import show
from benchmarks.evidence.run import Records, train
from benchmarks.evidence.workloads import WORKLOADS


def _train(records: list[Records], without: list[str], minutes: float) -> None:
    """Trains workload after workload. What tuning finds decides what comes next, so the plan is made anew each time."""
    console, begun = Console(stderr=True), time.monotonic()
    columns = (BarColumn(), TextColumn("{task.completed}/{task.total} steps of {task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        while time.monotonic() - begun < 60 * minutes:
            plans = [(own, jobs) for own in records if (jobs := own.missing(without))]
            if not plans:
                return
            left = sum(own.seconds(jobs) for own, jobs in plans) / 60
            own, (job, *_) = plans[0]
            words = f"{own.name}: {job.method} at {job.value:g}, seed {job.seed}; about {left:.0f} min left"
            bar = progress.add_task(words, total=job.steps)
            before = time.monotonic()
            found = train(own.workload, job, lambda bar=bar: progress.advance(bar))
            progress.remove_task(bar)
            own.add(job, found)
            result = found.get("last", {}).get("validation", "diverged")
            print(f"{words}; {result}, {time.monotonic() - before:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(WORKLOADS), default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--without", nargs="+", default=[], metavar="METHOD", help="do not train these now")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time; run again to go on")
    for word in ("show", "page", "check", "quick"):
        parser.add_argument(f"--{word}", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the warning about a large first step is not needed here
    if options.quick:
        print(show.quick())
        return
    records = [Records(name) for name in options.only]
    if options.check:
        raise SystemExit(show.differences())
    if options.page:
        show.write_page()
        return
    if not options.show:
        _train(records, options.without, options.minutes)
    print("\n\n".join(show.table(own) for own in records))


if __name__ == "__main__":
    main()
