"""The rule's `Ops` and sums for torch tensors, and the precision and shape that a parameter is stepped in."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.rules.scope import SINGLE


class TensorOps:
    """Square root, maximum, minimum and selection for tensors (and for plain numbers, which settings may be)."""

    def __init__(self, dtype: torch.dtype) -> None:
        limits = torch.finfo(dtype)
        self.dtype = dtype
        self.tiny: float = limits.tiny
        self.largest: float = limits.max

    def sqrt(self, a: Any) -> Any:
        return a.sqrt() if isinstance(a, Tensor) else math.sqrt(a)

    def exp(self, a: Any) -> Any:
        return a.exp() if isinstance(a, Tensor) else torch.tensor(a, dtype=torch.float64).exp().item()  # no overflow

    def log(self, a: Tensor) -> Tensor:
        return a.log()

    def maximum(self, a: Any, b: Any) -> Any:
        if isinstance(a, Tensor):
            return torch.maximum(a, b) if isinstance(b, Tensor) else a.clamp_min(b)  # faster than `clamp`
        return b.clamp_min(a) if isinstance(b, Tensor) else max(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        if isinstance(a, Tensor):
            return torch.minimum(a, b) if isinstance(b, Tensor) else a.clamp_max(self.within(b, a.dtype))
        return b.clamp_max(a) if isinstance(b, Tensor) else min(a, b)

    def within(self, bound: Any, dtype: torch.dtype) -> Any:
        """An upper bound that ``dtype`` can hold, because torch refuses larger ones, such as γ's cap at lr = 0."""
        return bound if bound <= self.largest else min(bound, torch.finfo(dtype).max)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        if isinstance(condition, bool):
            return a if condition else b
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            a = torch.full_like(condition, a, dtype=self.dtype)
        if not isinstance(a, Tensor) and b.shape == condition.shape:
            return b.masked_fill(condition, a)  # torch.where would first turn the number into a tensor.
        return torch.where(condition, a, b)

    def less(self, a: Any, b: Any) -> Any:
        return a < b

    def indicator(self, a: Tensor) -> Tensor:
        return (a != 0).to(a.dtype)

    def narrow(self, a: Any) -> Any:
        if not isinstance(a, Tensor) or a.dtype == self.dtype:
            return a
        return a.clamp(max=self.largest).to(self.dtype)


_OPS = {dtype: TensorOps(dtype) for dtype in (torch.float32, torch.float64)}


def tensor_ops(dtype: torch.dtype) -> TensorOps:
    """The namespace for tensors of a computing precision."""
    return _OPS[dtype]


class Element:
    """Sums over blocks of one element: nothing to add."""

    def dot(self, a: Any, b: Any) -> Any:
        return a * b

    def total(self, a: Any) -> Any:
        return a


class Whole:
    """Sums over a tensor, in double."""

    def added(self, a: Tensor) -> Tensor:
        return a.sum(dtype=wide_dtype(a.device))

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        return self.added(products(a, b))

    def total(self, a: Tensor) -> Tensor:
        return self.added(a.nan_to_num(0.0, 0.0, 0.0))


class Row(Whole):
    """Sums over first-dimension slices; the result keeps all dimensions, so that it broadcasts."""

    def added(self, a: Tensor) -> Tensor:
        return a if a.dim() < 2 else a.sum(dim=tuple(range(1, a.dim())), keepdim=True, dtype=wide_dtype(a.device))

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        return super().dot(a, b).to(a.dtype)

    def total(self, a: Tensor) -> Tensor:
        return super().total(a).to(a.dtype)


_REDUCTIONS = {"element": Element(), "row": Row(), **dict.fromkeys(SINGLE, Whole())}


def reduction(scope: str) -> Any:
    """The sums over each block of one tensor; for a shared block the caller adds up the tensors' sums."""
    return _REDUCTIONS[scope]


class Segments(Whole):
    """Sums over stretches of a row: rows or tensors that lie end to end."""

    def __init__(self, lengths: Sequence[int], row: Tensor, dtype: torch.dtype | None) -> None:
        # An empty array would be refused.
        self._lengths = torch.asarray(lengths or [], dtype=torch.int64, device=row.device)
        self._total, self._dtype = row.numel(), dtype

    def added(self, a: Tensor) -> Tensor:
        sums = torch.segment_reduce(a.to(wide_dtype(a.device)), "sum", lengths=self._lengths, unsafe=True, initial=0.0)
        return sums if self._dtype is None else sums.to(self._dtype)

    def spread(self, numbers: Any) -> Any:
        """A number for each stretch as one for each element."""
        if not isinstance(numbers, Tensor) or not numbers.dim():
            return numbers
        return numbers.repeat_interleave(self._lengths, output_size=self._total)


def products(a: Tensor, b: Tensor) -> Tensor:
    """a·b in double, where products of float32 numbers are finite; those of float64 numbers stop at the largest.

    Squares may be infinite.
    """
    wide = a.to(wide_dtype(a.device))
    if a is b:
        return wide.square()
    largest = torch.finfo(wide.dtype).max
    return (wide * b).clamp(-largest, largest) if wide is a else wide * b


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The real precision a parameter of ``dtype`` is updated in: float64 for double precision, else float32."""
    return torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32


def wide_dtype(device: torch.device) -> torch.dtype:
    """The precision of sums and of shared blocks: double, where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


def real_shape(a: Tensor) -> torch.Size:
    """The shape of `real_view`, of sharded tensors too."""
    return torch.Size((*a.shape, 2)) if a.is_complex() else a.shape


def real_view(a: Tensor) -> Tensor:
    """The tensor itself, or a complex tensor's real pairs as a last dimension of two, sharing its memory."""
    return torch.view_as_real(a.resolve_conj()) if a.is_complex() else a


def write_scalars(targets: list[Tensor], values: list[Tensor]) -> None:
    """Writes single numbers, such as those of a block.

    In a compiled step all values are computed before any is written; otherwise one could be recomputed from another
    that was already overwritten. They are written as a list, because torch 2.13 loses a single number copied by itself.
    """
    if any(value.requires_grad for value in values):  # Autograd follows a differentiable step.
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)
    elif targets:
        if torch.compiler.is_compiling():
            values = list(torch.stack(values).unbind())
        torch._foreach_copy_(targets, values)


def wrap_cpu_scalars(states: Iterable[dict[str, Any]]) -> None:
    """Wraps 0-d float64 tensors on the CPU in nn.Parameter, sharing their memory.

    torch.compile 2.13 specialises on such tensors and retraces once; wrapped in nn.Parameter it does not.
    """
    wrapped: dict[Tensor, Tensor] = {}  # States that share a number share its wrapper.
    for state in states:
        for key, value in state.items():
            if type(value) is Tensor and value.dim() == 0 and value.dtype == torch.float64 and value.is_cpu:
                if value not in wrapped:
                    wrapped[value] = torch.nn.Parameter(value, requires_grad=False)
                state[key] = wrapped[value]
