"""Gradients as they are in practice: mixed precision, clipping, NaN, flags that belong to a device."""

import copy
from typing import Any

import pytest
import torch
from cases import DRIVERS, assert_same, gammas, make, noisy_gradients, parameters, train
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine import step as engine
from gradagrad.engine.step import look_on_device

every_driver = pytest.mark.parametrize("driver", DRIVERS)


CLIPPED = [("auto", {}), ("element", {"lr": 1e-4}), ("group", {"lr": 1e-4}), ("group", {"lr": 1e-4, "rho": 10.0})]


@pytest.mark.parametrize(("kind", "options"), CLIPPED, ids=str)
def test_clipping_does_not_let_gamma_run_away(kind: str, options: dict[str, Any]) -> None:
    """Clipping makes all gradients equally long but cannot make them agree, and only agreement raises γ.

    From a γ far too small, runs with and without clipping raise it to about the same size and train equally well.
    (Prodigy's issue 13 is the runaway.)
    """
    key, found, ends = "gamma" if kind == "auto" else "growth", [], []
    for limit in (torch.inf, 1.0, 1e-2, 1e-3):
        params = parameters(torch.float32)[:3]
        optimizer = make(kind, params, **options)
        for k in range(300):
            noisy_gradients(params, k)
            clip_grad_norm_(params, limit)
            optimizer.step()
        found.append(options.get("lr", 1.0) * max(state[key].max().item() for state in optimizer.state.values()))
        ends.append(max((p - 1.0).abs().max().item() for p in params))
    assert 1e-3 < min(found) < max(found) < 3.0 * found[0]
    assert max(ends) < min(1.25 * ends[0], 1.6)
    assert found[2] == pytest.approx(found[3], rel=1e-3)  # where every gradient is clipped, the size does not matter


@every_driver
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("when", [0, 20])
def test_a_bad_gradient_ruins_its_element_and_gamma_goes_on(driver: str, bad: float, when: int) -> None:
    """γ moves as it would without the element, from the ruined step on."""
    params, without = parameters(torch.float64), parameters(torch.float64)
    optimizer = AutoGradaGrad(params, guard=False, **DRIVERS[driver])
    reference = AutoGradaGrad(without, guard=False, **DRIVERS[driver])
    for k in range(when + 20):
        for p, q, g in zip(params, without, noisy_gradients(without, k), strict=True):
            p.grad, q.grad = g, g.clone()
            if p is params[0] and k >= when:
                p.grad[1, 1] = bad if k == when else 1.0
                q.grad[1, 1] = 0.0
        optimizer.step()
        reference.step()
        assert k < when or gammas(optimizer) == pytest.approx(gammas(reference), rel=1e-9)
    healthy = torch.ones(4, 3, dtype=torch.bool)
    healthy[1, 1] = False
    assert not torch.isfinite(params[0][1, 1])
    torch.testing.assert_close(params[0][healthy], without[0][healthy], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(params[1:], without[1:], rtol=1e-9, atol=1e-12)
    assert optimizer.diagnostics()[0].non_finite > 0
    assert reference.diagnostics()[0].non_finite == 0


def test_no_lr_from_the_start_is_warned_of() -> None:
    optimizer = AutoGradaGrad(parameters(), lr=0.0)
    with pytest.warns(UserWarning, match="lr is 0 in every param group") as found:
        train(optimizer, 2)
    assert len(found) == 1
    warming = AutoGradaGrad(parameters())
    torch.optim.lr_scheduler.LambdaLR(warming, lambda k: k / 10)
    train(warming, 1)


def test_one_outlier_cannot_freeze_the_learning_rate() -> None:
    """A gradient of a million times the usual size; without the guard the squares stay frozen by it."""
    ends: dict[bool, float] = {}
    for guard in (False, True):
        params = parameters()
        optimizer = AutoGradaGrad(params, guard=guard)
        for k in range(400):
            for p, g in zip(params, noisy_gradients(params, k, 0.1), strict=True):
                p.grad = g * (1e6 if k == 100 else 1.0)
            optimizer.step()
        ends[guard] = max(float((p.detach() - 1.0).abs().max()) for p in params if p.numel())
    assert ends[True] < 0.6
    assert ends[False] > 2.0 * ends[True]


@every_driver
def test_bfloat16_state_trains_as_well(driver: str) -> None:
    """Rounded at random, the sums go on growing; γ and the points stay close to those of exact state."""
    losses, found = [], []
    for state_dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        p = Parameter(torch.randn(40, 10))
        optimizer = AutoGradaGrad([p], state_dtype=state_dtype, **DRIVERS[driver])
        train(optimizer, 200)
        with optimizer.averaged():
            losses.append((p - 1.0).square().mean().item())
        found += gammas(optimizer)
        assert optimizer.state[p]["offset"].dtype == state_dtype
    assert losses[1] < 1.15 * losses[0] + 1e-4
    assert 0.5 < found[1] / found[0] < 2.0


@every_driver
def test_bfloat16_holds_the_limit_of_the_sum(driver: str) -> None:
    """Rounding at random would lower a sum at a limit between two bfloat16 numbers once in 65,536 steps."""
    p = Parameter(torch.zeros(100_000))
    optimizer = AutoGradaGrad([p], state_dtype=torch.bfloat16, **DRIVERS[driver])
    for size in (1e30, *[1e-9] * 7, 0.0):
        p.grad = torch.full_like(p, size)
        optimizer.step()
        assert bool((optimizer.state[p]["accumulator"] == 2.0**126).all())


ZEROS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no guard": {"guard": False, "eps": 1e-3},
    "decay": {"weight_decay": 0.1},
    "coupled decay": {"weight_decay": 0.1, "decoupled_weight_decay": False},
    "bfloat16": {"state_dtype": torch.bfloat16},
}


