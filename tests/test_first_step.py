"""The guard: one warning when the first step is larger than the model, and only then."""

import copy
import warnings

import pytest
import torch
from cases import GRANULARITIES

from gradagrad import AutoGradaGrad, GradaGrad, LargeFirstStepWarning


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))


def one_step(optimizer, model):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()


def test_lr_1_on_a_net_warns_once_with_the_remedy():
    model = net()
    optimizer = GradaGrad(model.parameters())
    with pytest.warns(LargeFirstStepWarning, match=r"moves \d of 4 parameter tensors .* lr=0\.01") as seen:
        one_step(optimizer, model)
    assert len(seen) == 1
    one_step(optimizer, model)  # warnings are errors here: the second step says nothing
    assert seen[0].filename == __file__  # it points at the caller's line


def test_the_remedy_for_small_weights_fits_them():
    p = torch.nn.Parameter(torch.full((4,), 1e-3))
    q = torch.nn.Parameter(torch.full((4,), 1e-2))
    optimizer = GradaGrad([{"params": [p]}, {"params": [q], "lr": 0.02}], lr=0.01)
    p.grad, q.grad = torch.ones(4), torch.ones(4)
    with pytest.warns(LargeFirstStepWarning, match=r"at most lr=0\.0009, and a tenth of that for pretrained weights"):
        optimizer.step()


def test_a_large_gamma0_on_a_net_warns():
    model = net()
    with pytest.warns(LargeFirstStepWarning, match="gamma0 is too large for this model: leave it out"):
        one_step(AutoGradaGrad(model.parameters(), gamma0=1.0), model)
    tiny = torch.nn.Parameter(torch.full((4,), 1e-6))  # LayerScale starts like that.
    optimizer = AutoGradaGrad([tiny])
    tiny.grad = torch.ones(4)
    optimizer.step()


def test_after_loading_a_fresh_state_the_next_step_is_the_first_again():
    model = net()
    optimizer = GradaGrad(model.parameters(), lr=1e-3)
    fresh = copy.deepcopy(optimizer.state_dict())
    one_step(optimizer, model)
    optimizer.load_state_dict(fresh)
    optimizer.param_groups[0]["lr"] = 1.0
    with pytest.warns(LargeFirstStepWarning):
        one_step(optimizer, model)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_step_is_measured_in_every_granularity(granularity):
    p = torch.nn.Parameter(torch.ones(4))
    for lr, large in ((0.9, False), (1.1 if granularity in ("element", "row") else 2.2, True)):
        optimizer = GradaGrad([p], lr=lr, granularity=granularity)
        p.grad = torch.ones(4)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer.step()
        assert bool(seen) == large
        with torch.no_grad():
            p.fill_(1.0)


def test_no_warning_where_there_is_no_mistake():
    model = net()
    one_step(GradaGrad(model.parameters(), lr=0.01), model)  # a sensible lr
    zero = torch.nn.Parameter(torch.zeros(3))  # a convex start
    optimizer = GradaGrad([zero])
    zero.grad = torch.ones(3)
    optimizer.step()
    bad = torch.nn.Parameter(torch.ones(3))  # a NaN is not this guard's business
    optimizer = GradaGrad([bad], lr=0.1)
    bad.grad = torch.full((3,), float("nan"))
    optimizer.step()


def test_only_the_first_step_is_checked():
    p, late = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.full((3,), 1e-3))
    optimizer = GradaGrad([p, late], lr=0.1)
    p.grad = torch.ones(3)
    optimizer.step()
    late.grad = torch.ones(3)  # would be large, but is not the first step
    optimizer.step()
    resumed = GradaGrad([torch.nn.Parameter(torch.full((3,), 1e-3)), torch.nn.Parameter(torch.ones(3))], lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    for q in resumed.param_groups[0]["params"]:
        q.grad = torch.ones(3)
    resumed.step()


def test_sparse_and_half_precision():
    p = torch.nn.Parameter(torch.full((4, 2), 0.01, dtype=torch.bfloat16))
    optimizer = GradaGrad([p], lr=1.0)
    p.grad = torch.sparse_coo_tensor(
        torch.tensor([[1]]), torch.ones(1, 2, dtype=torch.bfloat16), p.shape, check_invariants=True
    )
    with pytest.warns(LargeFirstStepWarning):
        optimizer.step()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_not_while_compiling():
    torch._dynamo.reset()
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = GradaGrad([p], lr=100.0)
    p.grad = torch.ones(3)
    torch.compile(optimizer.step, backend="eager")()


def test_as_an_error_it_is_raised_after_the_step():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = GradaGrad([p], lr=100.0)
    p.grad = torch.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LargeFirstStepWarning):
            optimizer.step()
    assert optimizer.state[p]["step"] == 1
