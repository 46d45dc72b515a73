"""Sparse gradients: gather the touched rows, step them like any tensor, scatter them back. Cost follows the rows.

With ``lazy=False`` a row that was touched at the last step but not now must forget its previous gradient, as it would
with a dense gradient of zero; the state therefore remembers the last step's rows.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gradagrad import rounding
from gradagrad.steps.bundle import Batch, Bundle, Commit, Pair, slot_functions
from gradagrad.steps.ops import computing_dtype, real_view, tensor_ops

Index = tuple[Tensor, ...]


def refusal(batch: Batch, gradient: Tensor) -> str | None:
    """Why this gradient cannot be used with the batch's settings, and the remedy; None if it can."""
    s = batch.settings
    if batch.differentiable:
        return "differentiable=True needs dense gradients; construct the embedding with sparse=False."
    if batch.coupled_decay:
        return (
            f"weight_decay must be 0 with sparse gradients, got {batch.coupled_decay}, since it would touch every row; "
            "use decoupled_weight_decay=True with lazy=True, which decays the touched rows."
        )
    if s.beta and not s.lazy:
        return (
            f"momentum must be 0 with sparse gradients and lazy=False, got {s.beta}, since every row would go on "
            "moving; pass lazy=True, which leaves untouched rows alone."
        )
    if s.weight_decay and not s.lazy:
        return (
            f"weight_decay must be 0 with sparse gradients and lazy=False, got {s.weight_decay}, since it would "
            "touch every row; pass lazy=True, which decays the touched rows."
        )
    if s.project is not None and not getattr(s.project, "elementwise", False):
        return (
            "projection must be elementwise (Box, NonNegative) with sparse gradients, since others need the whole "
            "tensor; construct the embedding with sparse=False."
        )
    if batch.granularity == "row" and gradient.sparse_dim() != 1:
        return (
            'granularity="row" needs gradients that are sparse in their first dimension only, got '
            f'{gradient.sparse_dim()} sparse dimensions; use granularity="element" or "tensor".'
        )
    return None


def bundles(batch: Batch, states: list[dict[str, Any]]) -> Iterator[Bundle]:
    """A bundle of the touched rows of each parameter."""
    total, touched = slot_functions(batch.granularity)
    per_entry = batch.granularity in ("element", "row")
    for i, parameter in enumerate(batch.params):
        dtype = computing_dtype(parameter.dtype)
        gradient = batch.grads[i].coalesce()
        index = tuple(gradient.indices())
        g = real_view(gradient.values()).to(dtype)
        growth, alpha = batch.growths[i], batch.accumulators[i]
        yield Bundle(
            x=real_view(parameter)[index].to(dtype),
            g=-g if batch.maximize else g,
            m=batch.momenta[i][index].to(dtype),
            growth=growth[index].to(dtype) if per_entry else growth,
            alpha=alpha[index].to(dtype) if per_entry else alpha,
            settings=batch.settings._replace(lr=batch.lr(i, dtype)),
            ops=tensor_ops(dtype),
            total=total,
            touched=touched,
            commit=_commit(batch, i, index, states[i]),
        )


def _commit(batch: Batch, i: int, index: Index, state: dict[str, Any]) -> Commit:
    parameter, momentum = real_view(batch.params[i]), batch.momenta[i]
    rows = torch.stack(index).squeeze(0)  # one sparse dimension: a plain list of rows
    growth, accumulator = batch.growths[i], batch.accumulators[i]

    def commit(x: Tensor, m: Tensor, after: Pair) -> None:
        bits = rounding.bits_for(batch, i, index)
        parameter.index_put_(index, x.to(parameter.dtype))
        if batch.granularity in ("element", "row"):
            growth.index_put_(index, rounding.stored(growth, after[0], bits, high=True))
            accumulator.index_put_(index, rounding.stored(accumulator, after[1], bits, high=True))
        elif batch.granularity == "tensor":
            growth.copy_(after[0])
            accumulator.copy_(after[1])
        if not batch.settings.lazy:
            _forget(batch, i, state.get("last_rows"))
            state["last_rows"] = rows
        momentum.index_put_(index, rounding.stored(momentum, m, bits))

    return commit


def _forget(batch: Batch, i: int, last_rows: Tensor | None) -> None:
    """Clears the momentum of the last step's rows; whoever is touched now writes it anew."""
    momentum, accumulator, s = batch.momenta[i], batch.accumulators[i], batch.settings
    if last_rows is not None:
        rows = tuple(last_rows) if last_rows.dim() > 1 else (last_rows,)
        momentum.index_put_(rows, torch.zeros((), dtype=momentum.dtype, device=momentum.device))
        return
    # The first sparse step, or the first after dense ones, works on the whole table, once.
    momentum.zero_()
    if s.grad_bound is not None and batch.granularity in ("element", "row"):
        missing = accumulator < s.alpha_0 + 0.5 * s.grad_bound**2
        accumulator.add_(missing, alpha=s.grad_bound**2)
