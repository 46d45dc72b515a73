"""foreach, fused and differentiable against the plain loop, parameters and state alike; autograd through steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.optim import Optimizer
from torch.testing import assert_close

from gradagrad import GradaGrad

from .harness import (
    ADAGRAD,
    IMPLEMENTATIONS,
    Case,
    assert_identical,
    assert_same_state,
    cases,
    give_gradients,
    implementation_cases,
    loop_cases,
    quiet,
    random_gradients,
    step_alike,
)
from .info import FUSED_DTYPES, kernel_takes

pytestmark = quiet


def network(dtype: torch.dtype) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Sigmoid(), nn.Linear(3, 1), nn.Sigmoid()).to(dtype)


def step_on(model: nn.Sequential, optimizer: Optimizer, iteration: int, dtype: torch.dtype) -> None:
    """As torch's _compare_between: no gradients at all once, one layer frozen for a while."""
    optimizer.zero_grad()
    model[2].requires_grad_(iteration not in (3, 4))
    if iteration != 2:
        model(torch.linspace(0.1, 0.6, 6).reshape(3, 2).to(dtype)).sum().backward()
    optimizer.step()


def tolerance(dtype: torch.dtype) -> dict[str, Any]:
    return {"atol": 5e-3, "rtol": 5e-3} if dtype in (torch.bfloat16, torch.float16) else {"atol": 1e-5, "rtol": 1e-5}


