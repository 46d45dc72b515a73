"""``python -m gradagrad gpu``: checks the Triton kernels on this machine's GPU and times them, to paste into an issue.

It prints versions, a comparison of every kind of step with torch, a step captured in a CUDA graph, and times beside
torch's fused Adam. A kind that fails gets a line with the error, and the others go on.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from gradagrad.auto import AutoGradaGrad
from gradagrad.gradagrad import GradaGrad
from gradagrad.triton import launch
from gradagrad.triton.backend import TRITON, TritonBackend, compare, tolerance, versions
from gradagrad.triton.source import source_of

KINDS: dict[str, Callable[[list[nn.Parameter]], Any]] = {
    "GradaGrad, element": lambda p: GradaGrad(p, lr=0.01),
    "GradaGrad, element, momentum": lambda p: GradaGrad(p, lr=0.01, momentum=0.9),
    "GradaGrad, element, bf16 state": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, state_dtype=torch.bfloat16),
    "GradaGrad, row": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, rho=10.0, granularity="row"),
    "GradaGrad, tensor": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, rho=10.0, granularity="tensor"),
    "GradaGrad, group": lambda p: GradaGrad(p, lr=0.01, momentum=0.9, rho=10.0, granularity="group"),
    "AutoGradaGrad": lambda p: AutoGradaGrad(p),
    "AutoGradaGrad, no guard": lambda p: AutoGradaGrad(p, guard=False),
    "AutoGradaGrad, averaged": lambda p: AutoGradaGrad(p, averaging="polynomial"),
}
SHAPES = [(1024, 1024), (1024,)] * 80
"""84 million parameters."""


def triton_status() -> str:
    """One line on whether steps on this machine's GPU use Triton kernels."""
    if not torch.cuda.is_available():
        return "not used: torch finds no CUDA or ROCm device here."
    device = torch.device("cuda", torch.cuda.current_device())
    batch = _batch(GradaGrad(_parameters([(1,)], device)))
    if (reason := TRITON.prepare(batch)) is not None:
        return f"not used: {reason} Steps on the GPU run as torch operations, several times slower."
    return f"used; {versions(device)}"


def main() -> int:
    """Prints the report; 0 if everything agreed, 1 if something did not or there is no GPU."""
    if not torch.cuda.is_available():
        print(f"No GPU: torch {torch.__version__} finds no CUDA or ROCm device here, so there is nothing to check.")
        return 1
    device = torch.device("cuda", torch.cuda.current_device())
    ok = True
    with torch.no_grad():
        for line, good in report(device):
            print(line, flush=True)
            ok &= good
    return 0 if ok else 1


def report(device: torch.device) -> Iterator[tuple[str, bool]]:
    """The lines of the report, and whether each is good news."""
    yield f"{versions(device)}, CUDA {torch.version.cuda}, ROCm {torch.version.hip}", True
    yield f"Python {platform.python_version()}, {platform.system()}", True
    yield "\n| check, 5 steps | largest relative difference to torch | |\n|---|---|---|", True
    for name in KINDS:
        yield _guarded(name, lambda name=name: self_check(name, device))
    yield _guarded("captured in a CUDA graph", lambda: captured(device))
    columns = "GPU ms | host ms | GB/s | × fused Adam |\n|---|---|---|---|---|"
    yield f"\n| step, 84 million float32 parameters | {columns}", True
    yield from _times(device)


def _guarded(name: str, check: Callable[[], tuple[str, bool]]) -> tuple[str, bool]:
    try:
        return check()
    except Exception as error:  # every error belongs in the report
        return f"| {name} | {type(error).__name__}: {error} | failed |", False


def _parameters(shapes: Sequence[tuple[int, ...]], device: torch.device) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, generator=generator, device="cpu").to(device)) for shape in shapes]
    for p in params:
        p.grad = torch.randn(p.shape, generator=generator, device="cpu").to(device)
    return params


def _batch(optimizer: Any) -> Any:
    return optimizer._batches()[1][0]


def self_check(
    name: str,
    device: torch.device,
    shapes: Sequence[tuple[int, ...]] = ((300, 1000), (77,), (3, 5, 7), ()),
    steps: int = 5,
    backend: TritonBackend | None = None,
) -> tuple[str, bool]:
    """One kind of step by the kernels and by torch, from the same gradients."""
    batch = _batch(KINDS[name](_parameters(shapes, device)))
    close = tolerance(launch.specs_of(batch, launch.common_spec(batch, read_counters=True))[0])
    worst, text = compare(batch, backend or TritonBackend(), steps)
    verdict = "DIFFERS: " + text if worst > close else "agrees" if worst else "bit for bit"
    return f"| {name} | {worst:.1e} | {verdict} |", worst <= close


def captured(device: torch.device) -> tuple[str, bool]:
    """A step that is captured in a CUDA graph and replayed, beside the same steps taken one by one."""
    both = [_parameters(((300, 1000), (77,)), device) for _ in range(2)]
    lr = torch.tensor(0.01, device=device)
    mine, theirs = (GradaGrad(p, lr=lr, momentum=0.9, capturable=True) for p in both)
    backend, graph = TritonBackend(), torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        backend.step(_batch(mine))
        backend.step(_batch(theirs))
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        backend.step(_batch(mine))
    for k in range(3):
        for p in (*both[0], *both[1]):
            assert p.grad is not None
            p.grad.mul_(0.5).add_(0.1 * k)
        graph.replay()
        backend.step(_batch(theirs))
    same = all(torch.equal(p, q) for p, q in zip(*both, strict=True))
    return f"| captured in a CUDA graph | | {'bit for bit' if same else 'DIFFERS'} |", same


def _times(device: torch.device) -> Iterator[tuple[str, bool]]:
    free, _ = torch.cuda.mem_get_info(device)
    params = _parameters(SHAPES if free > 6 * 2**30 else SHAPES[:40], device)
    adam = 0.0
    for name, fused in (("torch Adam, fused", True), ("torch Adam, foreach", False)):
        line, gpu = _timed(
            name, torch.optim.Adam(params, lr=1e-6, fused=fused, foreach=not fused).step, params, 0, adam
        )
        adam = adam or gpu
        yield line, True
    for name, make in KINDS.items():
        batch = _batch(make(params))
        size = source_of(launch.specs_of(batch, launch.common_spec(batch, read_counters=True))[0]).traffic
        step = partial(TritonBackend().step, batch)
        yield _guarded(name, lambda name=name, step=step, size=size: (_timed(name, step, params, size, adam)[0], True))


def _timed(name: str, step: Callable[[], Any], params: list[nn.Parameter], size: int, adam: float) -> tuple[str, float]:
    """A line with the milliseconds on the GPU and on the host, and the milliseconds on the GPU."""
    for _ in range(5):
        step()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    begin.record()
    for _ in range(20):
        step()
    end.record()
    host = (time.perf_counter() - start) / 20 * 1e3
    torch.cuda.synchronize()
    gpu = begin.elapsed_time(end) / 20
    speed = f"{size * sum(p.numel() for p in params) / gpu / 1e6:.0f}" if size else ""
    return f"| {name} | {gpu:.3f} | {host:.3f} | {speed} | {gpu / (adam or gpu):.2f} |", gpu
