"""Sparse and dense gradients give the same numbers, in every granularity, lazy or not; and only touched rows cost."""

import copy

import pytest
import torch
from cases import (
    DRIVERS,
    GRANULARITIES,
    KINDS,
    ROWS,
    Ball,
    Largest,
    Oracle,
    assert_same,
    averages_of,
    coo,
    every_parameter,
    gammas,
    make,
    row_gradient,
)  # fmt: skip

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.projections import Box, NonNegative

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


def pair(kind, shape=(ROWS, 3), dtype=torch.float64, **options):
    """Two optimizers of the same table, with a dense parameter beside."""
    first = [torch.nn.Parameter(torch.randn(size, dtype=dtype)) for size in (shape, (4,))]
    options = ({"gamma0": 1e-3} if kind == "auto" else {"lr": 0.05}) | options
    for own in (first, copy.deepcopy(first)):
        groups = [{"params": own[:1], "lr": 0.5}, {"params": own[1:]}] if kind == "auto" else own
        yield make(kind, groups, **options)


def step_both(a, b, gradient, k=0):
    """One optimizer gets sparse gradients, and one the same gradients dense."""
    (table, p), (twin, q) = every_parameter(a), every_parameter(b)
    table.grad, twin.grad = gradient, gradient.to_dense()
    p.grad = q.grad = torch.full((4,), 0.1 * (k % 3), dtype=p.dtype)
    a.step()
    b.step()


def both(steps, kind, shape=(ROWS, 3), dtype=torch.float64, **options):
    a, b = pair(kind, shape, dtype, **options)
    for k in range(steps):
        step_both(a, b, row_gradient(k, shape, dtype), k)
        yield a, b


def assert_equal(a, b, tolerance=1e-12):
    """The rows that were left out are brought up to date first, as saving does."""
    a.state_dict()
    assert_same(a, b, rtol=tolerance, atol=tolerance * 1e-2)
    if isinstance(a, AutoGradaGrad):
        torch.testing.assert_close(averages_of(a), averages_of(b), rtol=tolerance, atol=tolerance * 1e-2)


PAPER = [
    {},
    {"rho": 10.0},
    {"rho": 0.0, "initial_accumulator_value": 0.5, "eps": 0.01},
    {"grad_bound": 2.0},
    {"gamma_max": 0.2},
    {"gamma_max": "travelled", "rho": 10.0},
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


AUTO = [{}, {"guard": False}, {"maximize": True}, {"weight_decay": 0.1}]
CASES = [(kind, options) for kind in GRANULARITIES for options in (*PAPER, *LAZY)]
CASES += [("auto", options | way) for options in AUTO for way in DRIVERS.values()]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_sparse_is_dense(kind, options):
    a = None
    for a, b in both(25, kind, **options):
        assert_equal(a, b)
    assert kind != "auto" or max(gammas(a)) > 2e-3


@pytest.mark.parametrize("kind", [*KINDS, *(f"lazy {granularity}" for granularity in GRANULARITIES)])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((ROWS,), torch.float64),
        ((ROWS, 2, 2), torch.float64),
        ((ROWS, 3), torch.complex128),
        ((ROWS, 3), torch.float32),
        ((ROWS, 3), torch.bfloat16),
    ],
    ids=str,
)
def test_other_shapes_and_numbers(kind, shape, dtype):
    kind, options = kind.removeprefix("lazy "), {"lazy": True} if kind.startswith("lazy") else {}
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 3e-2}.get(dtype, 1e-11)
    for a, b in both(12, kind, shape, dtype, **options):
        assert_equal(a, b, tolerance)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("rows", [[[1, 4]], [[]]], ids=["zeros", "no rows"])
@pytest.mark.parametrize("steps", [0, 6])
def test_gradients_of_zero_change_nothing(driver, rows, steps):
    *_, (optimizer, _) = both(steps + 1, "auto", **DRIVERS[driver])
    before, (table, p) = copy.deepcopy(optimizer), every_parameter(optimizer)
    table.grad, p.grad = coo(rows, torch.zeros(len(rows[0]), 3, dtype=table.dtype), table.shape), torch.zeros_like(p)
    optimizer.step()
    assert_same(optimizer, before)


def test_the_oracle_of_a_table():
    """Untouched rows have a gradient of zero."""
    table = torch.nn.Parameter(torch.randn(ROWS, 3, dtype=torch.float64))
    optimizer = AutoGradaGrad([table])
    oracle = Oracle(optimizer)
    for k in range(60):
        table.grad = row_gradient(k, (ROWS, 3))
        oracle.step()
        if k % 10 == 9:
            oracle.compare()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "row"])
def test_several_sparse_dimensions_and_then_one(kind):
    a, b = pair(kind, (5, 4), **({"gamma0": 1e-2} if kind == "auto" else {}))
    for k in range(18):
        generator = torch.Generator().manual_seed(k)
        rows, columns = (torch.randint(n, (6,), generator=generator) for n in (5, 4))
        shape, indices = ((6,), torch.stack([rows, columns])) if k % 6 < 4 else ((2, 4), rows[None, :2])
        step_both(a, b, coo(indices, torch.randn(shape, generator=generator, dtype=torch.float64), (5, 4)))
        if kind != "auto":  # whose idle rows catch up in the comparison
            torch.testing.assert_close(every_parameter(a), every_parameter(b), rtol=1e-12, atol=1e-14)
        if k % 2 or kind == "auto":
            assert_equal(a, b)


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
    a, b = pair("element")
    for k in range(20):
        gradient = row_gradient(k, (ROWS, 3))
        is_sparse = k % 5 not in (2, 3)
        step_both(a, b, gradient if is_sparse else gradient.to_dense())
        assert ("row_clocks" in a.state[every_parameter(a)[0]]) == is_sparse
        torch.testing.assert_close(every_parameter(a), every_parameter(b), rtol=1e-12, atol=1e-14)
        if k % 4 == 0:
            assert_equal(a, b)


