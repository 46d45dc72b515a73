"""One part of Criteo's cache: from a piece of text to packed numbers on disk, and back.

A row takes four bytes for every integer, four or two for every id, according to the size of its table, and one for the
click: about half of what it takes as text. Columns of one kind lie together.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data import criteo
from gradagrad_lab.data.clicks import CAP, DENSE_FIELDS, ID_FIELDS, Rows
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.records import write_atomically

_NARROW = 2**16


@dataclass(frozen=True)
class Settings:
    """What the cached numbers depend on besides the source."""

    cap: int = CAP
    part_bytes: int = criteo.PART_BYTES

    @property
    def sizes(self) -> tuple[int, ...]:
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
    content = _pack(parsed, settings.sizes)
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
    except (OSError, ValueError, TypeError):
        return None
    return piece if intact else None


def count_distinct(folder: Path, pieces: list[Piece]) -> list[int]:
    """Distinct ids per field over all parts, exactly; one field in memory at a time."""
    counts: list[int] = []
    for field in range(ID_FIELDS):
        found: list[NDArray[np.uint32]] = []
        for number, piece in enumerate(pieces):
            before, own = sum(piece.distinct[:field]), piece.distinct[field]
            found.append(np.fromfile(path_of(folder, number, "ids"), dtype=np.uint32, count=own, offset=4 * before))
        counts.append(len(np.unique(np.concatenate(found))))
    return counts


def damaged(path: Path) -> UserError:
    """The one sentence for a part that is not what it was."""
    return UserError(
        f"The cache file {path} is damaged or missing; delete its folder and run `gradagrad data criteo` again.", DATA
    )


def _widths(sizes: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Fields whose row numbers need four bytes, and those that fit in two."""
    wide = [field for field, size in enumerate(sizes) if size > _NARROW]
    return wide, [field for field in range(len(sizes)) if field not in wide]


def row_bytes(sizes: tuple[int, ...]) -> int:
    """Bytes of one row."""
    wide, narrow = _widths(sizes)
    return 4 * len(wide) + 4 * DENSE_FIELDS + 2 * len(narrow) + 1


def _pack(parsed: criteo.Parsed, sizes: tuple[int, ...]) -> bytes:
    wide, narrow = _widths(sizes)
    rows = criteo.slots(parsed, sizes)
    columns = (rows[:, wide].astype("<u4"), parsed.dense().astype("<f4"), rows[:, narrow].astype("<u2"), parsed.clicks)
    return b"".join(column.tobytes() for column in columns)


def unpack(content: bytes, rows: int, sizes: tuple[int, ...], offsets: NDArray[np.int64]) -> Rows:
    """The rows of a part, ids as rows of the one flat table."""
    wide, narrow = _widths(sizes)
    ids = np.empty((rows, ID_FIELDS), dtype=np.int32)
    at = 4 * rows * len(wide)
    ids[:, wide] = np.frombuffer(content, "<u4", rows * len(wide)).reshape(rows, -1)
    dense = np.frombuffer(content, "<f4", rows * DENSE_FIELDS, at).reshape(rows, DENSE_FIELDS)
    at += 4 * rows * DENSE_FIELDS
    ids[:, narrow] = np.frombuffer(content, "<u2", rows * len(narrow), at).reshape(rows, -1)
    at += 2 * rows * len(narrow)
    clicks = np.frombuffer(content, np.uint8, rows, at).astype(np.float32)
    ids += offsets.astype(np.int32)
    return Rows(dense, ids, clicks, None)


def path_of(folder: Path, number: int, kind: str) -> Path:
    """Where a part's file of this kind lies."""
    return folder / f"part-{number:05d}.{kind}"


def checksum_of(content: bytes) -> str:
    """128 bits that change when any byte does."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
