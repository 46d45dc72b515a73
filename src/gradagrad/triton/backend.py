"""Steps on a GPU with Triton kernels that are generated from the rule. One launch serves any number of tensors.

Each dtype and layout has kernels of its own; torch operations step sparse gradients. Nothing is read back to the host.
Inside a CUDA graph everything that changes must be in device memory: the counters, a learning rate that a schedule
changes, and gradients at the addresses that they had in a step before the capture.

Triton comes with torch for CUDA and ROCm; this package does not depend on it. ``GRADAGRAD_BACKEND=triton
TRITON_INTERPRET=1`` steps CPU tensors in Triton's interpreter, so that the kernels can be tested without a GPU.
"""

import os
import warnings
from collections.abc import Hashable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gradagrad.engine.batch import Batch
from gradagrad.engine.state import new_field
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.scope import SINGLE
from gradagrad.torch_ops.ops import computing_dtype, real_view
from gradagrad.torch_ops.steps import TorchStep, count, step_in_phases
from gradagrad.triton import launch
from gradagrad.triton.launch import Prepared, Run, Sizes
from gradagrad.triton.source import Spec

SIZES = launch.sizes_for(torch.version.hip is not None)
MAX_PREPARED = 64
_NOT_CAPTURED = (
    "a CUDA graph needs the addresses of all tensors on the device before the capture: take a step first, and keep the "
    "gradients where they are with zero_grad(set_to_none=False)."
)


class TritonStep:
    """A step by kernels over tables of addresses."""

    def __init__(self, backend: "TritonBackend", batch: Batch) -> None:
        self.batch, self._backend, self.after = batch, backend, dict[str, Any]()
        self.common = launch.common_spec(batch)
        self._key = launch.key_of(batch, self.common)
        self.tables: Prepared | None = backend.known.get(self._key)
        """The tables of an earlier step with the same tensors."""
        self._run: Run | None = None

    def take(self) -> None:
        if self.batch.plan.rule.learns:
            step_in_phases(self)
            return
        run = self._launches()
        if self.batch.plan.scope in SINGLE:
            sums = run.measure()
            run.move(sums)
            run.write_shared(sums)
        else:
            run.walk("step")
        torch._foreach_add_(self.batch.steps, 1)

    def measure(self) -> Tensor | None:
        run = self._launches()
        return run.complete(run.measure())

    def move(self, sums: Any) -> Tensor | None:
        run = self._launches()
        given = run.given(sums)
        statistics = run.move(given)
        if not self.batch.plan.is_shared and not self.batch.plan.rule.learns:
            run.write_shared(given)
        count(self.batch)
        run.ahead = 0
        return run.complete(statistics)

    def write_shared(self, sums: Tensor | None) -> None:
        run = self._launches()
        run.write_shared(run.given(sums))

    def _launches(self) -> Run:
        """The launches, with new tables if these tensors have none."""
        if self._run is None:
            backend = self._backend
            if self.tables is None:
                self.tables = launch.prepare(self.batch, self.common, backend.sizes)
                if not self.tables.copies:
                    if len(backend.known) == MAX_PREPARED:
                        backend.known.clear()
                    backend.known[self._key] = self.tables
            if _capturing(self.batch):
                backend.captured.append(self.tables)
            self._run = Run(self.batch, self.tables, backend.launcher, backend.sizes)
        return self._run


