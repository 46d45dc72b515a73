"""What a run leaves behind: its configuration, seeds, versions, status and curves, in one JSON file.

Figures only read records. A record is written under a temporary name and then renamed, so a killed run leaves either
a whole record or none; its file name is a hash of the configuration and the seeds, so a finished run is found again.
It is used only if its checksum, key, configuration, seeds and the lengths of its curves fit. Otherwise the run is
trained again, and a message says so.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from gradagrad_lab.errors import OUTPUT, UserError

if TYPE_CHECKING:
    from gradagrad_lab.study import Run

SCHEMA = 2
Status = Literal["done", "diverged"]
MARKER = "gradagrad-lab.json"
_CHECKSUM, _BATCH = "checksum", ".records.json"


@dataclass
class Record:
    """One run. ``curves`` maps a measure to its points; ``status`` is "diverged" where its last loss is not finite."""

    config: dict[str, Any]
    seeds: list[int]
    status: Status
    curves: dict[str, Any]
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))
    git: str = field(default_factory=lambda: git_hash())
    finished: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    schema: int = SCHEMA

    @property
    def key(self) -> str:
        return key_of(self.config, self.seeds)


def key_of(config: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """Hash of everything that decides a run's numbers; floats hash by their shortest exact text."""
    text = json.dumps({"config": config, "seeds": list(seeds)}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class RecordStore:
    """The records of one output folder, each read once."""

    def __init__(self, out: Path, reuse: bool = True) -> None:
        self.out = out
        self.folder = out / "records"
        self.reuse = reuse
        self._written: set[str] = set()
        self._known: dict[str, Record] = {}
        self._error_texts: list[str] = []

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def find(self, run: Run) -> Record | None:
        """The record of this run, or None where it has still to be trained."""
        key = run.key
        if key in self._known:
            return self._known[key]
        path = self.path(key)
        # Without reuse a record counts only if this command has written it.
        if (not self.reuse and key not in self._written) or not path.exists():
            return None
        try:
            record = read_record(path)
        except UserError as error:
            reason = error.message.rstrip(".")
        else:
            reason = _why_invalid(record, run)
            if not reason:
                self._known[key] = record
                return record
        self._error_texts.append(f"{reason}: trained again.")
        return None

    def error_texts(self) -> list[str]:
        """Why records were not used since the last call, one sentence for each."""
        sentences = list(dict.fromkeys(self._error_texts))
        self._error_texts.clear()
        return sentences

    def used(self) -> list[Record]:
        """All records that were read."""
        return list(self._known.values())

    def save(self, record: Record) -> Path:
        prepare(self.out)
        path = self.path(record.key)
        _write(path, _content(record))
        self.mark_written([path.stem])
        return path

    def save_together(self, records: Sequence[Record]) -> list[str]:
        """Runs that were trained side by side: all their records or none. Until all are written they also lie in one
        file, from which the next command continues. Trained without the others, a run may differ in its last digits.
        """
        batch = self.out / "partial" / f"{key_of({'records': [record.key for record in records]}, [])}{_BATCH}"
        if len(records) > 1:
            _write(batch, [_content(record) for record in records])
        keys = [self.save(record).stem for record in records]
        batch.unlink(missing_ok=True)
        return keys

    def finish_writing(self) -> None:
        """Write the records that a killed command has left in batches, or delete them without reuse."""
        for batch in (self.out / "partial").glob(f"*{_BATCH}"):
            left: list[Record] = []
            with suppress(OSError, ValueError, TypeError, RecursionError, UserError):  # damaged: trained again
                left = [_record(content, batch) for content in json.loads(batch.read_bytes())]
            for record in left if self.reuse else ():
                if not self.path(record.key).exists():
                    self.save(record)
            batch.unlink(missing_ok=True)

    def mark_written(self, keys: Iterable[str]) -> None:
        """Note records that this command, or a worker process of it, has just written."""
        for key in keys:
            self._written.add(key)
            self._known.pop(key, None)


def _why_invalid(record: Record, run: Run) -> str:
    """Why a readable record does not belong to the run; empty if it does."""
    name = f"The record {run.key}.json"
    if record.seeds != [run.seed]:
        return f"{name} is of seed {', '.join(map(str, record.seeds))}, not {run.seed}"
    if record.key != run.key or _to_json(record.config) != _to_json(dict(run.config)):
        return f"{name} is of another run"
    lengths = {measure: len(points) for measure, points in record.curves.items() if isinstance(points, list)}
    if lengths != dict(run.measures):
        return f"{name} has curves of other lengths than the run"
    return ""


def _content(record: Record) -> dict[str, Any]:
    """A record as JSON, with its checksum."""
    content = _to_json(asdict(record))
    return {**content, _CHECKSUM: _checksum(content)}


def _write(path: Path, content: Any) -> None:
    # No sync: if a power failure cuts a record short, its checksum does not match, and the run is trained again.
    write_atomically(path, json.dumps(content, separators=(",", ":"), allow_nan=False).encode(), wait=False)


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps({key: value for key, value in content.items() if key != _CHECKSUM}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_record(path: Path) -> Record:
    """Read one record; refuse damaged files and those of another schema."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"The record {path} cannot be read: {error.strerror}.", OUTPUT) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"The record {path} is damaged ({error}).", OUTPUT) from error
    return _record(content, path)


def _record(content: Any, path: Path) -> Record:
    if not isinstance(content, dict) or "schema" not in content:
        raise UserError(f"{path} is not a record of gradagrad.", OUTPUT)
    if content["schema"] != SCHEMA:
        raise UserError(
            f"The record {path} has format {content['schema']}, this version reads format {SCHEMA}.", OUTPUT
        )
    if content.pop(_CHECKSUM, None) != _checksum(content):
        raise UserError(f"The record {path} is damaged (its checksum does not match).", OUTPUT)
    try:
        return Record(**cast(dict[str, Any], _from_json(content)))
    except TypeError as error:  # fields of another version
        raise UserError(f"The record {path} is damaged ({error}).", OUTPUT) from error


def prepare(out: Path) -> None:
    """Create the output folder, or check that an existing one was written in this format."""
    marker = out / MARKER
    try:
        if marker.exists():
            schema = json.loads(marker.read_bytes()).get("schema")
            if schema != SCHEMA:
                raise UserError(
                    f"The folder {out} was written in format {schema}, this version writes format {SCHEMA}; "
                    "choose another --out folder, or delete the old one.",
                    OUTPUT,
                )
        (out / "records").mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            write_atomically(marker, json.dumps({"schema": SCHEMA, "versions": versions()}).encode())
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{marker} is damaged; choose another --out folder, or delete that file.", OUTPUT) from error
    except OSError as error:
        why = f"The output folder {out} cannot be written ({error.strerror}); name another with --out."
        raise UserError(why, OUTPUT) from error


def write_atomically(path: Path, content: bytes, *, wait: bool = True) -> None:
    """Write under a temporary name, then rename: readers never see half a file. ``wait`` syncs it to disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if wait:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise writing_failed(path, error) from error


def writing_failed(path: Path, error: OSError | RuntimeError) -> UserError:
    """The error for a file that could not be written."""
    number = error.errno if isinstance(error, OSError) else _errno_of(path.parent)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return UserError(
            f"The disk is full: {path} could not be written; free some space and run the same command again, "
            "finished runs are kept.",
            OUTPUT,
        )
    reason = os.strerror(number) if number else str(error).splitlines()[0]
    return UserError(f"{path} could not be written: {reason}.", OUTPUT)


def _errno_of(folder: Path) -> int | None:
    """Why nothing can be written here, for libraries that do not say why."""
    trial = folder / f".trial.{os.getpid()}.tmp"
    try:
        trial.write_bytes(bytes(2**20))
    except OSError as error:
        return error.errno
    finally:
        trial.unlink(missing_ok=True)
    return None


@functools.cache
def versions() -> Mapping[str, str]:
    """Versions of all software that can change a number."""
    found = {"python": platform.python_version()}
    for package in ("gradagrad", "torch", "numpy", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


@functools.cache
def git_hash() -> str:
    """The commit this code was run from, "+" where files were changed since; empty outside a git checkout."""
    root = Path(__file__).resolve().parent
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _to_json(value: Any) -> Any:
    """JSON has no NaN or infinity: a number that is not finite is written as its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in cast(Sequence[Any], value)]
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, dict):
        return {key: _from_json(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_from_json(item) for item in cast(list[Any], value)]
    return value
