"""Number formats and shapes: half precision with float32 state, complex as real pairs, 0-d and empty tensors."""

import pytest
import torch
from cases import DRIVERS, GRANULARITIES, KINDS, make

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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("driver", DRIVERS)
def test_half_precision_keeps_float32_state(dtype, kind, driver):
    """The step is computed in float32 and only the stored parameter is rounded."""
    p = torch.nn.Parameter(torch.randn(6, 4).to(dtype))
    q = torch.nn.Parameter(p.detach().float())
    options = {"gamma0": 0.05} if kind == "auto" else {"lr": 0.01, "momentum": 0.5}
    optimizer = make(kind, [p], **options, **DRIVERS[driver])
    reference = make(kind, [q], **options, **(DRIVERS[driver] if kind == "auto" else {}))
    for k in range(10):
        p.grad = torch.randn(6, 4, generator=torch.Generator().manual_seed(k)).to(dtype)
        q.grad = p.grad.float()
        optimizer.step()
        reference.step()
        with torch.no_grad():
            q.copy_(q.to(dtype))
        assert torch.equal(p.float(), q)
    for key, value in optimizer.state[p].items():
        assert value.dim() == 0 or value.dtype == torch.float32
        torch.testing.assert_close(value, reference.state[q][key], rtol=1e-6, atol=0)
    wide = kind in ("tensor", "group")  # one number: kept in double
    assert optimizer.state[p]["accumulator"].dtype == (torch.float64 if wide else torch.float32)


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


@pytest.mark.parametrize("kind", ["group", "auto"])
def test_mixed_precisions_share_what_they_share(kind):
    """The group's number is in double: the same comes out as from float64 alone."""
    mixed = [torch.nn.Parameter(torch.ones(3, dtype=d)) for d in (torch.bfloat16, torch.float64, torch.float32)]
    exact = [torch.nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in mixed]
    a, b = (make(kind, params, **({} if kind == "auto" else {"lr": 1e-3})) for params in (mixed, exact))
    for k in range(40 if kind == "auto" else 5):
        for p in (*mixed, *exact):
            p.grad = torch.full_like(p, 1.0 if k % 3 or kind == "group" else -0.5)
        a.step()
        b.step()
    key, tolerance = ("common_gamma", 1e-3) if kind == "auto" else ("growth", 1e-14)
    assert all(a.state[p][key] is a.state[mixed[0]][key] for p in mixed)
    assert a.state[mixed[0]][key].item() == pytest.approx(b.state[exact[0]][key].item(), rel=tolerance)


SETTINGS = [
    (kind, {"momentum": beta, "eps": eps}) for kind in GRANULARITIES for beta in (0.0, 0.9) for eps in (0.0, 1e-10)
]
SETTINGS += [("auto", {"guard": guard, "weight_decay": decay}) for guard in (True, False) for decay in (0.0, 0.1)]


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-19, 1e15, 1e19, 2e19, 3e38])
@pytest.mark.parametrize(("kind", "options"), SETTINGS, ids=str)
@pytest.mark.parametrize("driver", DRIVERS)
def test_float32_survives_extreme_gradients(scale, kind, options, driver):
    """Squares that underflow or overflow, tiny α followed by an ordinary gradient: nothing becomes NaN or infinite."""
    if kind != "auto":
        options = {"rho": 10.0, **options}
    runs, start = [], torch.tensor([1.0, -1.0, 0.0])
    for way in {"loop", driver} if kind == "auto" else {driver}:
        p = torch.nn.Parameter(start.clone())
        optimizer, gammas = make(kind, [p], **options, **DRIVERS[way]), [0.0, 0.0]
        for g in [0.0, scale, scale, -scale, 0.0, scale, 1.0, 1.0, scale, -1.0] * 3:
            before = p.detach().clone()
            p.grad = torch.tensor([g, -g, 0.0])
            optimizer.step()
            for value in (p, *optimizer.state[p].values()):
                assert torch.isfinite(value).all(), (g, value)
            assert p[2] == 0.0
            if kind == "auto":  # A step is about γ, whatever the size of its gradient.
                gammas.append(float(optimizer.state[p].get("gamma", 0.0)))
                assert (p - before).abs().max() <= 1.5 * max(gammas[-2:]), g
        if options == {"guard": False, "weight_decay": 0.0} and scale > 1e19:
            assert torch.equal(p, start)  # With torch's Adagrad, too, an infinite square lets nothing move.
        runs.append([p, optimizer.state[p].get("gamma")])
    torch.testing.assert_close(runs[-1], runs[0], rtol=1e-4, atol=1e-6)


def test_growth_stops_at_the_largest_number():
    """A linear function grows γ for ever; it stops at the largest float instead of becoming infinite."""
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = GradaGrad([p], lr=1e-38, rho=100.0)
    for _ in range(300):
        p.grad = torch.full((1,), 1e-3)
        optimizer.step()
    assert optimizer.state[p]["growth"].item() <= torch.finfo(torch.float32).max
    assert torch.isfinite(optimizer.state[p]["accumulator"]).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("granularity", ["element", "row", "tensor"])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("beta", [0.0, 0.9])
@pytest.mark.parametrize("when", [0, 2])
def test_other_blocks_are_untouched(bad, granularity, driver, beta, when):
    runs = []
    for ruin in (False, True):
        params = [torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(4))]
        optimizer = GradaGrad(params, lr=0.1, granularity=granularity, **DRIVERS[driver], momentum=beta, gamma_max=5.0)
        for k in range(5):
            for p in params:
                p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(k))
            if ruin and k == when:
                gradient = params[0].grad
                assert gradient is not None
                gradient[1, 1] = bad
            optimizer.step()
        state = ("momentum", "growth", "accumulator")
        runs.append([(p.detach(), *(optimizer.state[p][key] for key in state)) for p in params])
    healthy = torch.ones(3, 2, dtype=torch.bool)
    healthy[{"element": (1, 1), "row": 1, "tensor": slice(None)}[granularity]] = False
    (clean, beside), (ruined, other) = runs
    assert all(map(torch.equal, beside, other))
    assert all((a == b).expand(3, 2)[healthy].all() for a, b in zip(clean, ruined, strict=True))
    assert not torch.isfinite(ruined[0][1, 1])  # the ruined block itself shows it, as with torch's optimizers
