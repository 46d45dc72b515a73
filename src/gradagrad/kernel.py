"""Finding and loading the compiled kernel, and saying why when there is none."""

import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

_REMEDY = (
    "Install a C++ compiler (g++ or clang++) if there is none, then run: "
    "pip install --no-build-isolation --no-deps --force-reinstall gradagrad (or the path of its source)."
)


class KernelMissingWarning(UserWarning):
    """Steps run as ordinary torch operations, several times slower, because the compiled kernel is missing."""


@dataclass(frozen=True)
class KernelStatus:
    """Whether the compiled kernel can be used and, if not, why not and what to do."""

    loaded: bool
    path: str | None = None
    reason: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"loaded from {self.path}" if self.loaded else f"not loaded: {self.reason} {self.remedy}"


@cache
def kernel_status() -> KernelStatus:
    """Loads the kernel at the first call and remembers what came of it."""
    chosen = os.environ.get("GRADAGRAD_KERNEL_PATH")  # another build of it, for sanitizers
    beside = sorted(p for p in Path(__file__).parent.glob("_kernel*") if p.suffix in (".so", ".dylib", ".pyd"))
    found = [Path(chosen)] if chosen else beside
    if not found:
        return KernelStatus(False, None, "it was not built when gradagrad was installed.", _REMEDY)
    try:
        torch.ops.load_library(found[-1])
    except (OSError, RuntimeError) as error:
        reason = f"{found[-1].name} does not fit torch {torch.__version__} ({error})."
        return KernelStatus(False, str(found[-1]), reason, _REMEDY)
    return KernelStatus(True, str(found[-1]))


@cache
def ops() -> Any | None:
    """The kernel's ops, or None."""
    return torch.ops.gradagrad if kernel_status().loaded else None


@cache
def warn_once() -> None:
    """Says, once in a process, that steps on the CPU could be faster."""
    status = kernel_status()
    if not status.loaded:
        warnings.warn(
            f"gradagrad's compiled kernel is not used: {status.reason} Steps on the CPU are several times slower "
            f"without it. {status.remedy} To silence this: pass fused=False.",
            KernelMissingWarning,
            stacklevel=10,  # the line that called step
        )
