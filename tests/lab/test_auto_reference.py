"""The rule with open choices that the benchmarks compare, against sums written out as the method states them."""

import math

import pytest
import torch

from benchmarks.auto_reference import AutoRows, Setting

SETTINGS = [
    Setting(),
    Setting(gamma0=1e-2, w=0.7, guard="norm"),
    Setting(gamma0=1e-2, w=1.0, guard="tensor", momentum=0.0),
    Setting(w=0.7, rest=False, decay=0.1),
    Setting(guard="norm", rate=0.25, exponent=0.3),
]
ELEMENTS, STEPS = 6, 40
TENSOR_OF = torch.tensor([0, 0, 0, 0, 1, 1])


def _gradients():
    random = torch.Generator().manual_seed(1)
    found = torch.randn(STEPS, ELEMENTS, generator=random, dtype=torch.float64) + 0.5
    found[7] *= 1e6
    found[1::3, 2] = 0.0  # not the first, which a rule without rest could not divide by
    return found


def _literal(setting: Setting):
    """With every sum over the past formed anew: B = Σ i g², y = Σ u_i Π(1 − w/(j+1)), v = 2 Σ i P²/(k(k+1))."""
    x = [1.0] * ELEMENTS
    h = [0.0] * ELEMENTS
    gamma, seen, moves, products = setting.gamma0, [], [], []
    for k, drawn in enumerate(_gradients().tolist(), 1):
        g = _limited(setting, drawn, seen, k)
        seen.append(g)
        B = [sum(i * past[e] ** 2 for i, past in enumerate(seen, 1)) for e in range(ELEMENTS)]
        alpha = [2 * b / (k + 1) for b in B]
        way = [
            sum(u[e] * math.prod(1 - setting.w / (j + 1) for j in range(i, k)) for i, u in enumerate(moves, 1))
            for e in range(ELEMENTS)
        ]
        felt = [g[e] + setting.decay * x[e] * math.sqrt(alpha[e] / k) for e in range(ELEMENTS)]
        P = gamma**setting.exponent * sum(f * y for f, y in zip(felt, way, strict=True))
        products.append(P)
        u = [0.0] * ELEMENTS
        for e in range(ELEMENTS):
            if g[e] != 0 or not setting.rest:
                h[e] += (1 - setting.momentum) * (g[e] - h[e])
                u[e] = h[e] / math.sqrt(alpha[e])
            u[e] += setting.decay * x[e] / math.sqrt(k)
            x[e] -= gamma * u[e]
        moves.append([gamma ** (1 - setting.exponent) * part for part in u])
        squares = 2 / (k + 1) * sum(i * p * p for i, p in enumerate(products, 1))
        if squares > 0:
            gamma *= 1 + setting.rate * P / math.sqrt(squares)
    return x, gamma


def _limited(setting, g, seen, k):
    if setting.guard == "off" or not seen:
        return g
    owners = TENSOR_OF.tolist() if setting.guard == "tensor" else [0] * ELEMENTS
    found = list(g)
    for owner in set(owners):
        own = [e for e in range(ELEMENTS) if owners[e] == owner]
        before = sum(i * past[e] ** 2 for i, past in enumerate(seen, 1) for e in own)
        size = k * sum(g[e] ** 2 for e in own)
        if size > before:
            for e in own:
                found[e] = g[e] * math.sqrt(before / size)
    return found


@pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))
def test_the_reference_is_the_rule_with_its_sums_written_out(setting):
    rule = AutoRows(torch.ones(2, ELEMENTS, dtype=torch.float64), [setting, SETTINGS[0]], TENSOR_OF)
    for g in _gradients():
        rule.step(g.expand(2, -1))
    x, gamma = _literal(setting)
    torch.testing.assert_close(rule.x[0], torch.tensor(x, dtype=torch.float64), rtol=1e-9, atol=1e-12)
    assert float(rule.gamma[0]) == pytest.approx(gamma, rel=1e-9)
