"""The workloads: lists of parameters with gradients, and an embedding table."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

# Gradients that take turns. With only two, a fifth of all elements would see gradients that always agree.
TURNS = 16


@dataclass
class Workload:
    """Parameters and lists of gradients that take turns, so no optimizer sees the same gradient twice in a row."""

    name: str
    params: list[Tensor]
    gradients: list[list[Tensor]] = field(default_factory=list)

    @property
    def elements(self) -> int:
        return sum(p.numel() for p in self.params)

    def use(self, turn: int) -> None:
        for parameter, gradient in zip(self.params, self.gradients[turn % len(self.gradients)], strict=True):
            parameter.grad = gradient


def dense(name: str, shapes: list[tuple[int, ...]]) -> Workload:
    params: list[Tensor] = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    # The gradients are windows into one piece of noise, a cache line apart. They take the memory of one.
    noise = [torch.randn(p.numel() + 16 * TURNS) for p in params]
    gradients = [
        [n[16 * k :][: p.numel()].view_as(p) for p, n in zip(params, noise, strict=True)] for k in range(TURNS)
    ]
    return Workload(name, params, gradients)


def resnet50_like(scale: int) -> Workload:
    """A ResNet-50's 161 tensors: convolutions, batch norms, one linear layer; widths divided by ``scale``."""
    shapes: list[tuple[int, ...]] = [(64 // scale, 3, 7, 7), (64 // scale,), (64 // scale,)]
    width_in = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, width_in, 1), (width, width, 3), (4 * width, width, 1)]
            if block == 0:
                convolutions.append((4 * width, width_in, 1))
            for out, into, kernel in convolutions:
                shapes += [(out // scale, into // scale, kernel, kernel), (out // scale,), (out // scale,)]
            width_in = 4 * width
    return dense("ResNet-50-like list", [*shapes, (1000, 2048 // scale), (1000,)])


def embedding(rows: int, width: int, touched: int) -> Workload:
    """A table with sparse gradients as an embedding layer makes them: not coalesced, with repeated rows."""
    table = torch.nn.Parameter(torch.randn(rows, width))
    gradients: list[list[Tensor]] = []
    for _ in range(4):
        index = torch.randint(rows, (1, touched))
        values = torch.randn(touched, width)
        gradients.append([torch.sparse_coo_tensor(index, values, (rows, width), check_invariants=True)])
    return Workload("embedding table", [table], gradients)
