"""A synthetic click stream shaped like Criteo's, with a known teacher: 13 integers, 26 ids and a click per row.

Rows are made in blocks keyed by (seed, block number), so a longer stream extends a shorter one and any part can be made
by itself. What each row is made of: three common factors → integers with long tails; ids from heavy-tailed marginals,
tied together in three chains (item, publisher, campaign); values missing together; and a teacher that gives every
single id, rare ones too, an effect of its own. The teacher's probability comes with every row, so its loss, the lowest
any model can reach, is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradagrad_lab.data.clicks import tables as tables

DENSE_FIELDS, ID_FIELDS = len(tables.DENSE), len(tables.IDS)
BLOCK = 8192
CAP = 100_000
TRAINING, HELD_OUT = 0, 1
"""Stream seeds of the experiments: rows to train on, and rows never trained on."""

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Rows as a model takes them. ``ids`` are row numbers of one flat table that holds all fields one after another."""

    dense: NDArray[np.float32]  # (rows, 13): log(1 + max(x, 0)), missing → 0
    ids: NDArray[np.int32]  # (rows, 26)
    clicks: NDArray[np.float32]  # (rows,): 0 or 1
    teacher: NDArray[np.float32] | None  # (rows,): the true probability of a click; None for real data

    def cut(self, begin: int, end: int) -> "Rows":
        teacher = None if self.teacher is None else self.teacher[begin:end]
        return Rows(self.dense[begin:end], self.ids[begin:end], self.clicks[begin:end], teacher)


class RawRows(NamedTuple):
    """Rows as Criteo's file would have them, with the teacher's probability. Id 0 means missing."""

    integers: NDArray[np.int64]  # (rows, 13)
    missing: NDArray[np.bool_]  # (rows, 13)
    ids: NDArray[np.int64]  # (rows, 26), not hashed
    clicks: NDArray[np.bool_]
    teacher: Floats


def table_sizes(cap: int = CAP) -> tuple[int, ...]:
    """Table rows per field: every id its own row, or ``cap`` rows shared by remainder (DLRM's max-ind-range)."""
    return tuple(min(cardinality + 1, cap) for cardinality in tables.CARDINALITIES)


