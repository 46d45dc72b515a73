"""The binary cache of a Criteo file: built once, in parallel, part by part, and checked whenever it is opened.

A part, ``part-00012.bin``, holds about 8 MiB of text: a line of JSON with its counts and checksum, then a record for
every good row. Parts that an interrupted build has finished are kept. ``field-03.ids`` holds every id of C3,
ascending; ``manifest.json`` is written last. Ids are kept as they are, and get their table row (a hash, or their place
among all ids of the field) while they are read: one cache serves tables of any size.
"""

import hashlib
import json
import multiprocessing
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data import cache_folder
from gradagrad_lab.data.clicks.stream import CAP, DENSE_FIELDS, ID_FIELDS, Rows, joined
from gradagrad_lab.data.clicks.tables import CARDINALITIES
from gradagrad_lab.data.criteo import text as criteo
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.records import write_atomically

FORMAT = 2
DAYS = 7  # the Kaggle file is a week in order of time; its days are seven equal parts, as in DLRM's script
MAX_BAD = 100
_EDGE = 2**20
_ROW = np.dtype(
    [("ids", "<u4", ID_FIELDS), ("dense", "<f4", DENSE_FIELDS), ("missing", "u1", -(-ID_FIELDS // 8)), ("click", "u1")]
)

Span = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Settings:
    """Which table row an id gets."""

    cap: int = CAP
    every_id: bool = False
    """A row for every id, as DLRM's own preprocessing has it; else ids are hashed to at most ``cap`` rows a field."""


@dataclass(frozen=True)
class Counts:
    """The counts of a part or of the whole file, with the first few bad rows."""

    lines: int
    rows: int
    clicks: int
    integers_missing: list[int]
    ids_missing: list[int]
    bad: int
    named_bad: list[tuple[int, str]]
    """The line, counted from 0, and what is wrong with it."""

    def plus(self, other: "Counts") -> "Counts":
        both = {name: (mine, getattr(other, name)) for name, mine in vars(self).items()}
        later = [(self.lines + line, error_text) for line, error_text in other.named_bad]
        return Counts(
            **{name: np.add(*two).tolist() for name, two in both.items() if name != "named_bad"},
            named_bad=[*self.named_bad, *later][: criteo.NAMED_BAD_ROWS],
        )


NOTHING = Counts(0, 0, 0, [0] * DENSE_FIELDS, [0] * ID_FIELDS, 0, [])


class CriteoCache:
    """A finished cache, read by row number. Keeps one part in memory at a time."""

    def __init__(self, folder: Path, manifest: dict[str, Any], settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self.counts = Counts(**manifest["counts"])
        self.distinct: list[int] = manifest["distinct"]
        self.table_sizes = criteo.hashed_sizes(settings.cap)
        self._known: list[NDArray[np.uint32]] = []
        if settings.every_id:
            # At least as many as the whole Kaggle file needs: the length of a part of it does not change the model.
            self.table_sizes = tuple(max(two) + 1 for two in zip(self.distinct, CARDINALITIES, strict=True))
            self._known = [self._ids_of(field, count) for field, count in enumerate(self.distinct)]
        self._ends = np.cumsum(manifest["rows"])
        self._held: tuple[int, Rows] | None = None

    def __len__(self) -> int:
        return self.counts.rows

    def span(self, part: Span) -> tuple[int, int]:
        """The day-style split: six days to train on; the seventh, in halves, for validation and test."""
        train = len(self) * (DAYS - 1) // DAYS
        middle = train + (len(self) - train) // 2
        return {"train": (0, train), "validation": (train, middle), "test": (middle, len(self))}[part]

    def rows(self, begin: int, end: int) -> Rows:
        """The rows [begin, end) as one."""
        found: list[Rows] = []
        while begin < end:
            number = int(np.searchsorted(self._ends, begin, side="right"))
            first, last = (int(self._ends[number - 1]) if number else 0), min(int(self._ends[number]), end)
            if self._held is None or self._held[0] != number:
                self._held = number, self._prepared(_read_part(self.folder, number)[1])
            found.append(self._held[1].cut(begin - first, last - first))
            begin = last
        return joined(found)

    def batches(self, size: int, begin: int = 0, end: int | None = None) -> Iterator[Rows]:
        """Batches of equal size; a short rest at the end is left out."""
        end = len(self) if end is None else min(end, len(self))
        return (self.rows(first, first + size) for first in range(begin, end - size + 1, size))

    def verify(self) -> None:
        """Compare every part with its checksum."""
        for number in range(len(self._ends)):
            _read_part(self.folder, number)

    def _ids_of(self, field: int, count: int) -> NDArray[np.uint32]:
        path = _ids_path(self.folder, field)
        if not path.is_file() or path.stat().st_size != 4 * count:
            raise damaged(path)
        return np.memmap(path, np.uint32, "r") if count else np.empty(0, np.uint32)

    def _prepared(self, records: NDArray[Any]) -> Rows:
        """Ids as rows of the one flat table; a missing one is the first row of its field."""
        ids = records["ids"]
        if self._known:
            places = np.stack([np.searchsorted(k, own) + 1 for k, own in zip(self._known, ids.T, strict=True)], axis=1)
        else:
            places = criteo.table_rows(ids, self.table_sizes)
        places[np.unpackbits(records["missing"], axis=1, count=ID_FIELDS).astype(bool)] = 0
        flat = (places + criteo.offsets_of(self.table_sizes)).astype(np.int32)
        return Rows(np.ascontiguousarray(records["dense"]), flat, records["click"].astype(np.float32), None)


def open_cache(source: Path, settings: Settings | None = None) -> CriteoCache | None:
    """The finished cache of this file, or None where there is none or it no longer matches the file."""
    folder = folder_of(source)
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        matches = manifest["stamp"] == _stamp(fingerprint(source))
        return CriteoCache(folder, manifest, settings or Settings()) if matches else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # this is not a manifest
        return None


def folder_of(source: Path) -> Path:
    """Where the cache of this file lies."""
    name = hashlib.blake2b(str(source.resolve()).encode(), digest_size=6).hexdigest()
    return cache_folder() / "criteo" / f"{source.name}-{name}"


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
    return {"size": state.st_size, "changed": state.st_mtime_ns, "edges": _checksum(edges)}


def _stamp(source: dict[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "source": source}


def build(
    source: Path,
    settings: Settings | None = None,
    *,
    workers: int = 1,
    max_bad: int = MAX_BAD,
    part_bytes: int = criteo.PART_BYTES,
    progress: Callable[[int], None] = lambda done: None,
) -> CriteoCache:
    """The cache of this file, built or completed if needed. ``progress`` is called with the bytes done."""
    if (found := open_cache(source, settings)) is not None:
        _check_bad(source, found.counts, max_bad)
        return found
    folder, before = folder_of(source), fingerprint(source)
    _prepare(folder, {**_stamp(before), "part_bytes": part_bytes})
    counts, rows = NOTHING, list[int]()
    for part, done in _parts(source, folder, workers, part_bytes):
        counts = counts.plus(part)
        rows.append(part.rows)
        _check_bad(source, counts, max_bad)
        progress(done)
    if not counts.rows:
        raise UserError(f"{source} holds no rows.", DATA)
    if fingerprint(source) != before:
        raise UserError(f"{source} was changed while it was being read; run the same command again.", DATA)
    distinct = _write_ids(folder, len(rows))
    manifest = {"stamp": _stamp(before), "counts": asdict(counts), "distinct": distinct, "rows": rows}
    write_atomically(folder / "manifest.json", json.dumps(manifest).encode())
    return CriteoCache(folder, manifest, settings or Settings())


def _prepare(folder: Path, stamp: dict[str, Any]) -> None:
    """Keep the finished parts of an interrupted build, unless they belong to another file or format."""
    begun = folder / "begun.json"
    content = json.dumps(stamp, sort_keys=True).encode()
    if not begun.is_file() or begun.read_bytes() != content:
        shutil.rmtree(folder, ignore_errors=True)
        write_atomically(begun, content)


def _parts(source: Path, folder: Path, workers: int, part_bytes: int) -> Iterator[tuple[Counts, int]]:
    """Finished parts in the order of the file, with the bytes done so far. Few are under way at a time, so memory stays
    small however long the file is."""
    if criteo.is_compressed(source):
        tasks = ((number, text, done) for number, (text, done) in enumerate(criteo.pieces(source, part_bytes)))
    else:
        tasks = ((n, span, span[1]) for n, span in enumerate(criteo.byte_ranges(source, part_bytes)))
    # Starting a process takes longer than making a part; text compresses to about a third.
    text_bytes = source.stat().st_size * (3 if criteo.is_compressed(source) else 1)
    workers = max(min(workers, text_bytes // part_bytes), 1)
    if workers == 1:
        yield from ((_finish(source, folder, number, work), done) for number, work, done in tasks)
        return
    # "spawn": forking a process in which torch has threads can hang.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        under_way: deque[tuple[Future[Counts], int]] = deque()
        try:
            for number, work, done in tasks:
                under_way.append((pool.submit(_finish, source, folder, number, work), done))
                if len(under_way) > 2 * workers:
                    future, finished = under_way.popleft()
                    yield future.result(), finished
            yield from ((future.result(), finished) for future, finished in under_way)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _finish(source: Path, folder: Path, number: int, work: bytes | tuple[int, int]) -> Counts:
    """Make one part, or find that it was made before. Runs in a worker process."""
    try:
        return _read_part(folder, number)[0]
    except UserError:
        pass
    parsed = criteo.parse(work if isinstance(work, bytes) else criteo.read_range(source, *work))
    records = np.empty(parsed.rows, _ROW)
    records["ids"], records["dense"], records["click"] = parsed.ids, parsed.dense(), parsed.clicks
    records["missing"] = np.packbits(parsed.ids_missing, axis=1)
    counts = Counts(
        lines=parsed.lines,
        rows=parsed.rows,
        clicks=int(parsed.clicks.sum()),
        integers_missing=parsed.integers_missing.sum(axis=0).tolist(),
        ids_missing=parsed.ids_missing.sum(axis=0).tolist(),
        bad=len(parsed.bad),
        named_bad=parsed.bad[: criteo.NAMED_BAD_ROWS],
    )
    content = records.tobytes()
    header = json.dumps({"counts": asdict(counts), "checksum": _checksum(content)})
    write_atomically(_part_path(folder, number), header.encode() + b"\n" + content)
    return counts


def _read_part(folder: Path, number: int) -> tuple[Counts, NDArray[Any]]:
    path = _part_path(folder, number)
    try:
        header, _, content = path.read_bytes().partition(b"\n")
        stored = json.loads(header)
        if _checksum(content) != stored["checksum"]:
            raise ValueError("another checksum")
        return Counts(**stored["counts"]), np.frombuffer(content, _ROW)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path) from error


def _write_ids(folder: Path, parts: int) -> list[int]:
    """Write every field's ids, and say how many there are."""
    found: list[list[NDArray[np.uint32]]] = [[] for _ in range(ID_FIELDS)]
    for number in range(parts):
        records = _read_part(folder, number)[1]
        missing = np.unpackbits(records["missing"], axis=1, count=ID_FIELDS).astype(bool)
        for field, seen in enumerate(found):
            seen.append(np.unique(records["ids"][~missing[:, field], field]))
            if len(seen) > 64:  # ids recur from part to part: now and then one list is made of many
                seen[:] = [np.unique(np.concatenate(seen))]
    everything = [np.unique(np.concatenate(seen)) for seen in found]
    for field, ids in enumerate(everything):
        write_atomically(_ids_path(folder, field), ids.tobytes())
    return [len(ids) for ids in everything]


def damaged(path: Path) -> UserError:
    """The error for a file that has changed or is missing."""
    return UserError(
        f"The cache file {path} is damaged or missing; delete its folder and run `gradagrad data criteo` again.", DATA
    )


def _check_bad(source: Path, counts: Counts, limit: int) -> None:
    if counts.bad > limit:
        named = "; ".join(f"line {line + 1}: {error_text}" for line, error_text in counts.named_bad)
        raise UserError(
            f"{source} has more than {limit} bad rows ({counts.bad} so far; {named}); is it Criteo's train.txt? "
            "A higher --max-bad skips bad rows.",
            DATA,
        )


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.bin"


def _ids_path(folder: Path, field: int) -> Path:
    return folder / f"field-{field + 1:02d}.ids"


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
