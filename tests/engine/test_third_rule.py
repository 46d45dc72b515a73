"""A rule in one file that the engine does not know is stepped by every backend, saved and loaded."""

import copy

import pytest
import torch

from gradagrad.rules.scope import SCOPES

from .third_rule import HeavyBall

WAYS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "asked for nothing": {}}


def literal(points, gradients, scope, beta, lr=0.1):
    """x ← x − v, v ← βv + lr·g/√Σ‖g‖², the sum over whoever shares it."""
    x, v = [p.clone() for p in points], [torch.zeros_like(p) for p in points]
    sums = [torch.zeros_like(p) for p in points]
    for gs in gradients:
        squares = [g * g for g in gs]
        if scope == "row":
            squares = [s.sum(1, keepdim=True).expand_as(s) for s in squares]
        elif scope == "tensor":
            squares = [s.sum().expand_as(s) for s in squares]
        elif scope != "element":
            squares = [sum(s.sum() for s in squares).expand_as(s) for s in squares]
        for i, g in enumerate(gs):
            sums[i] += squares[i]
            v[i] = beta * v[i] + lr * g / sums[i].sqrt()
            x[i] -= v[i]
    return x


@pytest.mark.parametrize("beta", [0.0, 0.9])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("way", WAYS)
def test_every_scope_and_way(way, scope, beta):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(s, dtype=torch.float64)) for s in ((4, 3), (5, 2))]
    gradients = [[torch.randn_like(p) for p in params] for _ in range(12)]
    expected = literal([p.detach() for p in params], gradients, scope, beta)
    optimizer = HeavyBall(params, granularity=scope, momentum=beta, dtype=torch.float32, **WAYS[way])
    for k, gs in enumerate(gradients):
        for p, g in zip(params, gs, strict=True):
            p.grad = g.clone()
        optimizer.step()
        if k == 5:  # and resumes
            twin = HeavyBall(params, granularity=scope, momentum=beta, dtype=torch.float32, **WAYS[way])
            twin.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            optimizer = twin
    torch.testing.assert_close([p.detach() for p in params], expected, rtol=1e-12, atol=1e-14)
    assert optimizer.diagnostics()[0].step == 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_a_table(dtype):
    """Lazy rows: a sparse gradient does what a dense one with zeros elsewhere does, in bf16 state too."""
    tables = [torch.nn.Parameter(torch.linspace(-1.0, 1.0, 12).reshape(6, 2)) for _ in range(2)]
    optimizers = [HeavyBall([t], granularity="row", lazy=True, momentum=0.5, dtype=dtype) for t in tables]
    for k in range(9):
        rows = torch.tensor([[k % 6, (k * 5 + 1) % 6]])
        values = torch.randn(2, 2, generator=torch.Generator().manual_seed(k))
        gradient = torch.sparse_coo_tensor(rows, values, (6, 2), check_invariants=True).coalesce()
        tables[0].grad, tables[1].grad = gradient, gradient.to_dense()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(tables[0], tables[1], rtol=1e-6, atol=1e-7)


def test_the_kernel_says_why_not():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = HeavyBall([p], fused=True, dtype=torch.float32)
    p.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="the kernel was not generated for the rule 'heavy ball'"):
        optimizer.step()
    assert torch.equal(p, torch.ones(3))
