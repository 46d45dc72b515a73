"""Criteo's file: every field is read as Python reads it, a bad row is named, and the map resumes after an interruption
and is made again when the file has changed."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from gradagrad_lab.cli import app as cli
from gradagrad_lab.data import criteo
from gradagrad_lab.data.clicks.stream import offsets_of
from gradagrad_lab.data.clicks.tables import CARDINALITIES
from gradagrad_lab.data.criteo import Settings, build, open_cache
from gradagrad_lab.errors import DATA, UserError
from lab.rows import parsed_slowly, real_rows, text_rows

SMALL = Settings(cap=5000)
EVERY = Settings(every_id=True)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(criteo, "PIECE", 100)
    path = tmp_path / "train.txt"
    path.write_bytes(b"\n".join(text_rows(700)) + b"\n")
    return path


def same(cache: criteo.CriteoCache, text: Path) -> None:
    """The map holds what Python's own parsers read, and a row of its own for every id if asked to."""
    clicks, integers, ids = parsed_slowly(text.read_bytes().splitlines())
    rows = cache.rows(0, len(cache))
    np.testing.assert_array_equal(rows.clicks, clicks)
    np.testing.assert_array_equal(rows.dense, np.log1p(np.maximum(integers, 0).astype(np.float32)))
    own = rows.ids - offsets_of(cache.table_sizes)
    assert ((own >= 0) & (own < cache.table_sizes)).all()
    np.testing.assert_array_equal(own == 0, ids < 0, err_msg="row 0 is for missing ids")
    for field in range(26):
        known, place = np.unique(ids[:, field][ids[:, field] >= 0], return_inverse=True)
        assert len(known) == cache.distinct[field]
        found = own[:, field][ids[:, field] >= 0]
        if cache.settings.every_id:
            np.testing.assert_array_equal(found, place + 1)
        else:  # a function of the id that spreads over the table
            assert len(np.unique(np.stack([found, place]), axis=1).T) == len(known)
            assert len(np.unique(found)) > 0.5 * min(cache.table_sizes[field] - 1, len(known))


def test_map_holds_the_rows_of_the_text(source: Path, tmp_path: Path) -> None:
    cache = build(source, SMALL)
    same(cache, source)
    assert len(cache) == 700
    every = build(source, EVERY)
    same(every, source)
    assert every.table_sizes == tuple(cardinality + 1 for cardinality in CARDINALITIES)
    small = open_cache(source, Settings(cap=60))
    assert small is not None
    same(small, source)
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    same(build(packed, SMALL), source)
    windows = tmp_path / "windows.txt"
    windows.write_bytes(source.read_bytes().replace(b"\n", b"\r\n")[:-2])  # the last line may lack its newline
    same(build(windows, SMALL), source)


def test_real_rows_go_through_all_of_it() -> None:
    path = real_rows()
    cache = build(path)
    same(cache, path)
    assert (len(cache), cache.clicks) == (1999, 418)
    assert [cache.span(part) for part in ("train", "validation", "test")] == [(0, 1713), (1713, 1856), (1856, 1999)]


def test_batches_are_whole_and_in_order(source: Path) -> None:
    cache = build(source, SMALL)
    whole = cache.rows(0, len(cache))
    for begin, end, size in ((0, 700, 64), (37, 611, 50), (0, 700, 699), (0, 10, 20)):
        batches = list(cache.batches(size, begin, end))
        assert [len(batch.clicks) for batch in batches] == [size] * ((end - begin) // size)
        if batches:
            joined = np.concatenate([batch.ids for batch in batches])
            np.testing.assert_array_equal(joined, whole.ids[begin : begin + len(joined)])


@pytest.mark.parametrize("torn", [0, 1, 1000, -1000], ids="{:+} bytes".format)
def test_an_interrupted_build_goes_on(source: Path, monkeypatch: pytest.MonkeyPatch, torn: int) -> None:
    """Also where the interruption, or a dying disk, has left a part of a row or of a piece."""
    parse, calls = criteo.parse, list[int]()

    def failing(lines, *others):
        calls.append(len(lines))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return parse(lines, *others)

    monkeypatch.setattr(criteo, "parse", failing)
    with pytest.raises(KeyboardInterrupt):
        build(source, SMALL)
    assert open_cache(source, SMALL) is None
    rows = criteo.folder_of(source) / "rows.bin"
    os.truncate(rows, rows.stat().st_size + torn)
    cache = build(source, SMALL)
    finished = 3 if torn >= 0 else 2
    assert len(calls) == 4 + 7 - finished  # the finished pieces were not parsed again
    same(cache, source)


def test_ids_that_are_damaged_are_made_again(source: Path) -> None:
    ids = build(source, SMALL).folder / "ids.npz"
    for content in (b"", b"[1, 2]", ids.read_bytes()[:-100]):
        ids.write_bytes(content)
        assert open_cache(source, SMALL) is None
        same(build(source, SMALL), source)


def test_made_again_when_the_source_changes(source: Path) -> None:
    old = build(source, SMALL).folder
    state = source.stat()
    text = source.read_bytes()
    source.write_bytes((b"0" if text[:1] == b"1" else b"1") + text[1:])
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))  # even where size and time stay as they were
    assert open_cache(source, SMALL) is None
    same(build(source, SMALL), source)
    assert not old.exists()


