"""The model: DLRM's own shapes and start, and one flat table as good as 26."""

import math

import pytest
import torch
from torch import Tensor, nn

from gradagrad_lab.data.clicks.stream import ClickStream, Rows, table_sizes
from gradagrad_lab.problems.clicks.dlrm import DEFAULT, DLRM, KAGGLE, SMALL, Size, pair_positions

TINY = Size(cap=40, dimension=4, bottom=(8,), top=(8,))
SIZES = table_sizes(TINY.cap)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return ClickStream(5, TINY.cap).rows(6 * 32)


def fields(weight: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return weight.split(list(sizes))


def test_shapes_sizes_and_pairs() -> None:
    model = DLRM(size=SMALL)
    assert model(torch.zeros(3, 13), torch.zeros(3, 26, dtype=torch.long)).shape == (3,)
    assert [tuple(layer.weight.shape) for layer in DLRM(SIZES).layers()] == [(64, 13), (16, 64), (64, 367), (1, 64)]
    assert sum(table_sizes(DEFAULT.cap)) * DEFAULT.dimension == 840_557 * 16
    assert sum(table_sizes(KAGGLE.cap)) * KAGGLE.dimension > 300e6
    found = {(int(p) // 27, int(p) % 27) for p in pair_positions(27)}
    assert found == {(i, j) for i in range(27) for j in range(i)}


def test_start_is_dlrms_and_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    model = DLRM(size=SMALL, seed=3)
    assert torch.equal(before, torch.get_rng_state())
    for values, size in zip(fields(model.tables.weight.detach(), model.sizes), model.sizes, strict=True):
        assert values.abs().max() <= 1 / math.sqrt(size)
        assert values.std() == pytest.approx(1 / math.sqrt(3 * size), rel=0.3)
    widest = model.layers()[2]
    assert widest.weight.std().item() == pytest.approx(math.sqrt(2 / (367 + 32)), rel=0.05)
    again, other = DLRM(size=SMALL, seed=3), DLRM(size=SMALL, seed=4)
    for a, b, c in zip(model.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    last = torch.stack([DLRM(SIZES, TINY, seed=seed).layers()[-1].bias[0] for seed in range(60)])
    assert last.std().item() == pytest.approx(1.0, abs=0.3)


def test_flat_table_is_26_tables(rows: Rows) -> None:
    """Written out with 26 embeddings and the products in a double loop."""
    model = DLRM(SIZES, TINY, seed=1)
    tables = [nn.Embedding.from_pretrained(part.clone()) for part in fields(model.tables.weight.detach(), SIZES)]
    begin = torch.tensor([0, *SIZES[:-1]]).cumsum(0)
    dense, ids = torch.from_numpy(rows.dense), torch.from_numpy(rows.ids).long()
    bottom = dense
    layers = model.layers()
    for layer in layers[: len(model.bottom)]:
        bottom = torch.relu(layer(bottom))
    vectors = [bottom, *(table(ids[:, f] - begin[f]) for f, table in enumerate(tables))]
    products = [(vectors[i] * vectors[j]).sum(dim=1) for i in range(len(vectors)) for j in range(i)]
    hidden = torch.cat([bottom, torch.stack(products, dim=1)], dim=1)
    hidden = torch.relu(layers[-2](hidden))
    torch.testing.assert_close(model(dense, ids), layers[-1](hidden).squeeze(1))
