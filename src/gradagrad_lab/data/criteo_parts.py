"""One part of Criteo's cache: from a piece of text to packed numbers on disk, and back.

A row takes four bytes for every integer, four or two for every id, according to the size of its table, and one for the
click: about half of what it takes as text. Columns of one kind lie together. Where every id is to have its own row, the
ids themselves are kept, with a bit each for those that are missing: which rows they get is known only at the end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data import criteo
from gradagrad_lab.data.clicks import CAP, DENSE_FIELDS, ID_FIELDS, Rows
from gradagrad_lab.data.clicks_tables import CARDINALITIES
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.records import write_atomically

_NARROW = 2**16
_MISSING_BYTES = -(-ID_FIELDS // 8)


@dataclass(frozen=True)
class Settings:
    """What the cached numbers depend on besides the source."""

    cap: int = CAP
    part_bytes: int = criteo.PART_BYTES
    every_id: bool = False
    """A row for every id, as DLRM's own preprocessing has it; else ids are hashed to at most ``cap`` rows a field."""

    def sizes(self, distinct: Sequence[int]) -> tuple[int, ...]:
        """Table rows per field. With every id, at least as many as the whole Kaggle file needs: the length of a part of
        it does not change the model."""
        if self.every_id:
            return tuple(max(two) + 1 for two in zip(distinct, CARDINALITIES, strict=True))
        return criteo.hashed_sizes(self.cap)


@dataclass(frozen=True)
class Piece:
    """One finished part: its counts and its checksum."""

    lines: int
    rows: int
    clicks: int
    integers_missing: list[int]
    ids_missing: list[int]
    distinct: list[int]  # ids per field in this part: the lengths of what the .ids file holds
    bad: int
    named_bad: list[list[Any]]  # the first few: line within the part, complaint
    checksum: str


def finish(source: Path, folder: Path, number: int, work: bytes | tuple[int, int], settings: Settings) -> Piece:
    """Make one part, or find that it was made before. Runs in a worker process."""
    finished = _finished(folder, number)
    if finished is not None:
        return finished
    text = work if isinstance(work, bytes) else criteo.read_range(source, *work)
    parsed = criteo.parse(text)
    content = _pack(parsed, settings)
    unique = [np.unique(ids[~gone]) for ids, gone in zip(parsed.ids.T, parsed.ids_missing.T, strict=True)]
    piece = Piece(
        lines=parsed.lines,
        rows=parsed.rows,
        clicks=int(parsed.clicks.sum()),
        integers_missing=parsed.integers_missing.sum(axis=0).tolist(),
        ids_missing=parsed.ids_missing.sum(axis=0).tolist(),
        distinct=[len(ids) for ids in unique],
        bad=len(parsed.bad),
        named_bad=[list(item) for item in parsed.bad[: criteo.NAMED_BAD_ROWS]],
        checksum=checksum_of(content),
    )
    write_atomically(path_of(folder, number, "bin"), content)
    write_atomically(path_of(folder, number, "ids"), np.concatenate(unique).tobytes())
    write_atomically(path_of(folder, number, "json"), json.dumps(asdict(piece)).encode())
    return piece


def _finished(folder: Path, number: int) -> Piece | None:
    """A part that an earlier build completed, if its numbers are still what they were."""
    try:
        piece = Piece(**json.loads(path_of(folder, number, "json").read_bytes()))
        intact = checksum_of(path_of(folder, number, "bin").read_bytes()) == piece.checksum
        intact = intact and path_of(folder, number, "ids").stat().st_size == 4 * sum(piece.distinct)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return piece if intact else None


def count_distinct(folder: Path, pieces: list[Piece], *, keep: bool = False) -> list[int]:
    """Distinct ids per field over all parts, exactly; one field in memory at a time. ``keep``: also write them."""
    counts: list[int] = []
    for field in range(ID_FIELDS):
        found: list[NDArray[np.uint32]] = []
        for number, piece in enumerate(pieces):
            before, own = sum(piece.distinct[:field]), piece.distinct[field]
            found.append(np.fromfile(path_of(folder, number, "ids"), dtype=np.uint32, count=own, offset=4 * before))
        unique = np.unique(np.concatenate(found))
        counts.append(len(unique))
        if keep:
            write_atomically(known_path(folder, field), unique.tobytes())
    return counts


