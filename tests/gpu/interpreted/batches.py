"""Makes batches, and compares steps by the kernels with steps by torch."""

import copy
from typing import Any

import torch
from engine import kernel_batches
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.torch_ops.steps import TorchStep
from gradagrad.triton.backend import Sizes, TritonBackend

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
    torch.default_generator.manual_seed(0)
    batch = kernel_batches.make(shapes, scope, dtype, state or torch.float32, **settings, **(options or {}))
    batch.grads = [torch.zeros_like(p) for p in batch.params]
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
    kernel_batches.assert_same(a, b, rtol, rtol)
