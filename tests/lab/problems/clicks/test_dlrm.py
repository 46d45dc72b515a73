"""The model: DLRM's own shapes and start, one flat table as good as 26, sparse gradients as good as dense ones."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gradagrad import GradaGrad
from gradagrad_lab.data.clicks.stream import ClickStream, Rows, table_sizes
from gradagrad_lab.problems.clicks.dlrm import DEFAULT, DLRM, KAGGLE, SMALL, Size, pair_positions

TINY = Size(cap=40, dimension=4, bottom=(8,), top=(8,))
SIZES = table_sizes(TINY.cap)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return ClickStream(5, TINY.cap).rows(6 * 32)


def batches(rows: Rows, size: int = 32) -> list[tuple[Tensor, Tensor, Tensor]]:
    cuts = [rows.cut(begin, begin + size) for begin in range(0, len(rows.clicks), size)]
    return [(torch.from_numpy(c.dense), torch.from_numpy(c.ids).long(), torch.from_numpy(c.clicks)) for c in cuts]


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
    dense, ids, _ = batches(rows)[0]
    bottom = dense
    layers = model.layers()
    for layer in layers[: len(model.bottom)]:
        bottom = torch.relu(layer(bottom))
    vectors = [bottom, *(table(ids[:, f] - begin[f]) for f, table in enumerate(tables))]
    products = [(vectors[i] * vectors[j]).sum(dim=1) for i in range(len(vectors)) for j in range(i)]
    hidden = torch.cat([bottom, torch.stack(products, dim=1)], dim=1)
    hidden = torch.relu(layers[-2](hidden))
    torch.testing.assert_close(model(dense, ids), layers[-1](hidden).squeeze(1))


SETTINGS: list[dict[str, Any]] = [
    {"granularity": "group", "rho": 50.0, "lr": 1e-3},
    {"granularity": "group", "rho": 50.0, "lr": 1e-3, "lazy": True},
    {"granularity": "tensor", "rho": 10.0, "lr": 0.1},
    {"granularity": "row", "lr": 0.01},
    {"granularity": "row", "lr": 0.01, "lazy": True},
    {"granularity": "element", "lr": 0.01},
    {"granularity": "element", "lr": 0.01, "lazy": True, "momentum": 0.5},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_sparse_equals_dense_in_every_table(settings: dict[str, Any], rows: Rows) -> None:
    """Table by table and in float64: totals would hide an error, since tables are a small part of the gradient."""
    trained: list[tuple[DLRM, GradaGrad]] = []
    for sparse in (True, False):
        model = DLRM(SIZES, TINY, seed=2, sparse=sparse).double()
        optimizer = GradaGrad(model.parameters(), **settings)
        for dense, ids, clicks in batches(rows):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(dense.double(), ids), clicks.double()).backward()
            assert model.tables.weight.grad is not None
            assert model.tables.weight.grad.is_sparse == sparse
            optimizer.step()
        trained.append((model, optimizer))
    (a, optimizer_a), (b, optimizer_b) = trained
    start = DLRM(SIZES, TINY, seed=2).double().tables.weight.detach()
    parts = [fields(weight, SIZES) for weight in (a.tables.weight.detach(), b.tables.weight.detach(), start)]
    for field, (ours, theirs, before) in enumerate(zip(*parts, strict=True)):
        moved = (theirs - before).abs().max()
        assert moved > 0, f"table {field + 1} was never trained"
        # Relative to how far this very table has moved.
        assert (ours - theirs).abs().max() <= 1e-9 * moved, f"table {field + 1}"
    states = [optimizer.state_dict()["state"] for optimizer in (optimizer_a, optimizer_b)]
    table = [name for name, _ in a.named_parameters()].index("tables.weight")
    for key in ("momentum", "growth", "accumulator"):
        torch.testing.assert_close(states[0][table][key], states[1][table][key], rtol=1e-9, atol=1e-15)
