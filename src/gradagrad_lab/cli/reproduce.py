"""`gradagrad reproduce`: the paper's figures and theorem, and the report."""

import time
from typing import Annotated

import typer
from rich.console import Console

from gradagrad_lab.cli.options import DEFAULT_OUT, DataDir, FirstSeed, On, Out, Resume, Seeds, Workers
from gradagrad_lab.data import CATALOGUE, acquire, data_folder
from gradagrad_lab.figures import experiments
from gradagrad_lab.report.content import Section
from gradagrad_lab.report.page import write_report
from gradagrad_lab.runs.context import Context, Size
from gradagrad_lab.runs.records import prepare
from gradagrad_lab.runs.study import conduct

HELP = (
    """Reproduce the paper: train what is missing, draw the figures, write report.html.

    The quick size takes minutes and says in every caption what it leaves out; --full is the paper's protocol (100
    epochs, 10 seeds), but for Figure 4, whose networks, tables and rows are smaller: --size paper is the paper's own,
    half a billion parameters on all of Criteo, for days. Everything lands in --out; Ctrl-C keeps what is finished, and
    the same command goes on from there. The paper's data are fetched where they are missing; without a network,
    scikit-learn's bundled data sets stand in and are labelled so.

    Experiments: """
    + "; ".join(f"{study.name}: {study.shows}" for study in experiments.STUDIES.values())
    + """.

    Examples:

      gradagrad reproduce

      gradagrad reproduce figure3 --full --data-dir ~/libsvm

      gradagrad reproduce figure3 --peers --seeds 3 --out peers

      gradagrad reproduce figure4 --size paper --data-dir FOLDER     (FOLDER/criteo/train.txt)
    """
)


def reproduce(
    experiment: Annotated[str, typer.Argument(help="One experiment, or all.")] = experiments.ALL,
    size: Annotated[Size, typer.Option(help="How large; paper: Figure 4 as in the paper, the rest full.")] = Size.QUICK,
    full: Annotated[bool, typer.Option("--full/--quick", help="The same as --size full, or quick.")] = False,
    rows: Annotated[
        int | None, typer.Option(min=256, help="At most so many rows for Figure 4 to train on.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    out: Out = DEFAULT_OUT,
    seeds: Seeds = None,
    first_seed: FirstSeed = None,
    resume: Resume = True,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also run parameter-free peers at their defaults (slow: one run at a time).")
    ] = False,
    workers: Workers = None,
    softmax: Annotated[
        bool, typer.Option("--softmax", help="Figure 3 under the second reading: soft-max, not one-vs-rest.")
    ] = False,
    on: On = "",
) -> None:
    """Run experiments and write the report."""
    console = Console(soft_wrap=True, emoji=False)
    names = experiments.chosen(experiment)
    size = Size.FULL if full and size is Size.QUICK else size
    context = Context(
        out, data_folder(data_dir), size, seeds, resume, peers, console, workers, first_seed, rows, softmax, on
    )
    prepare(out)
    started = time.perf_counter()
    if {"figure3", "suite"} & set(names):
        for name, why in acquire(
            CATALOGUE, context.data_dir, lambda text: console.print(text, highlight=False)
        ).items():
            console.print(f"{name} is missing: {why}.", highlight=False, markup=False)
    sections: list[Section] = []
    try:
        for name in names:
            study = experiments.STUDIES[name]
            console.print(f"[bold]{name}[/]: {study.shows}", highlight=False)
            sections.append(conduct(study, context))
            for claim in sections[-1].claims:
                console.print(f"  {claim.verdict}: {claim.text}", highlight=False, markup=False)
    finally:
        context.pool.close()
    path = write_report(sections, context)
    minutes, rest = divmod(round(time.perf_counter() - started), 60)
    console.print(f"Done in {minutes} min {rest} s. Open {path}", highlight=False, markup=False)
