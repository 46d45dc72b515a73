"""`gradagrad train` and `gradagrad compare`: train, print a table and draw curves."""

from typing import Any

import numpy as np
from matplotlib.ticker import PercentFormatter
from rich.table import Table

from gradagrad_lab import data as data_sets
from gradagrad_lab.context import Context
from gradagrad_lab.figures.figure3.draw import epoch_axis, mean_and_band, without_start
from gradagrad_lab.figures.figure3.plan import Trial
from gradagrad_lab.methods import LEARNING_RATE, OPTIMIZERS, check_options, power_of_two
from gradagrad_lab.problems.logistic import AVERAGED, Logistic
from gradagrad_lab.records import key_of
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Panel, Picture
from gradagrad_lab.study import Floats, Frame, Method, Plan, count
from gradagrad_lab.study import train as train_plan

_MEASURES = {"accuracy": "training accuracy", "loss": "training loss", LEARNING_RATE: "median learning rate"}
Wanted = list[tuple[str, dict[str, Any]]]


def compare(context: Context, data: str, batch: int, epochs: int, wanted: Wanted, tuned: bool, stem: str) -> None:
    """Trains optimizers with their options on one data set, prints a table of the outcome and draws the curves.
    ``tuned``: baselines without options get the best learning rate."""
    for name, options in wanted:
        check_options(name, options)
    problem = Logistic(data_sets.load(data, context.data_dir), batch)
    trial = Trial(problem, epochs, tuple(range(context.seeds or 1)))

    def is_tuned(name: str, options: dict[str, Any]) -> bool:
        return tuned and OPTIMIZERS[name].tuned and not options

    as_they_are = [Method.of(name, **options) for name, options in wanted if not is_tuned(name, options)]
    tunings = [trial.tuning(name) for name, options in wanted if is_tuned(name, options)]
    frame = Frame(context, train_plan(Plan(trial.runs(as_they_are), tunings), context, trial.label))
    methods: dict[str, Method] = {}
    for name, options in wanted:
        title, method = OPTIMIZERS[name].title, Method.of(name, **options)
        if is_tuned(name, options):
            best = trial.choice(frame, name)
            title, method = f"{title} (tuned, lr {power_of_two(best.lr)})", best.method
        methods[title + "".join(f", {option} = {value}" for option, value in options.items())] = method
    runs = trial.runs(methods.values())
    train_plan(Plan(runs), context, trial.label)
    stem = f"{stem}-{key_of({'runs': [run.key for run in runs]}, [])[:8]}"
    panels = [
        Panel(lambda axes, what=metric: _panel(axes, frame, trial, methods, what), f"{trial.label}: {title}")
        for metric, title in _MEASURES.items()
    ]
    sheet = style.sheet(Picture(stem, stem, "", f"Curves on {trial.label}.", panels, size=(3.3, 2.8)))
    print_table(frame, trial, methods)
    for path in style.save(sheet, context.out / "figures", stem):
        context.console.print(f"Plot: {path}", highlight=False, markup=False)
    context.console.print(f"Records: {context.records.path(problem.label)}", highlight=False, markup=False)


def _panel(axes: Any, frame: Frame, trial: Trial, methods: dict[str, Method], metric: str) -> None:
    """A curve for each method, with a band of two standard errors. The first steep epochs lie outside of two panels."""
    means: list[Floats] = []
    families = [name.split(",")[0].split(" (")[0] for name in methods]
    for number, (label, method) in enumerate(methods.items()):
        if metric not in trial.runs([method])[0].measures:
            continue
        look: dict[str, Any] = style.line(label)
        if earlier := families[:number].count(families[number]):  # a second run of an optimizer has another colour
            shades = style.ramp(min(style.LONGEST_RAMP, families.count(families[number])))
            look = {"color": shades[earlier % len(shades)], "linewidth": 1.6}
        mean, two_errors = mean_and_band(trial.curves(frame, method, metric))
        means.append(mean)
        epochs = np.arange(1, len(mean) + 1)
        axes.plot(epochs, mean, label=label, **look)
        if metric != LEARNING_RATE:
            style.band(axes, epochs, mean - two_errors, mean + two_errors, look["color"])
    epoch_axis(axes)
    if metric == LEARNING_RATE:
        axes.set_yscale("log")
    else:
        without_start(axes, means)
    if metric == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def print_table(frame: Frame, trial: Trial, methods: dict[str, Method]) -> None:
    """Accuracy, loss and learning rate of each method: means over the last epochs."""
    console = frame.context.console
    table = Table()
    for column in ("method", "accuracy", "averaged", "loss", "learning rate", "status"):
        table.add_column(column, overflow="fold")
    for title, method in methods.items():
        records = [frame.record(run) for run in trial.runs([method])]
        accuracy, averaged, loss = (trial.finals(frame, method, metric) for metric in ("accuracy", AVERAGED, "loss"))
        rates = [record.curves[LEARNING_RATE][-1] for record in records if LEARNING_RATE in record.curves]
        bad = sum(record.diverged for record in records)
        status = f"diverged ({bad} of {count(len(records), 'seed')})" if bad else "done"
        cells = [*(f"{_plus_minus(100 * share, '{:.2f}')} %" for share in (accuracy, averaged))]
        cells.append(_plus_minus(loss, "{:.4f}"))
        table.add_row(title, *cells, f"{np.mean(rates):.3g}" if rates else "–", status)
    last = f"last {trial.window} of {trial.epochs} epochs" if trial.epochs > 1 else "after one epoch"
    errors = ", ± 2 SE" if len(trial.seeds) > 1 else ""
    seeds = count(len(trial.seeds), "seed")
    console.print(f"{trial.label}: {trial.problem.data.describe()}; {seeds}, {last}{errors}", highlight=False)
    console.print(table)


def _plus_minus(values: Any, form: str) -> str:
    if len(values) < 2:
        return form.format(values.mean())
    return f"{form.format(values.mean())} ± {form.format(2 * values.std(ddof=1) / np.sqrt(len(values)))}"
