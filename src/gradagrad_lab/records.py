"""What a run leaves behind: its configuration, seeds, versions, status and curves, in one JSON file.

Figures only read records. A record is written under a temporary name and then renamed, so a killed run leaves either
a whole record or none; its file name is a hash of the configuration and the seeds, so a finished run is found again.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, cast

from gradagrad_lab.errors import OUTPUT, UserError

SCHEMA = 1
Status = Literal["done", "diverged", "failed"]
STATUSES = ("done", "diverged", "failed")
MARKER = "gradagrad-lab.json"


@dataclass
class Record:
    """One configuration trained from one or more seeds.

    ``curves`` maps a metric to whatever the experiment measured; by convention one list per seed.
    ``status`` is "diverged" where at least one seed met a number that is not finite; ``diverged`` lists those seeds.
    """

    config: dict[str, Any]
    seeds: list[int]
    status: Status
    curves: dict[str, Any]
    seconds: float = 0.0
    diverged: list[int] = field(default_factory=list)
    message: str = ""
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
    """The records of one output folder."""

    def __init__(self, out: Path, reuse: bool = True) -> None:
        self.out = out
        self.folder = out / "records"
        self.reuse = reuse
        self._written: set[str] = set()

    def path(self, config: Mapping[str, Any], seeds: Sequence[int]) -> Path:
        return self.folder / f"{key_of(config, seeds)}.json"

    def find(self, config: Mapping[str, Any], seeds: Sequence[int]) -> Record | None:
        """The finished record of this run, or None where it has still to be trained."""
        path = self.path(config, seeds)
        # Without reuse a record counts only if this very command has written it.
        if not self.reuse and path.stem not in self._written:
            return None
        if not path.exists():
            return None
        record = read_record(path)
        return None if record.status == "failed" else record

    def save(self, record: Record) -> Path:
        prepare(self.out)
        path = self.folder / f"{record.key}.json"
        write_atomically(path, json.dumps(_to_json(asdict(record)), separators=(",", ":"), allow_nan=False).encode())
        self.mark_written([path.stem])
        return path

    def mark_written(self, keys: Iterable[str]) -> None:
        """Note records that this command, or a worker process of it, has just written."""
        self._written.update(keys)

    def ensure(self, config: Mapping[str, Any], seeds: Sequence[int], train: Callable[[], Record]) -> Record:
        """The record of this run, trained only if it is missing. ``train`` returns a record of the same key."""
        found = self.find(config, seeds)
        if found is not None:
            return found
        started = time.perf_counter()
        record = train()
        record.seconds = record.seconds or time.perf_counter() - started
        if record.key != key_of(config, seeds):
            raise ValueError("the trained record has another configuration than the one asked for")
        self.save(record)
        # Read back, so that a figure sees the same numbers whether it was trained now or last week.
        return read_record(self.path(config, seeds))


def read_record(path: Path) -> Record:
    """Read one record, refusing damaged files and those of another schema in one sentence."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"The record {path} cannot be read: {error.strerror}.", OUTPUT) from error
    except ValueError as error:
        raise UserError(f"The record {path} is damaged ({error}); delete it and run again.", OUTPUT) from error
    if not isinstance(content, dict) or "schema" not in content:
        raise UserError(f"{path} is not a record of gradagrad; delete it and run again.", OUTPUT)
    if content["schema"] != SCHEMA:
        raise UserError(
            f"The record {path} has format {content['schema']}, this version reads format {SCHEMA}; "
            "choose another --out folder, or delete the old one.",
            OUTPUT,
        )
    try:
        record = Record(**cast(dict[str, Any], _from_json(content)))
    except TypeError as error:
        raise UserError(f"The record {path} is damaged ({error}); delete it and run again.", OUTPUT) from error
    if record.status not in STATUSES:
        raise UserError(f"The record {path} has the unknown status {record.status!r}; delete it and run again.", OUTPUT)
    return record


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
    except (ValueError, AttributeError) as error:
        raise UserError(f"{marker} is damaged; choose another --out folder, or delete that file.", OUTPUT) from error
    except OSError as error:
        raise UserError(f"The output folder {out} cannot be written: {error.strerror}.", OUTPUT) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: readers never meet half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise writing_failed(path, error) from error


def writing_failed(path: Path, error: OSError) -> UserError:
    """The one sentence for a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(
            f"The disk is full: {path} could not be written; free some space and run the same command again, "
            "finished runs are kept.",
            OUTPUT,
        )
    return UserError(f"{path} could not be written: {error.strerror}.", OUTPUT)


@functools.cache
def versions() -> Mapping[str, str]:
    """Versions of everything that can change a number."""
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
