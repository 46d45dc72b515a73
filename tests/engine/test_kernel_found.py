"""Finding the kernel and doing without it, GradScaler with fused=True, and bf16 state that resumes bit for bit."""

import io
from typing import Any

import pytest
import torch
from torch.amp.grad_scaler import GradScaler

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad import precision as rounding
from gradagrad.kernel import load as kernel
from tests.engine.kernel_batches import needs_kernel


@pytest.fixture
def _without_kernel(monkeypatch: pytest.MonkeyPatch):
    missing = kernel.KernelStatus(False, None, "it was not built.", "Build it.")
    monkeypatch.setattr(kernel, "kernel_status", lambda: missing)
    monkeypatch.setattr(kernel, "ops", lambda: None)
    kernel.warn_once.cache_clear()
    yield
    kernel.warn_once.cache_clear()


def _stepped(**options: Any) -> torch.Tensor:
    parameter = torch.ones(3)
    optimizer = GradaGrad([parameter], 0.1, **options)
    parameter.grad = torch.ones(3)
    optimizer.step()
    return parameter


@pytest.mark.usefixtures("_without_kernel")
def test_without_the_kernel_steps_are_said_once_to_be_slow_and_fused_true_raises():
    with pytest.warns(kernel.KernelMissingWarning, match=r"not built.*Build it.*fused=False"):
        assert (_stepped() < 1).all()
    _stepped()  # a second warning would be an error here
    with pytest.raises(RuntimeError, match="fused=True is impossible here: it was not built"):
        _stepped(fused=True)


def test_a_damaged_kernel_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.delenv("GRADAGRAD_KERNEL_PATH", raising=False)
    (tmp_path / "_kernel.abi3.so").write_bytes(b"no library")
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "kernel.py"))
    status = kernel.kernel_status.__wrapped__()
    assert not status.loaded
    assert "does not fit torch" in str(status)
    assert "pip install" in str(status)


def _scaled(use: bool, scope: str, *, sparse: bool, bad_step: int):
    torch.manual_seed(1)
    weights = [torch.randn(30, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    optimizer = GradaGrad(weights, 0.1, granularity=scope, fused=use, lazy=sparse)
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=4)
    for step in range(8):
        optimizer.zero_grad()
        x = torch.randn(30, 4) * (torch.inf if step == bad_step else 1.0)
        rows = torch.nn.functional.embedding(torch.randint(30, (6,)), weights[0], sparse=True)
        loss = rows.square().sum() if sparse else (weights[0] * x).square().mean()
        scaler.scale(loss + (weights[1] * x[0, 0]).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return weights, optimizer


@needs_kernel
@pytest.mark.parametrize("bad_step", [0, 3])
@pytest.mark.parametrize("scope", ["element", "row", "tensor", "group", "sparse"])
def test_unscaling_is_left_to_the_step_and_an_infinity_skips_it(scope: str, bad_step: int):
    sparse, scope = scope == "sparse", "element" if scope == "sparse" else scope
    ours, our_optimizer = _scaled(True, scope, sparse=sparse, bad_step=bad_step)
    theirs, their_optimizer = _scaled(False, scope, sparse=sparse, bad_step=bad_step)
    assert our_optimizer._step_supports_amp_scaling
    assert not their_optimizer._step_supports_amp_scaling
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        assert our_optimizer.state[a]["step"] == their_optimizer.state[b]["step"] == 7
        if not sparse:  # torch's fused optimizers unscale in place
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-6, atol=1e-7)


def _trained(made: Any, steps: range) -> Any:
    for step in steps:
        torch.manual_seed(step)
        made[1].zero_grad()
        made[0](torch.randn(16, 9)).square().mean().backward()
        made[1].step()
    return made


@pytest.mark.parametrize("rule", [GradaGrad, AutoGradaGrad])
@pytest.mark.parametrize("options", [{"fused": None}, {"fused": False}, {"foreach": True}], ids=str)
def test_bf16_state_resumes_bit_for_bit(rule: Any, options: dict[str, bool | None]):
    def new() -> tuple[torch.nn.Module, Any]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        return model, rule(model.parameters(), 0.01, momentum=0.9, state_dtype=torch.bfloat16, **options)

    model, optimizer = _trained(new(), range(12))
    half = _trained(new(), range(5))
    file = io.BytesIO()
    torch.save([a.state_dict() for a in half], file)
    file.seek(0)
    again, resumed = new()
    for a, saved in zip((again, resumed), torch.load(file, weights_only=True), strict=True):
        a.load_state_dict(saved)
    _trained((again, resumed), range(5, 12))
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
        for key, value in optimizer.state[a].items():
            assert torch.equal(value, resumed.state[b][key])
            assert value.dtype == torch.bfloat16 or value.dim() == 0


def test_rounding_is_unbiased_and_keeps_what_is_exact():
    value, like = torch.tensor(1.0 + 3 / 1024), torch.empty(100_000)  # between 1 and 1 + 1/128
    bits = rounding.RandomBits(like, torch.tensor(7), 2)
    for word in range(5):
        result = rounding.stored(like.bfloat16(), value.expand(100_000), bits, word)
        assert set(result.tolist()) == {1.0, 1.0 + 1 / 128}
        assert abs(result.float().mean() - value) < 6e-5  # five standard errors
    exact = torch.tensor([0.0, -0.0, 1.0, -3.5, float("inf"), -float("inf"), 2.0**127, 2.0**-126])
    kept = rounding.rounded(exact, torch.full((8,), 0xFFFF))
    assert torch.equal(kept.float(), exact)
    assert torch.equal(kept.signbit(), exact.signbit())


CHANGES = {"rho": 7.0, "momentum": 0.5, "weight_decay": 0.1, "eps": 1.0, "gamma_max": 0.26, "maximize": True, "lr": 0.5}


@needs_kernel
@pytest.mark.parametrize("name", [*CHANGES, "a tensor as lr, in place"])
def test_a_setting_that_is_changed_between_steps_is_followed(name: str):
    """What follows from a group's settings is kept from step to step, as long as they stay."""

    def ended(fused: bool, changes: bool) -> torch.Tensor:
        torch.manual_seed(0)
        parameter = torch.nn.Parameter(torch.randn(9, dtype=torch.float64))
        lr = 0.25 if name in CHANGES else torch.tensor(0.25)
        optimizer = GradaGrad([parameter], lr, momentum=0.1, gamma_max=3.0, fused=fused)
        for k in range(6):
            parameter.grad = torch.randn(9, dtype=torch.float64)
            if k == 3 and changes and isinstance(lr, torch.Tensor):
                lr.fill_(0.5)
            elif k == 3 and changes:
                optimizer.param_groups[0][name] = CHANGES[name]
            optimizer.step()
        return parameter.detach()

    torch.testing.assert_close(ended(True, True), ended(False, True), rtol=1e-12, atol=1e-12)
    assert not torch.equal(ended(True, True), ended(True, False))
