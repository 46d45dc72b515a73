"""Many parameters at once through ``torch._foreach_*``: a list of tensors that the rule can treat as one number."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from gradagrad import rounding
from gradagrad.steps.bundle import Batch, Bundle, Pair, slot_functions
from gradagrad.steps.ops import computing_dtype, real_view, tensor_ops


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

    def map(self, function: Callable[[Tensor], Tensor]) -> "TensorList":
        return TensorList([function(t) for t in self.tensors])

    def operand(self, other: Any) -> Any:
        """``other`` as the second argument of a foreach function: a list of the same length, or a number."""
        if isinstance(other, TensorList):
            return other.tensors
        return [other] * len(self.tensors) if isinstance(other, Tensor) else other

    def __add__(self, other: Any) -> "TensorList":
        return TensorList(torch._foreach_add(self.tensors, self.operand(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> "TensorList":
        return TensorList(torch._foreach_sub(self.tensors, self.operand(other)))

    def __rsub__(self, other: Any) -> "TensorList":
        return -self + other

    def __mul__(self, other: Any) -> "TensorList":
        # A 0-d tensor (a group's step size, a tensor learning rate) has a foreach overload of its own.
        factor = other if isinstance(other, Tensor) and other.dim() == 0 else self.operand(other)
        return TensorList(torch._foreach_mul(self.tensors, factor))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "TensorList":
        return TensorList(torch._foreach_div(self.tensors, self.operand(other)))

    def __rtruediv__(self, other: Any) -> "TensorList":
        return TensorList(torch._foreach_reciprocal(self.tensors)) * other

    def __neg__(self) -> "TensorList":
        return TensorList(torch._foreach_neg(self.tensors))


class TensorListOps:
    """The rule's `Ops` for tensor lists; whatever is not a list falls through to the ops of single tensors."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.single = tensor_ops(dtype)
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
            return TensorList([torch.where(c, s, t) for c, s, t in choices])
        return self.single.where(condition, a, b)

    def less(self, a: Any, b: Any) -> Any:
        if isinstance(a, TensorList):
            return TensorList([s < t for s, t in zip(a, _entries(b, a), strict=True)])
        return self.single.less(a, b)


def _entries(a: Any, like: TensorList) -> Sequence[Any]:
    return a.tensors if isinstance(a, TensorList) else [a] * len(like.tensors)


def bundles(batch: Batch) -> Iterator[Bundle]:
    """A bundle for all parameters of one device and dtype."""
    params: list[Tensor | None] = [*batch.params]
    grouped = Optimizer._group_tensors_by_device_and_dtype([params], with_indices=True)
    for _, indices in grouped.values():
        part = batch.select(int(i) for i in indices)
        yield _bundle(part, computing_dtype(part.params[0].dtype))


def _bundle(batch: Batch, dtype: torch.dtype) -> Bundle:
    total, touched = slot_functions(batch.granularity)
    x = TensorList([real_view(p).to(dtype) for p in batch.params])
    g = TensorList([real_view(g).to(dtype) for g in batch.grads])
    if batch.maximize:
        g = -g
    if batch.coupled_decay:
        g = g + x * batch.coupled_decay
    lrs = [batch.lr(i, dtype) for i in range(len(batch.params))]
    project = batch.settings.project

    def commit(new_x: TensorList, new_m: TensorList, after: Pair) -> None:
        torch._foreach_copy_([real_view(p) for p in batch.params], new_x.tensors)
        bits = [rounding.bits_for(batch, i) for i in range(len(batch.params))]
        rounding.store_each(batch.momenta, new_m.tensors, bits)
        if batch.granularity != "group":
            rounding.store_each(batch.growths, after[0].tensors, bits, high=True)
            rounding.store_each(batch.accumulators, after[1].tensors, bits, high=True)

    return Bundle(
        x=x,
        g=g,
        m=TensorList([m.to(dtype) for m in batch.momenta]),
        growth=TensorList([growth.to(dtype) for growth in batch.growths]),
        alpha=TensorList([alpha.to(dtype) for alpha in batch.accumulators]),
        settings=batch.settings._replace(
            lr=TensorList(lrs) if batch.lr_decay else _lift(lrs[0], len(lrs)),
            project=None if project is None else _each(project),
        ),
        ops=TensorListOps(dtype),
        total=lambda a: a.map(total),
        touched=lambda a: a.map(touched),
        commit=commit,
        lift=lambda pair: (_lift(pair[0], len(lrs)), _lift(pair[1], len(lrs))),
    )


def _lift(a: Any, n: int) -> Any:
    """A 0-d tensor repeated, but only for torch.compile, which cannot combine a tensor with a list of tensors."""
    return TensorList([a] * n) if isinstance(a, Tensor) and torch.compiler.is_compiling() else a


def _each(project: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    """A projection of single tensors applied to each tensor of a list."""
    return lambda points, metric: TensorList(
        [project(z, a) for z, a in zip(points, _entries(metric, points), strict=True)]
    )
