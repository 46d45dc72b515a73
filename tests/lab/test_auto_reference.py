"""The rule that the held-out benchmark steps many runs with, against sums written out as the method states them."""

import math

import pytest
import torch

from benchmarks.auto_reference import MOMENTUM, RATE, AutoRows, Setting

SETTINGS = [Setting(), Setting(gamma0=1e-2, w=0.7, guard=True), Setting(gamma0=1e-2, w=1.0)]
ELEMENTS, STEPS = 6, 40


def _gradients():
    random = torch.Generator().manual_seed(1)
    found = torch.randn(STEPS, ELEMENTS, generator=random, dtype=torch.float64) + 0.5
    found[7] *= 1e6
    found[1::3, 2] = 0.0
    return found


def _literal(setting: Setting):
    """With every sum over the past formed anew: B = Σ i g², y = Σ u_i Π(1 − w/(j+1)), v = 2 Σ i P²/(k(k+1))."""
    x = [1.0] * ELEMENTS
    h = [0.0] * ELEMENTS
    gamma, seen, moves, products = setting.gamma0, [], [], []
    for k, drawn in enumerate(_gradients().tolist(), 1):
        g = _limited(drawn, seen, k) if setting.guard and seen else drawn
        seen.append(g)
        B = [sum(i * past[e] ** 2 for i, past in enumerate(seen, 1)) for e in range(ELEMENTS)]
        displacement = [
            sum(u[e] * math.prod(1 - setting.w / (j + 1) for j in range(i, k)) for i, u in enumerate(moves, 1))
            for e in range(ELEMENTS)
        ]
        P = math.sqrt(gamma) * sum(a * y for a, y in zip(g, displacement, strict=True))
        products.append(P)
        u = [0.0] * ELEMENTS
        for e in range(ELEMENTS):
            if g[e] != 0:
                h[e] += (1 - MOMENTUM) * (g[e] - h[e])
                u[e] = h[e] / math.sqrt(2 * B[e] / (k + 1))
            x[e] -= gamma * u[e]
        moves.append([math.sqrt(gamma) * part for part in u])
        squares = 2 / (k + 1) * sum(i * p * p for i, p in enumerate(products, 1))
        if squares > 0:
            gamma *= 1 + RATE * P / math.sqrt(squares)
    return x, gamma


def _limited(g, seen, k):
    before = sum(i * value**2 for i, past in enumerate(seen, 1) for value in past)
    size = k * sum(value**2 for value in g)
    return [value * math.sqrt(min(before / size, 1.0)) for value in g]


@pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))
def test_the_reference_is_the_rule_with_its_sums_written_out(setting):
    rule = AutoRows(torch.ones(2, ELEMENTS, dtype=torch.float64), [setting, SETTINGS[0]])
    for g in _gradients():
        rule.step(g.expand(2, -1))
    x, gamma = _literal(setting)
    torch.testing.assert_close(rule.x[0], torch.tensor(x, dtype=torch.float64), rtol=1e-9, atol=1e-12)
    assert float(rule.gamma[0]) == pytest.approx(gamma, rel=1e-9)
