"""diagnostics(): the current learning rates, at no cost until they are read."""

import copy
import json
import math
import pickle

import pytest
import torch
from cases import GRANULARITIES, through_a_file

from gradagrad import AutoGradaGrad, GradaGrad, learning_rates
from gradagrad.engine.plan import Plan
from gradagrad.monitoring.diagnostics import SAMPLE, _quantiles, readings, show

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


SHOWN = {
    "AutoGradaGrad": (AutoGradaGrad, "common_gamma"),
    "tensor": (lambda p: GradaGrad(p, lr=0.01, granularity="tensor"), "growth"),
    "group": (lambda p: GradaGrad(p, lr=0.01, granularity="group"), "growth"),
    "all": (lambda p: GradaGrad(p, lr=0.01, granularity="all"), "growth"),
}


@pytest.mark.parametrize("how", [{}, {"fused": False}], ids=str)
@pytest.mark.parametrize("name", SHOWN)
def test_param_groups_show_d_as_a_plain_number(name, how):
    make, key = SHOWN[name]
    params = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
    optimizer = make([{"params": [p], **how} for p in params])
    group, other = optimizer.param_groups
    start, seen = group["d"], []
    assert start == (1e-4 if make is AutoGradaGrad else 1.0)
    for _ in range(4):
        params[0].grad = torch.ones(3)
        optimizer.step()
        seen.append(group["d"])
        assert seen[-1] == optimizer.state[params[0]][key].item()
    del seen[0]  # AutoGradaGrad's γ starts at a share of its limit, which the first step measures.
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    assert json.loads(json.dumps(seen)) == seen
    assert max(seen) == seen[-1]
    assert other["d"] == start  # without a step
    group["d"] = 0.0
    learning_rates(optimizer)  # This is how a GPU's number gets there.
    assert group["d"] == seen[-1]
    fresh = make([{"params": [p], **how} for p in params])
    fresh.load_state_dict(through_a_file(optimizer.state_dict()))
    for again in (fresh, copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert [g["d"] for g in again.param_groups] == [seen[-1], start]


def test_a_step_does_not_read_numbers_from_a_device():
    plan = Plan(AutoGradaGrad.rule, AutoGradaGrad([torch.nn.Parameter(torch.ones(1))])._plans[0].settings, "tensor")
    show(plan, {"common_gamma": torch.ones((), device="meta")}, {})
    assert "d" not in plan.group
    show(plan, {"common_gamma": torch.ones(())}, {})
    assert plan.group["d"] == 1.0


@pytest.mark.parametrize("granularity", ["element", "row"])
def test_where_there_are_many_step_sizes_none_is_shown(granularity):
    optimizer, _ = agreeing(granularity)
    learning_rates(optimizer)
    assert "d" not in optimizer.param_groups[0]
    assert "d" not in optimizer.state_dict()["param_groups"][0]


@pytest.mark.parametrize("make", [lambda p: GradaGrad(p, lr=0.01), AutoGradaGrad], ids=["GradaGrad", "AutoGradaGrad"])
def test_the_effective_learning_rate_of_a_group(make):
    p, q = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2))
    optimizer = make([{"params": [p]}, {"params": [q]}])
    group, other = optimizer.param_groups
    start = group.get("gamma0", group["lr"])
    for _ in range(4):
        p.grad = torch.ones(3)
        optimizer.step()
        (first, _), found = optimizer.diagnostics(), readings(optimizer, group)
        assert found["gamma"] == pytest.approx(first.gamma[0.5])
        assert found["effective_lr"] == pytest.approx(first.effective_lr)
        assert learning_rates(optimizer)["gradagrad/group0/effective_lr"] == pytest.approx(found["effective_lr"])
        assert found["effective_lr"] == pytest.approx(found["gamma"] / (first.step**0.5 if "rho" in group else 1))
    assert readings(optimizer, other)["effective_lr"] == pytest.approx(start)  # without a step


def test_quantiles_of_many_values_are_of_a_sample_with_the_true_ends():
    before = torch.get_rng_state()
    values = torch.arange(3 * SAMPLE, dtype=torch.float64).float()
    found = _quantiles(values)
    assert (found[0.0], found[1.0]) == (0.0, float(values[-1]))
    assert found[0.5] == pytest.approx(1.5 * SAMPLE, rel=0.01)
    assert torch.equal(before, torch.get_rng_state())


def test_diagnostics_say_where_gamma_stays_above_its_limit():
    """A constant gradient agrees with every step, so γ stays above its limit all the time; noise does not."""
    found = {}
    for kind in ("slope", "noise"):
        p = torch.nn.Parameter(torch.zeros(50))
        optimizer = AutoGradaGrad([p])
        for k in range(1100):
            p.grad = torch.ones(50) if kind == "slope" else torch.randn(50, generator=torch.Generator().manual_seed(k))
            optimizer.step()
            if k == 600:
                assert optimizer.diagnostics()[0].note == ""  # It waits for 1,000 steps.
        (found[kind],) = optimizer.diagnostics()
    assert found["slope"].limited > 0.75
    assert "γ was above its limit for 9" in found["slope"].note
    assert "unit spread" in found["slope"].note
    assert found["noise"].limited < 0.5
    assert not found["noise"].note
