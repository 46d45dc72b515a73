"""diagnostics(): the current learning rates, at no cost until they are read."""

import copy
import gc
import math
import pickle
import weakref

import pytest
import torch
from cases import GRANULARITIES, through_a_file

from gradagrad import AutoGradaGrad, GradaGrad, learning_rates
from gradagrad.monitoring.diagnostics import SAMPLE, _quantiles

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
    assert d.blocks == growth.numel()
    assert d.gamma[1.0] == pytest.approx(0.01 * growth.max().item())
    assert d.gamma[0.0] == pytest.approx(0.01 * growth.min().item())
    step = 0.01 * growth / (alpha.sqrt() + 1e-10)
    assert d.step_size[1.0] == pytest.approx(step.max().item())
    assert d.total_growth == pytest.approx(growth.log().mean().exp().item())


@pytest.mark.parametrize("make", [lambda p: GradaGrad([p], lr=0.1), lambda p: AutoGradaGrad([p])])
def test_step_sizes_are_of_entries_that_have_seen_a_gradient(make):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = make(parameter)
    parameter.grad = torch.tensor([1.0, 0.0, 2.0])
    optimizer.step()
    (found,) = optimizer.diagnostics()
    assert found.step_size[0.0] == pytest.approx(found.gamma[0.5] / 2)
    assert found.step_size[1.0] == pytest.approx(
        found.gamma[0.5]
    )  # that of the entry without one is γ/eps, or infinite


def test_groups_without_a_step_and_lr_decay():
    p, q = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = GradaGrad([{"params": [p]}, {"params": [q]}], lr=torch.tensor(0.1), lr_decay=1.0, rho=0.0)
    for _ in range(2):
        p.grad = torch.ones(2)
        optimizer.step()
    first, second = optimizer.diagnostics()
    assert first.gamma[0.5] == pytest.approx(0.05)
    assert second.blocks == 0
    assert math.isnan(second.gamma[0.5])
    assert math.isnan(second.total_growth)


@pytest.mark.parametrize("make", [lambda p: GradaGrad(p, lr=0.01), AutoGradaGrad], ids=["GradaGrad", "AutoGradaGrad"])
def test_param_groups_show_the_learning_rate_and_keep_nothing(make):
    p, q = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2))
    optimizer = make([{"params": [p]}, {"params": [q]}])
    group = optimizer.param_groups[0]
    start = group.get("gamma0", group["lr"])
    assert float(group["gamma"]) == pytest.approx(start)
    seen = []
    for _ in range(4):
        p.grad = torch.ones(3)
        optimizer.step()
        (first, _), numbers = optimizer.diagnostics(), learning_rates(optimizer)
        assert float(group["gamma"]) == pytest.approx(first.gamma[0.5])
        effective = optimizer.rule.effective_lr(first.gamma[0.5], first.step)
        assert float(group["effective_lr"]) == pytest.approx(effective)
        assert numbers["gradagrad/group0/effective_lr"] == pytest.approx(float(group["effective_lr"]))
        seen.append(float(group["gamma"]))
    assert sorted(set(seen)) == seen  # it moves
    last = optimizer.rule.effective_lr(seen[-1], 4)
    assert last == pytest.approx(seen[-1] / (2 if make is not AutoGradaGrad else 1))
    assert f"{group['gamma']:.3f} {group['effective_lr']!r}" == f"{seen[-1]:.3f} {last:.4g}"
    assert float(optimizer.param_groups[1]["effective_lr"]) == pytest.approx(start)  # without a step

    state = through_a_file(optimizer.state_dict())
    assert all(group["gamma"] is group["effective_lr"] is None for group in state["param_groups"])
    other = make([{"params": [p]}, {"params": [q]}])
    other.load_state_dict(state)
    for again in (other, copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert float(again.param_groups[0]["gamma"]) == seen[-1]
        assert again.param_groups[0]["gamma"] == group["gamma"]
        assert len(again.diagnostics()) == 2


def test_a_reading_does_not_keep_its_optimizer_alive():
    gc.collect()
    optimizer, _ = agreeing("element")
    group, gone = optimizer.param_groups[0], weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        assert gone() is None
    finally:
        gc.enable()
    assert math.isnan(float(group["gamma"]))


def test_quantiles_of_many_values_are_of_a_sample_with_the_true_ends():
    before = torch.get_rng_state()
    values = torch.arange(3 * SAMPLE, dtype=torch.float64).float()
    found = _quantiles(values)
    assert (found[0.0], found[1.0]) == (0.0, float(values[-1]))
    assert found[0.5] == pytest.approx(1.5 * SAMPLE, rel=0.01)
    assert torch.equal(before, torch.get_rng_state())