def matches_forloop(case: Case, flag: str, dtype: torch.dtype) -> None:
    model, twin = network(dtype), network(dtype)
    twin.load_state_dict(model.state_dict())
    # A 0-d parameter at the end of the list, which once broke torch's foreach.
    extra = [torch.ones((), dtype=dtype, requires_grad=True) for _ in range(2)]
    loop = case.make([*model.parameters(), extra[0]])
    other = case.make([*twin.parameters(), extra[1]], **{flag: True})
    for iteration in range(7):
        give_gradients(extra, [torch.full((), 0.5, dtype=dtype)] * 2)
        step_on(model, loop, iteration, dtype)
        give_gradients(extra, [torch.full((), 0.5, dtype=dtype)] * 2)
        step_on(twin, other, iteration, dtype)
        assert_close([*model.parameters(), extra[0]], [*twin.parameters(), extra[1]], **tolerance(dtype))
        assert_same_state(loop, other, **tolerance(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@implementation_cases("foreach")
def test_foreach_matches_forloop(case: Case, dtype: torch.dtype) -> None:
    matches_forloop(case, "foreach", dtype)


@pytest.mark.parametrize("dtype", FUSED_DTYPES, ids=str)
@implementation_cases("fused")
def test_fused_matches_forloop(case: Case, dtype: torch.dtype) -> None:
    if kernel_takes(case.given, torch.empty(1, dtype=dtype)):
        matches_forloop(case, "fused", dtype)
    else:
        with pytest.raises(RuntimeError, match=r"fused=True is impossible.*Pass fused=None"):
            matches_forloop(case, "fused", dtype)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@cases(skip=IMPLEMENTATIONS, few=True)
def test_set_default_dtype_works_with_foreach(case: Case) -> None:
    with default_dtype(torch.float64):
        matches_forloop(case, "foreach", torch.float32)


@loop_cases()
def test_default_on_cpu_is_the_loop(case: Case) -> None:
    """foreach=None follows torch's convention: foreach on accelerators only, so the numbers are the same here."""
    params = [torch.randn(4, 3), torch.randn(3)]
    twins = [param.clone() for param in params]
    loop, default = case.make(params), case.make(twins, foreach=None)
    for _ in range(4):
        step_alike((params, loop), (twins, default))
    assert_identical(twins, params)


def zoo() -> list[Tensor]:
    """Dtypes, layouts and shapes that split a list or trip a kernel."""
    return [
        torch.randn(4, 3),
        torch.randn(5, dtype=torch.float64),
        torch.randn(3, 2, dtype=torch.bfloat16),
        torch.randn(6, dtype=torch.float16),
        torch.randn(3, 2, dtype=torch.complex64),
        torch.randn(()),
        torch.randn(0, 3),
        torch.randn(4, 3, 2)[..., 0],
        torch.randn(3, 4).t(),
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    ]


def compare_lists(case: Case, params: list[Tensor], flag: str, steps: int, skip_gradient: int | None = None) -> None:
    twins = [param.clone() for param in params]  # clone keeps the layout where it is dense
    loop, other = case.make(params), case.make(twins, **{flag: True})
    for step in range(steps):
        grads: list[Any] = random_gradients(params)
        if skip_gradient is not None and step % 2:
            grads[skip_gradient] = None
        give_gradients(params, grads)
        give_gradients(twins, grads)
        loop.step()
        other.step()
        assert_close(twins, params, atol=1e-5, rtol=1e-2)
        assert flag != "differentiable" or all(map(torch.equal, twins, params))
        for twin, param in zip(twins, params, strict=True):
            if param.dtype in (torch.float32, torch.float64, torch.complex64):
                assert_close(twin, param, atol=1e-5, rtol=1e-5)
    assert_same_state(loop, other, atol=1e-4, rtol=1e-2)


@implementation_cases("foreach")
def test_foreach_matches_forloop_mixed_dtypes(case: Case) -> None:
    compare_lists(case, zoo(), "foreach", steps=4, skip_gradient=0)


@cases(skip=IMPLEMENTATIONS, few=True)
def test_foreach_matches_forloop_large_list(case: Case) -> None:
    shapes = [(1,), (3, 2), (2, 1, 4), ()]
    compare_lists(case, [torch.randn(shapes[i % 4]) for i in range(40)], "foreach", steps=2)


@implementation_cases("fused", only=lambda info, kwargs: info is not ADAGRAD)
def test_fused_matches_forloop_mixed_dtypes(case: Case) -> None:
    """Not asked of torch's Adagrad, whose kernel reads every layout as contiguous."""
    params = [param for param in zoo() if kernel_takes(case.given, param)]
    compare_lists(case, params, "fused", steps=4, skip_gradient=0)


@implementation_cases("differentiable")
def test_differentiable_matches_forloop(case: Case) -> None:
    params = [torch.randn(4, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)]
    compare_lists(case, params, "differentiable", steps=5, skip_gradient=1)


# differentiable=True: gradients flow through several steps, and they are right.

DOUBLE: dict[str, Any] = {"dtype": torch.float64}


def unrolled(case: Case, start: Tensor, grads: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Parameter and state after one step for each gradient, as functions of all of them."""
    param = start.clone()
    optimizer = case.make([param], differentiable=True)
    for grad in grads:
        param.grad = grad
        optimizer.step()
    state = optimizer.state[param]
    return (param, *(state[key] for key in sorted(state) if key != "step" and state[key].requires_grad))


@implementation_cases("differentiable")
def test_differentiable_gradcheck(case: Case) -> None:
    """Through four steps, in the start point and every gradient: two that agree (growth), one that turns back."""
    start = torch.randn(3, 2, **DOUBLE)
    first = torch.randn(3, 2, **DOUBLE)
    grads = (first, 0.9 * first + 0.1, -0.5 * first + 0.2, 0.3 * first - 0.1)
    points = tuple(tensor.clone().requires_grad_() for tensor in (start, *grads))
    assert gradcheck(lambda start, *grads: unrolled(case, start, grads), points, fast_mode=True)


def test_gradcheck_with_respect_to_a_tensor_lr() -> None:
    def after_three_steps(lr: Tensor) -> Tensor:
        p = torch.tensor([0.5, -0.5], **DOUBLE).requires_grad_().clone()
        options: dict[str, Any] = {"momentum": 0.5, "weight_decay": 0.1, "decoupled_weight_decay": True}
        optimizer = GradaGrad([p], lr=lr, differentiable=True, gamma_max=9.0, **options)
        for k in range(3):
            p.grad = torch.tensor([1.0, -0.8], **DOUBLE) + 0.1 * k
            optimizer.step()
        return p

    assert gradcheck(after_three_steps, (torch.tensor(0.1, **DOUBLE).requires_grad_(),))


@implementation_cases("differentiable")
def test_differentiable_is_off_by_default(case: Case) -> None:
    param = torch.randn(3, requires_grad=True)
    param.grad = torch.randn(3).requires_grad_()
    optimizer = case.make([param])
    optimizer.step()
    assert param.grad_fn is None
    assert not any(value.requires_grad for value in optimizer.state[param].values())
