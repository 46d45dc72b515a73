"""Triton itself: whether it can be used here and why not, and how generated text becomes kernels."""

from __future__ import annotations

import itertools
import linecache
import os
from functools import cache
from typing import Any

import torch

_count = itertools.count()
_PROBE = """\
import triton
import triton.language as tl


@triton.jit
def probe_kernel(at):
    tl.store(at, 1.0)
"""


@cache
def unavailable() -> str | None:
    """Why Triton cannot be used in this process, as a sentence; None if it can be imported."""
    try:
        import triton  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except Exception as error:  # a broken installation raises whatever it likes
        return f"triton cannot be imported ({error}); it comes with torch for CUDA and ROCm."
    return None


@cache
def cannot_launch(device: torch.device) -> str | None:
    """Why Triton cannot compile and launch on this device, as a sentence; tried once, with the smallest kernel."""
    try:
        with torch.cuda.device(device):
            load(_PROBE, "probe")["probe_kernel"][(1,)](torch.empty(1, device=device))
    except Exception as error:  # no C compiler, an old driver, a GPU that is too old: each has its own
        return f"triton cannot run on {device} ({type(error).__name__}: {_first_line(error)})."
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


def interprets() -> bool:
    """Whether a developer has asked for Triton's interpreter on CPU tensors."""
    return os.environ.get("GRADAGRAD_BACKEND") == "triton" and os.environ.get("TRITON_INTERPRET") == "1"


def triton_status() -> str:
    """One line on whether steps on this machine's GPU use Triton kernels."""
    if not torch.cuda.is_available():
        return "not used: torch finds no CUDA or ROCm device here."
    device = torch.device("cuda", torch.cuda.current_device())
    if (reason := unavailable() or cannot_launch(device)) is not None:
        return f"not used: {reason} Steps on the GPU run as torch operations, several times slower."
    import triton

    return f"{triton.__version__}, used on {torch.cuda.get_device_name(device)}"


def load(text: str, name: str) -> dict[str, Any]:
    """The functions of a generated module by name. Triton reads their source back through `linecache`."""
    file = f"<gradagrad {name} {next(_count)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "gradagrad.engine.triton_generated"}
    exec(compile(text, file, "exec"), space)
    return space
