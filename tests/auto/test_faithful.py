"""Every way of stepping against the literal transcription of METHOD.md's "Shared growth"."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from gradagrad import AutoGradaGrad

from .cases import DRIVERS, OPTIONS, Oracle, noisy_gradients, parameters, shared, train

every_driver = pytest.mark.parametrize("driver", DRIVERS)


def run(oracle: Oracle, params: list[Parameter], steps: int, noise: float = 0.3) -> None:
    for k in range(steps):
        for p, g in zip(params, noisy_gradients(params, k, noise), strict=True):
            p.grad = g
        oracle.step()


@every_driver
@pytest.mark.parametrize(
    ("name", "noise"),
    [
        *((name, 0.3) for name in OPTIONS),
        ("default", 0.03),
        ("lenient", 0.03),
        ("large", 3.0),
        ("from far below", 30.0),
    ],
)
def test_the_oracle_in_double_precision(driver: str, name: str, noise: float) -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params, **DRIVERS[driver], **OPTIONS[name])
    oracle = Oracle(optimizer)
    for _ in range(3):
        run(oracle, params, 30, noise)
        oracle.compare()
    if name not in ("fixed", "large"):
        assert oracle.own.gamma > 2.0 * optimizer.param_groups[0]["gamma0"]  # something was there to compare


def test_the_paths_are_taken() -> None:
    """Start-up ends in some runs and not in others, and steps without growth follow growth steps."""
    seen = set()
    for name, noise in (("lenient", 0.03), ("default", 0.03)):
        params = parameters()
        optimizer = AutoGradaGrad(params, **OPTIONS[name])
        train(optimizer, 90, noise=noise)
        numbers = shared(optimizer)
        assert 0 < numbers.growth_steps < 90
        seen.add(numbers.starting)
    assert seen == {0.0, 1.0}


@every_driver
@pytest.mark.parametrize("weighting", ["linear", "uniform"])
def test_several_groups_with_their_own_lr(driver: str, weighting: Any) -> None:
    params = parameters()
    groups: list[dict[str, Any]] = [
        {"params": params[:1], "lr": 0.5},
        {"params": params[1:3], "lr": torch.tensor(2.0, dtype=torch.float64)},
        {"params": params[3:]},
    ]
    oracle = Oracle(AutoGradaGrad(groups, weighting=weighting, **DRIVERS[driver]))
    oracle.own.lr = [float(a) for a in oracle.own.lr]
    for _ in range(3):
        run(oracle, params, 30)
        oracle.compare()


@every_driver
def test_gradients_that_are_zero_or_missing(driver: str) -> None:
    """A zero first gradient, a while of zeros, single zero entries, parameters without a gradient for some steps."""
    params = parameters()
    oracle = Oracle(AutoGradaGrad(params, **DRIVERS[driver]))
    for k in range(70):
        for i, (p, g) in enumerate(zip(params, noisy_gradients(params, k), strict=True)):
            if k == 0 or 50 <= k < 60:
                g.zero_()
            elif i == 0:
                g[k % 4] = 0.0
            p.grad = None if (i == 1 and k % 3 == 0) or (i == 2 and k < 20) else g
        oracle.step()
        if k % 10 == 0:
            oracle.compare()
    oracle.compare()


@every_driver
def test_gradients_that_change_in_size(driver: str) -> None:
    """S/R̂ is large while they grow: then what a barely significant agreement may do is bounded by q² − 1."""
    params = parameters()
    oracle = Oracle(AutoGradaGrad(params, strictness=0.5, growth_limit=10.0, **DRIVERS[driver]))
    for k in range(60):
        for p, g in zip(params, noisy_gradients(params, k, 0.05), strict=True):
            p.grad = g * 2.0 ** (k % 20)
        oracle.step()
        if k % 20 == 19:
            oracle.compare()


@every_driver
def test_start_up_ends_for_good(driver: str) -> None:
    """Gradients that alternate end it; agreement afterwards does not bring it back."""
    params = parameters()
    oracle = Oracle(AutoGradaGrad(params, overshoot=2.0, certainty=0.0, **DRIVERS[driver]))
    seen: list[bool] = []
    for k in range(40):
        for p, g in zip(params, noisy_gradients(params, k), strict=True):
            p.grad = torch.ones_like(p) * (-1) ** k if 5 <= k < 15 else g
        oracle.step()
        seen.append(oracle.own.start_up)
        if k % 5 == 4:
            oracle.compare()
    assert seen == sorted(seen, reverse=True)
    assert seen[4]
    assert not seen[15]
    assert oracle.own.E_minus == 0.0  # there is nothing but agreement at the end


@every_driver
def test_fifty_zero_steps_then_training(driver: str) -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params, **DRIVERS[driver])
    start = [p.detach().clone() for p in params]
    for _ in range(50):
        for p in params:
            p.grad = torch.zeros_like(p)
        optimizer.step()
    assert shared(optimizer).gamma == 1e-5
    torch.testing.assert_close([p.detach() for p in params], start, rtol=0, atol=0)
    end = train(optimizer, 60)
    assert all(torch.isfinite(p).all() for p in end)
    assert shared(optimizer).gamma > 1e-3


@every_driver
@pytest.mark.parametrize("weighting", ["linear", "uniform"])
def test_single_precision_is_close(driver: str, weighting: Any) -> None:
    params = parameters(torch.float32)
    twins = [Parameter(p.detach().double()) for p in params]
    optimizer = AutoGradaGrad(params, weighting=weighting, **DRIVERS[driver])
    oracle = Oracle(AutoGradaGrad(twins, weighting=weighting, fused=False))
    for k in range(60):
        for p, q, g in zip(params, twins, noisy_gradients(twins, k), strict=True):
            p.grad, q.grad = g.float(), g.float().double()
        optimizer.step()
        oracle.step()
    assert oracle.own.gamma > 1e-4
    assert shared(optimizer).gamma == pytest.approx(oracle.own.gamma, rel=1e-4)
    torch.testing.assert_close(params, [q.float() for q in twins], rtol=1e-4, atol=1e-5)


@every_driver
@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_scale_of_the_loss_changes_nothing(driver: str, scale: float, dtype: torch.dtype) -> None:
    ordinary, scaled = parameters(dtype), parameters(dtype)
    a, b = (AutoGradaGrad(params, **DRIVERS[driver]) for params in (ordinary, scaled))
    for k in range(50):
        for p, q, g in zip(ordinary, scaled, noisy_gradients(ordinary, k), strict=True):
            p.grad, q.grad = g, g * scale
        a.step()
        b.step()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert shared(a).gamma > 1e-3
    assert shared(a).gamma == pytest.approx(shared(b).gamma, rel=tolerance)
    assert shared(a).growth_steps == shared(b).growth_steps
    torch.testing.assert_close(ordinary, scaled, rtol=tolerance, atol=tolerance)


@every_driver
def test_cutting_a_tensor_or_moving_it_to_another_group_changes_nothing(driver: str) -> None:
    torch.manual_seed(1)
    whole = Parameter(torch.randn(6, 4, dtype=torch.float64))
    pieces = [Parameter(t.clone()) for t in whole.detach().split([1, 2, 3])]
    grouped = [Parameter(t.clone()) for t in whole.detach().split([1, 2, 3])]
    optimizers = [
        AutoGradaGrad([whole], **DRIVERS[driver]),
        AutoGradaGrad(pieces, **DRIVERS[driver]),
        AutoGradaGrad([{"params": grouped[1:]}, {"params": grouped[:1], "eps": 0.0}], **DRIVERS[driver]),
    ]
    for k in range(60):
        (gradient,) = noisy_gradients([whole], k)
        whole.grad = gradient
        for some in (pieces, grouped):
            for p, g in zip(some, gradient.split([1, 2, 3]), strict=True):
                p.grad = g.clone()
        for optimizer in optimizers:
            optimizer.step()
    for some, optimizer in zip((pieces, grouped), optimizers[1:], strict=True):
        torch.testing.assert_close(torch.cat([*some]), whole, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(shared(optimizer), shared(optimizers[0]), rtol=1e-9, atol=1e-12)


@every_driver
@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("maximize", [False, True])
def test_weight_decay_and_ascent(driver: str, decoupled: bool, maximize: bool) -> None:
    """Coupled decay is a part of the gradient; decoupled shrinks x by lr · γ/√k · weight_decay before it moves."""
    params = parameters()
    plain = copy.deepcopy(params)
    options: Any = {"weight_decay": 0.1, "decoupled_weight_decay": decoupled, "maximize": maximize}
    optimizer = AutoGradaGrad(params, lr=0.5, **options, **DRIVERS[driver])
    reference = AutoGradaGrad(plain, lr=0.5, fused=False)
    for k in range(60):
        for p, q, g in zip(params, plain, noisy_gradients(params, k), strict=True):
            p.grad = -g if maximize else g
            q.grad = g if decoupled else g + 0.1 * q.detach()
        before = [q.detach().clone() for q in plain]
        optimizer.step()
        reference.step()
        if decoupled:
            share = 0.1 * 0.5 * shared(reference).gamma / (k + 1) ** 0.5
            with torch.no_grad():
                for q, x in zip(plain, before, strict=True):
                    q.sub_(x * share)
        torch.testing.assert_close(params, plain, rtol=1e-11, atol=1e-13)


@every_driver
def test_eps_is_added_to_the_root(driver: str) -> None:
    p = Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = AutoGradaGrad([p], gamma0=0.5, eps=1.0, momentum=0.5, **DRIVERS[driver])
    p.grad = torch.tensor([2.0, -1.0, 0.0], dtype=torch.float64)
    optimizer.step()  # α = 2B/2 = g², h = g/2
    expected = torch.tensor([1.0 - 0.5 * 1 / 3, 1.0 + 0.125, 1.0], dtype=torch.float64)
    torch.testing.assert_close(p.detach(), expected)


@every_driver
def test_schedulers_do_not_disturb_gamma(driver: str) -> None:
    """γ is a function of the gradients alone; lr scales the step."""
    constant, scheduled = parameters(), parameters()
    a, b = (AutoGradaGrad(params, **DRIVERS[driver]) for params in (constant, scheduled))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(b, 50)
    for k in range(50):
        before = [(p.detach().clone(), q.detach().clone()) for p, q in zip(constant, scheduled, strict=True)]
        for p, q, g in zip(constant, scheduled, noisy_gradients(constant, k), strict=True):
            p.grad, q.grad = g, g.clone()
        a.step()
        b.step()
        assert shared(a) == shared(b)
        for p, q, (x, y) in zip(constant, scheduled, before, strict=True):
            torch.testing.assert_close(q - y, (p - x) * schedule.get_last_lr()[0], rtol=1e-7, atol=1e-15)
        schedule.step()


def test_diagnostics_are_the_oracles_numbers() -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params, strictness=6.0, overshoot=2.0)
    first = optimizer.diagnostics()
    assert (first.step, first.gamma, first.starting, first.evidence, first.growth_share) == (0, 1e-5, True, 0.0, 0.0)
    assert first.effective_coordinates != first.effective_coordinates
    oracle = Oracle(optimizer)
    for k in range(80):
        for p, g in zip(params, noisy_gradients(params, k, 0.1), strict=True):
            p.grad = g
        own = oracle.own
        gradient = [v for p in params if p.grad is not None for v in p.grad.flatten().tolist()]
        weights = [1.0 / own.alpha(i, k) ** 0.5 if k and own.B[i] else 0.0 for i in range(len(gradient))]
        S = sum(w * g**2 for w, g in zip(weights, gradient, strict=True))
        Q = sum((w * g**2) ** 2 for w, g in zip(weights, gradient, strict=True))
        oracle.step()
        now = optimizer.diagnostics()
        assert now.step == own.k
        assert now.gamma == pytest.approx(own.gamma)
        assert now.step_size == pytest.approx(own.gamma / own.k**0.5)
        assert now.starting is own.start_up
        assert now.growth_share == pytest.approx(own.growth_steps / own.k)
        assert now.evidence == pytest.approx(own.E / own.F**0.5 if own.F else 0.0, abs=1e-12)
        assert now.overshoot == pytest.approx(-own.E_minus / own.F_minus**0.5 if own.F_minus else 0.0, abs=1e-12)
        if k:
            assert now.effective_coordinates == pytest.approx(S**2 / Q)
    assert not oracle.own.start_up
