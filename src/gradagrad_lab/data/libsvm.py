"""Reading LIBSVM's text format, and finding the files of the catalogue on disk."""

import csv
import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data.catalogue import CATALOGUE, Copy, LibsvmSet
from gradagrad_lab.data.dataset import Dataset
from gradagrad_lab.data.fetch import decompressed, provenance
from gradagrad_lab.errors import DATA, UserError

Floats = NDArray[np.float64]
_DENSE_LIMIT = 2**28  # values; 2 GiB of float64, above which a file is certainly not one of these small data sets


@dataclass(frozen=True)
class Found:
    """A copy of a data set on disk."""

    entry: LibsvmSet
    copy: Copy
    path: Path

    @property
    def label(self) -> str:
        return f"{self.entry.name} ({self.copy.note})" if self.copy.note else self.entry.name


def find(name: str, folders: Iterable[Path]) -> Found | None:
    """The best copy of a data set: LIBSVM's own file first, wherever it is, then a reconstructed or partial one.

    Files may be in a folder of the data set's name or directly in the data folder, as text or as .bz2.
    """
    entry = CATALOGUE[name]
    places = list(folders)
    for copy in entry.copies:
        file_names = [copy.file] if copy.file.endswith(".bz2") else [copy.file, copy.file + ".bz2"]
        for folder in places:
            for parent in (folder / entry.name, folder):
                for file_name in file_names:
                    if (parent / file_name).is_file():
                        return Found(entry, copy, parent / file_name)
    return None


def load(found: Found) -> Dataset:
    """Read a copy of the catalogue and check its size."""
    dataset = load_path(found.path, name=found.entry.name, label=found.label, features=found.entry.features)
    wrong = mismatch(found, dataset)
    if wrong:
        raise UserError(f"{found.path} is not the data set {found.entry.name!r}: {wrong}.", DATA)
    return replace(dataset, source=source_of(found, dataset.sha256))


def source_of(found: Found, sha256: str) -> str:
    """Where a copy came from, for the reader of a report; ``sha256`` is that of its text."""
    note = provenance(found.path.parent).get(found.path.name)
    if note is not None and "source" in note:
        return note["source"]
    if sha256 == found.copy.sha256:
        return f"the data folder; the same bytes as LIBSVM's {found.copy.file}"
    return f"the data folder ({found.path.name})"


def mismatch(found: Found, dataset: Dataset) -> str:
    """Says what is wrong with the size of a data set; empty if nothing is."""
    expected = (found.copy.rows, found.entry.features, found.entry.classes)
    got = (dataset.rows, dataset.columns, dataset.classes)
    if expected == got:
        return ""
    return "expected {:,} rows, {} features and {} classes, got {:,}, {} and {}".format(*expected, *got)


def load_path(path: Path, *, name: str | None = None, label: str | None = None, features: int | None = None) -> Dataset:
    """Read any file in LIBSVM's format, plain or .bz2, or CSV, with class labels 0 … classes-1 in the order of their
    values. A file whose indices begin at 0 is read too, and its label says so."""
    content = read_bytes(path)
    first = 0 if name is None and re.search(rb"^\S+\s+0:", content, re.MULTILINE) else 1
    if path.name.removesuffix(".bz2").endswith(".csv"):
        dense, labels = _csv(path, content)
    else:
        dense, labels = _svm(path, content, features, first)
    if not len(labels):
        raise UserError(f"{path} holds no rows.", DATA)
    if not (np.isfinite(dense).all() and np.isfinite(labels).all()):
        row = int(np.argmin(np.isfinite(dense).all(axis=1) & np.isfinite(labels)))
        raise UserError(f"{path}, row {row + 1}: a value is not a finite number.", DATA)
    values, targets = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        raise UserError(
            f"{path} has only one class ({values[0]:g}); a classification data set needs two or more.", DATA
        )
    if len(values) > 1000 or not np.array_equal(values, np.round(values)):
        raise UserError(f"{path} has {len(values)} labels such as {values[0]:g}, which are not class numbers.", DATA)
    return Dataset(
        name=name or path.name,
        label=label or path.name + " (indices from 0)" * (not first),
        source=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        features=dense,
        targets=targets.reshape(-1).astype(np.int64),
        classes=len(values),
    )


