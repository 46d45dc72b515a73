"""The compiled kernel: one call steps all parameters of a group. csrc/rule.h restates the rule; tests pin it to it.

Functions return None when done, or a sentence that says why the kernel cannot be used; nothing has changed then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad import kernel, rounding
from gradagrad.granularity import GRANULARITIES
from gradagrad.projections import Box, NonNegative
from gradagrad.steps.bundle import Batch
from gradagrad.steps.kept import MANY, Memory
from gradagrad.steps.ops import real_view

Copies = Sequence[tuple[Tensor, Tensor]]

# In the order of `Refusal` in csrc/tensors.h. "{p}" is the parameter's place in its list and shape.
_REASONS = (
    "",
    "the lists of parameters, gradients and states differ in length.",
    "{p}, its gradient and its state must be on the CPU.",
    "{p}, its gradient and its state must be dense.",
    "{p} must be float32, float64, bfloat16 or float16.",
    "the gradient of {p} must have the parameter's dtype.",
    "the state of {p} must be float32 (float64 for float64 parameters) or bfloat16.",
    "the gradient of {p} must have the parameter's shape.",
    "the state of {p} does not fit its shape.",
    "{p}, its gradient and its state must have the same strides.",
    "{p} must fill its memory without gaps (contiguous, channels_last or another permutation).",
    "the first dimension of {p} must be the outermost in memory for row-wise or lazy steps.",
    "the step counter of {p} must be a float32 number on the CPU.",
    "a parameter or its state shares memory with another tensor of the step.",
    "grad_scale and found_inf must be float32 numbers on the CPU.",
    "the rows of the sparse gradient must be int64 and inside the table.",
)


def advance(
    batch: Batch,
    copies: Copies | None,
    states: Mapping[Tensor, dict[str, Any]],
    grad_scale: Tensor | None,
    memory: Memory | None = None,
    *,
    required: bool,
) -> Batch | None:
    """Counts and takes the step of what the kernel can step, and returns the rest for torch operations, if any.

    ``required`` raises instead, before anything has changed, if dense parameters are left over. The gradients of the
    rest are unscaled.
    """
    sparse = [i for i, gradient in enumerate(batch.grads) if gradient.layout != torch.strided]
    dense = [i for i in range(len(batch.grads)) if i not in set(sparse)] if sparse else list(range(len(batch.grads)))
    unfit = _unfit(batch, sparse)
    left: list[int] = []
    part = batch if not sparse else batch.select(dense)
    if dense and (reason := unfit or step(part, copies, grad_scale, memory=memory)):
        if required:
            raise RuntimeError(IMPOSSIBLE.format(reason))
        if kernel.ops() is None:
            kernel.warn_once()
        left += dense
    left += [i for i in sparse if unfit or sparse_step(batch, i, states[batch.owners[i]], grad_scale)]
    if not left:
        return None
    rest = batch.select(sorted(left)) if len(left) < len(batch.params) else batch
    if grad_scale is not None:
        unscale(rest.grads, grad_scale)
    return rest


IMPOSSIBLE = "fused=True is impossible here: {} Pass fused=None to use the kernel where it can be used."


def require(batch: Batch, copies: Copies | None = None) -> None:
    """Raises unless the kernel can step all dense parameters of a batch."""
    dense = batch.select(i for i, gradient in enumerate(batch.grads) if gradient.layout == torch.strided)
    sparse = [i for i, gradient in enumerate(batch.grads) if gradient.layout != torch.strided]
    if dense.params and (reason := _unfit(batch, sparse) or refusal(dense, copies)):
        raise RuntimeError(IMPOSSIBLE.format(reason))


def unscale(grads: Sequence[Tensor], grad_scale: Tensor) -> None:
    """Divides gradients by GradScaler's scale, in place, as torch's fused optimizers do."""
    for gradient in grads:
        values = gradient if gradient.layout == torch.strided else gradient._values()
        values.div_(grad_scale.to(values.device))


def _unfit(batch: Batch, sparse: Sequence[int]) -> str | None:
    """Why no parameter of this batch is for the kernel."""
    if batch.granularity == "row" and any(axes for axes, _ in batch.parts()):
        return "rows that share a step size are split over several ranks."
    if sparse and batch.granularity == "group":
        return 'a group of granularity "group" has sparse gradients.'
    return None


def refusal(batch: Batch, copies: Copies | None = None) -> str | None:
    """Why the kernel cannot step this batch of dense gradients; None if it can. Changes nothing."""
    return _step(batch, copies, None, None, None, only_check=True)


def step(
    batch: Batch,
    copies: Copies | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    memory: Memory | None = None,
) -> str | None:
    """Counts and takes the step of all parameters of a batch with dense gradients.

    ``copies`` are all (growth, accumulator) copies of a group's slot. ``grad_scale`` and ``found_inf`` are
    GradScaler's: gradients are divided in place, and nothing changes if an infinity was found.
    """
    return _step(batch, copies, grad_scale, found_inf, memory, only_check=False)


def _step(
    batch: Batch,
    copies: Copies | None,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    memory: Memory | None,
    *,
    only_check: bool,
) -> str | None:
    call = _arguments(batch, copies, memory)
    if isinstance(call, str):
        return call
    ops, arguments = call
    code = ops.step_(*arguments, grad_scale, found_inf, only_check)
    if code == 0 and not only_check:
        torch.autograd.graph.increment_version(batch.params)
    return _reason(code, batch)


def measure(batch: Batch, copies: Copies | None = None) -> Tensor | str:
    """Σ g² and Σ g·m as float64 pairs, one for each tensor or one for the group, to be added up over ranks."""
    call = _arguments(batch, copies)
    if isinstance(call, str):
        return call
    ops, arguments = call
    sums = torch.zeros(1 if batch.granularity == "group" else len(batch.params), 2, dtype=torch.float64)
    return _reason(ops.measure_(*arguments, None, None, sums), batch) or sums


def apply(batch: Batch, sums: Tensor, copies: Copies | None = None) -> str | None:
    """Counts and takes the step given `measure`'s sums over all ranks."""
    call = _arguments(batch, copies)
    if isinstance(call, str):
        return call
    ops, arguments = call
    code = ops.apply_(*arguments, None, None, sums)
    if code == 0:
        torch.autograd.graph.increment_version(batch.params)
    return _reason(code, batch)


