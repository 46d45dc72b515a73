"""The only store of results: one JSON file for each workload, with a line for each finished run.

A run lies in the file of its workload under a key that says everything that decides its numbers. A file is written
under a temporary name and then renamed, so a killed command leaves whole files. Figures and tables only read records.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradagrad_lab.errors import OUTPUT, UserError

if TYPE_CHECKING:
    from gradagrad_lab.study import Run

SCHEMA = 4
MARKER = "gradagrad-lab.json"
PACKAGES = ("gradagrad", "torch", "numpy", "scikit-learn", "schedulefree", "prodigyopt", "transformers")
PAUSE = 1.0  # seconds between two writes of a file, so that writing stays cheap beside runs of milliseconds


class DamagedError(UserError):
    """A file that is not what this version writes."""


class RunFile:
    """The finished runs of one workload by key. ``made``: notes of what they were made with; a run names its note."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made: list[dict[str, str]] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self._own: dict[tuple[str, ...], Any] = {}
        """What was put here, not read, by its path of keys."""
        self._seen: Any = None
        self._merge()

    def note(self) -> int:
        """The place of this process's note."""
        return self._place(made_now())

    def put(self, run: Any, *path: str) -> None:
        """Adds or replaces a run, or a part of `runs` at a longer path. `save` writes it."""
        self._own[path] = run
        *above, key = path
        functools.reduce(lambda runs, name: runs.setdefault(name, {}), above, self.runs)[key] = run

    def save(self) -> None:
        self._merge()
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(run)}" for key, run in sorted(self.runs.items())]
        text = f'{{"made": {json.dumps(self.made)},\n"runs": {{\n' + ",\n".join(lines) + "\n}}\n"
        write_atomically(self.path, text.encode(), wait=False)
        self._seen = self._stamp()

    def made_with(self) -> str:
        """Everything that the runs were made with, as words."""
        notes = {f"{name} {note[name]}" for note in self.made for name in note}
        return ", ".join(sorted(notes)) or "nothing"

    def _place(self, note: dict[str, str]) -> int:
        if note not in self.made:
            self.made.append(note)
        return self.made.index(note)

    def _stamp(self) -> Any:
        found = self.path.stat() if self.path.exists() else None
        return found and (found.st_ino, found.st_mtime_ns, found.st_size)

    def _merge(self) -> None:
        """Reads the file again, because another command may have written since, and keeps what was put here."""
        if (stamp := self._stamp()) == self._seen:
            return
        self._seen = stamp
        try:
            content = json.loads(self.path.read_bytes())
            notes, runs = content["made"], content["runs"]
            for note in notes:  # Held-out runs do not name theirs.
                self._place(note)
            self.runs = {
                key: {**run, "made": self._place(notes[run["made"]])} if "made" in run else run
                for key, run in runs.items()
            }
        except OSError as error:
            raise UserError(f"The record {self.path} cannot be read: {error.strerror}.", OUTPUT) from error
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise DamagedError(f"The record {self.path} is damaged ({error}).", OUTPUT) from error
        for path, run in self._own.items():
            self.put(run, *path)


@dataclass
class Record:
    """One finished run. ``workload`` names its file; ``curves`` maps a measure to its points."""

    workload: str
    config: dict[str, Any]
    seed: int
    curves: dict[str, Any]
    seconds: float = 0.0
    made: Mapping[str, str] = field(default_factory=lambda: made_now())

    @property
    def key(self) -> str:
        return key_of(self.config, [self.seed])

    @property
    def diverged(self) -> bool:
        """Whether the last loss is not finite."""
        return "loss" in self.curves and not math.isfinite(self.curves["loss"][-1])


def key_of(config: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """Hash of everything that decides a run's numbers; floats hash by their shortest exact text."""
    text = json.dumps({"config": config, "seeds": list(seeds)}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class RecordStore:
    """The records of one output folder. Without ``reuse`` only what this command has added counts."""

    def __init__(self, out: Path, reuse: bool = True) -> None:
        self.out, self.reuse = out, reuse
        self.folder = out / "records"
        self._files: dict[Path, RunFile] = {}
        self._known: dict[str, Record] = {}
        self._error_texts: list[str] = []
        self._written = 0.0
        self._unwritten: set[Path] = set()

    def path(self, workload: str) -> Path:
        return self.folder / (re.sub(r"[^\w.-]+", "-", workload).strip("-") + ".json")

    def find(self, run: Run) -> Record | None:
        """The record of this run, or None where it has still to be trained."""
        if run.key in self._known or not self.reuse:
            return self._known.get(run.key)
        file = self._file(run.problem.label)
        if (found := file.runs.get(run.key)) is None:
            return None
        try:
            made, curves = file.made[found["made"]], found["curves"]
            record = Record(run.problem.label, found["config"], found["seed"], curves, found["seconds"], made)
            if {name: len(points) for name, points in curves.items()} == run.measures:
                self._known[run.key] = record
                return record
        except (KeyError, TypeError, IndexError, AttributeError):
            pass  # the message is the same as for other lengths
        what = f"{run.method.optimizer}, seed {run.seed}"
        self._error_texts.append(f"{file.path}: the record of {what}, does not fit the run: trained again.")
        return None

    def _file(self, workload: str) -> RunFile:
        path = self.path(workload)
        if path not in self._files:
            try:
                self._files[path] = RunFile(path)
            except DamagedError as error:
                self._error_texts.append(f"{error.message} Its runs are trained again.")
                path.replace(path.with_suffix(".damaged"))
                self._files[path] = RunFile(path)
        return self._files[path]

    def error_texts(self) -> list[str]:
        """Why records were not used since the last call, one sentence for each."""
        sentences = list(dict.fromkeys(self._error_texts))
        self._error_texts.clear()
        return sentences

    def used(self) -> list[Record]:
        """All records that were read or added."""
        return list(self._known.values())

    def add(self, *records: Record) -> None:
        """Keeps records, and writes them if the last write is a moment ago; `write` writes the rest."""
        for record in records:
            file = self._file(record.workload)
            self._known[record.key] = record
            content = {"config": record.config, "seed": record.seed, "seconds": record.seconds, "curves": record.curves}
            file.put({**content, "made": file._place(dict(record.made))}, record.key)
            self._unwritten.add(file.path)
        if time.monotonic() > self._written + PAUSE:
            self.write()

    def write(self) -> None:
        """Writes the files that have new records."""
        prepare(self.out)
        for path in sorted(self._unwritten):
            self._files[path].save()
        self._unwritten.clear()
        self._written = time.monotonic()


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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"The disk is full: {path} could not be written; free some space and run the same command again, "
                "finished runs are kept.",
                OUTPUT,
            ) from error
        raise UserError(f"{path} could not be written: {error.strerror}.", OUTPUT) from error


@functools.cache
def versions() -> Mapping[str, str]:
    """Versions of all installed software that can change a number."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@functools.cache
def made_now() -> dict[str, str]:
    """When, from which commit and with what this process trains. "+": files had changes beside the commit."""
    import torch  # imported here because reading records does not need it

    from gradagrad.kernel.load import kernel_status

    here = {"threads": torch.get_num_threads(), "cores": os.cpu_count(), "kernel": kernel_status().loaded}
    made = {"date": time.strftime("%Y-%m-%d"), "commit": git_hash()}
    return {**made, **{name: str(value) for name, value in here.items()}, **versions()}


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
