"""The rule's `Ops` for torch tensors, one set per computing precision."""

import torch
from torch import Tensor

Number = float | int


class TensorOps:
    """Square root, maximum, minimum and selection for tensors (and for plain numbers, which settings may be)."""

    def __init__(self, dtype: torch.dtype) -> None:
        limits = torch.finfo(dtype)
        self.tiny: float = limits.tiny
        self.largest: float = limits.max

    def sqrt(self, a: Tensor) -> Tensor:
        return a.sqrt()

    def maximum(self, a: Tensor | Number, b: Tensor | Number) -> Tensor | Number:
        if isinstance(a, Tensor):
            return torch.maximum(a, b) if isinstance(b, Tensor) else a.clamp(min=b)
        return b.clamp(min=a) if isinstance(b, Tensor) else max(a, b)

    def minimum(self, a: Tensor | Number, b: Tensor | Number) -> Tensor | Number:
        if isinstance(a, Tensor):
            return torch.minimum(a, b) if isinstance(b, Tensor) else a.clamp(max=b)
        return b.clamp(max=a) if isinstance(b, Tensor) else min(a, b)

    def where(self, condition: Tensor, a: Tensor | Number, b: Tensor | Number) -> Tensor:
        return torch.where(condition, a, b)

    def less(self, a: Tensor, b: Tensor | Number) -> Tensor:
        return a < b


_OPS = {dtype: TensorOps(dtype) for dtype in (torch.float32, torch.float64)}


def tensor_ops(dtype: torch.dtype) -> TensorOps:
    """The namespace for tensors of a computing precision."""
    return _OPS[dtype]


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The real precision a parameter of ``dtype`` is updated in: float64 for double precision, else float32."""
    return torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32


def real_shape(a: Tensor) -> torch.Size:
    """The shape of `real_view`, of sharded tensors too."""
    return torch.Size((*a.shape, 2)) if a.is_complex() else a.shape


def real_view(a: Tensor) -> Tensor:
    """The tensor itself, or a complex tensor's real pairs as a last dimension of two, sharing its memory."""
    return torch.view_as_real(a) if a.is_complex() else a
