"""`gradagrad train` and `gradagrad compare`: their options. The trials are imported after the options are read."""

from typing import Annotated

import typer
from rich.console import Console

from gradagrad_lab.cli.options import DEFAULT_OUT, Batch, DataDir, Epochs, Out, Resume, Seeds, Workers, parse_options
from gradagrad_lab.context import Context

COMPARED = ("adam", "sgd", "adagrad", "gradagrad", "autogradagrad")
TRAIN_HELP = """Train one optimizer on one data set, and plot accuracy, loss and the adapted learning rate.

    DATA is a data set of Figure 3 (glass, letter, protein, usps, vehicle, vowel), a bundled one (digits, wine,
    breast_cancer, iris) or your own file: LIBSVM's format, or CSV with the class in the last column. Options go to
    the optimizer as they are. A table at the end has accuracy, accuracy at the average of the iterates, loss and the
    learning rate that was reached; a picture has the curves. Examples:

      gradagrad train mine.csv --optimizer autogradagrad

      gradagrad train vowel -o lr=1e-6 -o rho=10 -o granularity=group

      gradagrad train iris --optimizer adam -o lr=2^-4 --epochs 30 --seeds 3
    """

COMPARE_HELP = """Compare optimizers on one data set.

    An optimizer is a name, or name:option=value,option=value. With --tuned, Adam, SGD and AdaGrad get the learning
    rate with the best training accuracy on a power-of-two grid, unless you give one. The grid grows while the best
    lies at an end. All others run as given. A table at the end has accuracy, accuracy at the average of the iterates,
    loss and the learning rate that was reached; a picture has the curves. Examples:

      gradagrad compare mine.csv adagrad gradagrad autogradagrad

      gradagrad compare vowel --tuned

      gradagrad compare iris gradagrad gradagrad:rho=10 gradagrad:granularity=group,lr=1e-6 prodigy
    """


def train(
    data: Annotated[str, typer.Argument(help="Data set, or a file (LIBSVM or CSV).")],
    optimizer: Annotated[str, typer.Option(help="Optimizer; an unknown name lists them all.")] = "gradagrad",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="name=value, an argument of the optimizer; repeatable.")
    ] = None,
    epochs: Epochs = 100,
    batch: Batch = 16,
    seeds: Seeds = 5,
    data_dir: DataDir = None,
    out: Out = DEFAULT_OUT,
    resume: Resume = True,
    workers: Workers = None,
) -> None:
    """Train, print the outcome and draw the curves."""
    options = parse_options(option or [])
    context = Context(out, data_dir, seeds=seeds, resume=resume, console=_console(), workers=workers)
    from gradagrad_lab.cli import trials

    trials.compare(context, data, batch, epochs, [(optimizer, options)], False, stem="train")


def compare(
    data: Annotated[str, typer.Argument(help="Data set, or a file (LIBSVM or CSV).")],
    optimizers: Annotated[
        list[str] | None, typer.Argument(help=f"Default: {' '.join(COMPARED)}.", show_default=False)
    ] = None,
    tuned: Annotated[
        bool, typer.Option("--tuned/--untuned", help="Tune the baselines, or use their defaults.")
    ] = False,
    epochs: Epochs = 100,
    batch: Batch = 16,
    seeds: Seeds = 5,
    data_dir: DataDir = None,
    out: Out = DEFAULT_OUT,
    resume: Resume = True,
    workers: Workers = None,
) -> None:
    """Train all of them, print a table and draw their curves."""
    named = [text.partition(":") for text in dict.fromkeys(optimizers or COMPARED)]
    wanted = [(name, parse_options([part for part in options.split(",") if part])) for name, _, options in named]
    context = Context(out, data_dir, seeds=seeds, resume=resume, console=_console(), workers=workers)
    from gradagrad_lab.cli import trials

    trials.compare(context, data, batch, epochs, wanted, tuned, stem="compare")


def _console() -> Console:
    return Console(soft_wrap=True, emoji=False)
