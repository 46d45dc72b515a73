"""Whether a step has a gradient at all: one in which every gradient is zero changes nothing if the rule learns."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.batch import Batch
from gradagrad.kernel import load
from gradagrad.torch_ops.ops import real_view

IS_CPU = attrgetter("is_cpu")


def look(batch: Batch) -> bool | Tensor:
    """Whether a number in the gradients is not zero. On a CPU the host knows, and stops at the first such number."""
    if torch.compiler.is_compiling() or not all(map(IS_CPU, batch.grads)):
        return look_on_device(batch)
    kernel = load.ops()
    return any(map(kernel.any_nonzero if kernel else Tensor.any, map(_values, batch.grads)))


def look_on_device(batch: Batch) -> Tensor:
    """The same as a number on the device, for which the host does not wait."""
    like, values = next(iter(batch.shared.values())), [a for a in map(_values, batch.grads) if a.numel()]
    found: list[Tensor] = []
    for device in dict.fromkeys(a.device for a in values):
        # One operation for all tensors of a device. A norm is NaN if a number is.
        largest = torch._foreach_norm([a for a in values if a.device == device], torch.inf)
        found.append(torch.stack(largest).count_nonzero().to(like))
    return sum(found[1:], found[0]) if found else like.new_zeros(())


def moves(batches: Sequence[Batch], found: Iterable[bool | Tensor]) -> bool:
    """Whether to take a step, given what `look` has found in each batch: not if there is nothing on any rank.

    Where only the device knows, the step is taken, and the rule is told the answer.
    """
    answers, axes = list(found), [batch.axes for batch in batches]
    if not any(axes) and any(answer is True for answer in answers):
        return True
    like = next(iter(batches[0].shared.values()))
    numbers = sharding.add_over_ranks([torch.as_tensor(a).to(like) for a in answers], axes)
    moved = sum(numbers[1:], numbers[0])
    if any(isinstance(a, bool) for a in answers):  # The kernel must be told, and a CPU need not be waited for.
        return bool(moved)
    for batch in batches:
        batch.moved = moved
    return True


def _values(gradient: Tensor) -> Tensor:
    return real_view(gradient if gradient.layout == torch.strided else gradient._values())
