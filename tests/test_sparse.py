"""Sparse and dense gradients give the same numbers, in every granularity, lazy or not; and only touched rows cost."""

import copy

import pytest
import torch
from cases import GRANULARITIES, ROWS, Ball, Largest, coo, row_gradient

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.projections import Box, NonNegative

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


def both(steps, shape=(ROWS, 3), dtype=torch.float64, **options):
    """Two optimizers, one given sparse gradients and one the same gradients dense; a dense parameter beside."""
    sparse = [torch.nn.Parameter(torch.randn(size, dtype=dtype)) for size in (shape, (4,))]
    dense = copy.deepcopy(sparse)
    a, b = GradaGrad(sparse, lr=0.05, **options), GradaGrad(dense, lr=0.05, **options)
    for k in range(steps):
        sparse[0].grad = row_gradient(k, shape, dtype)
        dense[0].grad = sparse[0].grad.to_dense()
        sparse[1].grad = dense[1].grad = torch.full((4,), 0.1 * (k % 3), dtype=dtype)
        a.step()
        b.step()
        yield a, b, sparse, dense


def assert_equal(a, b, sparse, dense):
    """The rows that were left out are brought up to date first, as saving does."""
    a.state_dict()
    torch.testing.assert_close(sparse, dense, rtol=1e-12, atol=1e-14)
    for p, q in zip(sparse, dense, strict=True):
        for key in ("momentum", "growth", "accumulator", "step"):
            torch.testing.assert_close(a.state[p][key], b.state[q][key], rtol=1e-12, atol=1e-14)


PAPER = [
    {},
    {"rho": 10.0},
    {"grad_bound": 2.0},
    {"gamma_max": 0.2},
    {"growth_limit": 1.1},
    {"lr_decay": 0.1},
    {"maximize": True},
]
LAZY = [
    {**options, "lazy": True}
    for options in (
        *PAPER,
        {"momentum": 0.9},
        {"momentum": 0.5, "grad_bound": 2.0},
        {"weight_decay": 0.1, "decoupled_weight_decay": True},
        {"momentum": 0.5, "projection": Box(-1.0, 1.0)},
        {"projection": NonNegative()},
    )
]


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("options", [*PAPER, *LAZY], ids=str)
def test_sparse_is_dense(granularity, options):
    for run in both(25, granularity=granularity, **options):
        assert_equal(*run)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("shape", [(ROWS,), (ROWS, 2, 2), (ROWS, 3)])
def test_other_shapes_and_complex_numbers(granularity, lazy, shape):
    dtype = torch.complex128 if len(shape) == 2 else torch.float64
    for run in both(10, shape, dtype, granularity=granularity, lazy=lazy):
        assert_equal(*run)


@pytest.mark.parametrize("granularity", ["element", "tensor", "group"])
def test_several_sparse_dimensions(granularity):
    p = torch.nn.Parameter(torch.randn(5, 4, dtype=torch.float64))
    q = copy.deepcopy(p)
    a, b = GradaGrad([p], lr=0.1, granularity=granularity), GradaGrad([q], lr=0.1, granularity=granularity)
    for k in range(12):
        generator = torch.Generator().manual_seed(k)
        indices = torch.stack(
            [torch.randint(5, (6,), generator=generator), torch.randint(4, (6,), generator=generator)]
        )
        p.grad = coo(indices, torch.randn(6, generator=generator, dtype=torch.float64), (5, 4))
        q.grad = p.grad.to_dense()
        a.step()
        b.step()
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)
        if k % 2:
            a.state_dict()  # which brings the rows that were left out up to date
            torch.testing.assert_close(a.state[p]["momentum"], b.state[q]["momentum"], rtol=1e-12, atol=1e-14)


def test_lazy_leaves_untouched_rows_wholly_alone():
    p = torch.nn.Parameter(torch.randn(4, 3))
    optimizer = GradaGrad([p], lr=0.1, lazy=True, momentum=0.9, granularity="row")
    p.grad = coo([[0, 1]], torch.ones(2, 3), (4, 3))
    optimizer.step()
    state = {k: v.clone() for k, v in optimizer.state[p].items()}
    before = p.detach().clone()
    p.grad = coo([[1]], torch.ones(1, 3), (4, 3))
    optimizer.step()
    for row in (0, 2, 3):
        assert torch.equal(p[row], before[row])
        for key in ("momentum", "growth", "accumulator"):
            assert torch.equal(optimizer.state[p][key][row], state[key][row])
    assert not torch.equal(p[1], before[1])


