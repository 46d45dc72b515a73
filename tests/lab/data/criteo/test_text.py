"""Criteo's text: every field is read as Python would read it, bad rows are named, no line is lost between pieces."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from gradagrad_lab.data.criteo import text as criteo
from gradagrad_lab.errors import DATA, UserError
from lab.rows import parsed_slowly, real_rows, text_rows


def check(parsed: criteo.Parsed, lines: list[bytes]) -> None:
    clicks, integers, ids = parsed_slowly(lines)
    np.testing.assert_array_equal(parsed.clicks, clicks)
    np.testing.assert_array_equal(parsed.integers, integers)
    np.testing.assert_array_equal(np.where(parsed.ids_missing, -1, parsed.ids.astype(np.int64)), ids)
    np.testing.assert_array_equal(
        parsed.integers_missing, [[f == b"" for f in line.split(b"\t")[1:14]] for line in lines]
    )


def test_fields_are_what_python_reads() -> None:
    lines = text_rows(300)
    check(criteo.parse(b"\n".join(lines) + b"\n"), lines)
    check(criteo.parse(b"\n".join(lines)), lines)  # the last line may lack its newline
    check(criteo.parse(b"\r\n".join(lines) + b"\r\n"), lines)
    assert criteo.parse(b"").rows == 0


def test_real_rows_are_what_python_reads() -> None:
    lines = real_rows().read_bytes().splitlines()
    parsed = criteo.parse(b"\n".join(lines))
    check(parsed, lines)
    assert (parsed.rows, int(parsed.clicks.sum()), parsed.bad) == (1999, 418, [])
    assert parsed.dense().max() == pytest.approx(np.log1p(parsed.integers.max()))


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
    ],
)
def test_bad_fields_are_named(column: int, value: bytes, error_text: str) -> None:
    lines = text_rows(20)
    bad = [*lines[:7], changed(lines[7], column, value), *lines[8:]]
    parsed = criteo.parse(b"\n".join(bad))
    assert [line for line, _ in parsed.bad] == [7]
    assert parsed.bad[0][1].startswith(error_text)
    check(parsed, lines[:7] + lines[8:])


def test_wrong_numbers_of_fields_are_named() -> None:
    lines = text_rows(20)
    bad = [b"", *lines[:5], lines[5] + b"\t1", lines[6].rpartition(b"\t")[0], *lines[7:]]
    parsed = criteo.parse(b"\n".join(bad))
    assert parsed.bad == [(0, "1 fields instead of 40"), (6, "41 fields instead of 40"), (7, "39 fields instead of 40")]
    check(parsed, lines[:5] + lines[7:])
    assert parsed.lines == len(bad)


def test_extreme_but_good_values() -> None:
    line = changed(changed(text_rows(1)[0], 2, b"-3"), 3, b"9999999999")
    parsed = criteo.parse(changed(changed(line, 14, b"FFFFFFFF"), 15, b"0"))
    assert parsed.integers[0, 1:3].tolist() == [-3, 9_999_999_999]
    assert parsed.ids[0, :2].tolist() == [2**32 - 1, 0]
    assert parsed.dense()[0, 1] == 0.0
    sizes = criteo.hashed_sizes(1000)
    assert criteo.table_rows(parsed.ids, sizes)[0, 1] > 0  # id 0 is an id


@pytest.mark.parametrize("size", [1, 100, 999, 5000, 10**9])
def test_no_line_is_lost_or_doubled_between_pieces(tmp_path: Path, size: int) -> None:
    lines = text_rows(40)
    path = tmp_path / "train.txt"
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert b"".join(text for text, _ in criteo.pieces(path, size if size > 1 else 37)) == path.read_bytes()


def test_compressed_files_are_read_whole_or_refused(tmp_path: Path) -> None:
    packed, text = tmp_path / "train.txt.gz", b"\n".join(text_rows(50))
    packed.write_bytes(gzip.compress(text))
    assert b"".join(piece for piece, _ in criteo.pieces(packed, 3000)) == text
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(UserError, match="not a complete gzip file") as raised:
        list(criteo.pieces(packed, 3000))
    assert raised.value.exit_code == DATA


def test_hashes_spread_over_the_whole_table() -> None:
    parsed = criteo.parse(b"\n".join(text_rows(2000)))
    sizes = criteo.hashed_sizes(500)
    rows = criteo.table_rows(parsed.ids, sizes)
    assert (rows < np.array(sizes)).all()
    assert rows.min() > 0, "row 0 is for missing ids"
    item = rows[:, 2][rows[:, 2] > 0]
    assert len(np.unique(item)) > 0.8 * min(499, len(np.unique(parsed.ids[:, 2])))
