"""`gradagrad compare`: several optimizers on one problem, tuned or not."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from gradagrad_lab.commands.options import (
    DEFAULT_OUT,
    Batch,
    DataDir,
    Epochs,
    Out,
    Resume,
    Seeds,
    Workers,
    parse_options,
)
from gradagrad_lab.commands.train import show, title_of, trial_of
from gradagrad_lab.context import Context

HELP = """Compare optimizers on one data set.

    Each is a name, or name:option=value,option=value. With --tuned, Adam, SGD and AdaGrad get the learning rate with
    the best training accuracy on a power-of-two grid (extended where the best lies at an end), unless one is given;
    all others run as they are. Examples:

      gradagrad compare vowel

      gradagrad compare vowel --tuned

      gradagrad compare iris gradagrad gradagrad:rho=10 gradagrad:granularity=group,lr=1e-6 prodigy
    """


def compare(
    data: Annotated[str, typer.Argument(help="Data set, or a file in LIBSVM's format.")],
    optimizers: Annotated[
        list[str] | None, typer.Argument(help="Optimizers; default: adam sgd adagrad gradagrad.", show_default=False)
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
    from gradagrad_lab.optimizers import BASELINES, OPTIMIZERS, check_options, power_of_two
    from gradagrad_lab.study import Frame, Method, Plan
    from gradagrad_lab.study import train as train_plan

    wanted = [_parsed(text) for text in dict.fromkeys(optimizers or (*BASELINES, "gradagrad"))]
    for name, options in wanted:
        check_options(name, options)
    console = Console(soft_wrap=True, emoji=False)
    context = Context(out, data_dir, seeds=seeds, resume=resume, console=console, workers=workers)
    trial = trial_of(data, context, batch, epochs)

    def is_tuned(name: str, options: dict[str, Any]) -> bool:
        return tuned and OPTIMIZERS[name].tuned and not options

    as_they_are = [Method.of(name, **options) for name, options in wanted if not is_tuned(name, options)]
    tunings = [trial.tuning(name) for name, options in wanted if is_tuned(name, options)]
    frame = Frame(context, train_plan(Plan(trial.runs(as_they_are), tunings), context, trial.label))
    methods: dict[str, Method] = {}
    for name, options in wanted:
        if is_tuned(name, options):
            best = trial.choice(frame, name)
            methods[f"{OPTIMIZERS[name].title} (tuned, lr {power_of_two(best.lr)})"] = best.method
        else:
            methods[title_of(name, options)] = Method.of(name, **options)
    show(context, trial, methods, stem="compare")


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    name, _, options = text.partition(":")
    return name, parse_options([part for part in options.split(",") if part])
