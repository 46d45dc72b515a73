"""Finds and loads the compiled kernel, or explains why there is none."""

import json
import os
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

# Without --no-cache-dir pip would take the wheel that it built last time.
_BUILD = (
    "pip install 'setuptools>=77' && pip install --no-build-isolation --no-deps --force-reinstall --no-cache-dir "
    "--no-binary gradagrad gradagrad (for a source tree, replace the last word by its path)."
)
# For each kind of reason that setup.py records: the reason, and the remedy.
_REASONS = {
    "no torch": (
        "gradagrad was built without torch, because pip builds packages in an isolated environment by default.",
        f"Build it in this environment: {_BUILD}",
    ),
    "old torch": (
        "gradagrad was built with torch {detail}, and the kernel needs torch 2.10 or later.",
        f"Build it again with the torch that is installed now: {_BUILD}",
    ),
    "no compiler": (
        "no C++ compiler was found when gradagrad was built ({detail}).",
        f"Install g++ or clang++, or set the environment variable CXX, then: {_BUILD}",
    ),
    "failed": (
        "{compiler} could not compile it: {detail}.",
        f"Try another compiler: export CXX={{other}}, then: {_BUILD} If that fails too, please report this message.",
    ),
    "unwanted": (
        "gradagrad was built with GRADAGRAD_KERNEL=0, which leaves the kernel out.",
        f"Unset that variable, then: {_BUILD}",
    ),
    "portable": (
        "this is the wheel for all platforms, and no wheel with the kernel was built for this one.",
        f"To build it here, install a C++ compiler, then: {_BUILD}",
    ),
    "windows": ("there is no kernel for Windows yet.", "It works under WSL."),
    "": (
        "this source tree has not been built.",
        "Install torch and a C++ compiler, then run in its folder: pip install --no-build-isolation --editable .",
    ),
}


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
def build_record() -> dict[str, Any]:
    """What setup.py recorded: whether there is a kernel, why not, the compiler and its torch."""
    try:
        return json.loads(Path(__file__).with_name("_build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


@cache
def kernel_status() -> KernelStatus:
    """Loads the kernel at the first call and remembers the outcome."""
    chosen = os.environ.get("GRADAGRAD_KERNEL_PATH")  # Another build, for sanitizers and other compilers.
    beside = sorted(p for p in Path(__file__).parent.glob("_kernel*") if p.suffix in (".so", ".dylib", ".pyd"))
    found = [Path(chosen)] if chosen else beside
    if not found:
        record = build_record()
        reason, remedy = _REASONS.get(record.get("kind", ""), _REASONS[""])
        compiler = record.get("compiler", "the compiler")
        detail, other = str(record.get("detail", "")).rstrip("."), "g++" if "clang" in compiler else "clang++"
        words = {"detail": detail, "compiler": compiler, "other": other}
        return KernelStatus(False, None, reason.format(**words), remedy.format(**words))
    if not chosen and Path(__file__).with_name("csrc").is_dir():  # A source tree may have changed since.
        from gradagrad.codegen import cpp  # No installed wheel needs it.

        if cpp.header().split('"')[-2].encode() not in found[-1].read_bytes():
            reason = f"{found[-1].name} was built from other rules or C++ sources than this source tree has."
            return KernelStatus(False, str(found[-1]), reason, "Build it again: python setup.py build_ext --inplace")
    try:
        torch.ops.load_library(found[-1])
    except (OSError, RuntimeError) as error:
        reason = f"{found[-1].name} does not fit torch {torch.__version__} ({error})."
        return KernelStatus(False, str(found[-1]), reason, f"Build it for this torch: {_BUILD}")
    return KernelStatus(True, str(found[-1]))


@cache
def ops() -> Any | None:
    """The kernel's ops, or None. These are the innermost callables: torch's Python wrappers cost a microsecond each."""
    if not kernel_status().loaded:
        return None
    names = ("keep", "release_list", "release_step", "prepare", "prepare_sparse", "any_nonzero")
    names += ("step_", "measure_", "move_", "write_blocks_")
    return SimpleNamespace(**{name: getattr(torch.ops.gradagrad, name).default._op for name in names})


@cache
def warn_once() -> None:
    """Warns, once in a process, that steps on the CPU could be faster."""
    status = kernel_status()
    if not status.loaded:
        warnings.warn(
            f"gradagrad's compiled kernel is not used: {status.reason} Steps on the CPU are several times slower "
            f"without it. {status.remedy} To silence this: pass fused=False.",
            KernelMissingWarning,
            stacklevel=10,  # the line that called step
        )
