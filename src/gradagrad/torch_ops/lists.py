"""Many tensors at once through ``torch._foreach_*``: a list of tensors that a rule can treat as one number.

A product is not formed until it is needed, so that ``a + b * c`` is one operation. Selection, for which there is no
foreach operation, works on all numbers in one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradagrad.rules.scope import SHARED
from gradagrad.torch_ops.ops import in_precision, joined, largest_of, limited, parts, reduction, tensor_ops, wide_dtype


class TensorList:
    """A list of tensors with the rule's operators, applied entry by entry to another list, a tensor or a number."""

    # torch.Tensor then leaves `tensor * tensor_list` to the list.
    __torch_function__ = torch._C._disabled_torch_function_impl

    def __init__(self, tensors: Sequence[Tensor], row: Tensor | None = None) -> None:
        self._tensors: list[Tensor] | None = list(tensors)
        self._row = row

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors, worked out now if they were not yet."""
        if self._tensors is None:
            self._tensors = self._worked_out()
        return self._tensors

    def _worked_out(self) -> list[Tensor]:
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its tensors."""
        return self.tensors[0].dtype

    def row(self) -> Tensor:
        """All numbers in one row."""
        if self._row is None:
            self._row = joined(self.tensors)
        return self._row

    def __getitem__(self, i: int) -> Tensor:
        return self.tensors[i]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def operand(self, other: Any) -> Any:
        """``other`` as the second argument of a foreach function: a list of the same length, or a number."""
        if isinstance(other, TensorList):
            return other.tensors
        return [other] * len(self.tensors) if isinstance(other, Tensor) else other

    def __add__(self, other: Any) -> TensorList:
        if isinstance(other, Product):
            return Sum(self, other)
        return TensorList(torch._foreach_add(self.tensors, self.operand(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> TensorList:
        if isinstance(other, TensorList):
            return self + -other
        return TensorList(torch._foreach_sub(self.tensors, self.operand(other)))

    def __rsub__(self, other: Any) -> TensorList:
        return -self + other

    def __mul__(self, other: Any) -> TensorList:
        if isinstance(other, TensorList):
            return Product(self, other)
        if not isinstance(other, Tensor):
            return Product(self, None, other)
        # A 0-d tensor (a shared step size, a tensor learning rate) has a foreach overload of its own.
        return TensorList(torch._foreach_mul(self.tensors, other if other.dim() == 0 else self.operand(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> TensorList:
        return TensorList(torch._foreach_div(self.tensors, self.operand(other)))

    def __rtruediv__(self, other: Any) -> TensorList:
        return TensorList(torch._foreach_reciprocal(self.tensors)) * other

    def __neg__(self) -> TensorList:
        return Product(self, None, -1.0)


class Product(TensorList):
    """``scale · a · b``, or ``scale · a``."""

    def __init__(self, a: TensorList, b: TensorList | None, scale: Any = 1.0) -> None:
        self._tensors = self._row = None
        if isinstance(a, Product) and a._tensors is None and b is None:
            self.a, self.b, self.scale = a.a, a.b, a.scale * scale
            return
        (self.a, first), (self.b, second) = _unscaled(a), _unscaled(b)
        self.scale = scale * first * second

    @property
    def dtype(self) -> torch.dtype:
        return self.a[0].dtype

    @property
    def is_open(self) -> bool:
        """Whether it is a product of two lists that has not been formed yet."""
        return self._tensors is None and self.b is not None

    def _worked_out(self) -> list[Tensor]:
        if self.b is None:
            return list(torch._foreach_mul(self.a, self.scale))
        result = list(torch._foreach_mul(self.a, self.b))
        if self.scale != 1.0:
            torch._foreach_mul_(result, self.scale)
        return result


def _unscaled(a: TensorList | None) -> tuple[Any, Any]:
    """Tensors, and a number that they are still to be multiplied by."""
    if isinstance(a, Product) and a._tensors is None and a.b is None:
        return a.a, a.scale
    return (None if a is None else a.tensors), 1.0


class Sum(TensorList):
    """A list and a product, in one operation; in place where the result replaces the list."""

    def __init__(self, start: TensorList, product: Product) -> None:
        self._tensors = self._row = None
        self._start, self._added = start.tensors, product
        if product._tensors is not None:  # formed already, for another use
            self._added = Product(TensorList(product._tensors), None)

    def _worked_out(self) -> list[Tensor]:
        added = self._added
        if added.b is None:
            return list(torch._foreach_add(self._start, added.a, alpha=added.scale))
        return list(torch._foreach_addcmul(self._start, added.a, added.b, value=added.scale))

    def replaces(self, targets: list[Tensor]) -> bool:
        """Writes the sum over the list it starts from, if that is ``targets``; says whether it did."""
        if self._tensors is not None or any(s is not t for s, t in zip(self._start, targets, strict=True)):
            return False
        added = self._added
        if added.b is None:
            torch._foreach_add_(targets, added.a, alpha=added.scale)
        else:
            torch._foreach_addcmul_(targets, added.a, added.b, value=added.scale)
        return True


class ListOps:
    """The rule's `Ops` for tensor lists; whatever is not a list falls through to the ops of single tensors."""

    def __init__(self, dtype: torch.dtype, like: TensorList) -> None:
        self.single, self.dtype, self._like = tensor_ops(dtype), dtype, like
        self.tiny, self.largest = self.single.tiny, self.single.largest

    def sqrt(self, a: Any) -> Any:
        return TensorList(torch._foreach_sqrt(a.tensors)) if isinstance(a, TensorList) else self.single.sqrt(a)

    def maximum(self, a: Any, b: Any) -> Any:
        if isinstance(a, TensorList):
            return TensorList(torch._foreach_clamp_min(a.tensors, a.operand(b)))
        return self.single.maximum(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        if isinstance(a, TensorList):
            bound = a.operand(b if isinstance(b, (Tensor, TensorList)) else self.single.within(b, a.dtype))
            return TensorList(torch._foreach_clamp_max(a.tensors, bound))
        return self.single.minimum(a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """A condition on lists is one row of truths; or a list of them where a compiler joins operations better."""
        if isinstance(condition, TensorList):
            choices = zip(condition, entries(a, condition), entries(b, condition), strict=True)
            return TensorList([self.single.where(c, s, t) for c, s, t in choices])
        if not any(isinstance(some, TensorList) for some in (a, b)) and condition.dim() == 0:
            return self.single.where(condition, a, b)
        row = self.single.where(condition, self._row(a), self._row(b))
        return TensorList(parts(row, self._like.tensors), row)

    def less(self, a: Any, b: Any) -> Any:
        listed = a if isinstance(a, TensorList) else b
        if isinstance(listed, TensorList) and torch.compiler.is_compiling():
            return TensorList([s < t for s, t in zip(entries(a, listed), entries(b, listed), strict=True)])
        return self.single.less(self._row(a), self._row(b))

    def _row(self, a: Any) -> Any:
        if not isinstance(a, TensorList):
            return a
        if all(t.shape == like.shape for t, like in zip(a, self._like, strict=True)):
            return a.row()
        return joined([t.expand_as(like) for t, like in zip(a, self._like, strict=True)])  # a number for each tensor

    def indicator(self, a: TensorList) -> TensorList:
        return TensorList(torch._foreach_abs(torch._foreach_sign(a.tensors)))

    def narrow(self, a: Any) -> Any:
        return a if isinstance(a, TensorList) else lifted(self.single.narrow(a), len(self._like))


def entries(a: Any, like: TensorList) -> Sequence[Any]:
    """A list's tensors, or the same for each of a list."""
    return a.tensors if isinstance(a, TensorList) else [a] * len(like)


def lifted(a: Any, count: int) -> Any:
    """A 0-d tensor repeated, but only for torch.compile, which cannot combine a tensor with a list of tensors."""
    return TensorList([a] * count) if isinstance(a, Tensor) and torch.compiler.is_compiling() else a


class Summand(NamedTuple):
    """What is to be added up over each block."""

    terms: TensorList
    bounded: bool
    """Whether numbers stop at the largest one; else those that are not finite are left out."""


class ListSums:
    """Sums over each block of a list of tensors, only asked for here; `added` works all of them out at once."""

    def __init__(self, scope: str) -> None:
        self._scope = scope

    def dot(self, a: TensorList, b: TensorList) -> Any:
        return a * b if self._scope == "element" else Summand(a * b, bounded=True)

    def total(self, a: TensorList) -> Any:
        return a if self._scope == "element" else Summand(a, bounded=False)

    def added(self, asked: Sequence[Any], *, plain: bool) -> Any:
        """The sums: lists for blocks of one element, else a row of blocks for each. ``plain`` ones, added tensor by
        tensor, are for autograd and compilers."""
        if not asked:
            return ()
        if self._scope == "element":
            return tuple(map(TensorList, _formed(asked)))
        dtype, bounded = asked[0].terms.dtype, asked[0].bounded
        every = list(chain.from_iterable(_formed([summand.terms for summand in asked], wide=bounded)))
        wide = wide_dtype(every[0].device)
        limits = not bounded or dtype == wide  # double's products of float32 numbers are finite
        if self._scope in SHARED:
            row = joined(every)
            return (limited(row, bounded=bounded) if limits else row).view(len(asked), -1).sum(1, dtype=wide)
        if self._scope == "tensor" and bounded and not plain:
            return _tensor_sums(every, limits=limits).view(len(asked), -1)
        if limits and bounded and not plain:
            largest = largest_of(every[0])
            every = torch._foreach_clamp_max(torch._foreach_clamp_min(every, -largest), largest)
        elif limits:
            every = [limited(t, bounded=bounded) for t in every]
        # Rows are in their own precision, whatever they were added in.
        dtype = wide if self._scope == "tensor" else dtype
        return torch.cat([reduction(self._scope).added(t).reshape(-1) for t in every]).to(dtype).view(len(asked), -1)


def _formed(lists: Sequence[TensorList], *, wide: bool = False) -> list[list[Tensor]]:
    """Tensors of several lists; products are formed in one go, and in double if asked, where float32's are finite."""
    if not all(isinstance(a, Product) and a.is_open for a in lists):
        return [a.tensors for a in lists]
    products: Any = lists
    factors = {id(a): a for p in products for a in (p.a, p.b)}
    if wide:
        flat = in_precision([t for a in factors.values() for t in a], wide_dtype(products[0].a[0].device))
        size = len(flat) // len(factors)
        factors = {key: flat[i * size : (i + 1) * size] for i, key in enumerate(factors)}
    flat = torch._foreach_mul(
        [t for p in products for t in factors[id(p.a)]], [t for p in products for t in factors[id(p.b)]]
    )
    size = len(flat) // len(products)
    formed = [list(flat[i : i + size]) for i in range(0, len(flat), size)]
    for product, tensors in zip(products, formed, strict=True):
        if product.scale != 1.0:
            torch._foreach_mul_(tensors, product.scale)
    return formed


def _tensor_sums(tensors: list[Tensor], *, limits: bool) -> Tensor:
    """Each tensor's sum, of numbers cut off at the largest if it ``limits``. There are norms only: signs go apart."""
    up, down = torch._foreach_clamp_min(tensors, 0.0), torch._foreach_clamp_max(tensors, 0.0)
    if limits:
        torch._foreach_clamp_max_(up, largest_of(tensors[0]))
        torch._foreach_clamp_min_(down, -largest_of(tensors[0]))
    norms = torch._foreach_norm([*up, *down], 1, dtype=wide_dtype(tensors[0].device))
    positive, negative = torch.stack(norms).view(2, -1).unbind()
    return positive - negative
