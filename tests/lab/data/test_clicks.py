"""The synthetic stream: its properties by construction, and how close it comes to the real rows."""

import itertools

import numpy as np
import pytest

from gradagrad_lab.data import criteo
from gradagrad_lab.data.clicks import stream as clicks
from gradagrad_lab.data.clicks.stream import BLOCK, ClickStream
from gradagrad_lab.data.clicks.tables import IDS, MISSING, PAIRS
from lab.rows import real_rows


@pytest.fixture(scope="module")
def raw() -> clicks.RawRows:
    """Four blocks in one."""
    blocks = [clicks.raw_block(7, number) for number in range(4)]
    return clicks.RawRows(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def test_a_longer_stream_extends_a_shorter_one() -> None:
    short, long = ClickStream(3).rows(BLOCK + 10), ClickStream(3).rows(2 * BLOCK)
    for a, b in zip(short, long, strict=True):
        assert a is not None
        assert b is not None
        np.testing.assert_array_equal(a, b[: BLOCK + 10])


def test_blocks_depend_on_seed_and_number_alone() -> None:
    again = clicks.raw_block(3, 1)
    np.testing.assert_array_equal(clicks.raw_block(3, 1).ids, again.ids)
    assert (clicks.raw_block(4, 1).ids != again.ids).mean() > 0.3
    assert (clicks.raw_block(3, 2).ids != again.ids).mean() > 0.3
    first = next(ClickStream(3).blocks(begin=1))
    np.testing.assert_array_equal(first.clicks, again.clicks)


def test_tables_are_the_specified_ones() -> None:
    assert sum(ClickStream().table_sizes) == 840_557
    rows = ClickStream(cap=1000).rows(2000)
    sizes = np.array(ClickStream(cap=1000).table_sizes)
    begin = np.cumsum(sizes) - sizes
    assert (rows.ids >= begin).all()
    assert (rows.ids < begin + sizes).all()
    assert rows.dense.min() >= 0.0


def test_teacher_is_the_true_probability(raw: clicks.RawRows) -> None:
    """Within every tenth of its range, as many clicks as it says: a z-test per bin at four standard errors."""
    edges = np.quantile(raw.teacher, np.linspace(0, 1, 11))
    for low, high in itertools.pairwise(edges):
        inside = (raw.teacher >= low) & (raw.teacher <= high)
        expected, count = raw.teacher[inside].mean(), inside.sum()
        error = np.sqrt(expected * (1 - expected) / count)
        assert abs(raw.clicks[inside].mean() - expected) < 4 * error


def test_losses_are_where_the_specification_puts_them(raw: clicks.RawRows) -> None:
    labels = raw.clicks.astype(np.float64)
    assert labels.mean() == pytest.approx(0.25, abs=0.015)
    assert clicks.log_loss(raw.teacher, labels).mean() == pytest.approx(0.42, abs=0.015)
    assert clicks.log_loss(np.full_like(raw.teacher, labels.mean()), labels).mean() == pytest.approx(0.56, abs=0.015)


def test_missing_together_and_as_often_as_specified(raw: clicks.RawRows) -> None:
    for together in MISSING:
        gone = [raw.missing[:, column - 1] for column in together.dense]
        gone += [raw.ids[:, column - 1] == 0 for column in together.ids]
        for other in gone:
            np.testing.assert_array_equal(other, gone[0])
            assert other.mean() == pytest.approx(together.share, abs=0.02)


def test_marginals_have_their_heads_and_stay_in_range(raw: clicks.RawRows) -> None:
    for field, (cardinality, head, _, _) in enumerate(IDS):
        present = raw.ids[:, field][raw.ids[:, field] > 0]
        assert present.max() <= cardinality
        for rank, share in enumerate(head):
            # Campaign ids are partly a hash of C24, which moves their shares.
            tolerance = 0.05 if field + 1 in (2, 14, 15, 18) else 0.02
            assert (present == rank + 1).mean() == pytest.approx(share, abs=tolerance), (field + 1, rank)


def test_every_pair_of_the_teacher_matters(raw: clicks.RawRows) -> None:
    """Exchanging one field's ids among rows must change the teacher: no effect is silently left out."""
    integers, missing = raw.integers[:2000].T, raw.missing[:2000].T
    ids = raw.ids[:2000].T.copy()
    before = clicks._probability(integers, missing, ids)
    for column in sorted({column for pair in PAIRS for column in pair} | set(range(1, 27))):
        changed = ids.copy()
        changed[column - 1] = np.roll(changed[column - 1], 1)
        moved = changed[column - 1] != ids[column - 1]
        after = clicks._probability(integers, missing, changed)
        assert (after != before)[moved].mean() > 0.99, column


def test_statistics_are_those_of_the_real_rows(raw: clicks.RawRows) -> None:
    lines = real_rows().read_bytes().splitlines()
    real, count = criteo.parse(lines), len(lines)
    assert count == 1999
    integers, ids = np.split(np.array([line.split(b"\t")[1:] for line in lines]), [13], axis=1)
    no_integer, no_id = integers == b"", ids == b""

    def error(share: np.ndarray) -> np.ndarray:
        return np.sqrt(share * (1 - share) / count)

    gone = no_integer.mean(axis=0)
    np.testing.assert_array_less(np.abs(raw.missing.mean(axis=0) - gone), 4 * error(gone) + 0.005)
    gone = no_id.mean(axis=0)
    np.testing.assert_array_less(np.abs((raw.ids == 0).mean(axis=0) - gone), 4 * error(gone) + 0.005)

    for field in range(26):
        ours = [raw.ids[begin : begin + count, field] for begin in range(0, 16 * count, count)]
        ours = [ids[ids > 0] for ids in ours if len(ids) == count]
        theirs = real["ids"][:, field][~no_id[:, field]]
        distinct = np.mean([len(np.unique(ids)) for ids in ours])
        assert distinct == pytest.approx(len(np.unique(theirs)), rel=0.12, abs=3), f"distinct ids of C{field + 1}"
        assert np.mean([top_share(ids, 1) for ids in ours]) == pytest.approx(top_share(theirs, 1), abs=0.05)
        assert np.mean([top_share(ids, 3) for ids in ours]) == pytest.approx(top_share(theirs, 3), abs=0.06)

    away: list[float] = []
    for column in range(13):
        if column + 1 in (3, 5):
            continue  # known and stated: I3 has too many zeros, I5's median is half the real one
        theirs = real["dense"][:, column][~no_integer[:, column]]
        ours = np.log1p(np.maximum(raw.integers[:, column], 0))[~raw.missing[:, column]]
        levels = (0.5, 0.75, 0.9)
        away += np.abs(np.quantile(ours, levels) - np.quantile(theirs, levels)).tolist()
    # Most quantiles agree; among small integers one step alone is log 2 wide, and I2 has a median of 8 for 3.
    assert np.mean(np.array(away) < 0.45) >= 0.9
    assert max(away) < 0.9

    for column, correlation in correlations(real["dense"], real["click"]).items():
        mine = correlations(np.where(raw.missing, 0, np.log1p(np.maximum(raw.integers, 0))), raw.clicks)[column]
        assert mine == pytest.approx(correlation, abs=0.12), f"I{column + 1} with the label"


def top_share(ids: np.ndarray, count: int) -> float:
    return float(np.sort(np.unique(ids, return_counts=True)[1])[-count:].sum() / len(ids))


def correlations(dense: np.ndarray, labels: np.ndarray) -> dict[int, float]:
    return {column: float(np.corrcoef(dense[:, column], labels)[0, 1]) for column in range(13)}
