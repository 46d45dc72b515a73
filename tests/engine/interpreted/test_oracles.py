"""The kernels against the literal transcriptions, in double: the paper's algorithms and AutoGradaGrad's definition."""

import random
from typing import Any

import oracle
import pytest
import torch
from auto_oracle import LearntLogGamma

from gradagrad import AutoGradaGrad, GradaGrad

START = [0.4 * i - 0.7 for i in range(5)]
CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


def _gradient(k: int, x: list[float]) -> list[float]:
    """Of a noisy quadratic."""
    noise = random.Random(k)
    return [0.6 * (v - 1.0) + 0.2 * noise.gauss(0.0, 1.0) for v in x]


def _run(make, steps: int) -> torch.Tensor:
    parameter = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = make([parameter])
    for k in range(steps):
        parameter.grad = torch.tensor(_gradient(k, parameter.tolist()), dtype=torch.float64)
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_element_is_algorithm_2(beta):
    paper = oracle.algorithm_2(_gradient, START, 8, gamma_0=0.05, rho=10.0, beta=beta, eps=1e-10)
    ours = _run(lambda p: GradaGrad(p, 0.05, rho=10.0, momentum=beta, fused=True), 8)
    assert paper.gamma[-1] != paper.gamma[0]
    torch.testing.assert_close(ours.tolist(), paper.x[8], **CLOSE)


def test_group_is_algorithm_1():
    lemma = oracle.lemma_r(4.0)
    r = lambda g, last: min(lemma(g, last), 3.0)  # noqa: E731
    paper = oracle.algorithm_1(_gradient, START, 8, gamma_0=0.01, rho=4.0, r=r, eps=1e-10)
    ours = _run(lambda p: GradaGrad(p, 0.01, rho=4.0, granularity="group", fused=True), 8)
    assert paper.gamma[-1] != paper.gamma[0]
    torch.testing.assert_close(ours.tolist(), paper.x[8], **CLOSE)


def test_auto_is_its_definition():
    definition = LearntLogGamma(START, gamma0=1e-2, decay=0.1, guard=True)
    for k in range(8):
        definition.step(_gradient(k, definition.x))
    ours = _run(lambda p: AutoGradaGrad(p, gamma0=1e-2, weight_decay=0.1, fused=True), 8)
    torch.testing.assert_close(ours.tolist(), definition.x, **CLOSE)