def test_lazy_rows_see_agreement_that_the_papers_clock_hides():
    """A row touched every other step: with its own clock its γ grows; with the paper's it is AdaGrad."""
    growth = {}
    for lazy in (False, True):
        p = torch.nn.Parameter(torch.zeros(2, 1))
        optimizer = GradaGrad([p], lr=1e-3, lazy=lazy, granularity="row")
        for k in range(20):
            p.grad = coo([[k % 2]], torch.ones(1, 1), (2, 1))
            optimizer.step()
        growth[lazy] = optimizer.state[p]["growth"].min().item()
    assert growth[False] == 1.0
    assert growth[True] > 10.0


def test_dense_and_sparse_gradients_may_alternate():
    p = torch.nn.Parameter(torch.randn(ROWS, 3, dtype=torch.float64))
    q = copy.deepcopy(p)
    a, b = GradaGrad([p], lr=0.05), GradaGrad([q], lr=0.05)
    for k in range(20):
        p.grad = row_gradient(k, (ROWS, 3))
        q.grad = p.grad.to_dense()
        if k % 5 in (2, 3):
            p.grad = p.grad.to_dense()
        a.step()
        b.step()
        assert ("row_clocks" in a.state[p]) == (k % 5 not in (2, 3))
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)
        if k % 4 == 0:
            assert_equal(a, b, [p], [q])


def test_rows_are_brought_up_to_date_only_when_asked_for():
    """Comparing after every step would hide a row that rests for longer: here the state is asked for once."""
    for options in ({}, {"grad_bound": 2.0}):
        for granularity in ("element", "row"):
            *_, (a, b, sparse, dense) = both(40, granularity=granularity, **options)
            assert "row_clocks" in a.state[sparse[0]]
            assert_equal(a, b, sparse, dense)
            assert "row_clocks" not in a.state[sparse[0]]


def test_cost_follows_the_touched_rows():
    """No intermediate as large as the table: counted in elements over all operators of a step, not in seconds."""
    for granularity in GRANULARITIES:
        for lazy in (False, True):
            p = torch.nn.Parameter(torch.zeros(10_000, 4))
            optimizer = GradaGrad([p], lr=0.1, granularity=granularity, lazy=lazy)
            for k in range(3):
                p.grad = coo([[k, k + 1]], torch.ones(2, 4), p.shape)
                if k < 2:  # the first steps make the state
                    optimizer.step()
            with Largest() as seen:
                optimizer.step()
            assert 0 < seen.largest <= 100, (granularity, lazy, seen.largest)


COUPLED = r"weight_decay must be 0 with sparse gradients, got 0\.1.*decoupled_weight_decay=True"


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (GradaGrad, {"momentum": 0.9}, r"momentum must be 0 with sparse gradients and lazy=False, got 0\.9.*lazy=True"),
        (GradaGrad, {"weight_decay": 0.1}, COUPLED),
        (
            GradaGrad,
            {"weight_decay": 0.1, "decoupled_weight_decay": True},
            r"weight_decay must be 0 .* lazy=False, got 0\.1.*lazy=True",
        ),
        (GradaGrad, {"projection": Ball(1.0)}, r"projection must be elementwise .* sparse=False"),
        (GradaGrad, {"differentiable": True}, "differentiable=True needs dense gradients"),
        (AutoGradaGrad, {"weight_decay": 0.1, "decoupled_weight_decay": False}, COUPLED),
        (AutoGradaGrad, {"differentiable": True}, "differentiable=True needs dense gradients"),
    ],
)
def test_what_sparse_gradients_cannot_do(make, options, message):
    p = torch.nn.Parameter(torch.randn(3, 2))
    before = p.detach().clone()
    optimizer = make([p], **options)
    p.grad = coo([[1]], torch.ones(1, 2), (3, 2))
    with pytest.raises(RuntimeError, match=message):
        optimizer.step()
    assert torch.equal(p, before)
    assert not optimizer.state[p]


def test_rows_of_single_entries_are_refused():
    p = torch.nn.Parameter(torch.randn(3, 3))
    optimizer = GradaGrad([p], granularity="row")
    p.grad = coo([[0, 1], [0, 1]], torch.ones(2), (3, 3))
    with pytest.raises(
        RuntimeError, match='granularity="row" needs gradients that are sparse in their first dimension'
    ):
        optimizer.step()
