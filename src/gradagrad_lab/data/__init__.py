"""Data sets by name: LIBSVM's files from a local folder or the cache, any file in that format, or bundled stand-ins."""

from __future__ import annotations

import os
from pathlib import Path

from gradagrad_lab.data import bundled as bundled
from gradagrad_lab.data import libsvm as libsvm
from gradagrad_lab.data.bundled import BUNDLED as BUNDLED
from gradagrad_lab.data.catalogue import CATALOGUE as CATALOGUE
from gradagrad_lab.data.dataset import Dataset as Dataset
from gradagrad_lab.errors import DATA, USAGE, UserError


def cache_folder() -> Path:
    """Where fetched files are kept: GRADAGRAD_CACHE, or gradagrad under the user's cache folder."""
    own = os.environ.get("GRADAGRAD_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "gradagrad"


def data_folder(given: Path | None) -> Path | None:
    """The folder of local copies: --data-dir, else GRADAGRAD_DATA, else none."""
    name = str(given) if given is not None else os.environ.get("GRADAGRAD_DATA", "")
    if not name:
        return None
    folder = Path(name).expanduser()
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
    """A set by name: one of the catalogue, a bundled one, or the path of a file in LIBSVM's format."""
    if name in CATALOGUE:
        places = folders(data_dir)
        found = libsvm.find(name, places)
        if found is None:
            looked = " and ".join(str(place) for place in places)
            raise UserError(
                f"The set {name!r} was not found in {looked}; fetch it with `gradagrad data fetch {name}`, "
                "or point --data-dir or GRADAGRAD_DATA at a copy.",
                DATA,
            )
        return libsvm.load(found)
    if name in BUNDLED:
        return bundled.load(name)
    path = Path(name).expanduser()
    if path.is_file():
        return libsvm.load_path(path)
    if os.sep in name or path.suffix:
        raise UserError(f"The data file {name} does not exist.", DATA)
    known = ", ".join((*CATALOGUE, *BUNDLED))
    raise UserError(f"data must be one of {known}, or a file in LIBSVM's format, got {name!r}.", USAGE)


def sets_at_hand(data_dir: Path | None = None) -> list[str]:
    """The sets of Figure 3 that are on disk; the bundled stand-ins where none is."""
    places = folders(data_dir)
    found = [name for name in CATALOGUE if libsvm.find(name, places) is not None]
    return found or list(BUNDLED)
