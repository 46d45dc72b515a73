"""Kernels in Triton's interpreter, on CPU tensors; tests/gpu/test_triton.py runs them in a process of their own."""

import os
from typing import Any

import pytest

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]


@pytest.fixture(autouse=True)
def unchecked(request, monkeypatch):
    """The check before first use takes as long as most tests, which compare with torch themselves."""
    from gradagrad.triton.backend import TritonBackend

    if request.module.__name__.split(".")[-1] not in ("test_first_use", "test_optimizers"):
        monkeypatch.setattr(TritonBackend, "_check_once", lambda *_: None)


@pytest.fixture(autouse=True)
def correct_roots(monkeypatch):
    """torch's float32 root on a CPU is off by a bit for one number in a hundred; a GPU's and numpy's are not."""
    from gradagrad.torch_ops.ops import TensorOps

    monkeypatch.setattr(
        TensorOps, "sqrt", lambda _, a: a.double().sqrt().to(a.dtype) if hasattr(a, "dtype") else a**0.5
    )


@pytest.fixture(autouse=True, scope="session")
def as_a_gpu_rounds():
    """The interpreter cuts float32 off where it stores bf16; a GPU rounds to nearest even."""
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
