"""Criteo's display advertising file as a memory map, which is made once, resumed after an interruption, and made again
when the file has changed.

A line has 40 tab-separated fields: the label, 13 integers and 26 ids of up to eight hexadecimal digits; integers and
ids may be blank. The file is never held whole in memory.
"""

import gzip
import hashlib
import itertools
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data import cache_folder
from gradagrad_lab.data.clicks.stream import CAP, DENSE_FIELDS, ID_FIELDS, Rows, offsets_of
from gradagrad_lab.data.clicks.tables import CARDINALITIES
from gradagrad_lab.errors import DATA, UserError

DAYS = 7  # the Kaggle file is a week in order of time; its days are seven equal parts, as in DLRM's script
PIECE = 1 << 16  # lines that are read and written together
FIELDS = 1 + DENSE_FIELDS + ID_FIELDS
ROW = np.dtype(
    [("ids", "<u4", ID_FIELDS), ("dense", "<f4", DENSE_FIELDS), ("missing", "u1", -(-ID_FIELDS // 8)), ("click", "u1")]
)
"""A row in the memory map. The version of this format is part of the map's place."""
FORMAT = 3
_EDGE = 1 << 20
_INTEGER, _ID = re.compile(rb"(-?\d{1,10})?"), re.compile(rb"[0-9a-fA-F]{0,8}")
_LINE = re.compile(rb"[01](\t(-?\d{1,10})?){%d}(\t[0-9a-fA-F]{0,8}){%d}" % (DENSE_FIELDS, ID_FIELDS))


class Settings(NamedTuple):
    """Ids are hashed to at most ``cap`` table rows a field, or have a row each, as in DLRM's own preprocessing."""

    cap: int = CAP
    every_id: bool = False


class CriteoCache:
    """A finished map, read by row number."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings, self._records = folder, settings, np.memmap(folder / "rows.bin", ROW, "r")
        with (folder / "ids.npz").open("rb") as file, np.load(file) as stored:  # written last
            self.clicks, *self._ids = (stored[name] for name in stored)
        self.distinct = [len(ids) for ids in self._ids]
        # At least as many as the whole Kaggle file needs: the length of a part of it does not change the model.
        every = tuple(max(two) + 1 for two in zip(self.distinct, CARDINALITIES, strict=True))
        # Hashed: ten times the field's known cardinality, so that few ids share a row, up to the cap.
        hashed = tuple(min(10 * cardinality + 1, settings.cap) for cardinality in CARDINALITIES)
        self.table_sizes = every if settings.every_id else hashed

    def __len__(self) -> int:
        return len(self._records)

    def span(self, part: str) -> tuple[int, int]:
        """The rows of "train", "validation" or "test": six days of seven, and the halves of the seventh."""
        train = len(self) * (DAYS - 1) // DAYS
        middle = train + (len(self) - train) // 2
        return {"train": (0, train), "validation": (train, middle), "test": (middle, len(self))}[part]

    def rows(self, begin: int, end: int) -> Rows:
        """The rows [begin, end), with ids as rows of the one flat table. A missing id is its field's first row."""
        records = self._records[begin:end]
        if self.settings.every_id:
            places = np.stack([*map(np.searchsorted, self._ids, records["ids"].T)], axis=1) + 1
        else:
            # Criteo's ids are already hashes, but their low bits alone are not reliable.
            mixed = records["ids"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
            places = 1 + (mixed % (np.asarray(self.table_sizes, np.uint64) - np.uint64(1))).astype(np.int64)
        flat = np.where(_missing(records), 0, places) + offsets_of(self.table_sizes)
        return Rows(np.array(records["dense"]), flat.astype(np.int32), records["click"].astype(np.float32), None)

    def batches(self, size: int, begin: int, end: int) -> Iterator[Rows]:
        """Batches of equal size; a short rest at the end is left out."""
        return (self.rows(first, first + size) for first in range(begin, end - size + 1, size))


def open_cache(source: Path, settings: Settings | None = None) -> CriteoCache | None:
    """The finished map of this file, or None where there is none or the file has changed."""
    try:
        return CriteoCache(folder_of(source), settings or Settings())
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile):
        return None


def build(source: Path, settings: Settings | None = None, progress: Callable[[int], None] | None = None) -> CriteoCache:
    """The map of this file, made or completed if needed. ``progress`` is called with the bytes done."""
    if found := open_cache(source, settings):
        return found
    folder = folder_of(source)
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.parent.iterdir()) - {folder}:
        shutil.rmtree(old, ignore_errors=True)
    _write(source, folder / "rows.bin", progress or (lambda done: None))
    if folder_of(source) != folder:
        raise UserError(f"{source} was changed while it was being read; run the same command again.", DATA)
    records = np.memmap(folder / "rows.bin", ROW, "r")
    ids = [np.empty(0, np.uint32)] * ID_FIELDS
    for begin in range(0, len(records), 16 * PIECE):
        part = records[begin : begin + 16 * PIECE]
        seen = ~_missing(part)
        ids = [np.union1d(old, part["ids"][seen[:, field], field]) for field, old in enumerate(ids)]
    np.savez(folder / "ids.npz", np.count_nonzero(records["click"]), *ids)
    return CriteoCache(folder, settings or Settings())


def _write(source: Path, path: Path, progress: Callable[[int], None]) -> None:
    """Appends the rows that ``path`` lacks. An interruption loses the last piece at most."""
    with source.open("rb") as file, path.open("ab") as target:
        text = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if source.suffix == ".gz" else file
        done, stored = 0, target.tell() // ROW.itemsize // PIECE * PIECE
        target.truncate(stored * ROW.itemsize)
        try:
            while lines := list(itertools.islice(text, PIECE)):
                if done >= stored:
                    target.write(parse(lines, f"{source}, line {{}}: {{}}. Is it Criteo's train.txt?", done).tobytes())
                    target.flush()
                done += len(lines)
                progress(file.tell())
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{source} is not a complete gzip file ({error}); download it again.", DATA) from error
    if not done:
        raise UserError(f"{source} holds no rows.", DATA)


def parse(lines: Sequence[bytes], message: str = "line {}: {}", before: int = 0) -> NDArray[Any]:
    """Lines as the memory map holds them: log(1 + max(x, 0)) of the integers, 0 where one is missing. Raises at the
    first bad line; ``before`` lines came earlier."""
    rows = [line.rstrip(b"\r\n") for line in lines]
    for number, line in enumerate(rows, before + 1):
        if not _LINE.fullmatch(line):
            raise UserError(message.format(number, _fault(line.split(b"\t"))), DATA)
    fields = [line.split(b"\t") for line in rows]
    records = np.zeros(len(rows), ROW)
    integers = np.array([[int(value or b"0") for value in row[1 : 1 + DENSE_FIELDS]] for row in fields])
    records["dense"] = np.log1p(np.maximum(integers, 0).astype(np.float32))
    records["ids"] = [[int(value or b"0", 16) for value in row[-ID_FIELDS:]] for row in fields]
    records["missing"] = np.packbits([[not value for value in row[-ID_FIELDS:]] for row in fields], axis=1)
    records["click"] = [row[0] == b"1" for row in fields]
    return records


def _fault(fields: list[bytes]) -> str:
    """Says what is wrong with a line."""
    if len(fields) != FIELDS:
        return f"{len(fields)} fields instead of {FIELDS}"
    rules = [(re.compile(rb"[01]"), "the label", "0 or 1")]
    rules += [(_INTEGER, f"I{number + 1}", "blank or an integer") for number in range(DENSE_FIELDS)]
    rules += [(_ID, f"C{number + 1}", "blank or up to 8 hexadecimal digits") for number in range(ID_FIELDS)]
    wrong = ((field, rule) for field, rule in zip(fields, rules, strict=True) if not rule[0].fullmatch(field))
    field, (_, name, form) = next(wrong)
    return f"{name} must be {form}, got {field[:20].decode('utf-8', 'replace')!r}"


def _missing(records: NDArray[Any]) -> NDArray[np.bool_]:
    return np.unpackbits(records["missing"], axis=1, count=ID_FIELDS).astype(bool)


def folder_of(source: Path) -> Path:
    """Where the memory map of this file lies, as the file is now."""
    parts = (str(source.resolve()), f"{FORMAT} {fingerprint(source)}")
    file, version = (hashlib.blake2b(text.encode(), digest_size=6).hexdigest() for text in parts)
    return cache_folder() / "criteo" / f"{source.name}-{file}" / version


def fingerprint(source: Path) -> dict[str, Any]:
    """Size, time of change and both ends of the file: enough to notice another file under the same name."""
    try:
        state = source.stat()
        with source.open("rb") as file:
            edges = file.read(_EDGE)
            file.seek(max(state.st_size - _EDGE, 0))
            edges += file.read(_EDGE)
    except OSError as error:
        raise UserError(f"The data file {source} cannot be read: {error.strerror}.", DATA) from error
    edges = hashlib.blake2b(edges, digest_size=16).hexdigest()
    return {"size": state.st_size, "changed": state.st_mtime_ns, "edges": edges}
