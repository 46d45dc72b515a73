"""Checking the copies of the data sets on disk against what is known of them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from gradagrad_lab.data import libsvm
from gradagrad_lab.data.fetch import remembered
from gradagrad_lab.errors import UserError


@dataclass(frozen=True)
class Check:
    """The outcome for one data set: ``good`` is None where nothing was found to check."""

    name: str
    good: bool | None
    finding: str
    path: Path | None = None


def verify(name: str, folders: list[Path]) -> Check:
    """Read a data set's best copy, check its size and, where one is known, its hash."""
    found = libsvm.find(name, folders)
    if found is None:
        return Check(name, None, f"not found; fetch it with `gradagrad data fetch {name}`")
    try:
        dataset = libsvm.load(found)
        digest = hashlib.sha256(found.path.read_bytes()).hexdigest()
    except (UserError, OSError) as error:
        return Check(found.label, False, str(error), found.path)
    # Published hashes are of the file under its catalogue name; a copy packed by hand has no known one.
    published = found.copy.sha256 if found.path.name == found.copy.file else None
    own = remembered(found.path.parent).get(found.path.name)
    for origin, expected in (("the known one", published), ("that of the download", own)):
        if expected is not None and digest != expected:
            return Check(found.label, False, f"sha256 {digest} is not {origin}, {expected}", found.path)
    if published:
        surety = "known sha256"
    elif own:
        surety = "sha256 as downloaded"
    else:
        surety = "size only, no hash is known"
    return Check(found.label, True, f"{dataset.describe()}; {surety}", found.path)
