"""What cannot be stepped, and what to do instead. Asked before anything is written."""

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.batch import Batch
from gradagrad.torch_ops.ops import real_shape


def refuse_unfit(batch: Batch) -> None:
    """Raises on parameters and gradients that the settings cannot be used with; nothing has been changed then."""
    for parameter, gradient in zip(batch.params, batch.grads, strict=True):
        is_sparse = gradient.layout != torch.strided
        if type(parameter) is torch.nn.Parameter and not is_sparse:
            continue
        reason = _misfit(parameter, gradient, [])
        if type(parameter) is not torch.nn.Parameter:
            reason = reason or _sharded(batch, parameter, gradient)
        if is_sparse:
            reason = reason or _sparse(batch, gradient)
        if reason:
            raise RuntimeError(reason)


def refuse_misfits(batch: Batch) -> None:
    """Raises where shapes of gradients or state differ from the parameters', for backends that do not look."""
    states = [batch.state[field.key] for field in batch.fields if field.at == "element"]
    for parameter, gradient, *state in zip(batch.params, batch.grads, *states, strict=True):
        if reason := _misfit(parameter, gradient, state):
            raise RuntimeError(reason)


def _misfit(parameter: Tensor, gradient: Tensor, state: list[Tensor]) -> str | None:
    shape = parameter.shape
    if gradient.shape != shape:
        return f"the gradient of a parameter of shape {tuple(shape)} has shape {tuple(gradient.shape)}."
    expected = real_shape(parameter)
    for tensor in state:
        if tensor.shape != expected:
            return (
                f"a parameter has shape {tuple(shape)}, but its state {tuple(tensor.shape)}: "
                "it was replaced or resized since the last step. Construct a new optimizer for it, or delete its state."
            )
    return None


def _sharded(batch: Batch, parameter: Tensor, gradient: Tensor) -> str | None:
    if not sharding.is_sharded(parameter):
        return None
    if reason := sharding.unfit(parameter, gradient, differentiable=batch.differentiable):
        return reason
    if not _is_elementwise(batch) and sharding.axes(parameter):
        return (
            "projection must be elementwise (Box, NonNegative) for sharded parameters, since others need the whole "
            "tensor; keep that parameter unsharded (fully_shard's ignored_params)."
        )
    if getattr(batch.settings, "lazy", False) and batch.scope != "element" and sharding.axes(parameter, "row"):
        return (
            f'lazy=True with granularity="{batch.scope}" needs whole rows on one rank, got '
            f'{getattr(parameter, "placements", None)}; shard the first dimension, or use granularity="element".'
        )
    return None


def _sparse(batch: Batch, gradient: Tensor) -> str | None:
    if batch.differentiable:
        return "differentiable=True needs dense gradients; construct the embedding with sparse=False."
    if batch.coupled_decay:
        return (
            f"weight_decay must be 0 with sparse gradients, got {batch.coupled_decay}, since it would touch every row; "
            + batch.rule.decay_remedy
        )
    if reason := batch.rule.unfit_for_rows(batch.settings):
        return reason
    if not _is_elementwise(batch):
        return (
            "projection must be elementwise (Box, NonNegative) with sparse gradients, since others need the whole "
            "tensor; construct the embedding with sparse=False."
        )
    rows = gradient._indices()
    if not torch.compiler.is_compiling() and rows.is_cpu and rows.numel() and int(rows.min()) < 0:
        return f"a sparse gradient has a negative index, {int(rows.min())}; number rows from 0."
    if batch.scope == "row" and gradient.sparse_dim() != 1:
        return (
            'granularity="row" needs gradients that are sparse in their first dimension only, got '
            f'{gradient.sparse_dim()} sparse dimensions; use granularity="element" or "tensor".'
        )
    return None


def _is_elementwise(batch: Batch) -> bool:
    project = getattr(batch.settings, "project", None)
    return project is None or getattr(project, "elementwise", False)
