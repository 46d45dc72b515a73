"""`gradagrad suite`: AutoGradaGrad, tuned optimizers and parameter-free peers on many small problems."""

from typing import Annotated

import typer

from gradagrad_lab.cli.options import DEFAULT_OUT, DataDir, FirstSeed, On, Out, Resume, Seeds, Workers
from gradagrad_lab.cli.reproduce import reproduce

HELP = """Compare AutoGradaGrad, untuned, with tuned SGD, AdaGrad and Adam and with parameter-free peers.

    Many small problems: convex ones, nets, embedding tables. The quick size takes minutes; --full takes all problems,
    5 seeds and the whole sweep of γ₀, most of an hour on two cores. Everything lands in --out, report.html included;
    Ctrl-C keeps what is finished, and the same command goes on from there. The same as `gradagrad reproduce suite`.

    Examples:

      gradagrad suite

      gradagrad suite --full --data-dir ~/libsvm --out suite

      gradagrad suite --full --on gru,deep-mlp --seeds 20
    """


def suite(
    full: Annotated[bool, typer.Option("--full/--quick", help="All problems and seeds, or minutes.")] = False,
    data_dir: DataDir = None,
    out: Out = DEFAULT_OUT,
    seeds: Seeds = None,
    first_seed: FirstSeed = None,
    resume: Resume = True,
    workers: Workers = None,
    on: On = "",
) -> None:
    """Run the suite and write the report."""
    reproduce(
        "suite",
        full=full,
        data_dir=data_dir,
        out=out,
        seeds=seeds,
        first_seed=first_seed,
        resume=resume,
        peers=False,
        workers=workers,
        softmax=False,
        on=on,
    )