def known_path(folder: Path, field: int) -> Path:
    """Where a field's ids lie, ascending: an id's place among them is its row."""
    return folder / f"field-{field + 1:02d}.ids"


def known_ids(folder: Path, distinct: Sequence[int]) -> list[NDArray[np.uint32]]:
    """Every field's ids, ascending, read as they are needed."""
    known: list[NDArray[np.uint32]] = []
    for field, count in enumerate(distinct):
        path = known_path(folder, field)
        if not path.is_file() or path.stat().st_size != 4 * count:
            raise damaged(path)
        known.append(np.memmap(path, np.uint32, "r") if count else np.empty(0, np.uint32))
    return known


def damaged(path: Path) -> UserError:
    """The one sentence for a part that is not what it was."""
    return UserError(
        f"The cache file {path} is damaged or missing; delete its folder and run `gradagrad data criteo` again.", DATA
    )


def _widths(sizes: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Fields whose row numbers need four bytes, and those that fit in two."""
    wide = [field for field, size in enumerate(sizes) if size > _NARROW]
    return wide, [field for field in range(len(sizes)) if field not in wide]


def row_bytes(sizes: tuple[int, ...], every_id: bool) -> int:
    """Bytes of one row."""
    if every_id:
        return 4 * ID_FIELDS + 4 * DENSE_FIELDS + _MISSING_BYTES + 1
    wide, narrow = _widths(sizes)
    return 4 * len(wide) + 4 * DENSE_FIELDS + 2 * len(narrow) + 1


def _pack(parsed: criteo.Parsed, settings: Settings) -> bytes:
    dense = parsed.dense().astype("<f4")
    if settings.every_id:
        missing = np.packbits(parsed.ids_missing, axis=1)
        columns = (parsed.ids.astype("<u4"), dense, missing, parsed.clicks)
    else:
        sizes = criteo.hashed_sizes(settings.cap)
        wide, narrow = _widths(sizes)
        rows = criteo.slots(parsed, sizes)
        columns = (rows[:, wide].astype("<u4"), dense, rows[:, narrow].astype("<u2"), parsed.clicks)
    return b"".join(column.tobytes() for column in columns)


def unpack(content: bytes, rows: int, sizes: tuple[int, ...], known: list[NDArray[np.uint32]]) -> Rows:
    """The rows of a part, ids as rows of the one flat table. ``known``: every field's ids, where each has its row."""
    wide, narrow = (list(range(ID_FIELDS)), []) if known else _widths(sizes)
    ids = np.empty((rows, ID_FIELDS), dtype=np.int32)
    four = np.frombuffer(content, "<u4", rows * len(wide)).reshape(rows, -1)
    at = four.nbytes
    dense = np.frombuffer(content, "<f4", rows * DENSE_FIELDS, at).reshape(rows, DENSE_FIELDS)
    at += dense.nbytes
    if known:
        bits = np.frombuffer(content, np.uint8, rows * _MISSING_BYTES, at).reshape(rows, -1)
        at += bits.nbytes
        for field, own in enumerate(known):
            ids[:, field] = np.searchsorted(own, four[:, field]) + 1
        ids[np.unpackbits(bits, axis=1, count=ID_FIELDS).astype(bool)] = 0
    else:
        ids[:, wide] = four
        two = np.frombuffer(content, "<u2", rows * len(narrow), at).reshape(rows, -1)
        at += two.nbytes
        ids[:, narrow] = two
    clicks = np.frombuffer(content, np.uint8, rows, at).astype(np.float32)
    ids += criteo.offsets_of(sizes).astype(np.int32)
    return Rows(dense, ids, clicks, None)


def path_of(folder: Path, number: int, kind: str) -> Path:
    """Where a part's file of this kind lies."""
    return folder / f"part-{number:05d}.{kind}"


def checksum_of(content: bytes) -> str:
    """128 bits that change when any byte does."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
