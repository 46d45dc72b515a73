"""The paper's inequalities, checked exactly in float64 on the optimizer itself."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradagrad import GradaGrad

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

numbers = st.floats(-1e3, 1e3, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-6)
sequences = st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=2, max_size=12)
granularities = st.sampled_from(["element", "row", "tensor", "group"])
rhos = st.sampled_from([0.5, 1.0, 2.0, 10.0, 100.0])
fast = settings(max_examples=60, deadline=None)


def blocks(value, shape, granularity):
    """Sums a per-coordinate tensor to the blocks."""
    v = value.reshape(shape)
    if granularity == "element":
        return v
    return v.sum(1, keepdim=True) if granularity == "row" else v.sum()


def steps_of(gradients, granularity, **options):
    """Yields (g, m, growth, α before, growth, α after, x before, x after) of each step on a 2 × 2 parameter."""
    p = torch.nn.Parameter(torch.linspace(-1, 1, 4, dtype=torch.float64).reshape(2, 2))
    optimizer = GradaGrad([p], granularity=granularity, **options)
    for g in gradients:
        p.grad = torch.tensor(g, dtype=torch.float64).reshape(2, 2)
        old, x = {key: value.clone() for key, value in optimizer.state[p].items()}, p.detach().clone()
        optimizer.step()
        growth, alpha = (optimizer.state[p][key].clone() for key in ("growth", "accumulator"))
        old = old or {"momentum": torch.zeros_like(x), "growth": torch.ones_like(growth), "accumulator": 0.0 * alpha}
        yield p.grad, old["momentum"], old["growth"], old["accumulator"], growth, alpha, x, p.detach().clone()


@fast
@given(sequences, granularities, rhos, st.sampled_from([0.0, 0.5, 0.9]))
def test_growth_never_falls_and_nothing_overflows(gradients, granularity, rho, beta):
    for _, _, growth, alpha, new_growth, new_alpha, _, x in steps_of(gradients, granularity, rho=rho, momentum=beta):
        assert (new_growth >= growth).all()
        assert (new_alpha >= alpha).all()
        assert torch.isfinite(new_growth).all()
        assert torch.isfinite(new_alpha).all()
        assert torch.isfinite(x).all()


@fast
@given(sequences, granularities, rhos, st.sampled_from([0.0, 0.5]))
def test_restricted_increase(gradients, granularity, rho, beta):
    """Whenever v < 0: gg/A' − ρ·gm/A ≤ 0 (Lemma 4)."""
    run = steps_of(gradients, granularity, rho=rho, momentum=beta, eps=0.0)
    for g, m, growth, alpha, new_growth, new_alpha, _, _ in run:
        gg, gm = blocks(g * g, (2, 2), granularity), blocks(g * m, (2, 2), granularity)
        falling = (gg - rho * gm < 0) & (alpha > 0)
        before, after = alpha.sqrt() / growth, new_alpha.sqrt() / new_growth
        excess = gg / after - rho * gm / before
        assert (excess[falling] <= 1e-12 * (gg / after)[falling]).all()


@fast
@given(sequences, granularities, rhos)
def test_a_zero_gradient_moves_nothing(gradients, granularity, rho):
    with_zero = [*gradients, [0.0] * 4]
    *_, (_, _, growth, alpha, new_growth, new_alpha, x, new_x) = steps_of(with_zero, granularity, rho=rho)
    assert torch.equal(new_x, x)
    assert torch.equal(new_growth, growth)
    assert torch.equal(new_alpha, alpha)


@fast
@given(sequences, granularities, rhos, st.sampled_from([1.0, 1.5, 3.0]), st.sampled_from([1.0, 1.1, 2.0]))
def test_caps_hold(gradients, granularity, rho, cap, limit):
    run = steps_of(gradients, granularity, rho=rho, lr=0.5, gamma_max=0.5 * cap, growth_limit=limit)
    for _, _, growth, _, new_growth, *_ in run:
        assert (0.5 * new_growth <= 0.5 * cap * (1 + 1e-15)).all()
        assert (new_growth <= growth * limit * (1 + 1e-15)).all()


def test_rho_1_sums_gradient_differences():
    """ρ = 1 without growth: α_{n+1} = ½g₀² + ½g_n² + ½Σ(g_{k+1} − g_k)²."""
    g = [1.0, -0.5, 0.8, -1.2, 0.3, -0.7]  # alternating, so v is never negative
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = GradaGrad([p], rho=1.0)
    for value in g:
        p.grad = torch.tensor([value], dtype=torch.float64)
        optimizer.step()
    expected = 0.5 * g[0] ** 2 + 0.5 * g[-1] ** 2 + 0.5 * sum((b - a) ** 2 for a, b in itertools.pairwise(g))
    torch.testing.assert_close(optimizer.state[p]["accumulator"].item(), expected, rtol=1e-14, atol=0)
    assert optimizer.state[p]["growth"].item() == 1.0
