"""The binary cache: same rows as the text, resumable, verified, rebuilt when it must be."""

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
PART = 20_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_bytes(b"\n".join(text_rows(700)) + b"\n")
    return path


def built(source: Path, settings: Settings = SMALL, **options: int) -> criteo_cache.CriteoCache:
    return criteo_cache.build(source, settings, part_bytes=PART, **options)


def same(cache: criteo_cache.CriteoCache, text: Path, cap: int = SMALL.cap) -> None:
    """The cache holds exactly what parsing the whole text at once gives."""
    parsed, sizes = criteo.parse(text.read_bytes()), criteo.hashed_sizes(cap)
    ids = np.where(parsed.ids_missing, 0, criteo.table_rows(parsed.ids, sizes)) + criteo.offsets_of(sizes)
    whole = cache.rows(0, len(cache))
    for ours, theirs in zip(whole[:3], (parsed.dense(), ids, parsed.clicks), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_cache_holds_the_rows_of_the_text(source: Path) -> None:
    cache = built(source, SMALL)
    other = criteo_cache.open_cache(source, Settings(cap=60))
    assert other is not None
    same(other, source, 60)
    same(cache, source)
    cache.verify()
    assert len(list(cache.folder.glob("part-*.bin"))) > 3
    clicks, _, ids = parsed_slowly(source.read_bytes().splitlines())
    assert (len(cache), cache.counts.clicks, cache.counts.bad) == (700, clicks.sum(), 0)
    assert cache.counts.ids_missing == (ids < 0).sum(axis=0).tolist()
    assert cache.distinct == [len(np.unique(column[column >= 0])) for column in ids.T]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_id_gets_a_row_of_its_own(source: Path, workers: int) -> None:
    cache = built(source, EVERY, workers=workers)
    cache.verify()
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
    hashed = built(source, SMALL).rows(0, len(cache))
    np.testing.assert_array_equal(rows.dense, hashed.dense)
    again = criteo_cache.open_cache(source, EVERY)
    assert again is not None
    np.testing.assert_array_equal(again.rows(100, 300).ids, rows.ids[100:300])
    (cache.folder / "field-03.ids").unlink()
    with pytest.raises(UserError, match=r"field-03\.ids is damaged or missing"):
        criteo_cache.open_cache(source, EVERY)


def test_real_rows_go_through_all_of_it() -> None:
    path = real_rows()
    cache = built(path, Settings())
    same(cache, path, Settings().cap)
    cache.verify()
    assert (cache.counts.rows, cache.counts.clicks) == (1999, 418)
    assert cache.span("train") == (0, 1713)
    assert cache.span("validation")[1] == cache.span("test")[0]
    assert cache.span("test")[1] == 1999
    assert sum(cache.table_sizes) < 26 * 100_000


def test_parallel_and_compressed_builds_are_the_same(source: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    plain = built(source, SMALL)
    parallel = built(packed, SMALL, workers=2)
    assert parallel.counts == plain.counts
    same(parallel, source)


def test_batches_are_whole_and_in_order(source: Path) -> None:
    cache = built(source, SMALL)
    whole = cache.rows(0, len(cache))
    for begin, end, size in ((0, None, 64), (37, 611, 50), (0, None, 699), (0, 10, 20)):
        batches = list(cache.batches(size, begin, end))
        span = (end or len(cache)) - begin
        assert [len(batch.clicks) for batch in batches] == [size] * (span // size)
        if batches:
            joined = np.concatenate([batch.ids for batch in batches])
            np.testing.assert_array_equal(joined, whole.ids[begin : begin + len(joined)])


def test_an_interrupted_build_goes_on(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = criteo.parse
    calls: list[int] = []

    def failing(text: bytes) -> criteo.Parsed:
        calls.append(len(text))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return parse(text)

    monkeypatch.setattr(criteo, "parse", failing)
    with pytest.raises(KeyboardInterrupt):
        built(source, SMALL)
    assert criteo_cache.open_cache(source, SMALL) is None
    parts = len(criteo.byte_ranges(source, PART))
    cache = built(source, SMALL)
    assert len(calls) == 4 + parts - 3  # the three finished parts were not parsed again
    monkeypatch.undo()
    same(cache, source)


def test_a_damaged_part_of_an_interrupted_build_is_made_again(source: Path) -> None:
    folder = built(source, SMALL).folder
    # As an interruption just before the end leaves it, with one part half written by a dying disk.
    (folder / "manifest.json").unlink()
    (folder / "part-00001.bin").write_bytes(b"x")
    same(built(source, SMALL), source)


def test_damage_is_found(source: Path) -> None:
    cache = built(source, SMALL)
    path = cache.folder / "part-00002.bin"
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"part-00002\.bin is damaged") as raised:
        cache.verify()
    assert raised.value.exit_code == DATA
    path.write_bytes(content[:-1])
    with pytest.raises(UserError, match="damaged"):
        cache.rows(0, len(cache))


def test_rebuilt_when_the_source_changes(source: Path) -> None:
    built(source, SMALL)
    state = source.stat()
    text = source.read_bytes()
    source.write_bytes((b"0" if text[:1] == b"1" else b"1") + text[1:])
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))  # even where size and time stay as they were
    assert criteo_cache.open_cache(source, SMALL) is None
    same(built(source, SMALL), source)


def test_bad_rows_are_counted_and_limited(source: Path) -> None:
    lines = source.read_bytes().splitlines()
    lines[3] = b"nonsense"
    lines[400] = b"9" + lines[400][1:]
    source.write_bytes(b"\n".join(lines))
    with pytest.raises(UserError, match="more than 1 bad rows") as raised:
        built(source, SMALL, max_bad=1)
    assert "line 4: 1 fields instead of 40" in raised.value.message
    assert "line 401: the label must be 0 or 1, got '9'" in raised.value.message
    cache = built(source, SMALL, max_bad=2)
    assert (cache.counts.bad, len(cache)) == (2, 698)
    with pytest.raises(UserError, match="more than 1 bad rows"):  # a finished cache does not hide them
        built(source, SMALL, max_bad=1)


def test_command(source: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["data", "criteo", str(source), "--cap", "5000", "--workers", "1"]
    assert cli.run(arguments) == 0
    said = capsys.readouterr().out
    for part in ("700 rows", "0 bad rows", "distinct", "Cache built", "train 600", "examples/dlrm.py"):
        assert part in said
    assert cli.run(arguments) == 0
    assert "Cache built" not in capsys.readouterr().out
    assert cli.run(["data", "criteo", str(tmp_path / "nowhere.txt")]) == DATA
    assert "does not exist" in capsys.readouterr().err
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("a,b\n" * 200)
    assert cli.run(["data", "criteo", str(wrong), "--workers", "1"]) == DATA
    said = capsys.readouterr().err
    assert "bad rows" in said
    assert "Traceback" not in said
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert cli.run(["data", "criteo", str(empty), "--workers", "1"]) == DATA
