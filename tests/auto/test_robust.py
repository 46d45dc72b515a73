"""What gradients do in practice: mixed precision, clipping, NaN, flags that belong to a device."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode

from gradagrad import AutoGradaGrad

from .cases import DRIVERS, assert_same, coo, every_parameter, noisy_gradients, parameters, shared, train

every_driver = pytest.mark.parametrize("driver", DRIVERS)


@every_driver
def test_grad_scaler_unscales_and_skips_whole_steps(driver: str) -> None:
    """A skipped step leaves everything as it was: points, averages, and the numbers that all share."""
    scaled, plain = parameters(torch.float32)[:2], parameters(torch.float32)[:2]
    optimizer = AutoGradaGrad(scaled, gamma0=1e-2, **DRIVERS[driver])
    reference = AutoGradaGrad(plain, gamma0=1e-2, **DRIVERS[driver])
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    for k in range(10):
        is_bad = k in (0, 4)
        factor = torch.inf if is_bad else 1.0
        optimizer.zero_grad()
        before = copy.deepcopy(optimizer)
        scaler.scale(factor * sum((p - 1.0).square().sum() for p in scaled)).backward()  # pyright: ignore
        scaler.step(optimizer)
        scaler.update()
        if is_bad:
            if optimizer.state:
                assert_same(optimizer, before)
            continue
        reference.zero_grad()
        sum((p - 1.0).square().sum() for p in plain).backward()  # pyright: ignore
        reference.step()
    assert shared(optimizer).step == 8
    assert_same(optimizer, reference, rtol=1e-5, atol=1e-6)


@every_driver
def test_clipping_does_not_let_gamma_run_away(driver: str) -> None:
    """Clipping to a fixed norm makes gradients alike in size; what decides is whether they agree."""
    gammas = []
    for limit in (torch.inf, 1.0, 1e-3):
        params = parameters(torch.float32)
        optimizer = AutoGradaGrad(params, **DRIVERS[driver])
        for k in range(200):
            for p, g in zip(params, noisy_gradients(params, k), strict=True):
                p.grad = g
            clip_grad_norm_(params, limit)
            optimizer.step()
        gammas.append(shared(optimizer).gamma)
        with optimizer.averaged():
            assert all((p - 1.0).abs().max() < 0.8 for p in params if p.numel())
    assert gammas[0] > 1e-2
    assert max(gammas) < 2.0 * min(gammas)


@every_driver
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("when", [0, 20])
def test_a_bad_gradient_spoils_its_element_and_gamma_stays(driver: str, bad: float, when: int) -> None:
    runs: list[AutoGradaGrad] = []
    for spoil in (False, True):
        params = parameters(torch.float32)
        optimizer = AutoGradaGrad(params, gamma0=0.01, **DRIVERS[driver])
        runs.append(optimizer)
        train(optimizer, when)
        gamma = shared(optimizer).gamma if when else 0.01
        for k in range(when, when + 3):
            for p, g in zip(params, noisy_gradients(params, k), strict=True):
                p.grad = g
            if spoil and k == when:
                params[0].grad[1, 1] = bad  # pyright: ignore[reportOptionalSubscript]
            optimizer.step()
            if spoil:
                assert shared(optimizer).gamma == gamma  # from the spoilt step on nothing can be measured
        numbers = shared(optimizer)
        assert all(v == v and abs(v) < 1e30 for v in numbers)
    healthy = torch.ones(4, 3, dtype=torch.bool)
    healthy[1, 1] = False
    clean, spoilt = (every_parameter(optimizer) for optimizer in runs)
    assert not torch.isfinite(spoilt[0][1, 1])
    for a, b in zip(clean, spoilt, strict=True):
        keep = healthy if a is clean[0] else slice(None)
        assert torch.isfinite(b[keep] if b.dim() else b).all()
        for key in ("accumulator", "momentum", "average"):
            value = runs[1].state[b][key]
            assert torch.isfinite(value[keep] if value.dim() else value).all(), key
        # The others have moved on.
        moved = runs[1].state[b]["average"] - b.detach()
        assert b.numel() == 0 or (moved[keep] if b.dim() else moved).abs().max() > 0


def _on_flat_loss(rank: int, steps: int, **options: Any) -> float:
    """γ after so many steps on nothing but noise, which moves the coordinates in ``rank`` independent ways."""
    random = torch.Generator().manual_seed(rank)
    directions = torch.randn(rank, 300, generator=random) if rank < 300 else torch.eye(300)
    p = Parameter(torch.zeros(300))
    optimizer = AutoGradaGrad([p], averaging=None, **options)
    for _ in range(steps):
        p.grad = torch.randn(rank, generator=random) @ directions
        optimizer.step()
    return shared(optimizer).gamma


@pytest.mark.parametrize("rank", [1, 10, 300])
def test_flat_loss_with_noise_of_any_rank_does_not_run_away(rank: int) -> None:
    """γ/√k, the step, stays below 0.05; without the certificate γ is astronomic."""
    assert _on_flat_loss(rank, 10_000) / 10_000**0.5 < 0.05


@pytest.mark.parametrize("rank", [1, 10])
def test_nor_does_a_loss_that_becomes_flat(rank: int) -> None:
    """A certificate expires: γ is certified by a noisy quadratic, then there is only correlated noise."""
    random = torch.Generator().manual_seed(rank)
    directions = torch.randn(rank, 300, generator=random)
    curvatures = torch.logspace(-2, 0, 300)
    p = Parameter(torch.ones(300))
    optimizer = AutoGradaGrad([p], averaging=None)
    before = 0.0
    for k in range(6_000):
        p.grad = torch.randn(rank, generator=random) @ directions
        if k < 1_000:
            p.grad = curvatures * p.detach() + torch.randn(300, generator=random)
        elif k == 1_000:
            before = shared(optimizer).gamma
            assert shared(optimizer).certified > 0
        optimizer.step()
    assert shared(optimizer).certified == 0
    assert shared(optimizer).gamma < 30.0 * before


@pytest.mark.parametrize("rank", [1, 10])
def test_without_momentum_neither(rank: int) -> None:
    assert _on_flat_loss(rank, 10_000, momentum=0.0) / 10_000**0.5 < 0.05


def test_without_the_certificate_correlated_noise_does_run_away() -> None:
    assert _on_flat_loss(1, 1_000, momentum=0.0, certainty=0.0) > 1e3
    assert _on_flat_loss(1, 10_000, certainty=0.0) > 10.0


@every_driver
def test_extreme_gradients_stay_finite(driver: str) -> None:
    """Squares that underflow or overflow single precision; an ordinary gradient after tiny ones."""
    for size in (1e-30, 1e-22, 1e15, 1e19):
        p = Parameter(torch.tensor([1.0, -1.0, 0.0]))
        optimizer = AutoGradaGrad([p], **DRIVERS[driver])
        for g in [size, size, -size, 0.0, size, 1.0, 1.0, size, -1.0] * 3:
            p.grad = torch.tensor([g, -g, 0.0])
            optimizer.step()
            assert torch.isfinite(p).all(), (size, g)
            assert p[2] == 0.0
        assert all(torch.isfinite(value).all() for value in optimizer.state[p].values())


@every_driver
def test_bfloat16_parameters_are_computed_in_single_precision(driver: str) -> None:
    p = Parameter(torch.randn(6, 4).bfloat16())
    q = Parameter(p.detach().float())
    a, b = AutoGradaGrad([p], gamma0=0.05, **DRIVERS[driver]), AutoGradaGrad([q], gamma0=0.05, **DRIVERS[driver])
    for _ in range(10):
        p.grad = torch.randn(6, 4).bfloat16()
        q.grad = p.grad.float()
        a.step()
        b.step()
        with torch.no_grad():
            q.copy_(q.bfloat16())
        assert torch.equal(p.float(), q)
        assert shared(a) == shared(b)
    assert a.state[p]["accumulator"].dtype == torch.float32
    torch.testing.assert_close(a.state[p]["accumulator"], b.state[q]["accumulator"])


@every_driver
def test_bfloat16_state_trains_as_well(driver: str) -> None:
    """Rounded at random, the sums go on growing; γ and the points stay close to those of exact state."""
    losses, gammas = [], []
    for state_dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        p = Parameter(torch.randn(40, 10))
        optimizer = AutoGradaGrad([p], state_dtype=state_dtype, **DRIVERS[driver])
        train(optimizer, 200)
        with optimizer.averaged():
            losses.append((p - 1.0).square().mean().item())
        gammas.append(shared(optimizer).gamma)
        assert optimizer.state[p]["average"].dtype == state_dtype
    assert losses[1] < 1.15 * losses[0] + 1e-4
    assert 0.7 < gammas[1] / gammas[0] < 1.4


def test_mixed_precisions_share_one_gamma() -> None:
    params = [Parameter(torch.ones(3, dtype=d)) for d in (torch.bfloat16, torch.float64, torch.float32)]
    whole = Parameter(torch.ones(9, dtype=torch.float64))
    optimizer, alone = AutoGradaGrad(params), AutoGradaGrad([whole])
    for k in range(40):
        for p in (*params, whole):
            p.grad = torch.full_like(p, 1.0 if k % 3 else -0.5)
        optimizer.step()
        alone.step()
    assert shared(optimizer).gamma == pytest.approx(shared(alone).gamma, rel=1e-5)
    assert shared(optimizer).gamma > 4e-5


def test_capturable_and_tensor_paths_judge_as_floats_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing may be read back to the host, the shared numbers are 0-d tensors; torch's root may differ a bit."""
    from gradagrad.auto.numbers import Numbers, rule

    def on_device(stored: Any) -> Numbers:
        return Numbers(rule.Shared(*stored.clone().unbind()), plain=False, device=stored.device)

    class NoWaiting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            assert func._schema.name not in ("aten::_local_scalar_dense", "aten::nonzero", "aten::equal"), func
            return func(*args, **(kwargs or {}))

    for weighting in ("linear", "uniform"):
        a = AutoGradaGrad(parameters(), lr=torch.tensor(0.5), weighting=weighting, fused=False)  # pyright: ignore
        b = AutoGradaGrad(parameters(), lr=torch.tensor(0.5), weighting=weighting, capturable=True, fused=False)  # pyright: ignore
        train(a, 60)
        with monkeypatch.context() as patch:
            patch.setattr(Numbers, "of", staticmethod(on_device))
            train(b, 1)
            for k in range(1, 60):
                params = every_parameter(b)
                for p, g in zip(params, noisy_gradients(params, k), strict=True):
                    p.grad = g
                with NoWaiting():
                    b.step()
        assert_same(a, b, rtol=1e-11, atol=1e-13)


def test_a_refused_step_changes_nothing() -> None:
    p, table = Parameter(torch.ones(3)), Parameter(torch.ones(3, 2))
    optimizer = AutoGradaGrad([p, table], weight_decay=0.1, decoupled_weight_decay=False)
    p.grad, table.grad = torch.ones(3), torch.ones(3, 2)
    optimizer.step()
    before = copy.deepcopy(optimizer)
    table.grad = coo([[0]], torch.ones(1, 2), (3, 2))
    with pytest.raises(RuntimeError, match="weight_decay must be 0 with sparse gradients"):
        optimizer.step()
    assert_same(optimizer, before)
