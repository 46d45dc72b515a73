"""`gradagrad reproduce`: the paper's figures and theorem, and the report."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gradagrad_lab import data as data_sets
from gradagrad_lab.cli.options import DEFAULT_OUT, DataDir, FirstSeed, Out, Resume, Seeds, Workers
from gradagrad_lab.context import Context, Size
from gradagrad_lab.errors import USAGE, UserError, unknown
from gradagrad_lab.figures import experiments
from gradagrad_lab.records import prepare

HELP = (
    """Reproduce the paper: train what is missing, draw the figures, write report.html.

    The quick size takes minutes. --full is the paper's protocol (100 epochs, 10 seeds), except that Figure 4 has
    smaller networks and tables and fewer rows. --size paper trains Figure 4 as the paper does: half a billion
    parameters on all of Criteo, for days. Everything is written to --out. Ctrl-C keeps what is finished, and the same
    command resumes from there. Missing data sets are fetched. Without a network, scikit-learn's bundled ones replace
    them, and are labelled as such.

    Experiments: """
    + "; ".join(f"{name}: {shows}" for name, shows in experiments.SHOWS.items())
    + """.

    Examples:

      gradagrad reproduce

      gradagrad reproduce figure2 --gamma0 0.3 --gamma0 1e-5

      gradagrad reproduce figure3 --full --only glass,vowel

      gradagrad reproduce figure3 --data mine.csv --data other.svm

      gradagrad reproduce figure4 --rho 50

      gradagrad reproduce figure4 --size paper --data-dir FOLDER     (FOLDER/criteo/train.txt)
    """
)
OWNERS = {
    "gamma0": "figure2", "data": "figure3", "only": "figure3", "softmax": "figure3", "rho": "figure4",
    "rows": "figure4",
}  # fmt: skip
"""The options of a single experiment."""


def reproduce(
    experiment: Annotated[str, typer.Argument(help="One experiment, or all.")] = experiments.ALL,
    size: Annotated[Size, typer.Option(help="How large; paper: Figure 4 as in the paper, the rest full.")] = Size.QUICK,
    full: Annotated[bool, typer.Option("--full/--quick", help="The same as --size full, or quick.")] = False,
    data_dir: DataDir = None,
    out: Out = DEFAULT_OUT,
    seeds: Seeds = None,
    first_seed: FirstSeed = None,
    resume: Resume = True,
    workers: Workers = None,
    gamma0: Annotated[list[float] | None, typer.Option(help="Figure 2 from this γ₀; repeatable.")] = None,
    data: Annotated[
        list[Path] | None, typer.Option(help="Figure 3 on this file, LIBSVM or CSV (class last); repeatable.")
    ] = None,
    only: Annotated[str, typer.Option(help="Some of Figure 3's data sets: glass,vowel.", show_default=False)] = "",
    softmax: Annotated[bool, typer.Option("--softmax", help="Figure 3 with soft-max, not one-vs-rest.")] = False,
    rho: Annotated[list[float] | None, typer.Option(min=0, help="Figure 4 at this ρ; repeatable.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=256, help="At most this many rows for Figure 4 to train on.", show_default=False)
    ] = None,
) -> None:
    """Run experiments and write the report. Slow imports wait until the options are known to be good."""
    names = experiments.chosen(experiment)
    given = {"gamma0": gamma0, "data": data, "only": only, "softmax": softmax, "rho": rho, "rows": rows}
    check_owners(names, given)
    chosen = tuple(word.strip() for word in only.split(",") if word.strip())
    for name in chosen:
        if name not in (known := (*data_sets.CATALOGUE, *data_sets.BUNDLED)):
            raise unknown("--only", name, known)
    for path in data or ():
        if not path.expanduser().is_file():
            raise UserError(f"The data file {path} does not exist.", USAGE)
    console = Console(soft_wrap=True, emoji=False)
    context = Context(
        out, data_sets.data_folder(data_dir), Size.FULL if full and size is Size.QUICK else size, seeds, resume,
        console, workers, first_seed, rows, softmax, chosen, tuple(data or ()), tuple(gamma0 or ()),
        tuple(rho or ()),
    )  # fmt: skip
    prepare(out)
    started = time.perf_counter()
    acquire(names, context)

    from gradagrad_lab.report.page import write_report
    from gradagrad_lab.study import conduct

    sections: list[Any] = []
    for name in names:
        console.print(f"[bold]{name}[/]: {experiments.SHOWS[name]}", highlight=False)
        sections.append(conduct(experiments.study_of(name), context))
        for claim in sections[-1].claims:
            console.print(f"  {claim.verdict}: {claim.text}", highlight=False, markup=False)
    path = write_report(sections, context)
    minutes, rest = divmod(round(time.perf_counter() - started), 60)
    console.print(f"Done in {minutes} min {rest} s. Open {path}", highlight=False, markup=False)


def check_owners(names: list[str], given: dict[str, Any]) -> None:
    """Raises for an option that none of the experiments has, and for values that no picture could show."""
    for option, value in given.items():
        if value and OWNERS[option] not in names:
            raise UserError(f"{names[0]} has no option --{option}; it belongs to {OWNERS[option]}.", USAGE)
    if gamma0 := given["gamma0"]:
        from gradagrad_lab.report.style import LONGEST_RAMP

        if len(gamma0) > LONGEST_RAMP or any(not 0 < value < 1e38 for value in gamma0):
            raise UserError(f"--gamma0 may be given at most {LONGEST_RAMP} times, each above 0 and below 1e38.", USAGE)


def acquire(names: list[str], context: Context) -> None:
    """Fetch the data sets that the experiments need and that are missing, and say which were not found."""
    wanted = list(data_sets.CATALOGUE)
    if names == ["figure3"] and (context.only or context.files):
        wanted = [name for name in wanted if name in context.only]
    if "figure3" not in names:
        return
    say = context.console.print
    for name, why in data_sets.acquire(wanted, context.data_dir, lambda text: say(text, highlight=False)).items():
        say(f"{name} is missing: {why}.", highlight=False, markup=False)
