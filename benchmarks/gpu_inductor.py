"""How many kernels torch.compile makes of a step: ``python -m benchmarks.gpu_inductor``.

On a CPU, since no GPU is at hand; each kernel reads its tensors once, so that fewer kernels mean fewer bytes.
"""

from __future__ import annotations

import warnings

import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor import config, metrics

from benchmarks.gpu_model import OURS, SMALL, _parameters

TENSORS = 4
"""Inductor takes seconds for each tensor more."""


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"{TENSORS} float32 tensors, foreach, one step; torch {torch.__version__}, Inductor on a CPU.\n")
    print("| step | graphs | kernels |\n|---|---|---|")
    for name in (
        "element",
        "element, β = 0.9",
        "row, β = 0.9",
        "tensor, β = 0.9",
        "group",
        "group, β = 0.9",
        "AutoGradaGrad",
    ):
        make = OURS[name]
        torch._dynamo.reset()
        metrics.reset()
        params = _parameters(SMALL[:TENSORS])
        optimizer = make(params)
        for group in optimizer.param_groups:
            group["foreach"] = True
        counter = CompileCounterWithBackend("inductor")
        step = torch.compile(optimizer.step, backend=counter)
        with config.patch(force_disable_caches=True):
            step()
        print(f"| {name} | {counter.frame_count} | {metrics.generated_kernel_count} |", flush=True)


if __name__ == "__main__":
    main()
