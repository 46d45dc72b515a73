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


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("granularity", ["element", "tensor"])
@pytest.mark.parametrize("problem", ["quadratic", "absolute", "logistic"])
def test_lemma_1_and_theorem_2_on_deterministic_convex_problems(problem, granularity, beta):
    """⟨g_k, m_{k−1}⟩/A_k ≤ f(x_{k−1}) − f(x_k), and the telescoped bound of Theorem 2 (momentum form, appendix)."""
    torch.manual_seed(1)
    matrix = torch.randn(12, 5, dtype=torch.float64)
    target = {"quadratic": matrix.sum(1), "absolute": matrix.sum(1), "logistic": (matrix.sum(1) > 0).double()}[problem]

    def f(x):
        r = matrix @ x
        if problem == "quadratic":
            return (r - target).square().mean()
        if problem == "absolute":
            return (r - target).abs().mean()
        return torch.nn.functional.binary_cross_entropy_with_logits(r, target) + 0.05 * x.square().sum()

    best = minimiser(f)
    f_best = f(best).item()
    rho = 2.0
    p = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    optimizer = GradaGrad([p], lr=0.05, rho=rho, momentum=beta, granularity=granularity, eps=0.0)
    left = right = 0.0
    previous = None
    for k in range(300):
        optimizer.zero_grad()
        loss = f(p)
        loss.backward()
        assert p.grad is not None
        g, x = p.grad.clone(), p.detach().clone()
        state = optimizer.state[p] if k else None
        m = state["momentum"].clone() if state else torch.zeros_like(x)
        A = metric(optimizer, p) if state else torch.ones_like(x)
        if previous is not None:
            assert (g * m / A).sum() <= previous - loss.item() + 1e-12
        z = x - beta / (1 - beta) * m / A
        optimizer.step()
        A_next = metric(optimizer, p)
        distance = (z - best).square()
        left += 2 * (loss.item() - f_best)
        if k == 0:
            right += (A_next * distance).sum().item() + (2 * beta / (1 - beta) + rho) * (loss.item() - f_best)
            right += (g * g / A_next).sum().item()
        else:
            right += ((A_next - A) * distance).sum().item()
            right += (g * g / A_next - rho * g * m / A).sum().item()
        assert left <= right + 1e-9 * abs(right)
        previous = loss.item()


def metric(optimizer, p):
    state = optimizer.state[p]
    return (state["accumulator"].sqrt() / (0.05 * state["growth"])).expand_as(p).clone()


def minimiser(f):
    x = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [x], max_iter=500, tolerance_grad=1e-14, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        solver.zero_grad()
        loss = f(x)
        loss.backward()
        return loss

    for _ in range(20):
        solver.step(closure)
    return x.detach()


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
