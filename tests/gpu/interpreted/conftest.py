"""Runs kernels in Triton's interpreter on CPU tensors; tests/gpu/test_triton.py runs each file in its own process."""

import os
from typing import Any

import pytest

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]


@pytest.fixture(autouse=True)
def unchecked(request, monkeypatch):
    """Skips the check before first use: it takes as long as a test, and most tests compare with torch themselves."""
    from gradagrad.triton.backend import TritonBackend

    if request.module.__name__.split(".")[-1] != "test_first_use":
        monkeypatch.setattr(TritonBackend, "_check_once", lambda *_: None)


@pytest.fixture
def launches(monkeypatch):
    """The names of the kernels that the engine's backend launches."""
    from gradagrad.triton.backend import TRITON

    names, plain = [], TRITON.launcher
    monkeypatch.setattr(TRITON, "launcher", lambda spec, name, *rest: names.append(name) or plain(spec, name, *rest))
    return names


@pytest.fixture(autouse=True)
def correct_roots(monkeypatch):
    """Torch's float32 root on a CPU is off by a bit for one number in a hundred; those of GPUs and NumPy are not."""
    from gradagrad.torch_ops.ops import TensorOps

    monkeypatch.setattr(
        TensorOps, "sqrt", lambda _, a: a.double().sqrt().to(a.dtype) if hasattr(a, "dtype") else a**0.5
    )


@pytest.fixture(autouse=True, scope="session")
def as_a_gpu_rounds():
    """The interpreter truncates float32 to bf16; a GPU rounds to nearest even."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    cast = interpreter.InterpreterBuilder.cast_impl

    def cast_impl(self, source, target):
        if source.dtype.scalar != tl.float32 or target.scalar != tl.bfloat16:
            return cast(self, source, target)
        bits = np.ascontiguousarray(source.data).view(np.uint32)
        rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        rounded = np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint16(0x7FC0), rounded)
        return interpreter.TensorHandle(rounded, target.scalar)

    builder: Any = interpreter.InterpreterBuilder
    builder.cast_impl = cast_impl
    before = np.seterr(all="ignore")
    yield
    np.seterr(**before)
    builder.cast_impl = cast
