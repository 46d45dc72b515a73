"""differentiable=True: gradients flow through several steps, and they are right."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck

from gradagrad import GradaGrad

from .harness import Case, implementation_cases, quiet

pytestmark = quiet

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
