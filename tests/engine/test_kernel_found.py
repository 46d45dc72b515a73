"""Finding the kernel and doing without it, GradScaler, and settings that change."""

import copy
from typing import Any

import pytest
import torch
from cases import KINDS, assert_same, every_parameter, make
from torch.amp.grad_scaler import GradScaler

from gradagrad import GradaGrad
from gradagrad import precision as rounding
from gradagrad.codegen import cpp
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


@needs_kernel
def test_a_kernel_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GRADAGRAD_KERNEL_PATH", raising=False)
    assert kernel.kernel_status.__wrapped__().loaded
    monkeypatch.setattr(cpp._Header, "text", lambda _: "another rule")
    status = kernel.kernel_status.__wrapped__()
    assert not status.loaded
    assert "built from other rules or C++ sources than this source tree has. Build it again: python" in str(status)


SCALED: dict[str, dict[str, Any]] = {kind: {"kind": kind} for kind in KINDS} | {
    "sparse": {"kind": "element", "lazy": True},
    "sparse auto": {"kind": "auto"},
}


def _trained(name: str, use: bool | None, bad_step: int, *, scale: bool) -> Any:
    """Trains with an overflow in one step, or without this step and without a scaler."""
    torch.manual_seed(1)
    weights = [torch.randn(30, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    optimizer = make(params=weights, fused=use, **SCALED[name])
    scaler, scales = GradScaler("cpu", init_scale=8.0, growth_interval=2, enabled=scale), set[float]()
    for step in range(8):
        x, chosen = torch.randn(30, 4), torch.randint(30, (6,))
        if step == bad_step and not scale:
            continue
        optimizer.zero_grad()
        rows = torch.nn.functional.embedding(chosen, weights[0], sparse=True)
        loss = rows.square().sum() if name.startswith("sparse") else (weights[0] * x).square().mean()
        loss = (loss + (weights[1] * x[0, 0]).sum()) * (torch.inf if step == bad_step else 1.0)
        before = copy.deepcopy(optimizer) if step == bad_step else None
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.add(scaler.get_scale())
        if before:
            assert_same(optimizer, before)
    return optimizer, scales


@pytest.mark.parametrize("bad_step", [0, 3])
@pytest.mark.parametrize("use", [pytest.param(True, marks=needs_kernel), False], ids=["fused", "unfused"])
@pytest.mark.parametrize("name", SCALED)
def test_a_scaler_changes_nothing_but_that_an_infinity_skips_its_step(name: str, use: bool, bad_step: int):
    """Powers of two scale float32 exactly, so not even the last bit may differ. Fused steps unscale by themselves."""
    ours, scales = _trained(name, use, bad_step, scale=True)
    plain, _ = _trained(name, use, bad_step, scale=False)
    assert ours._step_supports_amp_scaling is use
    assert len(scales) > 2
    assert_same(ours, plain)
    for p, q in zip(every_parameter(ours), every_parameter(plain), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=0, atol=0)  # torch's fused optimizers unscale in place too


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
    """A plan is kept from step to step while the group's settings stay."""

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
