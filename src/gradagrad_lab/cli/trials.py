"""What `gradagrad train` and `gradagrad compare` do: they train, print a table and draw curves."""

from typing import Any

import numpy as np
from rich.table import Table

from gradagrad_lab import data as data_sets
from gradagrad_lab.context import Context
from gradagrad_lab.figures import curves
from gradagrad_lab.figures.figure3.plan import Trial
from gradagrad_lab.methods import LEARNING_RATE, OPTIMIZERS, check_options, power_of_two
from gradagrad_lab.problems.logistic import AVERAGED, Logistic
from gradagrad_lab.records import key_of
from gradagrad_lab.study import Frame, Method, Plan, count
from gradagrad_lab.study import train as train_plan


def train(context: Context, data: str, batch: int, epochs: int, optimizer: str, options: dict[str, Any]) -> None:
    """One optimizer on one data set."""
    check_options(optimizer, options)
    trial = trial_of(data, context, batch, epochs)
    show(context, trial, {title_of(optimizer, options): Method.of(optimizer, **options)}, stem="train")
    path = context.records.path(trial.problem.label)
    context.console.print(f"Records: {path}", highlight=False, markup=False)


def compare(
    context: Context, data: str, batch: int, epochs: int, wanted: list[tuple[str, dict[str, Any]]], tuned: bool
) -> None:
    """Several optimizers on one data set; ``tuned``: baselines without options get the best learning rate."""
    for name, options in wanted:
        check_options(name, options)
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


def trial_of(data: str, context: Context, batch: int, epochs: int) -> Trial:
    """Logistic regression on a data set or file named by the user, for the context's seeds."""
    return Trial(Logistic(data_sets.load(data, context.data_dir), batch), epochs, tuple(range(context.seeds or 1)))


def title_of(optimizer: str, options: dict[str, Any]) -> str:
    """An optimizer's name and the options that were given."""
    return OPTIMIZERS[optimizer].title + "".join(f", {name} = {value}" for name, value in options.items())


def show(context: Context, trial: Trial, methods: dict[str, Method], stem: str) -> None:
    """Trains what is missing, draws the curves and prints a table of the outcome: means over the last epochs."""
    runs = trial.runs(methods.values())
    frame = Frame(context, train_plan(Plan(runs), context, trial.label))
    paths = curves.draw(frame, trial, methods, f"{stem}-{key_of({'runs': [run.key for run in runs]}, [])[:8]}")
    print_table(frame, trial, methods)
    for path in paths:
        context.console.print(f"Plot: {path}", highlight=False, markup=False)


def print_table(frame: Frame, trial: Trial, methods: dict[str, Method]) -> None:
    """Accuracy, loss and learning rate of each method."""
    console = frame.context.console
    table = Table()
    for column in ("method", "accuracy", "averaged", "loss", "learning rate", "status"):
        table.add_column(column, overflow="fold")
    for title, method in methods.items():
        records = [frame.record(run) for run in trial.runs([method])]
        accuracy, loss = trial.finals(frame, method), trial.finals(frame, method, "loss")
        rates = [record.curves[LEARNING_RATE][-1] for record in records if LEARNING_RATE in record.curves]
        bad = sum(record.diverged for record in records)
        status = f"diverged ({bad} of {count(len(records), 'seed')})" if bad else "done"
        averaged = trial.finals(frame, method, AVERAGED)
        cells = [*(f"{_plus_minus(100 * share, '{:.2f}')} %" for share in (accuracy, averaged))]
        cells.append(_plus_minus(loss, "{:.4f}"))
        table.add_row(title, *cells, f"{np.mean(rates):.3g}" if rates else "–", status)
    last = f"last {trial.window} of {trial.epochs} epochs" if trial.epochs > 1 else "after one epoch"
    errors = ", ± 2 SE" if len(trial.seeds) > 1 else ""
    console.print(
        f"{trial.label}: {trial.problem.data.describe()}; {count(len(trial.seeds), 'seed')}, {last}{errors}",
        highlight=False,
    )
    console.print(table)


def _plus_minus(values: Any, form: str) -> str:
    if len(values) < 2:
        return form.format(values.mean())
    return f"{form.format(values.mean())} ± {form.format(2 * values.std(ddof=1) / np.sqrt(len(values)))}"
