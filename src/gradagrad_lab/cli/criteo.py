"""`gradagrad data criteo`: checks a Criteo file, prints what is in it, and builds the cache that training reads."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gradagrad_lab.cli.options import DEFAULT_OUT, Workers
from gradagrad_lab.context import Context, usable_cores
from gradagrad_lab.data.clicks.stream import CAP, DENSE_FIELDS
from gradagrad_lab.data.criteo import cache as criteo_cache
from gradagrad_lab.data.criteo.cache import Counts, CriteoCache, Settings
from gradagrad_lab.errors import DATA, UserError

HELP = """Check a Criteo file (train.txt or .gz), print what is in it, and build the binary cache that training reads.

    The file is read once, in parallel, and never held whole. Ctrl-C keeps what is done, and the same command resumes
    from there. The cache is checked against its checksums each time, and rebuilt when the file has changed.

    Example:

      gradagrad data criteo ~/criteo/train.txt
    """


def criteo(
    path: Annotated[Path, typer.Argument(help="Criteo's train.txt, or train.txt.gz.")],
    cap: Annotated[int, typer.Option(min=2, max=2**31 - 1, help="Largest table of a field; ids are hashed.")] = CAP,
    every_id: Annotated[
        bool, typer.Option("--every-id", help="A table row for every id, as in the paper, instead of --cap.")
    ] = False,
    max_bad: Annotated[int, typer.Option(min=0, help="Bad rows to skip before giving up.")] = criteo_cache.MAX_BAD,
    workers: Workers = None,
) -> None:
    """Build or open the cache and print the summary."""
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    if not path.is_file():
        raise UserError(f"The data file {path} does not exist.", DATA)
    settings = Settings(every_id=True) if every_id else Settings(cap=cap)
    cache = built(path, settings, max_bad, workers or usable_cores(), Context(DEFAULT_OUT, console=console))
    cache.verify()
    print_counts(console, cache.counts, cache.distinct)
    console.print(f"Cache verified: {cache.folder}", markup=False)
    parts = ", ".join(f"{part} {b - a:,}" for part in ("train", "validation", "test") for a, b in [cache.span(part)])
    console.print(f"Split by time, six days of seven to train on: {parts} rows.")
    console.print(f"Tables: {sum(cache.table_sizes):,} rows, the largest {max(cache.table_sizes):,}.")
    if not every_id:
        console.print(f"Train on it:  python examples/dlrm.py --criteo {path} --cap {cap}", markup=False)
    console.print(
        "For Figure 4 on these rows, let the file be criteo/train.txt in the data folder:  "
        "gradagrad reproduce figure4 --size full --data-dir FOLDER  (--size paper: the paper's own size, for days)",
        markup=False,
    )


def built(path: Path, settings: Settings, max_bad: int, workers: int, context: Context) -> CriteoCache:
    """Builds the cache, with a progress bar, and prints the rate."""
    existing = criteo_cache.open_cache(path, settings) is not None
    started = time.perf_counter()
    with context.progress(path.stat().st_size, f"Reading {path.name}") as bar:
        cache = criteo_cache.build(
            path, settings, workers=workers, max_bad=max_bad, progress=lambda done: bar.set(done, None)
        )
    if not existing:
        rate = len(cache) / max(time.perf_counter() - started, 1e-9)
        context.console.print(f"Cache built: {rate:,.0f} rows/s, in at most {workers} processes.")
    return cache


def print_counts(console: Console, counts: Counts, distinct: list[int]) -> None:
    """Print the counts of the whole file and of every column."""
    share = counts.clicks / counts.rows
    console.print(f"{counts.rows:,} rows, {counts.clicks:,} clicks ({share:.1%}), {counts.bad:,} bad rows skipped.")
    for line, error_text in counts.named_bad:
        console.print(f"  bad row, line {line + 1}: {error_text}", markup=False)
    table = Table("integer", "missing", "id", "missing", "distinct ids")
    integers = [(f"I{n}", f"{gone / counts.rows:.1%}") for n, gone in enumerate(counts.integers_missing, start=1)]
    for column, gone in enumerate(counts.ids_missing):
        integer = integers[column] if column < DENSE_FIELDS else ("", "")
        table.add_row(*integer, f"C{column + 1}", f"{gone / counts.rows:.1%}", f"{distinct[column]:,}")
    console.print(table)
