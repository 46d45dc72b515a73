"""With ρ = 0 and β = 0 the method is exactly AdaGrad, and it can continue a run of torch's Adagrad.

Sparse gradients give the numbers of dense ones (test_sparse.py), also where torch's sparse path sums complex squares.
"""

import copy
from typing import Any

import pytest
import torch
from cases import DRIVERS

import gradagrad
from gradagrad import GradaGrad

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

SHARED = [
    {},
    {"lr_decay": 0.1},
    {"weight_decay": 0.2},
    {"initial_accumulator_value": 0.5},
    {"eps": 0.01},
    {"maximize": True},
    {"lr_decay": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-3, "maximize": True},
]


def dense(dtype):
    return [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in [(4, 3), (5,), ()]]


def set_dense_gradients(params, k):
    generator = torch.Generator().manual_seed(k)
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("options", SHARED, ids=str)
@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["float", "tensor"])
def test_dense(options, dtype, driver, lr):
    theirs = dense(dtype)
    ours = copy.deepcopy(theirs)
    adagrad = torch.optim.Adagrad(theirs, lr=lr, **options)
    optimizer = GradaGrad(ours, lr=lr, rho=0.0, **DRIVERS[driver], **options)
    for k in range(30):
        set_dense_gradients(theirs, k)
        set_dense_gradients(ours, k)
        adagrad.step()
        optimizer.step()
    torch.testing.assert_close(ours, theirs)


def run_adagrad(params, steps=10, **options):
    adagrad = torch.optim.Adagrad(params, **options)
    for k in range(steps):
        set_dense_gradients(params, k)
        adagrad.step()
    return adagrad


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_run_can_be_taken_over(dtype):
    options: dict[str, Any] = {"lr": 0.3, "lr_decay": 0.05, "weight_decay": 0.1, "eps": 1e-4}
    options["initial_accumulator_value"] = 0.2
    theirs = dense(dtype)
    adagrad = run_adagrad(theirs, **options)
    ours = copy.deepcopy(theirs)
    clone = torch.optim.Adagrad(ours, **options)
    clone.load_state_dict(copy.deepcopy(adagrad.state_dict()))
    optimizer = gradagrad.from_adagrad(clone, rho=0.0)
    assert optimizer.param_groups[0]["lr"] == 0.3
    for k in range(10, 20):
        set_dense_gradients(theirs, k)
        set_dense_gradients(ours, k)
        adagrad.step()
        optimizer.step()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("granularity", ["row", "tensor", "group"])
def test_taking_over_adds_up_the_accumulator(granularity):
    params = dense(torch.float64)
    adagrad = run_adagrad(params, lr=0.1)
    optimizer = gradagrad.from_adagrad(adagrad, granularity=granularity)
    sums = [adagrad.state[p]["sum"] for p in params]
    expected = {
        "row": [sums[0].sum(1, keepdim=True), sums[1], sums[2]],
        "tensor": [s.sum() for s in sums],
        "group": [sum(s.sum() for s in sums)] * 3,
    }[granularity]
    torch.testing.assert_close([optimizer.state[p]["accumulator"] for p in params], expected)
    assert all(optimizer.state[p]["step"] == 10 for p in params)


def test_taking_over_keeps_groups_and_overrides():
    params = dense(torch.float32)
    adagrad = torch.optim.Adagrad([{"params": params[:1], "lr": 0.5}, {"params": params[1:], "eps": 1e-3}], lr=0.1)
    optimizer = gradagrad.from_adagrad(adagrad, rho=4.0, eps=1e-6)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    assert [g["eps"] for g in optimizer.param_groups] == [1e-6, 1e-6]
    assert [g["rho"] for g in optimizer.param_groups] == [4.0, 4.0]
    assert all(state["step"] == 0 for state in optimizer.state.values())  # no step was taken: nothing to take over


def test_taking_over_says_what_is_wrong():
    params = dense(torch.float32)
    for source in (torch.optim.SGD(params), run_adagrad(params).state_dict()):
        with pytest.raises(TypeError, match=rf"must be a torch\.optim\.Adagrad, got {type(source).__name__}\. Load"):
            gradagrad.from_adagrad(source)  # pyright: ignore[reportArgumentType]
