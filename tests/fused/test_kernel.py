"""Finding the kernel, doing without it, and choosing between the ways of stepping."""

import subprocess
import sys

import pytest
import torch

from gradagrad import GradaGrad, kernel
from gradagrad.steps import fused, loop
from tests.fused.reference import draw_gradients, make, needs_kernel


def test_status_is_printed_by_the_module():
    shown = subprocess.run([sys.executable, "-m", "gradagrad"], capture_output=True, text=True, check=True).stdout
    assert torch.__version__ in shown
    assert ("loaded from" if kernel.kernel_status().loaded else "not loaded") in shown


@pytest.fixture
def _without_kernel(monkeypatch: pytest.MonkeyPatch):
    missing = kernel.KernelStatus(False, None, "it was not built.", "Build it.")
    monkeypatch.setattr(kernel, "kernel_status", lambda: missing)
    monkeypatch.setattr(kernel, "ops", lambda: None)
    kernel.warn_once.cache_clear()
    yield
    kernel.warn_once.cache_clear()


@pytest.mark.usefixtures("_without_kernel")
def test_without_the_kernel_steps_are_taken_and_said_once_to_be_slow():
    parameter = torch.ones(3)
    optimizer = GradaGrad([parameter], 0.1)
    parameter.grad = torch.ones(3)
    with pytest.warns(kernel.KernelMissingWarning, match=r"not built.*Build it.*fused=False"):
        optimizer.step()
    optimizer.step()  # a second warning would be an error here
    assert (parameter < 1).all()


@pytest.mark.usefixtures("_without_kernel")
def test_without_the_kernel_fused_true_raises():
    parameter = torch.ones(3)
    optimizer = GradaGrad([parameter], 0.1, fused=True)
    parameter.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="fused=True is impossible here: it was not built"):
        optimizer.step()


def test_a_damaged_kernel_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.delenv("GRADAGRAD_KERNEL_PATH", raising=False)
    (tmp_path / "_kernel.abi3.so").write_bytes(b"no library")
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "kernel.py"))
    kernel.kernel_status.cache_clear()
    try:
        status = kernel.kernel_status()
    finally:
        kernel.kernel_status.cache_clear()
    assert not status.loaded
    assert "does not fit torch" in str(status)
    assert "pip install" in str(status)


@needs_kernel
def test_the_default_uses_the_kernel_and_false_does_not(monkeypatch: pytest.MonkeyPatch):
    used: list[str] = []
    step, bundles = fused.step, loop.bundles
    monkeypatch.setattr(fused, "step", lambda *a, **k: used.append("fused") or step(*a, **k))
    monkeypatch.setattr(loop, "bundles", lambda b: used.append("loop") or bundles(b))
    for use in (None, True, False):
        parameter = torch.ones(3)
        parameter.grad = torch.ones(3)
        optimizer = GradaGrad([parameter], 0.1, fused=use)
        optimizer.step()
        used.clear()
        optimizer.step()
        assert used == (["loop"] if use is False else ["fused"])


@needs_kernel
def test_groups_may_differ():
    torch.manual_seed(1)
    a, b = torch.randn(4), torch.randn(4)
    c, d = a.clone(), b.clone()
    mixed = GradaGrad([{"params": [a], "fused": True}, {"params": [b], "fused": False, "momentum": 0.9}], 0.1)
    plain = GradaGrad([{"params": [c]}, {"params": [d], "momentum": 0.9}], 0.1, fused=False)
    for _ in range(3):
        for p, q in ((a, c), (b, d)):
            p.grad = torch.randn(4)
            q.grad = p.grad.clone()
        mixed.step()
        plain.step()
    torch.testing.assert_close(a, c)
    assert torch.equal(b, d)


@needs_kernel
def test_a_tensor_learning_rate():
    batch, other = make([(5,)]), make([(5,)])
    other.params = [p.clone() for p in batch.params]
    draw_gradients(batch)
    other.grads = batch.grads
    other.settings = other.settings._replace(lr=torch.tensor(0.1, dtype=torch.float64))
    assert fused.step(batch) is None
    assert fused.step(other) is None
    assert torch.equal(batch.params[0], other.params[0])


@pytest.mark.parametrize(("options", "message"), [
    ({"fused": 1}, "fused must be None, True or False"),
    ({"fused": True, "differentiable": True}, "fused=True cannot be combined with differentiable=True"),
    ({"fused": True, "foreach": True}, "fused=True cannot be combined with foreach=True"),
    ({"state_dtype": torch.float16}, "state_dtype must be torch.float32 or torch.bfloat16"),
])  # fmt: skip
def test_arguments(options, message: str):
    with pytest.raises((TypeError, ValueError), match=message):
        GradaGrad([torch.ones(2)], **options)
