"""`gradagrad train`: one problem, one optimizer, any option."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

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
from gradagrad_lab.context import Context

HELP = """Train one optimizer on one data set, and plot accuracy, loss and the adapted learning rate.

    DATA is a set of Figure 3 (glass, letter, protein, usps, vehicle, vowel), a bundled one (digits, wine,
    breast_cancer, iris) or a file in LIBSVM's format. Options go to the optimizer as they are. Examples:

      gradagrad train vowel

      gradagrad train vowel -o lr=1e-6 -o rho=10 -o granularity=group

      gradagrad train iris --optimizer adam -o lr=2^-4 --epochs 30 --seeds 3
    """


def train(
    data: Annotated[str, typer.Argument(help="Data set, or a file in LIBSVM's format.")],
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
    from gradagrad_lab.optimizers import OPTIMIZERS, check_options
    from gradagrad_lab.workers import train_missing

    options = parse_options(option or [])
    check_options(optimizer, options)
    context = Context(out, data_dir, seeds=seeds, resume=resume, console=Console(soft_wrap=True), workers=workers)
    panel = panel_of(data, context, batch, epochs)
    job = panel.job(optimizer, [options])
    train_missing([job], context, description=f"{OPTIMIZERS[optimizer].title} on {panel.label}")
    record = panel.record(context.records, optimizer, options)
    if record is None:
        raise RuntimeError("a run that was just trained has left no record")
    show(context, panel, {title_of(optimizer, options): record}, stem=f"train-{record.key[:8]}")
    path = context.records.path(record.config, record.seeds)
    context.console.print(f"Record: {path}", highlight=False, markup=False)


def panel_of(data: str, context: Context, batch: int, epochs: int) -> Any:
    """Logistic regression on a set or file named by the user, for the context's seeds."""
    from gradagrad_lab import data as sets
    from gradagrad_lab.figures.figure3_plan import Panel
    from gradagrad_lab.problems.logistic import Logistic

    return Panel(Logistic(sets.load(data, context.data_dir), batch), epochs, tuple(range(context.seeds or 1)))


def title_of(optimizer: str, options: dict[str, Any]) -> str:
    """An optimizer's name and what was changed about it."""
    from gradagrad_lab.optimizers import OPTIMIZERS

    return OPTIMIZERS[optimizer].title + "".join(f", {name} = {value}" for name, value in options.items())


def show(context: Context, panel: Any, records: dict[str, Any], stem: str) -> None:
    """Draws the curves and prints a table of the outcome: means over seeds of the last epochs."""
    from gradagrad_lab.figures import curves

    paths = curves.draw(context, panel, records, stem=stem)
    print_table(context.console, panel, records)
    for path in paths:
        context.console.print(f"Plot: {path}", highlight=False, markup=False)


def print_table(console: Console, panel: Any, records: dict[str, Any]) -> None:
    """Accuracy, loss and learning rate of each method."""
    from gradagrad_lab.run import LEARNING_RATE

    table = Table("method", "accuracy", "loss", "learning rate", "status")
    for title, record in records.items():
        accuracy, loss = panel.final(record), panel.final(record, "loss")
        rate = (
            f"{np.asarray(record.curves[LEARNING_RATE])[:, -1].mean():.3g}" if LEARNING_RATE in record.curves else "–"
        )
        status = record.status
        if record.diverged:
            status += f" ({len(record.diverged)} of {len(record.seeds)} seeds)"
        table.add_row(title, _plus_minus(100 * accuracy, "{:.2f}") + " %", _plus_minus(loss, "{:.4f}"), rate, status)
    last = f"last {panel.window} of {panel.epochs} epochs" if panel.epochs > 1 else "after one epoch"
    console.print(
        f"{panel.label}: {panel.problem.data.describe()}; {len(panel.seeds)} seeds, {last}, ± 2 SE", highlight=False
    )
    console.print(table)


def _plus_minus(values: Any, form: str) -> str:
    if len(values) < 2:
        return form.format(values.mean())
    return f"{form.format(values.mean())} ± {form.format(2 * values.std(ddof=1) / np.sqrt(len(values)))}"
