"""``python -m gradagrad gpu``: checks the Triton kernels on this machine's GPU, to paste into an issue.

A kernel is compared with torch before its first use in a process, so preparing every kind of step compares them all.
"""

import platform
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gradagrad.auto import AutoGradaGrad
from gradagrad.gradagrad import GradaGrad
from gradagrad.triton.backend import TRITON, TritonBackend, versions

_BLOCKS: Mapping[str, Any] = {"momentum": 0.9, "rho": 10.0}
KINDS: Mapping[str, tuple[type[GradaGrad] | type[AutoGradaGrad], Mapping[str, Any]]] = {
    "GradaGrad, element": (GradaGrad, {}),
    "GradaGrad, element, momentum": (GradaGrad, {"momentum": 0.9}),
    "GradaGrad, element, bf16 state": (GradaGrad, {"momentum": 0.9, "state_dtype": torch.bfloat16}),
    "GradaGrad, tensor": (GradaGrad, {**_BLOCKS, "granularity": "tensor"}),
    "GradaGrad, group": (GradaGrad, {**_BLOCKS, "granularity": "group"}),
    "AutoGradaGrad": (AutoGradaGrad, {}),
    "AutoGradaGrad, no guard": (AutoGradaGrad, {"guard": False}),
}


def refusal(name: str, device: torch.device, backend: TritonBackend = TRITON) -> str:
    """Why a kind of step is not taken by Triton kernels on a device; empty if it is."""
    make, options = KINDS[name]
    params = [nn.Parameter(torch.ones(shape, device=device)) for shape in ((300, 1000), (77,), ())]
    for parameter in params:
        parameter.grad = torch.ones_like(parameter)
    step = backend.prepare(make(params, **options)._batches()[0])
    return step if isinstance(step, str) else ""


def triton_status() -> str:
    """One line on whether steps on this machine's GPU use Triton kernels."""
    if not torch.cuda.is_available():
        return "not used: torch finds no CUDA or ROCm device here."
    device = torch.device("cuda", torch.cuda.current_device())
    if reason := refusal("GradaGrad, element", device):
        return f"not used: {reason} Steps on the GPU run as torch operations, several times slower."
    return f"used; {versions(device)}"


def main() -> int:
    """Prints the report; 0 if every kernel agrees with torch, 1 if one does not or there is no GPU."""
    if not torch.cuda.is_available():
        print(f"No GPU: torch {torch.__version__} finds no CUDA or ROCm device here, so there is nothing to check.")
        return 1
    device = torch.device("cuda", torch.cuda.current_device())
    print(f"{versions(device)}, CUDA {torch.version.cuda}, ROCm {torch.version.hip}")
    print(f"Python {platform.python_version()}, {platform.system()}")
    reasons = {name: refusal(name, device) for name in KINDS}
    print("\n".join(f"{name:32} {reason or 'agrees with torch'}" for name, reason in reasons.items()))
    return int(any(reasons.values()))
