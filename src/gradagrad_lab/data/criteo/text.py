"""Reads the lines of Criteo's display advertising file fast, without holding the whole file in memory.

A line has 40 tab-separated fields: the label, 13 integers and 26 ids of up to eight hexadecimal digits; integers and
ids may be blank. Text is parsed a few megabytes at a time with array operations: no Python loop touches a row. The
memory map that training reads is made by `gradagrad_lab.data.criteo.cache`.
"""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data import cache_folder
from gradagrad_lab.data.clicks.stream import DENSE_FIELDS, ID_FIELDS, Rows
from gradagrad_lab.data.clicks.tables import CARDINALITIES
from gradagrad_lab.errors import DATA, UserError

FIELDS = 1 + DENSE_FIELDS + ID_FIELDS
PART_BYTES = 8 * 2**20
ROW = np.dtype(
    [("ids", "<u4", ID_FIELDS), ("dense", "<f4", DENSE_FIELDS), ("missing", "u1", -(-ID_FIELDS // 8)), ("click", "u1")]
)
"""A row in the memory map. The version of this format is part of the map's place."""
FORMAT = 3
_EDGE = _CHUNK = 2**20
_TAB, _NEWLINE, _MINUS = 9, 10, 45
_LONGEST_INTEGER, _LONGEST_ID = 10, 8
_NO_DIGIT = 255

# A byte's value as a hexadecimal digit.
_HEX = np.full(256, _NO_DIGIT, dtype=np.uint8)
for _characters in ("0123456789abcdef", "0123456789ABCDEF"):
    _HEX[np.frombuffer(_characters.encode(), dtype=np.uint8)] = np.arange(16)


@dataclass(frozen=True)
class Parsed:
    """The good rows of a piece of text, and what was wrong with the others."""

    clicks: NDArray[np.uint8]
    integers: NDArray[np.int64]  # (rows, 13), 0 where blank
    integers_missing: NDArray[np.bool_]
    ids: NDArray[np.uint32]  # (rows, 26), 0 where blank
    ids_missing: NDArray[np.bool_]
    lines: int
    bad: list[tuple[int, str]]
    """(line within this piece, counted from 0; what is wrong with it), in the order of the lines."""

    @property
    def rows(self) -> int:
        return len(self.clicks)

    def dense(self) -> NDArray[np.float32]:
        """log(1 + max(x, 0)), and 0 where missing."""
        return np.log1p(np.maximum(self.integers, 0).astype(np.float32))

    def records(self) -> NDArray[Any]:
        """The rows as the memory map holds them."""
        records = np.empty(self.rows, ROW)
        records["ids"], records["dense"], records["click"] = self.ids, self.dense(), self.clicks
        records["missing"] = np.packbits(self.ids_missing, axis=1)
        return records


def hashed_sizes(cap: int) -> tuple[int, ...]:
    """Table rows per field: ten times the field's known cardinality, so that few ids share a row, up to ``cap``."""
    return tuple(min(10 * cardinality + 1, cap) for cardinality in CARDINALITIES)


def table_rows(ids: NDArray[np.uint32], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Each id's row within its field's table: a hash of the id to 1 … size − 1. Row 0 is for missing ones."""
    # Criteo's ids are already hashes, but their low bits alone are not reliable.
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
    return 1 + (mixed % (np.asarray(sizes, dtype=np.uint64) - np.uint64(1))).astype(np.int64)


def offsets_of(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Where each field's rows begin in the one flat table."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))[:-1]])


def parse(text: bytes) -> Parsed:
    """Parse whole lines. The last one may lack its newline."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if text and not text.endswith(b"\n"):
        text += b"\n"
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    tabs = np.flatnonzero(data == _TAB)
    per_line = np.diff(np.searchsorted(tabs, ends), prepend=0)
    fits = per_line == FIELDS - 1
    bad = [(int(line), f"{per_line[line] + 1} fields instead of {FIELDS}") for line in np.flatnonzero(~fits)]

    lines = np.flatnonzero(fits)
    inner = tabs[np.repeat(fits, per_line)].reshape(-1, FIELDS - 1)
    begin = np.concatenate([begins[fits, None], inner + 1], axis=1)
    length = np.concatenate([inner, ends[fits, None]], axis=1) - begin

    label = data[begin[:, 0]] if len(lines) else data[:0]
    label_ok = (length[:, 0] == 1) & ((label == ord("0")) | (label == ord("1")))
    integer_columns = slice(1, 1 + DENSE_FIELDS)
    integers, integer_ok = _integers(data, begin[:, integer_columns], length[:, integer_columns])
    id_columns = slice(1 + DENSE_FIELDS, FIELDS)
    ids, id_ok = _hexadecimals(data, begin[:, id_columns], length[:, id_columns])

    good = label_ok & integer_ok.all(axis=1) & id_ok.all(axis=1)
    for row in np.flatnonzero(~good):
        fields = [bytes(data[b : b + n]) for b, n in zip(begin[row], length[row], strict=True)]
        bad.append((int(lines[row]), _error_text(fields, label_ok[row], integer_ok[row], id_ok[row])))
    return Parsed(
        clicks=(label[good] == ord("1")).astype(np.uint8),
        integers=integers[good],
        integers_missing=length[good, integer_columns] == 0,
        ids=ids[good],
        ids_missing=length[good, id_columns] == 0,
        lines=len(ends),
        bad=sorted(bad),
    )


def _integers(
    data: NDArray[np.uint8], begin: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Values (0 where blank) and whether each field is blank or a decimal integer of at most ten digits."""
    if not begin.size:
        return np.zeros(begin.shape, dtype=np.int64), np.ones(begin.shape, dtype=np.bool_)
    last = len(data) - 1
    negative = (length > 0) & (data[begin] == _MINUS)
    begin, digits = begin + negative, length - negative
    fine = (digits <= _LONGEST_INTEGER) & ~(negative & (digits == 0))
    value = np.zeros(begin.shape, dtype=np.int64)
    for position in range(min(int(digits.max()), _LONGEST_INTEGER)):
        active = digits > position
        digit = data[np.minimum(begin + position, last)] - np.uint8(ord("0"))  # other characters wrap to > 9
        fine &= ~active | (digit <= 9)
        value = np.where(active, value * 10 + digit, value)
    return np.where(negative, -value, value), fine


def _hexadecimals(
    data: NDArray[np.uint8], begin: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Values (0 where blank) and whether each field is blank or at most eight hexadecimal digits."""
    fine = length <= _LONGEST_ID
    value = np.zeros(begin.shape, dtype=np.uint32)
    if not begin.size:
        return value, fine
    last = len(data) - 1
    for position in range(min(int(length.max()), _LONGEST_ID)):
        active = length > position
        digit = _HEX[data[np.minimum(begin + position, last)]]
        fine &= ~active | (digit != _NO_DIGIT)
        value = np.where(active, (value << np.uint32(4)) | digit, value)
    return value, fine


def _error_text(fields: list[bytes], label_ok: bool, integer_ok: NDArray[np.bool_], id_ok: NDArray[np.bool_]) -> str:
    def shown(field: bytes) -> str:
        return repr(field[:20].decode("utf-8", "replace"))

    if not label_ok:
        return f"the label must be 0 or 1, got {shown(fields[0])}"
    if not integer_ok.all():
        column = int(np.flatnonzero(~integer_ok)[0]) + 1
        return f"I{column} must be blank or an integer, got {shown(fields[column])}"
    column = int(np.flatnonzero(~id_ok)[0]) + 1
    return f"C{column} must be blank or up to 8 hexadecimal digits, got {shown(fields[DENSE_FIELDS + column])}"


def is_compressed(path: Path) -> bool:
    """Whether the file is read through gzip."""
    return path.suffix == ".gz"


def pieces(path: Path, size: int = PART_BYTES) -> Iterator[tuple[bytes, int]]:
    """Whole lines, about ``size`` bytes at a time, and how many bytes of the file have been read so far; also .gz."""
    with path.open("rb") as file:
        source = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_compressed(path) else file
        try:
            while text := source.read(size):
                yield (text if text.endswith(b"\n") else text + source.readline()), file.tell()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{path} is not a complete gzip file ({error}); download it again.", DATA) from error


def write_records(source: Path, path: Path, progress: Callable[[int], None]) -> None:
    """Appends the records that ``path`` does not have yet. Raises at the first bad line."""
    lines = 0
    with path.open("ab") as file:
        stored = file.tell() // ROW.itemsize
        for text, done in pieces(source, PART_BYTES):
            here = text.count(b"\n") + (not text.endswith(b"\n"))
            if lines + here > stored:
                file.truncate(lines * ROW.itemsize)  # An interruption may have left a part of a piece.
                parsed = parse(text)
                for line, what in parsed.bad[:1]:
                    raise UserError(f"{source}, line {lines + line + 1}: {what}. Is it Criteo's train.txt?", DATA)
                file.write(parsed.records().tobytes())
                file.flush()
            lines += here
            progress(done)
    if not lines:
        raise UserError(f"{source} holds no rows.", DATA)


def ids_by_field(records: NDArray[Any]) -> list[NDArray[np.uint32]]:
    """All ids of each field, ascending."""
    found = [np.empty(0, np.uint32)] * ID_FIELDS
    for begin in range(0, len(records), _CHUNK):
        ids, seen = records["ids"][begin : begin + _CHUNK], ~_missing(records[begin : begin + _CHUNK])
        found = [np.union1d(old, ids[seen[:, field], field]) for field, old in enumerate(found)]
    return found


def rows_of(records: NDArray[Any], sizes: tuple[int, ...], known: list[NDArray[np.uint32]] | None) -> Rows:
    """Ids as rows of the one flat table: hashes, or places among the known ids. A missing one is its field's first."""
    if known is None:
        places = table_rows(records["ids"], sizes)
    else:
        own = zip(known, records["ids"].T, strict=True)
        places = np.stack([np.searchsorted(sorted_ids, ids) + 1 for sorted_ids, ids in own], axis=1)
    flat = np.where(_missing(records), 0, places) + offsets_of(sizes)
    return Rows(np.array(records["dense"]), flat.astype(np.int32), records["click"].astype(np.float32), None)


def _missing(records: NDArray[Any]) -> NDArray[np.bool_]:
    return np.unpackbits(records["missing"], axis=1, count=ID_FIELDS).astype(bool)


def folder_of(source: Path) -> Path:
    """Where the memory map of this file lies, as the file is now."""
    file, version = (
        hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        for text in (str(source.resolve()), f"{FORMAT} {fingerprint(source)}")
    )
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
