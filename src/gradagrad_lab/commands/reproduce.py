"""`gradagrad reproduce`: the paper's figures and theorem, and the report."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from gradagrad_lab import experiments
from gradagrad_lab.commands.options import DEFAULT_OUT, DataDir, FirstSeed, Out, Resume, Seeds, Workers
from gradagrad_lab.context import Context
from gradagrad_lab.data import data_folder
from gradagrad_lab.records import prepare
from gradagrad_lab.results import Section

HELP = (
    """Reproduce the paper: train what is missing, draw the figures, write report.html.

    The quick size takes minutes and says in every caption what it leaves out; --full is the paper's protocol (100
    epochs, 10 seeds). Everything lands in --out; Ctrl-C keeps what is finished, and the same command goes on from
    there. Without data and network, scikit-learn's bundled sets stand in and are labelled so.

    Experiments: """
    + "; ".join(f"{name}: {text}" for name, (_, text) in experiments.EXPERIMENTS.items())
    + """.

    Examples:

      gradagrad reproduce

      gradagrad reproduce figure3 --full --data-dir ~/libsvm

      gradagrad reproduce figure3 --peers --seeds 3 --out peers
    """
)


def reproduce(
    experiment: Annotated[str, typer.Argument(help="One experiment, or all.")] = experiments.ALL,
    full: Annotated[bool, typer.Option("--full/--quick", help="The paper's protocol, or minutes.")] = False,
    data_dir: DataDir = None,
    out: Out = DEFAULT_OUT,
    seeds: Seeds = None,
    first_seed: FirstSeed = None,
    resume: Resume = True,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also run parameter-free peers at their defaults (slow: one run at a time).")
    ] = False,
    workers: Workers = None,
) -> None:
    """Run experiments and write the report."""
    from gradagrad_lab.report import write_report

    console = Console(soft_wrap=True)
    names = experiments.chosen(experiment)
    context = Context(out, data_folder(data_dir), not full, seeds, resume, peers, console, workers, first_seed)
    prepare(out)
    started = time.perf_counter()
    sections: list[Section] = []
    for name in names:
        console.print(f"[bold]{name}[/]: {experiments.EXPERIMENTS[name][1]}", highlight=False)
        sections.append(experiments.runner(name)(context))
        for claim in sections[-1].claims:
            console.print(f"  {claim.verdict}: {claim.text}", highlight=False, markup=False)
    path = write_report(sections, context)
    minutes, rest = divmod(round(time.perf_counter() - started), 60)
    console.print(f"Done in {minutes} min {rest} s. Open {path}", highlight=False, markup=False)
