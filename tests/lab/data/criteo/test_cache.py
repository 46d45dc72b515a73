"""The memory map: same rows as the text, resumed after an interruption, made again when the file has changed."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from gradagrad_lab.cli import app as cli
from gradagrad_lab.data.clicks.tables import CARDINALITIES
from gradagrad_lab.data.criteo import cache as criteo_cache
from gradagrad_lab.data.criteo import text as criteo
from gradagrad_lab.data.criteo.cache import Settings
from gradagrad_lab.errors import DATA, UserError
from lab.rows import parsed_slowly, real_rows, text_rows

SMALL = Settings(cap=5000)
EVERY = Settings(every_id=True)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(criteo, "PART_BYTES", 20_000)
    path = tmp_path / "train.txt"
    path.write_bytes(b"\n".join(text_rows(700)) + b"\n")
    return path


def same(cache: criteo_cache.CriteoCache, text: Path, cap: int = SMALL.cap) -> None:
    """The map holds exactly what parsing the whole text at once gives."""
    parsed, sizes = criteo.parse(text.read_bytes()), criteo.hashed_sizes(cap)
    ids = np.where(parsed.ids_missing, 0, criteo.table_rows(parsed.ids, sizes)) + criteo.offsets_of(sizes)
    whole = cache.rows(0, len(cache))
    for ours, theirs in zip(whole[:3], (parsed.dense(), ids, parsed.clicks), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_map_holds_the_rows_of_the_text(source: Path, tmp_path: Path) -> None:
    cache = criteo_cache.build(source, SMALL)
    other = criteo_cache.open_cache(source, Settings(cap=60))
    assert other is not None
    same(other, source, 60)
    same(cache, source)
    clicks, _, ids = parsed_slowly(source.read_bytes().splitlines())
    assert (len(cache), cache.clicks) == (700, clicks.sum())
    assert cache.distinct == [len(np.unique(column[column >= 0])) for column in ids.T]
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    same(criteo_cache.build(packed, SMALL), source)


def test_every_id_gets_a_row_of_its_own(source: Path) -> None:
    cache = criteo_cache.build(source, EVERY)
    assert cache.table_sizes == tuple(cardinality + 1 for cardinality in CARDINALITIES)
    rows = cache.rows(0, len(cache))
    clicks, _, ids = parsed_slowly(source.read_bytes().splitlines())
    own = rows.ids - criteo.offsets_of(cache.table_sizes)
    for field in range(26):
        unique, place = np.unique(ids[:, field][ids[:, field] >= 0], return_inverse=True)
        np.testing.assert_array_equal(own[:, field][ids[:, field] >= 0], place + 1)
        assert (own[:, field][ids[:, field] < 0] == 0).all()
        assert len(unique) == cache.distinct[field]
    np.testing.assert_array_equal(rows.clicks, clicks)
    hashed = criteo_cache.build(source, SMALL).rows(0, len(cache))
    np.testing.assert_array_equal(rows.dense, hashed.dense)


def test_real_rows_go_through_all_of_it() -> None:
    path = real_rows()
    cache = criteo_cache.build(path)
    same(cache, path, Settings().cap)
    assert (len(cache), cache.clicks) == (1999, 418)
    assert cache.span("train") == (0, 1713)
    assert cache.span("validation")[1] == cache.span("test")[0]
    assert cache.span("test")[1] == 1999
    assert sum(cache.table_sizes) < 26 * 100_000


def test_batches_are_whole_and_in_order(source: Path) -> None:
    cache = criteo_cache.build(source, SMALL)
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

    def failing(text: bytes) -> criteo.Parsed:
        calls.append(len(text))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return parse(text)

    monkeypatch.setattr(criteo, "parse", failing)
    with pytest.raises(KeyboardInterrupt):
        criteo_cache.build(source, SMALL)
    assert criteo_cache.open_cache(source, SMALL) is None
    rows = criteo.folder_of(source) / "rows.bin"
    os.truncate(rows, rows.stat().st_size + torn)
    cache = criteo_cache.build(source, SMALL)
    pieces = len(list(criteo.pieces(source, criteo.PART_BYTES)))
    finished = 3 if torn >= 0 else 2
    assert len(calls) == 4 + pieces - finished  # the finished pieces were not parsed again
    monkeypatch.setattr(criteo, "parse", parse)
    same(cache, source)


def test_ids_that_are_damaged_are_made_again(source: Path) -> None:
    ids = criteo_cache.build(source, SMALL).folder / "ids.npz"
    for content in (b"", b"{}", ids.read_bytes()[:-100]):
        ids.write_bytes(content)
        assert criteo_cache.open_cache(source, SMALL) is None
        same(criteo_cache.build(source, SMALL), source)


def test_made_again_when_the_source_changes(source: Path) -> None:
    old = criteo_cache.build(source, SMALL).folder
    state = source.stat()
    text = source.read_bytes()
    source.write_bytes((b"0" if text[:1] == b"1" else b"1") + text[1:])
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))  # even where size and time stay as they were
    assert criteo_cache.open_cache(source, SMALL) is None
    same(criteo_cache.build(source, SMALL), source)
    assert not old.exists()


def test_a_bad_row_is_refused(source: Path) -> None:
    lines = source.read_bytes().splitlines()
    good = lines[400]
    for bad, what in ((b"nonsense", "1 fields instead of 40"), (b"9" + good[1:], "the label must be 0 or 1, got '9'")):
        lines[400] = bad
        source.write_bytes(b"\n".join(lines))
        for _ in range(2):  # The second time, the rows before it are there already.
            with pytest.raises(UserError, match=r"train\.txt, line 401: ") as raised:
                criteo_cache.build(source, SMALL)
            assert what in raised.value.message
            assert raised.value.exit_code == DATA
    lines[400] = good
    source.write_bytes(b"\n".join(lines))
    same(criteo_cache.build(source, SMALL), source)


def test_command(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["data", "criteo", str(source), "--cap", "5000"]
    for _ in range(2):
        assert cli.run(arguments) == 0
        said = capsys.readouterr().out
        for part in ("700 rows", "clicks (", "Distinct ids: C1 ", "train 600", "examples/dlrm.py"):
            assert part in said
    assert cli.run(["data", "criteo", str(tmp_path / "nowhere.txt")]) == DATA
    assert "does not exist" in capsys.readouterr().err
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("a,b\n" * 200)
    assert cli.run(["data", "criteo", str(wrong)]) == DATA
    said = capsys.readouterr().err
    assert "wrong.txt, line 1: 1 fields instead of 40" in said
    assert "Traceback" not in said
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert cli.run(["data", "criteo", str(empty)]) == DATA