def offsets_of(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Where each field's rows begin in the one flat table."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))[:-1]])


@dataclass(frozen=True)
class ClickStream:
    """The stream of one seed. Equal seeds give equal rows; the teacher is the same for all."""

    seed: int = TRAINING
    cap: int = CAP

    @property
    def table_sizes(self) -> tuple[int, ...]:
        return table_sizes(self.cap)

    def blocks(self, begin: int = 0) -> Iterator[Rows]:
        """Blocks without end, from block number ``begin``."""
        while True:
            yield self.prepared(raw_block(self.seed, begin))
            begin += 1

    def rows(self, count: int) -> Rows:
        """The first ``count`` rows."""
        parts = [self.prepared(raw_block(self.seed, number)) for number in range(-(-count // BLOCK))]
        return joined(parts).cut(0, count)

    def prepared(self, raw: RawRows) -> Rows:
        sizes = self.table_sizes
        dense = np.log1p(np.where(raw.missing, 0, np.maximum(raw.integers, 0)).astype(np.float32))
        ids = (raw.ids % np.asarray(sizes) + offsets_of(sizes)).astype(np.int32)
        return Rows(dense, ids, raw.clicks.astype(np.float32), raw.teacher.astype(np.float32))


def joined(parts: Sequence[Rows]) -> Rows:
    """Consecutive pieces as one."""
    if len(parts) == 1:
        return parts[0]
    dense, ids, clicks, teachers = zip(*parts, strict=True)
    teacher = None if any(t is None for t in teachers) else np.concatenate([t for t in teachers if t is not None])
    return Rows(np.concatenate(dense), np.concatenate(ids), np.concatenate(clicks), teacher)


def raw_block(seed: int, number: int) -> RawRows:
    """Block ``number`` of a stream: `BLOCK` rows, a function of the two numbers alone."""
    random = np.random.default_rng([seed, number])
    factors = random.standard_normal((3, BLOCK))
    missing_dense, missing_ids = _missing(random, factors)
    integers = _integers(random, factors)
    ids = _ids(random, factors, missing_ids)
    teacher = _probability(integers, missing_dense, ids)
    return RawRows(integers.T, missing_dense.T, ids.T, random.random(BLOCK) < teacher, teacher)


def _integers(random: np.random.Generator, factors: Floats) -> NDArray[np.int64]:
    """(13, rows)."""
    loadings = np.array([field.loadings for field in tables.DENSE])
    own = np.sqrt(1.0 - np.square(loadings).sum(axis=1, keepdims=True))
    signal = loadings @ factors + own * random.standard_normal((DENSE_FIELDS, BLOCK))
    mean = np.array([[field.mean] for field in tables.DENSE])
    spread = np.array([[field.spread] for field in tables.DENSE])
    integers = np.maximum(np.floor(np.exp(mean + spread * signal)) - 1.0, 0.0).astype(np.int64)
    integers[1] -= 1  # I2 alone starts at −1
    return integers


def _missing(random: np.random.Generator, factors: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(13, rows) and (26, rows). Φ(n) < p is tested as n < Φ⁻¹(p): no distribution function per row."""
    dense = np.zeros((DENSE_FIELDS, BLOCK), dtype=np.bool_)
    ids = np.zeros((ID_FIELDS, BLOCK), dtype=np.bool_)
    for together, bound in zip(tables.MISSING, _missing_bounds(), strict=True):
        noise = random.standard_normal(BLOCK)
        score = np.sqrt(1.0 - together.loading**2) * noise + together.loading * factors[1]
        absent = score < bound
        for column in together.dense:
            dense[column - 1] = absent
        for column in together.ids:
            ids[column - 1] = absent
    return dense, ids


@cache
def _missing_bounds() -> tuple[float, ...]:
    import torch

    shares = torch.tensor([together.share for together in tables.MISSING], dtype=torch.float64)
    return tuple(torch.special.ndtri(shares).tolist())


def _ids(random: np.random.Generator, factors: Floats, missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(26, rows), unhashed, 0 where missing. Fields of a chain invert their marginals at one uniform, so that the finer
    id nearly fixes the coarser."""
    ids = np.empty((ID_FIELDS, BLOCK), dtype=np.int64)

    def draw(column: int, uniform: Floats) -> None:
        ids[column - 1] = np.where(missing[column - 1], 0, _rank(column - 1, uniform) + 1)

    item = random.random(BLOCK)
    for column in tables.ITEM_CHAIN:
        draw(column, item)
    publisher = _uniform(factors[2], random)
    for column in tables.PUBLISHER_CHAIN:
        draw(column, publisher)
    campaign = random.random(BLOCK)
    coarse_item = ids[24 - 1]
    fixed = (random.random(BLOCK) < 0.6) & (coarse_item > 20)
    campaign = np.where(fixed, _splitmix(coarse_item.astype(np.uint64)) * 2.0**-64, campaign)
    for column in tables.CAMPAIGN_CHAIN:
        draw(column, campaign)
    for position, column in enumerate(tables.LOOSE):
        draw(column, _uniform(factors[position % 3], random))
    return ids


def _uniform(factor: Floats, random: np.random.Generator) -> Floats:
    """A uniform number that leans on a factor."""
    import torch  # here, so that the processes that build Criteo's cache start without it

    normal = 0.4 * factor + np.sqrt(1.0 - 0.16) * random.standard_normal(BLOCK)
    return torch.special.ndtr(torch.from_numpy(normal)).numpy()


def _rank(field: int, uniform: Floats) -> NDArray[np.int64]:
    """The marginal's inverse at ``uniform``: 0 is the commonest id."""
    cardinality, head, power, shift = tables.IDS[field]
    bounds = np.cumsum(head)
    in_head = np.zeros(uniform.shape, dtype=np.int64)
    for bound in bounds:  # at most five: quicker than a search
        in_head += uniform >= bound
    tail = cardinality - len(head)
    rest = 1.0 - bounds[-1]
    if rest <= 1e-9:
        return np.minimum(in_head, len(head) - 1)
    share = np.clip((uniform - bounds[-1]) / rest, 0.0, 1.0)
    low, high = shift ** (1.0 - power), (tail + shift) ** (1.0 - power)
    # exp of a logarithm is several times faster than a power of an array
    position = np.exp(np.log(low + share * (high - low)) / (1.0 - power)) - shift
    rank = len(head) + np.minimum(position.astype(np.int64), tail - 1)
    return np.where(in_head < len(head), in_head, rank)


def _probability(integers: NDArray[np.int64], missing: NDArray[np.bool_], ids: NDArray[np.int64]) -> Floats:
    """The teacher. It sees ids before hashing, so ids that share a table row have different effects."""
    mean = np.array([[field.mean] for field in tables.DENSE])
    spread = np.array([[field.spread] for field in tables.DENSE])
    t = np.clip((np.log1p(np.maximum(integers, 0)) - mean) / spread, -3.0, 3.0)
    t[missing] = 0.0
    z = np.asarray(tables.DENSE_WEIGHTS) @ t + np.asarray(tables.MISSING_WEIGHTS) @ missing
    z += 0.10 * t[6 - 1] * t[13 - 1] + 0.15 * np.tanh(t[7 - 1]) * t[5 - 1]
    effects = _effects()
    hashes = _splitmix(ids.astype(np.uint64) + (np.arange(1, ID_FIELDS + 1, dtype=np.uint64) << np.uint64(40))[:, None])
    for field, weight in enumerate(tables.ID_WEIGHTS):
        z += weight * effects[hashes[field] & _PIECE]
    vectors: dict[int, Floats] = {}
    for column in {column for pair in tables.PAIRS for column in pair}:
        second = _splitmix(hashes[column - 1])
        pieces = [(second >> np.uint64(16 * piece)) & _PIECE for piece in range(tables.PAIR_RANK)]
        vectors[column] = np.stack([effects[piece] for piece in pieces])
    for a, b in tables.PAIRS:
        z += tables.PAIR_WEIGHT / np.sqrt(tables.PAIR_RANK) * np.einsum("kr,kr->r", vectors[a], vectors[b])
    return 1.0 / (1.0 + np.exp(-(tables.INTERCEPT + tables.SLOPE * z)))


_PIECE = np.uint64(0xFFFF)


@cache
def _effects() -> Floats:
    """65,536 standard normal numbers, exactly standardised: the teacher's effects, picked by hash."""
    values = np.random.default_rng(tables.EFFECTS_SEED).standard_normal(2**16)
    return (values - values.mean()) / values.std()


def _splitmix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Steele, Lea and Flood's splitmix64: 64 well-mixed bits of each number."""
    mixed = value + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def log_loss(probability: NDArray[np.floating], clicks: NDArray[np.floating]) -> Floats:
    """−log of the probability given to what happened, row by row."""
    given = np.where(clicks > 0.5, probability, 1.0 - probability).astype(np.float64)
    return -np.log(np.maximum(given, 1e-12))
