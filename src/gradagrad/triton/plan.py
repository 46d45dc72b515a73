"""From a batch to what kernels need to know of it: refusals, the plan of each tensor, views of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.projections import Box, NonNegative
from gradagrad.rules.rule import CLOCK, is_off
from gradagrad.rules.scope import SINGLE
from gradagrad.triton.program import Plan
from gradagrad.triton.runtime import cannot_launch, interprets, unavailable
from gradagrad.triton.tables import Extent

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in _DTYPES}


def refusal(batch: Batch) -> str | None:
    """Why this batch cannot be stepped by any kernel, as a sentence; None if it can."""
    if (reason := unavailable()) is not None or not batch.params:
        return reason
    devices = {p.device for p in batch.params}
    if len(devices) > 1:
        return f"its parameters must be on one device, got {sorted(map(str, devices))}."
    device = devices.pop()
    if device.type != "cuda" and not (device.type == "cpu" and interprets()):
        return f"parameters must be on a GPU that Triton knows (cuda), got {device}."
    if device.type == "cuda" and (reason := cannot_launch(device)) is not None:
        return reason
    if torch.compiler.is_compiling():
        return "torch.compile makes kernels of its own."
    if batch.differentiable:
        return "differentiable=True needs steps that autograd can follow."
    if _box(batch.settings) is False:
        return f"projection must be NonNegative() or a Box with plain numbers, got {_projection(batch.settings)!r}."
    lr = batch.settings.lr
    if isinstance(lr, Tensor) and lr.device not in (device, torch.device("cpu")):
        return f"lr must be a number or a tensor on {device}, got one on {lr.device}."
    for key, slot in batch.shared.items():
        if slot.device != device or slot.dtype != torch.float64:
            return f'the shared "{key}" must be float64 on {device}, got {slot.dtype} on {slot.device}.'
    return next((reason for i in range(len(batch.params)) if (reason := _tensor_refusal(batch, i))), None)


def _tensor_refusal(batch: Batch, i: int) -> str | None:
    parameter, gradient = batch.params[i], batch.grads[i]
    name = f"parameter {batch.streams[i] if batch.streams else i}"
    real = _real(parameter)
    if real.dtype not in _DTYPES or gradient.dtype not in (*_DTYPES, parameter.dtype):
        return f"{name} must be a floating-point tensor of 16, 32 or 64 bits, got {parameter.dtype}."
    if not _is_dense(real):
        return (
            f"{name} must fill its memory without gaps, got strides {parameter.stride()} for {tuple(parameter.shape)}."
        )
    if gradient.layout == torch.sparse_coo:
        if gradient.sparse_dim() != 1 or not real.is_contiguous():
            return f"{name} must be contiguous and its gradient sparse in the first dimension only."
    elif gradient.layout != torch.strided:
        return f"{name} must have a dense or a sparse COO gradient, got {gradient.layout}."
    elif batch.scope == "row" and not _rows_contiguous(real):
        return f'{name} must have each row in one piece for "row", got strides {parameter.stride()}.'
    computing = torch.float64 if real.dtype == torch.float64 else torch.float32
    for f in batch.fields:
        if f.key not in batch.state:
            continue
        state = batch.state[f.key][i]
        single = f.at == "block" and batch.scope in SINGLE
        allowed = (torch.float64,) if single else (computing, torch.bfloat16)
        if state.dtype not in allowed or state.device != parameter.device:
            return (
                f'"{f.key}" of {name} must be {allowed[0]} on {parameter.device}, got {state.dtype} on {state.device}.'
            )
        whole = f.at == "element" or batch.scope == "element"
        if (whole and not _same_layout(state, real)) or (not whole and not state.is_contiguous()):
            return f'"{f.key}" of {name} must be laid out as the parameter is, got strides {state.stride()}.'
    return None


class Planner:
    """The plan of each tensor of a batch."""

    def __init__(self, batch: Batch, *, read_counters: bool) -> None:
        self.batch, s = batch, batch.settings
        self.device = batch.params[0].device
        variable = tuple(_numeric(s))
        box = _box(s)
        changes = dict.fromkeys(variable, 1.0) | ({"project": None} if hasattr(s, "project") else {})
        lr = _lr_in_memory(batch)
        self.rests = batch.rule.needs_catch_up(s)
        self.lazy = bool(getattr(s, "lazy", False))
        self.counter = (
            "device" if read_counters and batch.steps and batch.steps[0].device == self.device else "argument"
        )
        self.base = Plan(
            rule=batch.rule,
            settings=s._replace(**changes),
            variable=variable,
            scope=batch.scope,
            layout="flat",
            dtypes=(),
            coupled=not is_off(batch.coupled_decay),
            maximize=batch.maximize,
            lr_decay=not is_off(batch.lr_decay),
            lr="" if lr is None else _NAMES[lr.dtype],
            box=box if isinstance(box, tuple) else None,
            stochastic=batch.stochastic_rounding,
        )
        self._known: dict[Any, Plan] = {}

    def plan(self, i: int) -> Plan:
        """The i-th tensor's plan; tensors of a kind share one."""
        batch, parameter, gradient = self.batch, self.batch.params[i], self.batch.grads[i]
        sparse = gradient.layout != torch.strided
        single = batch.scope in SINGLE
        rows = batch.scope == "row" and parameter.dim() + parameter.is_complex() > 1
        layout = "sparse" if sparse else "rows" if rows or (self.lazy and single) else "flat"
        scope = "element" if batch.scope == "row" and not rows else batch.scope  # a row of one number
        dtypes = (parameter.dtype, gradient.dtype, *(values[i].dtype for values in batch.state.values()))
        key = (layout, scope, dtypes)
        if key not in self._known:
            self._known[key] = self._make(i, layout, scope)
        return self._known[key]

    def _make(self, i: int, layout: Any, scope: str) -> Plan:
        batch = self.batch
        types = {"x": _real(batch.params[i]).dtype, "g": _real_dtype(batch.grads[i].dtype)}
        types |= {key: values[i].dtype for key, values in batch.state.items()}
        types |= {key: value.dtype for key, value in batch.shared.items()}
        wanted = ["x", "g", *(f.key for f in batch.fields)]
        rounded = any(types[f.key] == torch.bfloat16 for f in batch.fields)
        rounded |= batch.stochastic_rounding and types["x"] == torch.bfloat16
        rests = layout == "sparse" and self.rests and CLOCK not in batch.shared
        counts = rounded or self.base.lr_decay or rests
        return self.base._replace(
            layout=layout,
            scope=scope,
            dtypes=tuple((key, _NAMES[types[key]]) for key in wanted),
            counter=self.counter if counts else "",
        )

    def extent(self, plan: Plan, values: Tensor, addresses: Sequence[int]) -> Extent:
        """How much of a tensor is walked, given its gradient's values."""
        aligned = all(address % 16 == 0 for address in addresses)
        if plan.layout == "flat":
            return Extent(1, values.numel(), aligned)
        rows = values.shape[0] if values.dim() else 1
        return Extent(rows, values.numel() // rows if rows else 0, aligned)


def launch_settings(batch: Batch) -> dict[str, Any]:
    """The arguments of the kernels that are numbers, now."""
    lr = _lr_in_memory(batch)
    arguments: dict[str, Any] = {
        name: a if name == "lr" and lr is not None else float(a) for name, a in _numeric(batch.settings).items()
    }
    return arguments | {"coupled_decay": batch.coupled_decay, "lr_decay": batch.lr_decay, "lr_at": lr}


def _numeric(settings: Any) -> dict[str, Any]:
    """The settings that are numbers and not off; lr always."""
    return {name: a for name, a in settings._asdict().items() if name == "lr" or _is_number(a)}


def _lr_in_memory(batch: Batch) -> Tensor | None:
    """A learning rate that the kernels read from the device; on the CPU it is as good as a number."""
    lr = batch.settings.lr
    return lr if isinstance(lr, Tensor) and lr.device == batch.params[0].device else None


def gradient_of(batch: Batch, i: int) -> tuple[Tensor, Tensor | None]:
    """A gradient's values as the kernels walk them, and the rows that they belong to if it is sparse."""
    gradient = batch.grads[i]
    if gradient.layout != torch.strided:
        gradient = gradient.coalesce()
        return _real(gradient.values()).contiguous(), gradient.indices()[0].contiguous()
    real, parameter = _real(gradient), _real(batch.params[i])
    if _same_layout(real, parameter):
        return real, None
    return torch.empty_like(parameter, dtype=real.dtype).copy_(real), None


def _is_number(a: Any) -> bool:
    return isinstance(a, int | float | Tensor) and not isinstance(a, bool) and not is_off(a)


def _projection(settings: Any) -> Any:
    project = getattr(settings, "project", None)
    return getattr(project, "projection", project)  # a projection may come with checks around it


def _box(settings: Any) -> tuple[float, float] | bool:
    """The bounds of a projection that kernels can do; True: there is none to do; False: they cannot."""
    projection = _projection(settings)
    if projection is None:
        return True
    if type(projection) is NonNegative:
        return (0.0, float("inf"))
    if type(projection) is Box and not any(isinstance(b, Tensor) for b in (projection.lower, projection.upper)):
        return (float(projection.lower), float(projection.upper))
    return False


def _real(a: Tensor) -> Tensor:
    return torch.view_as_real(a) if a.is_complex() else a


def _real_dtype(dtype: torch.dtype) -> torch.dtype:
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _is_dense(a: Tensor) -> bool:
    """Whether a tensor's elements fill a piece of memory, in whatever order."""
    if a.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(a.stride(), a.shape, strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _rows_contiguous(a: Tensor) -> bool:
    return a.dim() < 2 or a.numel() == 0 or a.shape[0] == 1 or a.stride(0) == a.numel() // a.shape[0]


def _same_layout(a: Tensor, b: Tensor) -> bool:
    return a.stride() == b.stride() or (a.is_contiguous() and b.is_contiguous())