def _svm(path: Path, content: bytes, features: int | None, first: int) -> tuple[Floats, Floats]:
    """Rows of a label and index:value entries, with any white space between them; # begins a comment."""
    labels: list[float] = []
    rows: list[list[tuple[int, float]]] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        label, *fields = line.partition(b"#")[0].split() or [b""]
        if label:
            try:
                labels.append(float(label))
                rows.append([(int(index), float(value)) for index, _, value in (f.partition(b":") for f in fields)])
            except ValueError:
                raise UserError(f"{path}, line {number}: {_malformed(label, fields)}.", DATA) from None
            places = [first - 1, *(index for index, _ in rows[-1])]
            if fault := next((f"index {b} comes after {a}" for a, b in itertools.pairwise(places) if b <= a), ""):
                below = f"index {places[1]} is below {first}" if places[1] < first else f"{fault}; indices must rise"
                raise UserError(f"{path}, line {number}: {below}.", DATA)
            if features is not None and places[-1] > features:
                what = f"index {places[-1]} is above the data set's {features} features"
                raise UserError(f"{path}, line {number}: {what}.", DATA)
    width = features or max((index + 1 - first for row in rows for index, _ in row[-1:]), default=0)
    if len(rows) * width > _DENSE_LIMIT:
        raise UserError(f"{path} is too large for these experiments: {len(rows):,} × {width:,}.", DATA)
    dense = np.zeros((len(rows), width))
    for values, row in zip(dense, rows, strict=True):
        values[[index - first for index, _ in row]] = [value for _, value in row]
    return dense, np.array(labels)


def _malformed(label: bytes, fields: list[bytes]) -> str:
    if not _is_number(label.decode(errors="replace")):
        return f"the label {label.decode(errors='replace')!r} is not a number"
    words = (field.decode(errors="replace") for field in fields)
    wrong = next(word for word in words if not _is_entry(*word.partition(":")))
    return f"{wrong!r} is not of the form index:value"


def _is_entry(index: str, colon: str, value: str) -> bool:
    return bool(colon) and index.lstrip("+-").isdigit() and _is_number(value)


def _csv(path: Path, content: bytes) -> tuple[Floats, Floats]:
    """The numbers and the classes, which are any text in the last column. A header is left out: a first line without
    numbers."""
    reader = csv.reader(content.decode("utf-8-sig", "replace").splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}.", DATA) from error
    if rows and not any(map(_is_number, rows[0][1][:-1])):
        del rows[0]
    width = len(rows[0][1]) if rows else 0
    for number, row in rows:
        words = [cell for cell in row[:-1] if not _is_number(cell)]
        if words or len(row) != width or width < 2:
            wrong = f"{words[0]!r} is not a number" if words else f"a wrong number of cells ({len(row)})"
            form = "Rows must be numbers with commas between them, and the class last."
            raise UserError(f"{path}, line {number}: {wrong}. {form}", DATA)
    _, labels = np.unique([row[-1].strip() for _, row in rows], return_inverse=True)
    return np.array([[float(cell) for cell in row[:-1]] for _, row in rows]), labels.astype(np.float64)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_bytes(path: Path) -> bytes:
    """A file's text, decompressed where its name ends in .bz2."""
    try:
        content = path.read_bytes()
        return decompressed(content) if path.suffix == ".bz2" else content
    except (EOFError, ValueError) as error:
        reason = f"it cannot be decompressed ({error})"
        raise UserError(f"{path} is damaged: {reason}; fetch or copy it again.", DATA) from error
    except OSError as error:
        if path.suffix == ".bz2" and error.errno is None:  # bz2 reports invalid data this way
            raise UserError(f"{path} is damaged: it cannot be decompressed; fetch or copy it again.", DATA) from error
        raise UserError(f"{path} cannot be read: {error.strerror}.", DATA) from error