def changed(line: bytes, column: int, value: bytes) -> bytes:
    fields = line.split(b"\t")
    fields[column] = value
    return b"\t".join(fields)


@pytest.mark.parametrize(
    ("column", "value", "error_text"),
    [
        (0, b"2", "the label must be 0 or 1, got '2'"),
        (0, b"", "the label must be 0 or 1, got ''"),
        (0, b"10", "the label must be 0 or 1, got '10'"),
        (3, b"1.5", "I3 must be blank or an integer, got '1.5'"),
        (13, b"-", "I13 must be blank or an integer, got '-'"),
        (1, b"12345678901", "I1 must be blank or an integer, got '12345678901'"),
        (14, b"xyz", "C1 must be blank or up to 8 hexadecimal digits, got 'xyz'"),
        (39, b"123456789", "C26 must be blank or up to 8 hexadecimal digits, got '123456789'"),
        (20, b"\xff\xfe", "C7 must be blank"),
        (39, b"1\t2", "41 fields instead of 40"),
    ],
)
def test_a_bad_field_is_named(column: int, value: bytes, error_text: str) -> None:
    lines = text_rows(20)
    lines[7] = changed(lines[7], column, value)
    with pytest.raises(UserError) as raised:
        criteo.parse(lines, before=100)
    assert raised.value.message.startswith(f"line 108: {error_text}")


def test_extreme_but_good_values() -> None:
    line = changed(changed(text_rows(1)[0], 2, b"-3"), 3, b"9999999999")
    (row,) = criteo.parse([changed(changed(line, 14, b"FFFFFFFF"), 15, b"0")])
    assert row["dense"][1:3] == pytest.approx([0.0, np.log1p(9_999_999_999)])
    assert row["ids"][:2].tolist() == [2**32 - 1, 0]
    assert row["missing"][0] < 128 + 64  # id 0 is an id


def test_a_bad_row_is_refused_and_the_rows_before_it_are_kept(source: Path) -> None:
    lines = source.read_bytes().splitlines()
    good = lines[400]
    lines[400] = b"nonsense"
    source.write_bytes(b"\n".join(lines))
    for _ in range(2):  # The second time, the rows before it are there already.
        with pytest.raises(UserError, match=r"train\.txt, line 401: 1 fields instead of 40") as raised:
            build(source, SMALL)
        assert raised.value.exit_code == DATA
    lines[400] = good
    source.write_bytes(b"\n".join(lines))
    same(build(source, SMALL), source)


def test_a_compressed_file_is_whole_or_refused(tmp_path: Path) -> None:
    packed = tmp_path / "train.txt.gz"
    packed.write_bytes(gzip.compress(b"\n".join(text_rows(50)))[:-100])
    with pytest.raises(UserError, match="not a complete gzip file") as raised:
        build(packed)
    assert raised.value.exit_code == DATA


def test_command(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["data", "criteo", str(source), "--cap", "5000"]
    for _ in range(2):
        assert cli.run(arguments) == 0
        said = capsys.readouterr().out
        for part in ("700 rows", "clicks (", "Distinct ids: C1 ", "train 600", "examples/dlrm.py"):
            assert part in said
    assert cli.run(["data", "criteo", str(tmp_path / "nowhere.txt")]) == DATA
    assert "does not exist" in capsys.readouterr().err
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert cli.run(["data", "criteo", str(empty)]) == DATA
