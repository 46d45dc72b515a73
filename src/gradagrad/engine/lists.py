"""Many tensors at once through ``torch._foreach_*``: a list of tensors that a rule can treat as one number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.tensors import products, reduction, tensor_ops, wide_dtype
from gradagrad.scope import SHARED


class TensorList:
    """A list of tensors with the rule's operators, applied entry by entry to another list, a tensor or a number."""

    # torch.Tensor then leaves `tensor * tensor_list` to the list.
    __torch_function__ = torch._C._disabled_torch_function_impl

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)

    def __getitem__(self, i: int) -> Tensor:
        return self.tensors[i]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def map(self, function: Callable[[Tensor], Tensor]) -> TensorList:
        """A function of single tensors applied to each."""
        return TensorList([function(t) for t in self.tensors])

    def operand(self, other: Any) -> Any:
        """``other`` as the second argument of a foreach function: a list of the same length, or a number."""
        if isinstance(other, TensorList):
            return other.tensors
        return [other] * len(self.tensors) if isinstance(other, Tensor) else other

    def __add__(self, other: Any) -> TensorList:
        return TensorList(torch._foreach_add(self.tensors, self.operand(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> TensorList:
        return TensorList(torch._foreach_sub(self.tensors, self.operand(other)))

    def __rsub__(self, other: Any) -> TensorList:
        return -self + other

    def __mul__(self, other: Any) -> TensorList:
        # A 0-d tensor (a shared step size, a tensor learning rate) has a foreach overload of its own.
        scalar = isinstance(other, Tensor) and other.dim() == 0
        return TensorList(torch._foreach_mul(self.tensors, other if scalar else self.operand(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> TensorList:
        return TensorList(torch._foreach_div(self.tensors, self.operand(other)))

    def __rtruediv__(self, other: Any) -> TensorList:
        return TensorList(torch._foreach_reciprocal(self.tensors)) * other

    def __neg__(self) -> TensorList:
        return TensorList(torch._foreach_neg(self.tensors))


class ListOps:
    """The rule's `Ops` for tensor lists; whatever is not a list falls through to the ops of single tensors."""

    def __init__(self, dtype: torch.dtype, count: int) -> None:
        self.single, self.count = tensor_ops(dtype), count
        self.tiny, self.largest = self.single.tiny, self.single.largest

    def sqrt(self, a: Any) -> Any:
        return TensorList(torch._foreach_sqrt(a.tensors)) if isinstance(a, TensorList) else self.single.sqrt(a)

    def maximum(self, a: Any, b: Any) -> Any:
        if isinstance(a, TensorList):
            return TensorList(torch._foreach_clamp_min(a.tensors, a.operand(b)))
        return self.single.maximum(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        if isinstance(a, TensorList):
            return TensorList(torch._foreach_clamp_max(a.tensors, a.operand(b)))
        return self.single.minimum(a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        if isinstance(condition, TensorList):
            choices = zip(condition, _entries(a, condition), _entries(b, condition), strict=True)
            return TensorList([self.single.where(c, s, t) for c, s, t in choices])
        return self.single.where(condition, a, b)

    def less(self, a: Any, b: Any) -> Any:
        listed = a if isinstance(a, TensorList) else b
        if isinstance(listed, TensorList):
            return TensorList([s < t for s, t in zip(_entries(a, listed), _entries(b, listed), strict=True)])
        return self.single.less(a, b)

    def indicator(self, a: TensorList) -> TensorList:
        return TensorList(torch._foreach_abs(torch._foreach_sign(a.tensors)))

    def narrow(self, a: Any) -> Any:
        return a if isinstance(a, TensorList) else lifted(self.single.narrow(a), self.count)


def lifted(a: Any, count: int) -> Any:
    """A 0-d tensor repeated, but only for torch.compile, which cannot combine a tensor with a list of tensors."""
    return TensorList([a] * count) if isinstance(a, Tensor) and torch.compiler.is_compiling() else a


class ListSums:
    """Sums over each slot of a list of tensors; for a shared slot one number, added up in one go."""

    def __init__(self, scope: str) -> None:
        self._shared, self._own = scope in SHARED, scope == "element"
        self._single = reduction(scope)

    def dot(self, a: TensorList, b: TensorList) -> Any:
        if self._own:
            return a * b
        if not self._shared:
            return TensorList([self._single.dot(s, t) for s, t in zip(a, b, strict=True)])
        return _joined([products(s, t) for s, t in zip(a, b, strict=True)]).sum()

    def total(self, a: TensorList) -> Any:
        if self._own:
            return a
        if not self._shared:
            return a.map(self._single.total)
        return _joined(a.tensors).nan_to_num_(0.0, 0.0, 0.0).sum(dtype=wide_dtype(a[0].device))


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


def _entries(a: Any, like: TensorList) -> Sequence[Any]:
    return a.tensors if isinstance(a, TensorList) else [a] * len(like.tensors)


def each(project: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    """A projection of single tensors applied to each tensor of a list."""
    return lambda points, metric: TensorList(
        [project(z, a) for z, a in zip(points, _entries(metric, points), strict=True)]
    )
