"""`gradagrad train` and `gradagrad compare`: one problem, one optimizer with any option, or several, tuned or not."""

from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from gradagrad_lab import data as data_sets
from gradagrad_lab.cli.options import DEFAULT_OUT, Batch, DataDir, Epochs, Out, Resume, Seeds, Workers, parse_options
from gradagrad_lab.context import Context
from gradagrad_lab.figures import curves
from gradagrad_lab.figures.figure3.plan import Trial
from gradagrad_lab.methods import BASELINES, LEARNING_RATE, OPTIMIZERS, check_options, power_of_two
from gradagrad_lab.problems.logistic import AVERAGED, Logistic
from gradagrad_lab.records import key_of
from gradagrad_lab.study import Frame, Method, Plan, count
from gradagrad_lab.study import train as train_plan

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

    Each is a name, or name:option=value,option=value. With --tuned, Adam, SGD and AdaGrad get the learning rate with
    the best training accuracy on a power-of-two grid (extended while the best lies at an end), unless you give one.
    All others run as given. A table at the end has accuracy, accuracy at the average of the iterates, loss and the
    learning rate that was reached; a picture has the curves. Examples:

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
    check_options(optimizer, options)
    console = Console(soft_wrap=True, emoji=False)
    context = Context(out, data_dir, seeds=seeds, resume=resume, console=console, workers=workers)
    trial = trial_of(data, context, batch, epochs)
    method = Method.of(optimizer, **options)
    show(context, trial, {title_of(optimizer, options): method}, stem="train")
    console.print(f"Records: {context.records.path(trial.problem.label)}", highlight=False, markup=False)


def compare(
    data: Annotated[str, typer.Argument(help="Data set, or a file (LIBSVM or CSV).")],
    optimizers: Annotated[
        list[str] | None, typer.Argument(help="Default: adam sgd adagrad gradagrad autogradagrad.", show_default=False)
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
    wanted = [_parsed(text) for text in dict.fromkeys(optimizers or (*BASELINES, "gradagrad", "autogradagrad"))]
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
