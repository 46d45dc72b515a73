"""`gradagrad data criteo`: checks a Criteo file, prints what is in it, and makes the memory map that training reads."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gradagrad_lab.cli.options import DEFAULT_OUT
from gradagrad_lab.context import Context
from gradagrad_lab.data.clicks.stream import CAP
from gradagrad_lab.data.criteo import cache as criteo_cache
from gradagrad_lab.data.criteo.cache import Settings
from gradagrad_lab.errors import DATA, UserError

HELP = """Check a Criteo file (train.txt or .gz), print what is in it, and make the memory map that training reads.

    The file is read once and never held whole. A bad row is refused with its line. Ctrl-C keeps what is done, and the
    same command resumes from there. The map is made again when the file has changed.

    Example:

      gradagrad data criteo ~/criteo/train.txt
    """


def criteo(
    path: Annotated[Path, typer.Argument(help="Criteo's train.txt, or train.txt.gz.")],
    cap: Annotated[int, typer.Option(min=2, max=2**31 - 1, help="Largest table of a field; ids are hashed.")] = CAP,
    every_id: Annotated[
        bool, typer.Option("--every-id", help="A table row for every id, as in the paper, instead of --cap.")
    ] = False,
) -> None:
    """Makes or opens the map and prints the summary."""
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    if not path.is_file():
        raise UserError(f"The data file {path} does not exist.", DATA)
    started = time.perf_counter()
    with Context(DEFAULT_OUT, console=console).progress(path.stat().st_size, f"Reading {path.name}") as bar:
        cache = criteo_cache.build(path, Settings(cap, every_id), progress=lambda done: bar.set(done, None))
    console.print(f"{len(cache):,} rows, {cache.clicks:,} clicks ({cache.clicks / len(cache):.1%}).")
    console.print("Distinct ids: " + ", ".join(f"C{field} {count:,}" for field, count in enumerate(cache.distinct, 1)))
    console.print(f"Map ready after {time.perf_counter() - started:.1f} s: {cache.folder}", markup=False)
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