def sparse_step(
    batch: Batch, i: int, state: dict[str, Any], grad_scale: Tensor | None = None, found_inf: Tensor | None = None
) -> str | None:
    """Counts and takes the step of the i-th parameter, whose gradient is sparse in its first dimension."""
    settings = settings_of(batch)
    if isinstance(settings, str):
        return settings
    ops, numbers, flags = settings
    gradient, parameter = batch.grads[i], batch.params[i]
    if batch.granularity not in ("element", "row"):
        return f'sparse gradients with granularity="{batch.granularity}" are stepped by torch operations.'
    if gradient.sparse_dim() != 1 or parameter.is_complex():
        return "sparse gradients must be real and sparse in their first dimension only."
    last_rows: Tensor | None = state.get("last_rows")
    if not batch.settings.lazy and last_rows is None:
        return "the first sparse step visits the whole table."
    rows = gradient._indices()[0]
    rows_out = None if batch.settings.lazy else torch.empty_like(rows)
    code = ops.sparse_step_(
        parameter,
        rows,
        gradient._values().contiguous(),
        batch.momenta[i],
        batch.growths[i],
        batch.accumulators[i],
        batch.steps[i],
        last_rows,
        rows_out,
        GRANULARITIES.index(batch.granularity),
        numbers,
        flags,
        rounding.SEED,
        _streams(batch)[i],
        grad_scale,
        found_inf,
        False,
    )
    if code > 0:
        return _reason(code, batch, i)
    torch.autograd.graph.increment_version(parameter)
    if rows_out is not None and (found_inf is None or not found_inf):
        state["last_rows"] = rows_out if -code == len(rows_out) else rows_out[:-code].clone()
    return None


def settings_of(batch: Batch) -> tuple[Any, list[float], int] | str:
    """The kernel's ops and the batch's settings as it takes them, or why it cannot."""
    ops = kernel.ops()
    if ops is None:
        status = kernel.kernel_status()
        return f"{status.reason} {status.remedy}"
    if batch.differentiable:
        return "differentiable=True needs torch operations."
    s = batch.settings
    bounds = _bounds(s.project)
    if isinstance(bounds, str):
        return bounds
    lr = s.lr
    if isinstance(lr, Tensor):
        if lr.device.type != "cpu":
            return f"lr must be a number or a tensor on the CPU, got one on {lr.device}."
        lr = float(lr)
    numbers = [
        lr, s.rho, s.beta, s.eps, batch.coupled_decay, s.weight_decay, batch.lr_decay,
        s.gamma_max or 0.0, s.growth_limit or 0.0, s.grad_bound or 0.0, s.alpha_0, *bounds,
    ]  # fmt: skip
    return ops, numbers, batch.maximize + 2 * s.lazy + 4 * (s.project is not None)


def _arguments(batch: Batch, copies: Copies | None, memory: Memory | None = None) -> tuple[Any, list[Any]] | str:
    settings = settings_of(batch)
    if isinstance(settings, str):
        return settings
    ops, numbers, flags = settings
    params, grads = batch.params, batch.grads
    if any(map(Tensor.is_complex, params)):
        params, grads = [real_view(p) for p in params], [real_view(g) for g in grads]
    growths, accumulators = batch.growths, batch.accumulators
    if copies is not None:
        growths, accumulators = [c[0] for c in copies], [c[1] for c in copies]
    granularity = GRANULARITIES.index(batch.granularity)
    lists = (params, batch.momenta, growths, accumulators, batch.steps)
    number = 0
    if memory is not None and len(params) >= MANY:
        lists, number = memory.keep(ops, lists)
    return ops, [*lists, grads, number, granularity, numbers, flags, rounding.SEED, _streams(batch)]


def _streams(batch: Batch) -> list[int]:
    streams = getattr(batch, "streams", None)
    return streams or list(range(len(batch.params)))


def _bounds(project: Callable[..., Any] | None) -> tuple[float, float] | str:
    projection = getattr(project, "projection", project)  # without the checks around it
    if projection is None:
        return 0.0, 0.0
    if isinstance(projection, NonNegative):
        return 0.0, math.inf
    if (
        isinstance(projection, Box)
        and not isinstance(projection.lower, Tensor)
        and not isinstance(projection.upper, Tensor)
    ):
        return projection.lower, projection.upper
    return f"projection must be NonNegative or a Box with numbers as bounds, got {projection!r}."


def _reason(code: int, batch: Batch, i: int | None = None) -> str | None:
    return reason_for(code, batch.params, i) if code else None


def reason_for(code: int, params: Sequence[Tensor], i: int | None = None) -> str:
    """The sentence for a refusal of the kernel, which concerns the i-th parameter if given."""
    index, reason = divmod(code, 64)
    index = index if i is None else i
    return _REASONS[reason].format(p=f"parameter {index} of its group (shape {tuple(params[index].shape)})")
