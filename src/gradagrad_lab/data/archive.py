"""Reading one file out of an archive that a stranger sent: in memory, nothing unpacked to disk, nothing trusted.

An archive may claim one size and hold another, point elsewhere, or end early. So every size is bounded while reading,
not believed; a member that is a link, or whose archive names places outside itself, is refused; and the caller compares
what comes out with a hash it knows.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from gradagrad_lab.errors import DATA, UserError

MEMBER_LIMIT = 32 * 2**20
"""Bytes of one member; the largest wanted here has 16 million."""
TOTAL_LIMIT = 256 * 2**20
"""Bytes a compressed archive may grow to while a member is looked for."""


def read_member(archive: bytes, path: Sequence[str], name: str) -> bytes:
    """The bytes of the member that ``path`` names; a path of several names goes through archives within archives.

    ``name`` is what an error calls the archive.
    """
    content = archive
    for step in path:
        content = _read_one(content, step, name)
        name = f"{step} in {name}"
    return content


def verified(content: bytes, sha256: str, name: str) -> bytes:
    """``content``, if it is what the hash says."""
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise refused(name, f"its sha256 is {got}, not {sha256}")
    return content


def refused(name: str, reason: str) -> UserError:
    """The one sentence for an archive that is not used."""
    return UserError(f"{name} is refused: {reason}.", DATA)


def _read_one(archive: bytes, member: str, name: str) -> bytes:
    read = _from_zip if archive[:2] == b"PK" else _from_tar
    try:
        return read(archive, member, name)
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, OverflowError) as error:
        raise refused(name, f"it is damaged or incomplete ({error})") from error
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or compressed in an unknown way
        raise refused(name, f"{member} cannot be read ({error})") from error


def _from_zip(archive: bytes, member: str, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        entries = opened.infolist()
        for entry in entries:
            _check_name(entry.filename, name)
        found = [entry for entry in entries if entry.filename == member]
        if len(found) != 1:
            raise refused(name, f"it has {len(found)} members called {member}")
        if stat.S_ISLNK(found[0].external_attr >> 16) or found[0].is_dir():
            raise refused(name, f"{member} is a link or a folder, not a file")
        with opened.open(found[0]) as file:
            return _bounded(cast(BinaryIO, file), member, name)


def _from_tar(archive: bytes, member: str, name: str) -> bytes:
    stream = _Limited(gzip.GzipFile(fileobj=io.BytesIO(archive)), name)
    # "r|": front to back, so that nothing beyond the member is ever decompressed.
    with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|") as opened:
        for entry in opened:
            _check_name(entry.name, name)
            if entry.name != member:
                continue
            file = opened.extractfile(entry) if entry.isreg() else None
            if file is None:
                raise refused(name, f"{member} is a link or a folder, not a file")
            content = _bounded(cast(BinaryIO, file), member, name)
            if len(content) != entry.size:
                raise EOFError(f"{len(content):,} of {entry.size:,} bytes of {member}")
            return content
    raise refused(name, f"it has no member called {member}")


def _check_name(entry: str, name: str) -> None:
    path = PurePosixPath(entry.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise refused(name, f"its member {entry!r} points outside the archive")


def _bounded(file: BinaryIO, member: str, name: str) -> bytes:
    content = file.read(MEMBER_LIMIT + 1)
    if len(content) > MEMBER_LIMIT:
        raise refused(name, f"{member} is larger than {MEMBER_LIMIT:,} bytes")
    return content


class _Limited:
    """A decompressing stream that stops when far more comes out of it than any archive wanted here holds."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, name: str) -> None:
        self._stream, self._name = stream, name
        self._left = TOTAL_LIMIT

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise refused(self._name, f"it unpacks to more than {TOTAL_LIMIT:,} bytes")
        return content
