"""What cannot be stepped, and what to do instead. Checked before anything is written."""

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.batch import Batch

_NEEDS_WHOLE = "projection must be elementwise (Box, NonNegative) {}, since others need the whole tensor; {}."


def refuse_unfit(batch: Batch) -> None:
    """Raises for parameters and gradients that do not work with the settings."""
    for parameter, gradient in zip(batch.params, batch.grads, strict=True):
        reason = None if type(parameter) is torch.nn.Parameter else _sharded(batch, parameter, gradient)
        if gradient.layout != torch.strided:
            reason = reason or _sparse(batch, gradient)
        if reason:
            raise RuntimeError(reason)


def _sharded(batch: Batch, parameter: Tensor, gradient: Tensor) -> str | None:
    if reason := sharding.unfit(parameter, gradient, differentiable=batch.plan.differentiable):
        return reason
    if not _is_elementwise(batch) and sharding.axes(parameter):
        remedy = "keep that parameter unsharded (fully_shard's ignored_params)"
        return _NEEDS_WHOLE.format("for sharded parameters", remedy)
    if getattr(batch.settings, "lazy", False) and batch.plan.scope != "element" and sharding.axes(parameter, "row"):
        found = getattr(parameter, "placements", "columns on several ranks")
        return (
            f'lazy=True with granularity="{batch.plan.scope}" needs whole rows on one rank, got {found}; shard the '
            'first dimension, or use granularity="element".'
        )
    return None


def _sparse(batch: Batch, gradient: Tensor) -> str | None:
    if batch.plan.differentiable:
        return "differentiable=True needs dense gradients; construct the embedding with sparse=False."
    if batch.plan.coupled_decay:
        return (
            f"weight_decay must be 0 with sparse gradients, got {batch.plan.coupled_decay}, since it would touch every "
            "row; " + batch.plan.rule.decay_remedy
        )
    if reason := batch.plan.rule.unfit_for_rows(batch.settings):
        return reason
    if not _is_elementwise(batch):
        return _NEEDS_WHOLE.format("with sparse gradients", "construct the embedding with sparse=False")
    if batch.plan.scope == "row" and gradient.sparse_dim() != 1:
        return (
            'granularity="row" needs gradients that are sparse in their first dimension only, got '
            f'{gradient.sparse_dim()} sparse dimensions; use granularity="element" or "tensor".'
        )
    return None


def _is_elementwise(batch: Batch) -> bool:
    project = getattr(batch.settings, "project", None)
    return project is None or getattr(project, "elementwise", False)
