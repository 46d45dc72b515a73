"""Downloading LIBSVM's files into the cache: resumed where one broke off, verified, unpacked, never half there."""

from __future__ import annotations

import bz2
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from gradagrad_lab.data.catalogue import CATALOGUE, LIBSVM, Download
from gradagrad_lab.errors import DATA, USAGE, UserError
from gradagrad_lab.records import write_atomically, writing_failed

_PIECE = 1 << 16
_TIMEOUT = 30.0
_TRIES = 3
HASHES = "hashes.json"
Report = Callable[[int, int | None], None]


def base_url() -> str:
    """LIBSVM's page, or the mirror named by GRADAGRAD_MIRROR."""
    return os.environ.get("GRADAGRAD_MIRROR", LIBSVM).rstrip("/")


def fetch(name: str, cache: Path, report: Report = lambda done, total: None, force: bool = False) -> list[Path]:
    """All files of one set, in ``cache/name``; files already there are left alone unless ``force``."""
    if name not in CATALOGUE:
        raise UserError(f"data must be one of {', '.join(CATALOGUE)} to be fetched, got {name!r}.", USAGE)
    paths: list[Path] = []
    for download in CATALOGUE[name].downloads:
        target = cache / name / download.file.removesuffix(".bz2")
        if force or not target.exists():
            _fetch_file(download, target, report)
        paths.append(target)
    return paths


def _fetch_file(download: Download, target: Path, report: Report) -> None:
    partial = target.with_name(download.file + ".part")
    url = f"{base_url()}/{download.file}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, _TRIES + 1):
            try:
                _download(url, partial, report)
                break
            # A broken connection leaves the part; the next try, or the next command, goes on from there.
            except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
                if attempt == _TRIES:
                    raise UserError(
                        f"{url} broke off ({error}); run the command again to go on from where it stopped.", DATA
                    ) from error
        content = _verified(download, partial, url)
        unpacked = _unpack(download, content, url, partial)
        write_atomically(target, unpacked)
        _remember(target, unpacked)
        partial.unlink(missing_ok=True)
    except OSError as error:
        raise writing_failed(target, error) from error


def _download(url: str, partial: Path, report: Report) -> None:
    """Append what is missing of ``url`` to ``partial``."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "gradagrad", **_range(have)})
    try:
        answer = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the part is as long as the file, or longer: only its hash can tell
            return
        raise UserError(
            f"{url} answered {error.code} {error.reason}; try again later or set GRADAGRAD_MIRROR.", DATA
        ) from error
    except urllib.error.URLError as error:
        raise UserError(
            f"{url} cannot be reached ({error.reason}); without internet, point --data-dir or GRADAGRAD_DATA at "
            "local copies.",
            DATA,
        ) from error
    with answer:
        if answer.status != 206:  # the server does not resume: start over
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        report(have, total)
        with partial.open("ab" if have else "wb") as file:
            while piece := answer.read(_PIECE):
                file.write(piece)
                have += len(piece)
                report(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"got {have:,} of {total:,} bytes")


def _range(have: int) -> dict[str, str]:
    return {"Range": f"bytes={have}-"} if have else {}


def _verified(download: Download, partial: Path, url: str) -> bytes:
    content = partial.read_bytes()
    for kind, expected in (("sha256", download.sha256), ("md5", download.md5)):
        if expected is None:
            continue
        got = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
        if got != expected:
            partial.unlink()
            raise UserError(
                f"{url} is not the expected file: its {kind} is {got}, not {expected}; the download was removed, "
                "try again.",
                DATA,
            )
    return content


def _unpack(download: Download, content: bytes, url: str, partial: Path) -> bytes:
    if not download.file.endswith(".bz2"):
        return content
    try:
        return bz2.decompress(content)
    except (OSError, ValueError, EOFError) as error:
        partial.unlink()
        raise UserError(f"{url} does not decompress ({error}); the download was removed, try again.", DATA) from error


def _remember(target: Path, content: bytes) -> None:
    """Note the hash of what was unpacked, so that `data verify` notices later damage where no hash is published."""
    path = target.parent / HASHES
    known = remembered(target.parent)
    known[target.name] = hashlib.sha256(content).hexdigest()
    write_atomically(path, json.dumps(known, indent=1).encode())


def remembered(folder: Path) -> dict[str, str]:
    """Hashes of the files that were fetched into a folder."""
    try:
        content = json.loads((folder / HASHES).read_bytes())
        return dict(content) if isinstance(content, dict) else {}
    except (OSError, ValueError):
        return {}
