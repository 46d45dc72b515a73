"""The kernels compiled for GPUs: no spills, wide accesses, few enough instructions.

``python -m benchmarks.gpu_compile`` prints the whole table.
"""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu_compile import GPUS, KERNELS, TARGETS, compiled
from gpu.interpreted.batches import batch_of
from gradagrad.triton import launch
from gradagrad.triton.backend import TritonBackend, TritonStep
from gradagrad.triton.launch import WARPS, module

triton = pytest.importorskip("triton")
REGISTERS = {"auto: move": 154}
"""With 128, four programs of 128 threads fit on a multiprocessor, and their loads keep the memory busy. Four sums take
more, and three programs fit."""
BF16 = "element, β = 0.9, bf16 state"
ACCESSES = {
    "element, β = 0.9": 9,  # reads x, g and three fields, writes all but g
    "group, β = 0.9: move": 5,
    "auto: move": 9,
    BF16: 3,
}
"""The least number of accesses of 128 bits."""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


# bf16 state waits for memory on an A100, random bits and rounding included; on an H100 it is just above the budget.
@pytest.mark.parametrize(("label", "target"), [*product(list(ACCESSES)[:-1], TARGETS), (BF16, "sm_80")])
def test_kernel(label, target):
    spec, name, size = KERNELS[label]
    result = compiled(spec, name, target, size)
    assert result.spills == 0
    assert result.registers <= REGISTERS.get(label, 128)
    assert result.wide >= ACCESSES[label]
    assert label != BF16 or result.instructions is not None
    if result.instructions is not None:
        assert result.narrow == (6 if label == BF16 else 0)  # with 128 bits of float32 go 64 bits of bf16
        assert result.instructions <= GPUS[target].instructions(size)


def test_a_schedule_compiles_nothing_anew(monkeypatch):
    """Triton binds and types the arguments as the backend passes them; only the launch is left out."""
    target = triton.backends.compiler.GPUTarget(*TARGETS["sm_80"])
    calls = {"get_current_device": 0, "get_current_stream": 0, "get_current_target": target}
    driver = SimpleNamespace(**{name: lambda *_, result=result: result for name, result in calls.items()})
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    common_spec = launch.common_spec
    monkeypatch.setattr(launch, "common_spec", lambda batch: common_spec(batch)._replace(counter="argument"))
    compiled_kernels = {}

    def compile_only(spec, name, programs, arguments):
        kernel = module(spec)[f"{name}_kernel"]
        given = {key: arguments[key] for key in kernel.arg_names}
        result = kernel.warmup(grid=(programs,), **given, num_warps=WARPS, enable_fp_fusion=False)
        compiled_kernels[id(result)] = result

    batch = batch_of("element", shapes=((600,), (3,)), state=torch.bfloat16, lr=0.1)
    steps = TritonBackend(compile_only)
    for k in range(17):  # Triton specialises on 1 and on multiples of 16 unless told otherwise
        batch.plan = replace(batch.plan, settings=batch.settings._replace(lr=0.1 * k))
        TritonStep(steps, batch).take()
    (result,) = compiled_kernels.values()
    assert result.src.signature["lr"] == result.src.signature["eps"] == "fp64"
    assert result.src.signature["step"] == "i32"