@pytest.mark.parametrize("options", [{}, {"grad_bound": 2.0}], ids=str)
@pytest.mark.parametrize("granularity", ["element", "row"])
def test_rows_are_brought_up_to_date_only_when_asked_for(granularity, options):
    """Comparing after every step would hide a row that rests for longer: here the state is asked for once."""
    *_, (a, b) = both(40, granularity, **options)
    table = every_parameter(a)[0]
    assert "row_clocks" in a.state[table]
    assert_equal(a, b)
    assert "row_clocks" not in a.state[table]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"lazy": True}], ids=str)
def test_cost_follows_the_touched_rows(kind, options):
    """No intermediate as large as the table: counted in elements over all operators of a step, not in seconds."""
    p, other = torch.nn.Parameter(torch.zeros(10_000, 4)), torch.nn.Parameter(torch.zeros(3))
    optimizer = make(kind, [p, other], **({} if kind == "auto" else options))
    for k in range(6):
        p.grad = coo([[k, k + 1]], torch.ones(2, 4), p.shape) if k != 3 else None  # and without a gradient
        other.grad = torch.ones(3)
        with Largest() as seen:
            optimizer.step()
        assert k < 2 or (k != 3) <= seen.largest <= 100, (k, seen.largest)  # The first steps make the state.


def test_a_lookup_reads_old_values_until_its_row_has_caught_up():
    ends = []
    for sparse, current in ((False, False), (True, False), (True, True)):
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 2, sparse=sparse, dtype=torch.float64)
        optimizer = AutoGradaGrad(table.parameters(), gamma0=0.1)
        for k in range(30):
            if current:
                optimizer.state_dict()
            optimizer.zero_grad()
            (table(torch.tensor([k % 6, k * k % 6])) - 1.0).square().sum().backward()
            optimizer.step()
        optimizer.state_dict()
        ends.append(table.weight.detach())
    torch.testing.assert_close(ends[0], ends[2], rtol=1e-10, atol=0)
    assert not torch.allclose(ends[0], ends[1], rtol=1e-4)
    assert "a sparse run ends near the" in AutoGradaGrad.__doc__


def test_bfloat16_state_of_untouched_rows_stays_as_it_is():
    p = torch.nn.Parameter(torch.randn(4, 3))
    optimizer = AutoGradaGrad([p], gamma0=0.1, state_dtype=torch.bfloat16)
    p.grad = coo([[0, 1]], torch.randn(2, 3), (4, 3))
    optimizer.step()
    kept = {key: value.clone() for key, value in optimizer.state[p].items()}
    p.grad = coo([[1]], torch.randn(1, 3), (4, 3))
    optimizer.step()
    for key in ("accumulator", "offset", "displacement"):
        assert optimizer.state[p][key].dtype == torch.bfloat16
        assert torch.equal(optimizer.state[p][key][[0, 2, 3]], kept[key][[0, 2, 3]])
        assert key == "offset" or not torch.equal(optimizer.state[p][key][1], kept[key][1])


def test_decoupled_decay_touches_the_touched_rows():
    p = torch.nn.Parameter(torch.ones(4, 3))
    optimizer = AutoGradaGrad([p], gamma0=0.1, weight_decay=0.5)
    p.grad = coo([[2]], torch.ones(1, 3), (4, 3))
    optimizer.step()  # γ·(g/√a + λ·y) with a = g²
    torch.testing.assert_close(p.detach()[2], torch.full((3,), 1.0 - 0.1 * (1.0 + 0.5)))
    assert torch.equal(p[[0, 1, 3]], torch.ones(3, 3))


COUPLED = r"weight_decay must be 0 with sparse gradients, got 0\.1.*decoupled_weight_decay=True"


@pytest.mark.parametrize(
    ("cls", "options", "message"),
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
def test_what_sparse_gradients_cannot_do(cls, options, message):
    p, other = torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.ones(3))
    optimizer = cls([other, p], **options)
    for steps in (0, 1):
        before = copy.deepcopy(optimizer)
        p.grad, other.grad = coo([[1]], torch.ones(1, 2), (3, 2)), torch.ones(3)
        with pytest.raises(RuntimeError, match=message):
            optimizer.step()
        assert_same(optimizer, before)
        assert any(optimizer.state.values()) == steps
        if "differentiable" in options:  # whose steps need a parameter that is no leaf
            return
        p.grad = torch.ones(3, 2)
        optimizer.step()


def test_rows_of_single_entries_are_refused():
    p = torch.nn.Parameter(torch.randn(3, 3))
    optimizer = GradaGrad([p], granularity="row")
    p.grad = coo([[0, 1], [0, 1]], torch.ones(2), (3, 3))
    with pytest.raises(
        RuntimeError, match='granularity="row" needs gradients that are sparse in their first dimension'
    ):
        optimizer.step()
