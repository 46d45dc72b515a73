"""The memory map of a Criteo file: made once, resumed after an interruption, made again when the file has changed."""

import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gradagrad_lab.data.clicks.stream import CAP, Rows
from gradagrad_lab.data.clicks.tables import CARDINALITIES
from gradagrad_lab.data.criteo import text as criteo
from gradagrad_lab.errors import DATA, UserError

DAYS = 7  # the Kaggle file is a week in order of time; its days are seven equal parts, as in DLRM's script


class Settings(NamedTuple):
    """Ids are hashed to at most ``cap`` table rows a field, or have a row each, as in DLRM's own preprocessing."""

    cap: int = CAP
    every_id: bool = False


class CriteoCache:
    """A finished map, read by row number."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings, self._records = folder, settings, np.memmap(folder / "rows.bin", criteo.ROW, "r")
        with (folder / "ids.npz").open("rb") as file, np.load(file) as stored:  # written last
            self.clicks, *self._ids = (stored[name] for name in stored)
        self.distinct = [len(ids) for ids in self._ids]
        # At least as many as the whole Kaggle file needs: the length of a part of it does not change the model.
        every = tuple(max(two) + 1 for two in zip(self.distinct, CARDINALITIES, strict=True))
        self.table_sizes = every if settings.every_id else criteo.hashed_sizes(settings.cap)

    def __len__(self) -> int:
        return len(self._records)

    def span(self, part: str) -> tuple[int, int]:
        """The rows of "train", "validation" or "test": six days of seven, and the halves of the seventh."""
        train = len(self) * (DAYS - 1) // DAYS
        middle = train + (len(self) - train) // 2
        return {"train": (0, train), "validation": (train, middle), "test": (middle, len(self))}[part]

    def rows(self, begin: int, end: int) -> Rows:
        """The rows [begin, end), with ids as rows of the one flat table."""
        return criteo.rows_of(self._records[begin:end], self.table_sizes, self._ids if self.settings.every_id else None)

    def batches(self, size: int, begin: int, end: int) -> Iterator[Rows]:
        """Batches of equal size; a short rest at the end is left out."""
        return (self.rows(first, first + size) for first in range(begin, end - size + 1, size))


def open_cache(source: Path, settings: Settings | None = None) -> CriteoCache | None:
    """The finished map of this file, or None where there is none or the file has changed."""
    try:
        return CriteoCache(criteo.folder_of(source), settings or Settings())
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile):
        return None


def build(source: Path, settings: Settings | None = None, progress: Callable[[int], None] | None = None) -> CriteoCache:
    """The map of this file, made or completed if needed. ``progress`` is called with the bytes done."""
    if not (found := open_cache(source, settings)):
        folder = criteo.folder_of(source)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.parent.iterdir():
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)
        criteo.write_records(source, folder / "rows.bin", progress or (lambda done: None))
        if criteo.folder_of(source) != folder:
            raise UserError(f"{source} was changed while it was being read; run the same command again.", DATA)
        records = np.memmap(folder / "rows.bin", criteo.ROW, "r")
        np.savez(folder / "ids.npz", np.count_nonzero(records["click"]), *criteo.ids_by_field(records))
        found = CriteoCache(folder, settings or Settings())
    return found