@every_driver
@pytest.mark.parametrize("on_device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("name", ZEROS)
@pytest.mark.parametrize("steps", [0, 4])
def test_a_step_in_which_every_gradient_is_zero_changes_nothing(
    driver: str, on_device: bool, name: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run continues as if it had not been taken. Where the host cannot wait, a number tells the rule."""
    if on_device:
        if driver == "fused":
            pytest.skip("the kernel is told by the host")
        monkeypatch.setattr(engine, "look", look_on_device)
    runs: list[AutoGradaGrad] = []
    for zeros in (False, True):
        params = parameters(torch.float32)
        groups = [{"params": params[:2], "lr": 0.5}, {"params": params[2:]}]
        optimizer = AutoGradaGrad(groups, gamma0=1e-2, **ZEROS[name], **DRIVERS[driver])
        train(optimizer, steps)
        if zeros:
            before = copy.deepcopy(optimizer)
            for p in params:
                p.grad = torch.full_like(p, -0.0)
            optimizer.step()
            if steps:  # Before the first step there is no state to compare with.
                assert_same(optimizer, before)
        train(optimizer, 4, start=steps)
        runs.append(optimizer)
    assert_same(*runs)


def test_a_loss_that_reaches_zero_does_not_make_parameters_blow_up() -> None:
    """Modular addition: once every answer is right, gradients vanish and agree, and γ must not run away."""
    pairs = torch.cartesian_prod(torch.arange(11), torch.arange(11))
    sums = pairs.sum(1) % 11
    for seed in range(3):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Embedding(11, 32), torch.nn.Flatten(), torch.nn.Linear(64, 128), torch.nn.ReLU(),
            torch.nn.Linear(128, 11),
        )  # fmt: skip
        optimizer = AutoGradaGrad(model.parameters())
        for _ in range(1500):
            rows = torch.randint(len(pairs), (64,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pairs[rows]), sums[rows]).backward()
            optimizer.step()
        assert torch.nn.functional.cross_entropy(model(pairs), sums) < 1e-3
        assert max(p.abs().max().item() for p in model.parameters()) < 20.0


@pytest.mark.parametrize("make", [GradaGrad, AutoGradaGrad])
def test_nan_is_warned_of_once_with_its_place(make):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = make([{"params": model[0].named_parameters()}, {"params": model[1].named_parameters()}], lr=1e-3)

    def train():
        for k in range(300):
            for p in model.parameters():
                p.grad = torch.full_like(p, 1.0)
            if k == 5:
                model[1].weight.grad[0, 1] = torch.nan
            optimizer.step()

    with pytest.warns(UserWarning, match=r"parameter 2 \(weight\) is not finite after step 10") as found:
        train()
    assert [warning.filename for warning in found if "is not finite" in str(warning.message)] == [__file__]


@pytest.mark.parametrize("make", [GradaGrad, AutoGradaGrad])
def test_a_loss_of_nan_is_warned_of_within_25_steps(make):
    params = parameters()[:3]
    optimizer = make(params, lr=1e-3)
    train(optimizer, 35)
    for p in params:
        p.grad = torch.full_like(p, torch.nan)
    optimizer.step()
    with pytest.warns(UserWarning, match="parameter 0 is not finite after step 60"):
        train(optimizer, 40)
