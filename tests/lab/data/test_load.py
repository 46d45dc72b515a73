"""Finding and reading data sets: labels, malformed files, replacements."""

import bz2
import hashlib
from pathlib import Path

import numpy as np
import pytest

from gradagrad_lab import data
from gradagrad_lab.data import libsvm
from gradagrad_lab.errors import DATA, UserError
from lab.rows import DATA as DATA_FOLDER

GLASS_ROWS = 214


def svm_text(rows: int, features: int, classes: int) -> str:
    generator = np.random.default_rng(0)
    lines = []
    for row in range(rows):
        values = "  ".join(f"{column}:{generator.uniform(-1, 1):.6g}" for column in range(1, features + 1))
        lines.append(f"{row % classes + 1} {values}")
    return "\n".join(lines) + "\n"


def place(folder: Path, name: str, file: str, text: str) -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / file
    path.write_bytes(bz2.compress(text.encode()) if file.endswith(".bz2") else text.encode())
    return path


def found_copy(name: str, *folders: Path) -> libsvm.Found:
    found = libsvm.find(name, folders)
    assert found is not None
    return found


def test_own_file_comes_before_a_reconstructed_one_wherever_it_lies(tmp_path, monkeypatch):
    place(tmp_path, "protein", "protein.val.from_mat", svm_text(2871, 3, 3))
    assert found_copy("protein", tmp_path).label == "protein (2,871-row part)"
    local, cache = tmp_path / "local", tmp_path / "cache"
    place(local, "usps", "usps.reconstructed.bz2", svm_text(7291, 2, 10))
    assert found_copy("usps", local, cache).label == "usps (reconstructed)"
    own = place(cache, "usps", "usps", svm_text(7291, 2, 10))
    found = found_copy("usps", local, cache)
    assert found.path == own
    assert found.label == "usps"


@pytest.mark.parametrize(("folder", "file"), [("glass", "glass.scale"), (".", "glass.scale.bz2")])
def test_a_file_is_read_from_its_folder_or_flat_and_packed(tmp_path, folder, file):
    """Its blanks are double."""
    place(tmp_path, folder, file, svm_text(GLASS_ROWS, 9, 6))
    loaded = data.load("glass", tmp_path)
    assert (loaded.rows, loaded.columns, loaded.classes, loaded.label) == (GLASS_ROWS, 9, 6, "glass")
    assert set(loaded.targets) == set(range(6))
    assert data.data_sets_at_hand(tmp_path) == ["glass"]


def test_without_any_data_the_bundled_sets_stand_in():
    assert data.data_sets_at_hand() == list(data.BUNDLED)
    for name in data.BUNDLED:
        loaded = data.load(name)
        assert "replacement" in loaded.label
        assert np.isfinite(loaded.features).all()
        assert loaded.features.min() == -1
        assert loaded.features.max() == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x 1:0.5", "the label 'x' is not a number"),
        ("1 1:0.5 nonsense", "'nonsense' is not of the form index:value"),
        ("1 1:0.5 2:abc", "'2:abc' is not of the form index:value"),
        ("1 2:0.5 1:0.5", "index 1 comes after 2; indices must rise"),
        ("1 0:0.5", "index 0 is below 1"),
        ("1 1:1 99:0.5", "index 99 is above the data set's 9 features"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, reason):
    good = svm_text(GLASS_ROWS, 9, 6).splitlines()
    path = place(tmp_path, "glass", "glass.scale", "\n".join([*good[:6], line, *good[7:]]) + "\n")
    with pytest.raises(UserError) as caught:
        data.load("glass", tmp_path)
    assert caught.value.exit_code == DATA
    assert str(caught.value) == f"{path}, line 7: {reason}."


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "holds no rows"),
        ("1 1:1\n1 1:2\n", "only one class"),
        ("1 1:1\n2 1:nan\n", "row 2: a value is not a finite number"),
        ("0.5 1:1\n0.7 1:1\n", "not class numbers"),
    ],
)
def test_unfit_files(tmp_path, text, part):
    path = tmp_path / "own.svm"
    path.write_text(text)
    with pytest.raises(UserError, match=part):
        data.load(str(path))


def test_wrong_size_and_damage(tmp_path, monkeypatch):
    place(tmp_path, "glass", "glass.scale", svm_text(10, 9, 6))
    with pytest.raises(UserError, match="expected 214 rows, 9 features and 6 classes, got 10, 9 and 6"):
        data.load("glass", tmp_path)
    path = place(tmp_path, "usps", "usps.bz2", svm_text(20, 256, 10))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="cannot be decompressed"):
        data.load("usps", tmp_path)
    path.write_bytes(bz2.compress(bytes(10_001)))  # a bomb of 40 bytes
    with monkeypatch.context() as small:
        small.setattr("gradagrad_lab.data.fetch.MOST_BYTES", 10_000)
        with pytest.raises(UserError, match=r"\(it holds more than 10,000 bytes\)"):
            data.load("usps", tmp_path)
    path.write_bytes(b"this is not bzip2")
    with pytest.raises(UserError, match="cannot be decompressed"):
        data.load("usps", tmp_path)


def test_files_that_count_from_zero_and_tables_are_read(tmp_path):
    path = tmp_path / "zero.svm"
    path.write_text("1 0:5 2:1\n2 1:3\n")
    loaded = data.load(str(path))
    assert loaded.features.tolist() == [[5, 0, 1], [0, 3, 0]]
    assert loaded.label == "zero.svm (indices from 0)"
    path = tmp_path / "own.csv"
    path.write_text("a,b,kind\n1,2.5,red\n3,4,blue\n")
    loaded = data.load(str(path))
    assert loaded.features.tolist() == [[1, 2.5], [3, 4]]
    assert loaded.targets.tolist() == [1, 0]
    path.write_text("1,2,red\n3,blue\n")
    with pytest.raises(UserError, match="line 2: a wrong number of cells"):
        data.load(str(path))
    path.write_text(f"1,2,{'x' * 140_000}\n")
    with pytest.raises(UserError, match="line 1: field larger than field limit"):
        data.load(str(path))


@pytest.mark.parametrize("name", list(data.CATALOGUE))
def test_every_copy_in_the_shared_folder_is_what_it_should_be(name):
    found = libsvm.find(name, [DATA_FOLDER])
    if found is None:
        pytest.skip(f"{name} is not in GRADAGRAD_DATA")
    libsvm.load(found)
    if found.copy.sha256 and found.path.name == found.copy.file:
        assert hashlib.sha256(found.path.read_bytes()).hexdigest() == found.copy.sha256
