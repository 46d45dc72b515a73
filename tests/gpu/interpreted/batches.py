"""Makes batches, and compares steps by the kernels with steps by torch."""

import copy
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.engine.plan import Plan
from gradagrad.engine.state import new_field
from gradagrad.rules import auto, gradagrad
from gradagrad.torch_ops.steps import TorchStep
from gradagrad.triton.backend import Sizes, TritonBackend, results_of

SHAPES: tuple[tuple[int, ...], ...] = ((41, 13), (9,), (), (0, 3))
"""With tiles of 512 elements: a full tile and a remainder, small tensors, an empty tensor."""
SIZES = Sizes(tile=512, chunk=512, programs=2, width=4)


def batch_of(
    scope: Any,
    *,
    shapes: Any = SHAPES,
    dtype: torch.dtype = torch.float32,
    state: torch.dtype | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> Batch:
    """A batch of GradaGrad, or of AutoGradaGrad if the scope is "auto"."""
    rules: Any = auto if scope == "auto" else gradagrad
    scope = "tensor" if scope == "auto" else scope
    s = rules.Settings(**settings)
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    options = {"draws": state == torch.bfloat16 or "stochastic_rounding" in (options or {}), **(options or {})}
    batch = Batch(Plan(rules.RULE, s, scope, **options), params, streams=list(range(3, 3 + len(params))))
    batch.grads = [torch.zeros_like(p) for p in params]
    batch.steps = [torch.zeros((), dtype=torch.int64) for _ in params]
    for f in batch.plan.fields:
        made = [new_field(f, {"state_dtype": state}, s, scope, p) for p in params]
        if f.key in batch.plan.shared_keys:
            batch.shared[f.key] = made[0]
        else:
            batch.state[f.key] = made
    batch.param_states = [{} for _ in params]
    return batch


def gradient_of(p: Tensor, generator: torch.Generator) -> Tensor:
    """A gradient of a noisy quadratic, in which some rows and some elements are zero."""
    g = p.detach().double() - 1.0 + 0.5 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
    g = g * (torch.rand(p.shape, generator=generator) > 0.1)
    if p.dim() > 1:
        g = g * (torch.rand(p.shape[0], *(1 for _ in p.shape[1:]), generator=generator) > 0.2)
    g = g.to(p.dtype)
    return g if g.stride() == p.stride() else torch.empty_like(p).copy_(g)


def set_gradients(batch: Batch, k: int) -> None:
    """Gives a batch the gradients of step k."""
    generator = torch.Generator().manual_seed(100 + k)
    batch.grads = [gradient_of(p, generator) for p in batch.params]


def trained(make: Any, shapes: Any, dtype: torch.dtype) -> Any:
    """Parameters and their state after two steps of an optimizer."""
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]
    optimizer = make(params)
    for _ in range(2):
        for p in params:
            p.grad = gradient_of(p, generator)
        optimizer.step()
    return [p.detach() for p in params], [optimizer.state[p] for p in params]


def both(batch: Batch, steps: int = 3) -> tuple[Batch, Batch]:
    """The batch stepped by the kernels, and a copy stepped by torch."""
    backend, other = TritonBackend(sizes=SIZES), copy.deepcopy(batch)
    for k in range(steps):
        set_gradients(other, k)
        batch.grads = list(other.grads)
        step = backend.prepare(batch)
        assert not isinstance(step, str), step
        step.take()
        TorchStep(other).take()
    return batch, other


def assert_same(a: Batch, b: Batch, rtol: float = 0.0) -> None:
    """Compares everything that a step writes."""
    mine, other = (
        {**results_of(batch), **{f"step {i}": step for i, step in enumerate(batch.steps)}} for batch in (a, b)
    )
    assert mine.keys() == other.keys()
    for key, value in mine.items():
        torch.testing.assert_close(
            value, other[key], rtol=rtol, atol=rtol, equal_nan=True, msg=lambda m, k=key: f"{k}: {m}"
        )
