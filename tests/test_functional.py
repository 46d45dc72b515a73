"""The functions to copy take the steps of the oracles."""

import pytest
import torch
from auto_oracle import AutoOracle
from oracle import algorithm_2

from gradagrad import functional

STEPS = 60


def gradients(*shape):
    values = torch.randn(STEPS, *shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return values.masked_fill(values.abs() < 0.2, 0.0) + 0.3


@pytest.mark.parametrize("beta", [0.0, 0.9])
@pytest.mark.parametrize("rho", [0.0, 2.0, 10.0])
def test_gradagrad_is_algorithm_2(beta, rho):
    g, x, state = gradients(5), torch.ones(5, dtype=torch.float64), None
    g[0, 0] = 0.0  # An element without a gradient yet stays.
    trace = algorithm_2(lambda k, _: g[k].tolist(), x.tolist(), STEPS, gamma_0=0.1, rho=rho, beta=beta)
    for k in range(STEPS):
        x, state = functional.gradagrad(x, g[k], state, lr=0.1, rho=rho, beta=beta)
        torch.testing.assert_close(x, torch.tensor(trace.x[k + 1], dtype=torch.float64), rtol=1e-9, atol=1e-12)


def test_auto_gradagrad_is_the_oracle():
    g = gradients(7)
    g[10], g[20:30, :4] = 0.0, 0.0  # A step without a gradient, and a tensor without one for a while.
    ys, state = list(torch.linspace(-1.0, 1.0, 7, dtype=torch.float64).split([4, 3])), None
    oracle = AutoOracle([y.tolist() for y in ys], gamma0=1e-2)
    for k in range(STEPS):
        ys, state = functional.auto_gradagrad(ys, list(g[k].split([4, 3])), state, gamma0=1e-2)
        oracle.step([part.tolist() for part in g[k].split([4, 3])])
        for place, tensor in enumerate(oracle.tensors):
            assert ys[place].tolist() == pytest.approx(tensor.y, rel=1e-9)
            assert state.tensors[place].mean.tolist() == pytest.approx(tensor.mean, rel=1e-9)
    assert min(tensor.gamma for tensor in state.tensors) > 0.0
