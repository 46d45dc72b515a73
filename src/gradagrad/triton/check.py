"""``python -m gradagrad gpu``: checks the Triton kernels on this machine's GPU, to paste into an issue.

It prints versions, a comparison of every kind of step with torch, and one of a step captured in a CUDA graph. A kind
that fails gets a line with the error, and the others go on.
"""

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from gradagrad.auto import AutoGradaGrad
from gradagrad.gradagrad import GradaGrad
from gradagrad.triton import launch
from gradagrad.triton.backend import TRITON, TritonBackend, TritonStep, compare, tolerance, versions

KINDS: dict[str, Callable[[list[nn.Parameter]], Any]] = {
    "GradaGrad, element": lambda p: GradaGrad(p, lr=0.01),
    "GradaGrad, element, momentum": lambda p: GradaGrad(p, lr=0.01, momentum=0.9),
    "GradaGrad, element, bf16 state": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, state_dtype=torch.bfloat16),
    "GradaGrad, row": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, rho=10.0, granularity="row"),
    "GradaGrad, tensor": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, rho=10.0, granularity="tensor"),
    "GradaGrad, group": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, rho=10.0, granularity="group"),
    "AutoGradaGrad": lambda p: AutoGradaGrad(p),
    "AutoGradaGrad, no guard": lambda p: AutoGradaGrad(p, guard=False),
}


def triton_status() -> str:
    """One line on whether steps on this machine's GPU use Triton kernels."""
    if not torch.cuda.is_available():
        return "not used: torch finds no CUDA or ROCm device here."
    device = torch.device("cuda", torch.cuda.current_device())
    batch = _batch(GradaGrad(_parameters([(1,)], device)))
    if isinstance(step := TRITON.prepare(batch), str):
        return f"not used: {step} Steps on the GPU run as torch operations, several times slower."
    return f"used; {versions(device)}"


def main() -> int:
    """Prints the report; 0 if everything agreed, 1 if something did not or there is no GPU."""
    if not torch.cuda.is_available():
        print(f"No GPU: torch {torch.__version__} finds no CUDA or ROCm device here, so there is nothing to check.")
        return 1
    device = torch.device("cuda", torch.cuda.current_device())
    print(f"{versions(device)}, CUDA {torch.version.cuda}, ROCm {torch.version.hip}")
    print(f"Python {platform.python_version()}, {platform.system()}")
    print("\n| check, 5 steps | largest relative difference to torch | |\n|---|---|---|")
    checks = {name: partial(self_check, name, device) for name in KINDS}
    checks["captured in a CUDA graph"] = partial(captured, device)
    ok = True
    for name, check in checks.items():
        try:
            line, good = check()
        except Exception as error:  # every error belongs in the report
            line, good = f"| {name} | {type(error).__name__}: {error} | failed |", False
        print(line, flush=True)
        ok &= good
    return 0 if ok else 1


def _parameters(shapes: Sequence[tuple[int, ...]], device: torch.device) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, generator=generator, device="cpu").to(device)) for shape in shapes]
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator, device="cpu").to(device)
    return params


def _batch(optimizer: Any) -> Any:
    return optimizer._batches()[0]


def self_check(
    name: str,
    device: torch.device,
    shapes: Sequence[tuple[int, ...]] = ((300, 1000), (77,), (3, 5, 7), ()),
    steps: int = 5,
    backend: TritonBackend | None = None,
) -> tuple[str, bool]:
    """One kind of step by the kernels and by torch, from the same gradients."""
    batch = _batch(KINDS[name](_parameters(shapes, device)))
    close = tolerance(launch.specs_of(batch, launch.common_spec(batch))[0])
    worst, text = compare(batch, backend or TritonBackend(), steps)
    verdict = "DIFFERS: " + text if worst > close else "agrees" if worst else "bit for bit"
    return f"| {name} | {worst:.1e} | {verdict} |", worst <= close


@torch.no_grad()
def captured(device: torch.device) -> tuple[str, bool]:
    """A step that is captured in a CUDA graph and replayed, beside the same steps taken one by one."""
    both = [_parameters(((300, 1000), (77,)), device) for _ in range(2)]
    lr = torch.tensor(0.01, device=device)
    mine, theirs = (GradaGrad(p, lr=lr, momentum=0.9, capturable=True) for p in both)
    backend, graph = TritonBackend(), torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        TritonStep(backend, _batch(mine)).take()
        TritonStep(backend, _batch(theirs)).take()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        TritonStep(backend, _batch(mine)).take()
    for k in range(3):
        for p in (*both[0], *both[1]):
            assert p.grad is not None
            p.grad.mul_(0.5).add_(0.1 * k)
        graph.replay()
        TritonStep(backend, _batch(theirs)).take()
    same = all(torch.equal(p, q) for p, q in zip(*both, strict=True))
    return f"| captured in a CUDA graph | | {'bit for bit' if same else 'DIFFERS'} |", same
