"""The binary cache of a Criteo file: built once, in parallel, part by part, and checked whenever it is opened.

A part is what about 8 MiB of text became: ``part-00012.bin`` (numbers), ``part-00012.json`` (counts and checksum) and,
until the cache is complete, ``part-00012.ids`` (the ids that occur, for counting distinct ones). Finished parts are
kept when a build is interrupted. ``manifest.json`` is written last and names everything that the numbers depend on; a
cache whose manifest does not match its source and settings is built anew.
"""

from __future__ import annotations

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

from gradagrad_lab.data import cache_folder, criteo
from gradagrad_lab.data import criteo_parts as parts
from gradagrad_lab.data.clicks import Rows, joined
from gradagrad_lab.data.criteo_parts import Settings as Settings
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.records import write_atomically

FORMAT = 1
DAYS = 7  # the Kaggle file is a week in order of time; its days are seven equal parts, as in DLRM's script
MAX_BAD = 100
_EDGE = 2**20

Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Summary:
    """What is known of the whole file."""

    lines: int
    rows: int
    clicks: int
    integers_missing: list[int]
    ids_missing: list[int]
    distinct: list[int]
    bad: int
    named_bad: list[str]


class CriteoCache:
    """A finished cache, read by row number. Keeps one part in memory at a time."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = Settings(**manifest["settings"])
        self.summary = Summary(**manifest["summary"])
        self.table_sizes = self.settings.sizes(self.summary.distinct)
        self._checksums: list[str] = manifest["checksums"]
        self._ends = np.cumsum(manifest["rows"])
        self._known = parts.known_ids(folder, self.summary.distinct) if self.settings.every_id else []
        self._held: tuple[int, Rows] | None = None

    def __len__(self) -> int:
        return self.summary.rows

    def span(self, part: Part) -> tuple[int, int]:
        """The day-style split: six days to train on; the seventh, in halves, for validation and test."""
        train = len(self) * (DAYS - 1) // DAYS
        middle = train + (len(self) - train) // 2
        return {"train": (0, train), "validation": (train, middle), "test": (middle, len(self))}[part]

    def blocks(self, begin: int = 0, end: int | None = None) -> Iterator[Rows]:
        """Consecutive rows, at most a part at a time."""
        end = len(self) if end is None else min(end, len(self))
        while begin < end:
            number = int(np.searchsorted(self._ends, begin, side="right"))
            first = int(self._ends[number - 1]) if number else 0
            last = min(int(self._ends[number]), end)
            yield self._part(number).cut(begin - first, last - first)
            begin = last

    def rows(self, begin: int, end: int) -> Rows:
        """The rows [begin, end) as one."""
        return joined(list(self.blocks(begin, end)))

    def batches(self, size: int, begin: int = 0, end: int | None = None) -> Iterator[Rows]:
        """Batches of equal size; a short rest at the end is left out, one between two parts is carried over."""
        rest: Rows | None = None
        for block in self.blocks(begin, end):
            if rest is not None:
                missing = size - len(rest.clicks)
                rest = joined([rest, block.cut(0, missing)])
                if len(rest.clicks) < size:
                    continue
                yield rest
                block = block.cut(missing, len(block.clicks))
            whole = len(block.clicks) // size * size
            for first in range(0, whole, size):
                yield block.cut(first, first + size)
            rest = block.cut(whole, len(block.clicks)) if whole < len(block.clicks) else None

    def verify(self, progress: Callable[[int], None] = lambda parts: None) -> None:
        """Compare every part with its checksum."""
        for number, checksum in enumerate(self._checksums):
            path = parts.path_of(self.folder, number, "bin")
            try:
                found = parts.checksum_of(path.read_bytes())
            except OSError as error:
                raise parts.damaged(path) from error
            if found != checksum:
                raise parts.damaged(path)
            progress(1)

    def _part(self, number: int) -> Rows:
        if self._held is None or self._held[0] != number:
            rows = int(self._ends[number] - (self._ends[number - 1] if number else 0))
            path = parts.path_of(self.folder, number, "bin")
            try:
                content = path.read_bytes()
            except OSError as error:
                raise parts.damaged(path) from error
            if len(content) != rows * parts.row_bytes(self.table_sizes, self.settings.every_id):
                raise parts.damaged(path)
            self._held = number, parts.unpack(content, rows, self.table_sizes, self._known)
        return self._held[1]


def folder_of(source: Path, settings: Settings) -> Path:
    """Where the cache of this file with these settings lies."""
    name = hashlib.blake2b(f"{source.resolve()} {settings}".encode(), digest_size=6).hexdigest()
    return cache_folder() / "criteo" / f"{source.name}-{name}"


def open_cache(source: Path, settings: Settings | None = None) -> CriteoCache | None:
    """The finished cache of this file, or None where there is none or it no longer matches the file."""
    settings = settings or Settings()
    folder = folder_of(source, settings)
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        if manifest["format"] != FORMAT or manifest["source"] != fingerprint(source):
            return None
        return CriteoCache(folder, manifest)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # whatever it is, no manifest
        return None


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
    return {"size": state.st_size, "changed": state.st_mtime_ns, "edges": parts.checksum_of(edges)}


def build(
    source: Path,
    settings: Settings | None = None,
    *,
    workers: int = 1,
    max_bad: int = MAX_BAD,
    progress: Callable[[int], None] = lambda done: None,
) -> CriteoCache:
    """The cache of this file, built or completed where needed. ``progress`` is told how many bytes are done."""
    settings = settings or Settings()
    found = open_cache(source, settings)
    if found is not None:
        if found.summary.bad > max_bad:
            raise _too_many_bad(source, found.summary.bad, max_bad, found.summary.named_bad)
        return found
    folder = folder_of(source, settings)
    print_of_source = fingerprint(source)
    _prepare(folder, print_of_source)
    # A process takes longer to start than a part to make; text compresses to about a third.
    text_bytes = print_of_source["size"] * (3 if criteo.is_compressed(source) else 1)
    workers = max(min(workers, text_bytes // settings.part_bytes), 1)
    pieces: list[parts.Piece] = []
    lines, bad, named = 0, 0, list[str]()
    for piece, done in _parts(source, folder, settings, workers):
        pieces.append(piece)
        named += [f"line {lines + line + 1}: {complaint}" for line, complaint in piece.named_bad]
        named = named[: criteo.NAMED_BAD_ROWS]
        lines, bad = lines + piece.lines, bad + piece.bad
        if bad > max_bad:
            raise _too_many_bad(source, bad, max_bad, named)
        progress(done)
    rows = sum(piece.rows for piece in pieces)
    if not rows:
        raise UserError(f"{source} holds no rows.", DATA)
    if fingerprint(source) != print_of_source:
        raise UserError(f"{source} was changed while it was being read; run the same command again.", DATA)
    summary = Summary(
        lines=lines,
        rows=rows,
        clicks=sum(piece.clicks for piece in pieces),
        integers_missing=_summed([piece.integers_missing for piece in pieces]),
        ids_missing=_summed([piece.ids_missing for piece in pieces]),
        distinct=parts.count_distinct(folder, pieces, keep=settings.every_id),
        bad=bad,
        named_bad=named,
    )
    manifest = {
        "format": FORMAT,
        "source": print_of_source,
        "settings": asdict(settings),
        "summary": asdict(summary),
        "rows": [piece.rows for piece in pieces],
        "checksums": [piece.checksum for piece in pieces],
    }
    write_atomically(folder / "manifest.json", json.dumps(manifest).encode())
    for number in range(len(pieces)):
        parts.path_of(folder, number, "ids").unlink(missing_ok=True)
    return CriteoCache(folder, manifest)


def _prepare(folder: Path, source: dict[str, Any]) -> None:
    """Keep the finished parts of an interrupted build, unless they belong to another file or format."""
    begun = folder / "begun.json"
    stamp = json.dumps({"format": FORMAT, "source": source}, sort_keys=True).encode()
    try:
        same = begun.read_bytes() == stamp
    except OSError:
        same = False
    if not same:
        shutil.rmtree(folder, ignore_errors=True)
        write_atomically(begun, stamp)
    (folder / "manifest.json").unlink(missing_ok=True)


def _parts(source: Path, folder: Path, settings: Settings, workers: int) -> Iterator[tuple[parts.Piece, int]]:
    """Finished parts in the order of the file, with the bytes done so far. Few are under way at a time, so memory stays
    small however long the file is."""
    if criteo.is_compressed(source):
        tasks = ((number, text, done) for number, (text, done) in enumerate(criteo.pieces(source, settings.part_bytes)))
    else:
        tasks = ((n, span, span[1]) for n, span in enumerate(criteo.byte_ranges(source, settings.part_bytes)))
    if workers == 1:
        for number, work, done in tasks:
            yield parts.finish(source, folder, number, work, settings), done
        return
    # "spawn": forking a process in which torch has threads can hang.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawning) as pool:
        under_way: deque[tuple[Future[parts.Piece], int]] = deque()
        try:
            for number, work, done in tasks:
                under_way.append((pool.submit(parts.finish, source, folder, number, work, settings), done))
                if len(under_way) > 2 * workers:
                    future, finished = under_way.popleft()
                    yield future.result(), finished
            for future, finished in under_way:
                yield future.result(), finished
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _too_many_bad(source: Path, bad: int, limit: int, named: list[str]) -> UserError:
    return UserError(
        f"{source} has more than {limit} bad rows ({bad} so far; {'; '.join(named)}); is it Criteo's train.txt? "
        "A higher --max-bad leaves bad rows out.",
        DATA,
    )


def _summed(lists: list[list[int]]) -> list[int]:
    return np.sum(np.array(lists, dtype=np.int64), axis=0).tolist()
