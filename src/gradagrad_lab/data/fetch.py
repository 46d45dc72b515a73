"""Downloads LIBSVM's files into the cache, verified and unpacked. A file is kept only if it is complete."""

import bz2
import hashlib
import http.client
import io
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradagrad_lab.data.catalogue import CATALOGUE, LIBSVM, Download
from gradagrad_lab.errors import DATA, UserError, unknown
from gradagrad_lab.records import write_atomically

_PIECE = 1 << 16
_TIMEOUT = 30.0
_PATIENCE = 8.0  # seconds, if nobody asked for the download and a replacement can replace it
_TRIES = 3
MOST_BYTES = 2**28  # of a download and of what it unpacks to: ten times the largest of these data sets
NOTE = "provenance.json"
Report = Callable[[int, int | None], None]


class UnreachableError(UserError):
    """A source did not answer, so it is not tried for other data sets."""


def base_url() -> str:
    """LIBSVM's page, or the mirror named by GRADAGRAD_MIRROR, over https or on this machine."""
    return os.environ.get("GRADAGRAD_MIRROR", LIBSVM).rstrip("/")


def fetch(
    name: str,
    cache: Path,
    report: Report = lambda done, total: None,
    force: bool = False,
    *,
    training_only: bool = False,
    patient: bool = True,
) -> list[Path]:
    """All files of one data set, or only its training part, in ``cache/name``; files that exist are kept unless
    ``force``. Without ``patient`` there is one try and a short wait."""
    if name not in CATALOGUE:
        raise unknown("data", name, CATALOGUE)
    paths: list[Path] = []
    downloads = CATALOGUE[name].downloads
    for download in downloads[:1] if training_only else downloads:
        target = cache / name / download.file.removesuffix(".bz2")
        if force or not target.exists():
            _fetch_file(download, target, report, patient)
        paths.append(target)
    return paths


def _fetch_file(download: Download, target: Path, report: Report, patient: bool) -> None:
    url = f"{base_url()}/{download.file}"
    content, left = None, _TRIES if patient else 1
    while content is None:
        left -= 1
        try:
            content = read_url(url, report, _TIMEOUT if patient else _PATIENCE)
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if not left:
                kind = UnreachableError if isinstance(error, TimeoutError) else UserError
                raise kind(f"The download of {url} broke off ({error}); try again.", DATA) from error
    for kind, expected in (("sha256", download.sha256), ("md5", download.md5)):
        got = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
        if expected is not None and got != expected:
            raise UserError(f"{url} is not the expected file: its {kind} is {got}, not {expected}; try again.", DATA)
    if download.file.endswith(".bz2"):
        try:
            content = decompressed(content)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"{url} cannot be decompressed ({error}); try again.", DATA) from error
    keep(target, content, f"LIBSVM's page ({download.file})")


def refuse_unsafe(url: str) -> None:
    """Raises unless nobody on the way can change what an address yields."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in (("http", "127.0.0.1"), ("http", "localhost")):
        raise UserError(f"{url} is not fetched, because it is not https. Set GRADAGRAD_MIRROR to an https page.", DATA)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        refuse_unsafe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def read_url(url: str, report: Report = lambda done, total: None, timeout: float = _TIMEOUT) -> bytes:
    """The whole file in memory: the largest has a few megabytes."""
    refuse_unsafe(url)
    request = urllib.request.Request(url, headers={"User-Agent": "gradagrad"})
    try:
        answer = urllib.request.build_opener(_SafeRedirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        raise UserError(
            f"{url} answered {error.code} {error.reason}; try again later or set GRADAGRAD_MIRROR.", DATA
        ) from error
    except urllib.error.URLError as error:
        raise UnreachableError(
            f"{url} cannot be reached ({error.reason}); without internet, point --data-dir or GRADAGRAD_DATA at "
            "local copies.",
            DATA,
        ) from error
    with answer:
        length = answer.headers.get("Content-Length")
        total, content = int(length) if length else None, b""
        while piece := answer.read(_PIECE):
            content += piece
            report(len(content), total)
            if len(content) > MOST_BYTES:
                raise UserError(f"{url} is too large: it has more than {MOST_BYTES:,} bytes.", DATA)
    if total is not None and len(content) < total:
        raise ConnectionError(f"got {len(content):,} of {total:,} bytes")
    return content


def decompressed(content: bytes) -> bytes:
    """The text of a .bz2. A few bytes can unpack to terabytes, so it stops after `MOST_BYTES`."""
    with bz2.open(io.BytesIO(content)) as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it holds more than {MOST_BYTES:,} bytes")
    return text


def keep(target: Path, content: bytes, source: str, **details: str) -> None:
    """Write a file of the cache and note beside it where it came from, so that reports can name the source."""
    write_atomically(target, content)
    notes = provenance(target.parent)
    notes[target.name] = {"source": source, "sha256": hashlib.sha256(content).hexdigest(), **details}
    write_atomically(target.parent / NOTE, json.dumps(notes, indent=1, ensure_ascii=False).encode())


def provenance(folder: Path) -> dict[str, dict[str, str]]:
    """The notes about the files fetched into a folder."""
    try:
        return {str(file): dict(note) for file, note in json.loads((folder / NOTE).read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