class TritonBackend:
    """Makes steps of dense gradients."""

    def __init__(self, launcher: launch.Launcher = launch.launch, sizes: Sizes = SIZES) -> None:
        self.launcher, self.sizes = launcher, sizes
        self.known: dict[Hashable, Prepared] = {}
        """Tables by everything that they depend on."""
        self.captured: list[Prepared] = []
        """Tables that CUDA graphs read whenever they are replayed."""
        self._verdicts: dict[tuple[Spec, torch.device], str | None] = {}

    def prepare(self, batch: Batch) -> TritonStep | str:
        """A step, or why this batch cannot be stepped, as a sentence. Changes nothing in the batch."""
        if (reason := _why_not(batch)) is not None:
            return reason
        step = TritonStep(self, batch)
        if step.tables is not None:
            return step  # The same tensors were accepted at an earlier step.
        if _capturing(batch):
            return _NOT_CAPTURED
        for i in range(len(batch.params)):
            if (reason := _why_not_tensor(batch, i)) is not None:
                return reason
        first = {spec: i for i, spec in reversed([*enumerate(launch.specs_of(batch, step.common))])}
        return next((reason for spec, i in first.items() if (reason := self._check_once(batch, i, spec))), step)

    def _check_once(self, batch: Batch, i: int, spec: Spec) -> str | None:
        """Compares a kernel with torch before its first use on a device; why it must not be used, or None."""
        device = batch.params[i].device
        if (spec, device) not in self._verdicts:
            # A backend of its own takes these steps, so that their tables are not kept.
            checked = TritonBackend(self.launcher, self.sizes)
            reason = None
            try:
                relative, text = compare(sample_of(batch, i), checked)
                if relative > tolerance(spec):
                    reason = f"its kernel disagrees with torch on {device} ({text})."
            except Exception as error:  # compilers and drivers raise errors of many types
                first_line = (str(error).strip().splitlines() or ["no message"])[0]
                reason = f"triton cannot run on {device} ({type(error).__name__}: {first_line})."
            self._verdicts[spec, device] = reason
            if reason:
                warnings.warn(
                    f"{spec.rule.name} ({spec.scope}) steps without Triton from now on: {reason} Please "
                    f"report this message, unless it names something that your machine lacks. {versions(device)}.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return self._verdicts[spec, device]


# The check of a kernel before its first use.


def tolerance(spec: Spec) -> float:
    """How much of a tensor's largest number may be lost to rounding and to the order of sums."""
    dtypes = {dtype for _, dtype in spec.dtypes}
    if dtypes & {"bfloat16", "float16"}:
        return 2.0**-5  # a sum that differs in its last bit can round to the other neighbour in 16 bits
    return 1e-9 if dtypes == {"float64"} else 1e-4


def sample_of(batch: Batch, i: int) -> Batch:
    """A small batch that is stepped by the same kernels as the i-th tensor."""
    parameter, lr = batch.params[i], batch.plan.settings.lr
    # A schedule may start from zero, and nothing would move. From x = 0, even small steps are not lost to rounding.
    s = batch.plan.settings._replace(lr=torch.full_like(lr, 0.1) if isinstance(lr, Tensor) else 0.1)
    shapes = ((20, 7), (1, 1040))  # a remainder, and a full tile with one
    params = [torch.zeros(shape, dtype=parameter.dtype, device=parameter.device) for shape in shapes]
    sample = Batch(replace(batch.plan, settings=s), params, streams=[0, 1, 2], owners=params)
    if batch.moved is not None:
        sample.moved = torch.ones_like(batch.moved)  # These gradients are not those of the step.
    sample.grads = [batch.grads[i]] * len(params)  # `compare` draws others of the same dtype and layout
    sample.steps = [torch.zeros_like(batch.steps[i]) for _ in params]
    for f in sample.plan.fields:
        made = [new_field(f, {"state_dtype": torch.float32}, s, batch.plan.scope, p) for p in params]
        if f.key in sample.plan.shared_keys:
            sample.shared[f.key] = made[0]
        else:
            dtype = batch.state[f.key][i].dtype
            sample.state[f.key] = [a.to(dtype) for a in made]
    return sample


@torch.no_grad()
def compare(batch: Batch, backend: TritonBackend, steps: int = 2) -> tuple[float, str]:
    """Steps a batch with the kernels and a copy of it with torch, from new gradients.

    Returns the largest difference relative to a tensor's largest number, and a text with both numbers.
    """
    plain = replace(
        batch,
        params=[p.clone() for p in batch.params],
        steps=[step.clone() for step in batch.steps],
        state={key: [a.clone() for a in values] for key, values in batch.state.items()},
        shared={key: a.clone() for key, a in batch.shared.items()},
    )
    for k in range(steps):
        batch.grads = plain.grads = _gradients(batch, k)
        step = TritonStep(backend, batch)
        if k == 1 and batch.plan.scope in SINGLE:  # as the shards of a tensor are stepped
            step_in_phases(step)
        else:
            step.take()
        TorchStep(plain).take()
    ours, theirs = results_of(batch), results_of(plain)
    return max(_difference(what, ours[what], theirs[what]) for what in ours)


def _gradients(batch: Batch, k: int) -> list[Tensor]:
    """Gradients in which some rows are zero, and others at each step."""
    generator = torch.Generator().manual_seed(k)
    result: list[Tensor] = []
    for p, g in zip(batch.params, batch.grads, strict=True):
        wide = torch.complex128 if g.is_complex() else torch.float64
        new = torch.randn(p.shape, generator=generator, dtype=wide, device="cpu") + 0.5
        if p.dim():
            new[k % 3 :: 3] = 0.0
        new = new.to(p.device, g.dtype)
        result.append(new)
    return result


def results_of(batch: Batch) -> dict[str, Tensor]:
    """Everything that a step writes, by name."""
    result = {f"x of tensor {i}": real_view(p.detach()) for i, p in enumerate(batch.params)}
    result |= {f"{key} of tensor {i}": a for key, values in batch.state.items() for i, a in enumerate(values)}
    return {what: a for what, a in (result | batch.shared).items() if a.numel()}


def _difference(what: str, ours: Tensor, theirs: Tensor) -> tuple[float, str]:
    a, b = ours.double().flatten(), theirs.double().flatten()
    same = (a == b) | (a.isnan() & b.isnan())
    off = ((a - b).abs() / b.abs().max().clamp(min=1e-30)).nan_to_num(nan=float("inf")).masked_fill(same, 0.0)
    worst = int(off.argmax())
    return float(off[worst]), f"{what} is {a[worst]:.9g} by the kernel and {b[worst]:.9g} by torch"


def versions(device: torch.device) -> str:
    """The versions and the device, for reports."""
    from gradagrad import __version__  # pyright: ignore[reportAttributeAccessIssue]

    try:
        from triton import __version__ as version  # pyright: ignore[reportAttributeAccessIssue]
    except Exception as error:  # a broken installation can raise anything
        version = str(error)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    return f"gradagrad {__version__}, torch {torch.__version__}, triton {version}, {name}"


# Batches that are refused.


@cache
def unavailable() -> str | None:
    """Why Triton cannot be used in this process, as a sentence; None if it can be imported."""
    try:
        import triton  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except Exception as error:  # a broken installation can raise anything
        return f"triton cannot be imported ({error}); it comes with torch for CUDA and ROCm."
    return None


def interprets() -> bool:
    """Whether a developer has asked for Triton's interpreter on CPU tensors."""
    return os.environ.get("GRADAGRAD_BACKEND") == "triton" and os.environ.get("TRITON_INTERPRET") == "1"


def _why_not(batch: Batch) -> str | None:
    """Why no kernel can step this batch, whatever its tensors look like."""
    if (reason := unavailable()) is not None:
        return reason
    devices = {p.device for p in batch.params}
    if len(devices) > 1:
        return f"its parameters must be on one device, got {sorted(map(str, devices))}."
    device = devices.pop()
    if device.type != "cuda" and not (device.type == "cpu" and interprets()):
        return f"parameters must be on a GPU that Triton knows (cuda), got {device}."
    if torch.compiler.is_compiling():
        return "torch.compile makes kernels of its own."
    if layouts := {g.layout for g in batch.grads} - {torch.strided}:
        return f"gradients must be dense, got {layouts.pop()}."
    plan, s = batch.plan, batch.plan.settings
    options = {
        "differentiable=True": plan.differentiable,
        'granularity="row"': plan.scope == "row",
        f'lazy=True with granularity="{plan.scope}"': plan.scope != "element" and getattr(s, "lazy", False),
        "lr_decay": not is_off(plan.lr_decay),
        "a projection": getattr(s, "project", None) is not None,
    }
    for option in (option for option, given in options.items() if given):
        return f"{option} needs torch operations."
    for name, a in batch.settings._asdict().items():
        if isinstance(a, Tensor) and a.device not in (device, torch.device("cpu")):
            return f"{name} must be a number or a tensor on {device}, got one on {a.device}."
    for key, value in batch.shared.items():
        if value.device != device or value.dtype != torch.float64:
            return f'the shared "{key}" must be float64 on {device}, got {value.dtype} on {value.device}.'
    return None


def _why_not_tensor(batch: Batch, i: int) -> str | None:
    parameter, gradient = batch.params[i], batch.grads[i]
    name = f"parameter {batch.streams[i] if batch.streams else i}"
    real = real_view(parameter)
    if real.dtype not in launch.DTYPES or gradient.dtype not in (*launch.DTYPES, parameter.dtype):
        return f"{name} must be a floating-point tensor of 16, 32 or 64 bits, got {parameter.dtype}."
    # Where elements fill a piece of memory, in any order, torch keeps the strides of a copy.
    if not (real.is_contiguous() or torch.empty_like(real, device="meta").stride() == real.stride()):
        return f"{name} must fill its memory without gaps, got strides {parameter.stride()} for {[*parameter.shape]}."
    for f in batch.plan.fields:
        if f.key not in batch.state:
            continue
        state = batch.state[f.key][i]
        single = f.at != "element" and batch.plan.scope in SINGLE
        allowed = (torch.float64,) if single else (computing_dtype(real.dtype), torch.bfloat16)
        if state.dtype not in allowed or state.device != parameter.device:
            wanted = f"{allowed[0]} on {parameter.device}"
            return f'"{f.key}" of {name} must be {wanted}, got {state.dtype} on {state.device}.'
        whole = f.at == "element" or batch.plan.scope == "element"
        if not (launch.same_layout(state, real) if whole else state.is_contiguous()):
            return f'"{f.key}" of {name} must be laid out as the parameter is, got strides {state.stride()}.'
    return None


def _capturing(batch: Batch) -> bool:
    return batch.params[0].is_cuda and torch.cuda.is_current_stream_capturing()


TRITON = TritonBackend()
"""The backend that the engine asks."""
