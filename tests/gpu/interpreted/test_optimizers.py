"""The optimizer classes on the kernels: steps in which nothing moves, and the check for users."""

import copy

import pytest
import torch
from torch import nn

from gpu.interpreted.batches import SIZES
from gradagrad import AutoGradaGrad
from gradagrad.engine import step as engine
from gradagrad.engine.gradients import look_on_device
from gradagrad.triton import backend, check
from gradagrad.triton.backend import TritonBackend


@pytest.mark.parametrize("options", [{}, {"state_dtype": torch.bfloat16}, {"capturable": True}], ids=str)
@pytest.mark.parametrize("steps", [0, 2])
def test_a_step_in_which_every_gradient_is_zero_changes_nothing(options, steps, launches, monkeypatch):
    """As on a GPU, where only the device knows."""
    monkeypatch.setattr(engine, "look", look_on_device)
    params = [nn.Parameter(torch.linspace(-1.0, 2.0, 7)), nn.Parameter(torch.ones(3, 2))]
    optimizer = AutoGradaGrad([{"params": [p]} for p in params], fused=True, gamma0=1e-2, **options)
    before: list[torch.Tensor] = []
    for k in range(steps + 1):
        before = copy.deepcopy([*params, *(a for p in params for a in optimizer.state[p].values())])
        for p in params:
            p.grad = torch.sin(p.detach() + k) if k < steps else torch.zeros_like(p)
        optimizer.step()
    after = [*params, *(a for p in params for a in optimizer.state[p].values())]
    assert launches
    # Before the first step there is no state to compare with.
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=steps > 0))


@pytest.mark.parametrize("name", check.KINDS)
def test_the_self_check_for_users_agrees(name):
    """This runs on the CPU what ``python -m gradagrad gpu`` runs on a GPU."""
    assert check.refusal(name, torch.device("cpu"), TritonBackend(sizes=SIZES)) == ""


def test_the_self_check_names_a_kernel_that_differs(monkeypatch):
    monkeypatch.setattr(backend, "tolerance", lambda _: -1.0)
    with pytest.warns(RuntimeWarning, match="steps without Triton from now on"):
        reason = check.refusal("AutoGradaGrad", torch.device("cpu"), TritonBackend(sizes=SIZES))
    assert reason.startswith("its kernel disagrees with torch on cpu")
