"""Prints the tables from the records, trains what is missing, and writes the page and its pictures.

python -m gradagrad_lab.evidence                      training of what is missing, then the tables
python -m gradagrad_lab.evidence --only fashion-mlp   some workloads, in this order
python -m gradagrad_lab.evidence --show               tables only
python -m gradagrad_lab.evidence --page               tables and pictures of docs/benchmarks.md, and the README's
python -m gradagrad_lab.evidence --quick              two minutes, nothing recorded
"""

import argparse
import sys
import warnings

import torch
from rich.console import Console

from gradagrad_lab import pages
from gradagrad_lab.context import Context
from gradagrad_lab.evidence import show
from gradagrad_lab.evidence.run import Records, train
from gradagrad_lab.evidence.workloads import WORKLOADS


def _train(records: list[Records]) -> None:
    """Trains workload after workload. Tuning decides what comes next, so the plan is made anew each time."""
    context = Context(pages.DOCS, console=Console(stderr=True))
    while plans := [(own, jobs) for own in records if (jobs := own.missing())]:
        left = sum(own.seconds(jobs) for own, jobs in plans) / 60
        own, (job, *_) = plans[0]
        words = f"{own.name}: {job.key}; about {left:.0f} min left"
        with context.progress(job.steps, words) as bar:
            own.add(job, found := train(own.workload, job, bar.advance))
        print(f"{words}; {found.get('last', {}).get('validation', 'diverged')}", file=sys.stderr, flush=True)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(WORKLOADS), default=list(WORKLOADS), metavar="NAME")
    for word, what in (("show", "tables only"), ("page", "write page and README"), ("quick", "record nothing")):
        parser.add_argument(f"--{word}", action="store_true", help=what)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the warning about a large first step is not needed here
    if options.quick:
        print(show.quick())
    elif options.page:
        show.write_page()
    else:
        records = [Records(name) for name in options.only]
        if not options.show:
            _train(records)
        print("\n\n".join(show.table(own) for own in records))


if __name__ == "__main__":
    main()
