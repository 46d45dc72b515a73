"""Which views a batch is stepped in: one tensor after the other, lists of them, or the touched rows of one."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from gradagrad.engine.batch import Batch
from gradagrad.torch_ops.many import Many
from gradagrad.torch_ops.rows import Rows
from gradagrad.torch_ops.view import Single, View


def views(batch: Batch, *, together: bool) -> Iterator[View]:
    """Dense parameters one by one or together, sparse ones by their touched rows."""
    dense = [i for i, gradient in enumerate(batch.grads) if gradient.layout == torch.strided]
    if together and dense:
        yield from _together(batch if len(dense) == len(batch.grads) else batch.select(dense))
    else:
        for i in dense:
            yield Single(batch, i)
    for i, gradient in enumerate(batch.grads):
        if gradient.layout != torch.strided:
            yield Rows(batch, i)


def _together(batch: Batch) -> Iterator[View]:
    params: list[Tensor | None] = [*batch.params]
    grouped = Optimizer._group_tensors_by_device_and_dtype([params], with_indices=True)
    for _, indices in grouped.values():
        yield Many(batch if len(indices) == len(batch.params) else batch.select(int(i) for i in indices))
