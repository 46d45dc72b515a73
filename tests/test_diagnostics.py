"""diagnostics(): what the learning rates have become, at no cost until asked."""

import math

import pytest
import torch
from cases import GRANULARITIES

from gradagrad import GradaGrad

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


def agreeing(granularity, steps=5, ask=False):
    """One entry whose gradients agree and one whose gradients alternate."""
    p = torch.nn.Parameter(torch.zeros(2, 1))
    optimizer = GradaGrad([p], lr=0.01, granularity=granularity)
    if ask:
        optimizer.diagnostics()
    for k in range(steps):
        p.grad = torch.tensor([[1.0], [(-1.0) ** k]])
        optimizer.step()
    return optimizer, p


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_numbers_are_the_states(granularity):
    optimizer, p = agreeing(granularity, ask=True)
    (d,) = optimizer.diagnostics()
    growth, alpha = optimizer.state[p]["growth"].reshape(-1), optimizer.state[p]["accumulator"].reshape(-1)
    assert d.slots == growth.numel()
    assert d.gamma[1.0] == pytest.approx(0.01 * growth.max().item())
    assert d.gamma[0.0] == pytest.approx(0.01 * growth.min().item())
    step = 0.01 * growth / (alpha.sqrt() + 1e-10)
    assert d.step_size[1.0] == pytest.approx(step.max().item())
    assert d.total_growth == pytest.approx(growth.log().mean().exp().item())


def test_the_share_of_growing_slots_is_counted_from_the_first_call_on():
    optimizer, p = agreeing("element")
    assert math.isnan(optimizer.diagnostics()[0].growing)
    p.grad = torch.tensor([[1.0], [-1.0]])
    optimizer.step()
    assert optimizer.diagnostics()[0].growing == 0.5
    p.grad = torch.tensor([[-1.0], [1.0]])
    optimizer.step()
    assert optimizer.diagnostics()[0].growing == 0.0


def test_sparse_shares_are_of_the_touched_rows():
    p = torch.nn.Parameter(torch.zeros(100, 2))
    optimizer = GradaGrad([p], lr=0.01, lazy=True, granularity="row")
    optimizer.diagnostics()
    for _ in range(3):
        p.grad = torch.sparse_coo_tensor(torch.tensor([[3, 3, 7]]), torch.ones(3, 2), p.shape, check_invariants=True)
        optimizer.step()
    assert optimizer.diagnostics()[0].growing == 1.0


def test_groups_without_a_step_and_lr_decay():
    p, q = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = GradaGrad([{"params": [p]}, {"params": [q]}], lr=torch.tensor(0.1), lr_decay=1.0, rho=0.0)
    for _ in range(2):
        p.grad = torch.ones(2)
        optimizer.step()
    first, second = optimizer.diagnostics()
    assert first.gamma[0.5] == pytest.approx(0.05)
    assert second.slots == 0
    assert math.isnan(second.gamma[0.5])
    assert math.isnan(second.total_growth)
