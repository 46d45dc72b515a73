"""differentiable=True: autograd passes through several steps, with respect to parameters, gradients and the lr."""

import pytest
import torch
from cases import GRANULARITIES

from gradagrad import GradaGrad
from gradagrad.projections import Ball, Box

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")

OPTIONS = [
    {},
    {"momentum": 0.9},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "decoupled_weight_decay": True},
    {"rho": 10.0, "growth_limit": 1.3, "gamma_max": 0.5},
    {"grad_bound": 2.0, "lr_decay": 0.1, "maximize": True},
    {"projection": Box(-3.0, 3.0), "momentum": 0.5},
    {"projection": Ball(1.1), "momentum": 0.5},
]


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradcheck_through_several_steps(granularity, options):
    def unrolled(x, *gradients):
        p = x.clone()
        optimizer = GradaGrad([p], lr=0.1, granularity=granularity, differentiable=True, **options)
        for g in gradients:
            p.grad = g
            optimizer.step()
        state = optimizer.state[p]
        return p, state["momentum"], state["growth"], state["accumulator"]

    # Agreement, disagreement and growth, away from the kinks.
    x = torch.tensor([[0.4, -0.7], [1.2, 0.3]], dtype=torch.float64, requires_grad=True)
    values = [
        [[1.0, -0.6], [0.8, 0.7]],
        [[0.9, -0.9], [0.5, 1.1]],
        [[-0.4, -0.7], [0.6, 0.9]],
        [[0.3, 0.8], [0.7, 1.0]],
    ]
    gradients = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    assert torch.autograd.gradcheck(unrolled, (x, *gradients))


def test_gradcheck_with_respect_to_a_tensor_lr():
    def unrolled(lr):
        p = torch.tensor([0.5, -0.5], dtype=torch.float64).requires_grad_().clone()
        optimizer = GradaGrad(
            [p], lr=lr, differentiable=True, momentum=0.5, weight_decay=0.1, decoupled_weight_decay=True, gamma_max=9.0
        )
        for k in range(3):
            p.grad = torch.tensor([1.0, -0.8], dtype=torch.float64) + 0.1 * k
            optimizer.step()
        return p

    assert torch.autograd.gradcheck(unrolled, (torch.tensor(0.1, dtype=torch.float64, requires_grad=True),))


def test_numbers_are_those_of_the_ordinary_step():
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    q = torch.ones(3, dtype=torch.float64, requires_grad=True).clone()
    a, b = GradaGrad([p], lr=0.1, momentum=0.5), GradaGrad([q], lr=0.1, momentum=0.5, differentiable=True)
    for k in range(6):
        p.grad = torch.linspace(-1, 1, 3, dtype=torch.float64) * (k + 1)
        q.grad = p.grad.clone()
        a.step()
        b.step()
    torch.testing.assert_close(p.detach(), q.detach(), rtol=0, atol=0)
