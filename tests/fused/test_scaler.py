"""torch.amp.GradScaler with fused=True: unscaled inside the kernel, skipped as a whole when an infinity is found."""

import pytest
import torch
from torch.amp.grad_scaler import GradScaler

from gradagrad import GradaGrad
from tests.fused.reference import needs_kernel

pytestmark = needs_kernel


def _train(use: bool, granularity: str, *, sparse: bool = False, bad_step: int = 3):
    torch.manual_seed(1)
    weights = [torch.randn(30, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    optimizer = GradaGrad(weights, 0.1, granularity=granularity, fused=use, lazy=sparse)  # pyright: ignore[reportArgumentType]
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=4)
    for step in range(8):
        optimizer.zero_grad()
        x = torch.randn(30, 4) * (torch.inf if step == bad_step else 1.0)
        if sparse:
            rows = torch.randint(30, (6,))
            loss = (
                torch.nn.functional.embedding(rows, weights[0], sparse=True).square().sum()
                + (weights[1] * x[0, 0]).sum()
            )
        else:
            loss = (weights[0] * x).square().mean() + weights[1].square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return weights, optimizer


@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
def test_unscales_and_skips_as_the_others_do(granularity: str):
    ours, our_optimizer = _train(True, granularity)
    theirs, their_optimizer = _train(False, granularity)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-6, atol=1e-7)  # torch's fused optimizers unscale in place
        assert our_optimizer.state[a]["step"] == their_optimizer.state[b]["step"] == 7


def test_sparse_gradients():
    ours, _ = _train(True, "element", sparse=True)
    theirs, _ = _train(False, "element", sparse=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_an_infinity_at_the_first_step_leaves_no_state():
    weights, optimizer = _train(True, "element", bad_step=0)
    assert optimizer.state[weights[0]]["step"] == 7


def test_only_fused_true_takes_over_unscaling():
    p = [torch.ones(3)]
    assert GradaGrad(p, fused=True)._step_supports_amp_scaling
    assert not GradaGrad(p)._step_supports_amp_scaling
    assert not GradaGrad(
        [{"params": p}, {"params": [torch.ones(2)], "fused": False}], fused=True
    )._step_supports_amp_scaling
