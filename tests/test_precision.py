"""Number formats and shapes: half precision with float32 state, complex as real pairs, 0-d and empty tensors."""

import pytest
import torch
from cases import DRIVERS, GRANULARITIES

from gradagrad import GradaGrad

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


@pytest.mark.parametrize(("lr", "expected"), [(1e-8, 58), (1e-12, 84)])
@pytest.mark.parametrize("driver", DRIVERS)
def test_float32_adapts_from_a_tiny_learning_rate(lr, expected, driver):
    """The paper: below 1e-6 there is no adaptivity in single precision. Its literal form never moves; ours does."""
    p = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = GradaGrad([p], lr=lr, **DRIVERS[driver])
    steps = 0
    while p.abs() > 0.1 and steps < 200:
        p.grad = p.detach().sign()
        optimizer.step()
        steps += 1
    assert abs(steps - expected) <= 1


def test_the_literal_form_stays_put_in_float32():
    """What the recursion for m avoids: x_k − x_{k+1} is 0, so the literal m is 0 and nothing ever grows."""
    x, alpha, gamma, m = torch.tensor(3.0), torch.tensor(0.0), torch.tensor(1e-12), torch.tensor(0.0)
    for k in range(200):
        g = torch.tensor(1.0)
        v = g * g - 2 * g * m if k else g * g
        alpha = alpha + v.clamp(min=0)
        gamma = gamma * (1 + (-v).clamp(min=0) / alpha).sqrt()
        a = alpha.sqrt() / gamma
        new = x - g / a
        m = a * (x - new)
        x = new
    assert x == 3.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_half_precision_keeps_float32_state(dtype, granularity, driver):
    """The step is computed in float32 and only the stored parameter is rounded."""
    p = torch.nn.Parameter(torch.randn(6, 4).to(dtype))
    optimizer = GradaGrad([p], lr=0.01, granularity=granularity, momentum=0.5, **DRIVERS[driver])
    q = torch.nn.Parameter(p.detach().float())
    reference = GradaGrad([q], lr=0.01, granularity=granularity, momentum=0.5)
    for k in range(10):
        p.grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(k)).to(dtype)
        q.grad = p.grad.float()
        optimizer.step()
        reference.step()
        with torch.no_grad():
            q.copy_(q.to(dtype))
        assert torch.equal(p.float(), q)
    for key in ("momentum", "growth", "accumulator"):
        wide = key != "momentum" and granularity in ("tensor", "group", "all")  # one number: kept in double
        assert optimizer.state[p][key].dtype == (torch.float64 if wide else torch.float32)
        torch.testing.assert_close(optimizer.state[p][key], reference.state[q][key], rtol=1e-6, atol=0)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"weight_decay": 0.1}, {"lazy": True}])
def test_complex_is_real_pairs(granularity, driver, options):
    z = torch.nn.Parameter(torch.randn(3, 2, dtype=torch.complex128))
    x = torch.nn.Parameter(torch.view_as_real(z.detach()).clone())
    a = GradaGrad([z], lr=0.1, granularity=granularity, **DRIVERS[driver], **options)
    b = GradaGrad([x], lr=0.1, granularity=granularity, **options)
    for k in range(20):
        z.grad = torch.randn(3, 2, dtype=torch.complex128, generator=torch.Generator().manual_seed(k))
        x.grad = torch.view_as_real(z.grad).clone()
        a.step()
        b.step()
        torch.testing.assert_close(torch.view_as_real(z.detach()), x.detach(), rtol=1e-13, atol=1e-15)


def test_a_late_parameter_joins_its_groups_step_size():
    first, late = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3))
    optimizer = GradaGrad([late, first], lr=1e-3, granularity="group")
    for _ in range(5):
        first.grad = torch.ones(2)
        optimizer.step()
    grown = optimizer.state[first]["growth"].clone()
    assert grown > 1
    late.grad = torch.ones(3)
    optimizer.step()
    for key in ("growth", "accumulator"):
        assert torch.equal(optimizer.state[late][key], optimizer.state[first][key])
    first.grad = None  # the copy of a parameter without a gradient is kept up to date too
    optimizer.step()
    assert torch.equal(optimizer.state[late]["growth"], optimizer.state[first]["growth"])
    assert optimizer.state[late]["growth"] > grown


def test_mixed_precisions_share_one_group():
    params = [torch.nn.Parameter(torch.ones(3, dtype=d)) for d in (torch.bfloat16, torch.float64, torch.float32)]
    optimizer = GradaGrad(params, lr=1e-3, granularity="group")
    for _ in range(5):
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()
    growths = [optimizer.state[p]["growth"] for p in params]
    assert all(g is growths[0] for g in growths)
    # The group's number is in double: the same comes out as from float64 alone.
    q = torch.nn.Parameter(torch.ones(9, dtype=torch.float64))
    alone = GradaGrad([q], lr=1e-3, granularity="group")
    for _ in range(5):
        q.grad = torch.ones_like(q)
        alone.step()
    assert growths[1].item() == pytest.approx(alone.state[q]["growth"].item(), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-19, 1e15, 1e19])
@pytest.mark.parametrize("beta", [0.0, 0.9])
@pytest.mark.parametrize("eps", [0.0, 1e-10])
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_float32_survives_extreme_gradients(scale, beta, eps, granularity, driver):
    """Squares that underflow or overflow, tiny α followed by an ordinary gradient: nothing becomes NaN or infinite."""
    p = torch.nn.Parameter(torch.tensor([1.0, -1.0, 0.0]))
    optimizer = GradaGrad([p], lr=0.1, momentum=beta, eps=eps, rho=10.0, granularity=granularity, **DRIVERS[driver])
    pattern = [0.0, scale, scale, -scale, 0.0, scale, 1.0, 1.0, scale, -1.0]
    for g in pattern * 3:
        p.grad = torch.tensor([g, -g, 0.0])
        optimizer.step()
        state = optimizer.state[p]
        for value in (p, state["growth"], state["accumulator"], state["momentum"]):
            assert torch.isfinite(value).all(), (g, value)
        assert p[2] == 0.0


def test_growth_stops_at_the_largest_number():
    """A linear function grows γ for ever; it stops at the largest float instead of becoming infinite."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = GradaGrad([p], lr=1e-38, rho=100.0)
    for _ in range(300):
        p.grad = torch.full((1,), 1e-3)
        optimizer.step()
    assert optimizer.state[p]["growth"].item() <= torch.finfo(torch.float32).max
    assert torch.isfinite(optimizer.state[p]["accumulator"]).all()
