"""Prints the tables from the records, trains what is missing, and writes the page and its pictures.

python -m benchmarks.evidence                      training of what is missing, then the tables
python -m benchmarks.evidence --only fashion-mlp   some workloads, in this order
python -m benchmarks.evidence --main               without the rows that matter least
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


def _train(records: list[Records], main: bool) -> None:
    """Trains workload after workload. What tuning finds decides what comes next, so the plan is made anew each time."""
    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.completed}/{task.total} steps of {task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        while plans := [(own, jobs) for own in records if (jobs := own.missing(main))]:
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
    for word in ("main", "show", "page", "check", "quick"):
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
        _train(records, options.main)
    print("\n\n".join(show.table(own) for own in records))


if __name__ == "__main__":
    main()
