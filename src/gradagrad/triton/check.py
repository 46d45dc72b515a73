"""``python -m gradagrad gpu``: checks the Triton kernels on this machine's GPU and times them, to paste into an issue.

Prints versions, a self-check of every kind of step against the rule in plain torch operations, a step captured in a
CUDA graph, and times beside torch's fused Adam. A kind that fails is reported in its line, and the rest goes on.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradagrad import __version__  # pyright: ignore[reportAttributeAccessIssue]
from gradagrad.auto import AutoGradaGrad
from gradagrad.gradagrad import GradaGrad
from gradagrad.torch_ops.steps import TorchSteps
from gradagrad.triton.backend import TritonBackend
from gradagrad.triton.plan import Planner
from gradagrad.triton.runtime import cannot_launch, unavailable
from gradagrad.triton.source import writer

Maker = Callable[[list[nn.Parameter]], Any]
KINDS: dict[str, Maker] = {
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
_CLOSE = 1e-4
"""Relative: sums are added in another order. One place of bf16 is 2⁻⁸, and a sum may tip a rounding."""


def main() -> int:
    """Prints the report; 0 if everything agreed, 1 if something did not or there is no GPU."""
    if not torch.cuda.is_available():
        print(f"No GPU: torch {torch.__version__} finds no CUDA or ROCm device here, so there is nothing to check.")
        return 1
    device = torch.device("cuda", torch.cuda.current_device())
    ok = True
    for line, good in report(device):
        print(line, flush=True)
        ok &= good
    return 0 if ok else 1


def report(device: torch.device) -> Iterator[tuple[str, bool]]:
    """The lines of the report, and whether each is good news."""
    yield from ((line, True) for line in versions(device))
    if (reason := unavailable() or cannot_launch(device)) is not None:
        yield f"Triton: {reason}", False
        return
    yield "\n| self-check, 5 steps | largest relative difference to the rule | |\n|---|---|---|", True
    for name in KINDS:
        yield _guarded(lambda name=name: self_check(name, device), name)
    yield _guarded(lambda: captured(device), "captured in a CUDA graph")
    yield (
        "\n| step, 84 million float32 parameters | GPU ms | host ms | GB/s | × fused Adam |\n|---|---|---|---|---|",
        True,
    )
    yield from _times(device)


def versions(device: torch.device) -> Iterator[str]:
    """What is installed, and on what it runs."""
    yield f"gradagrad {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {platform.system()}"
    try:
        import triton

        yield f"triton {triton.__version__}, CUDA {torch.version.cuda}, ROCm {torch.version.hip}"
    except Exception as error:
        yield f"triton: {error}"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        yield f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, {properties.multi_processor_count} units"


def _guarded(check: Callable[[], tuple[str, bool]], name: str) -> tuple[str, bool]:
    try:
        return check()
    except Exception as error:  # whatever it is belongs into the report
        return f"| {name} | {type(error).__name__}: {error} | failed |", False


def _stepper(optimizer: Any, backend: Any) -> Callable[[], None]:
    """Steps a whole optimizer by one backend."""

    def step() -> None:
        for batch in optimizer._batches()[1]:
            backend.step(batch)

    return step


def _parameters(shapes: Sequence[tuple[int, ...]], device: torch.device) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in shapes]


def _set_gradients(params: Sequence[nn.Parameter], k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    for p in params:
        noise = torch.randn(p.shape, generator=generator).to(p.device)
        gradient = p.detach() - 1.0 + 0.3 * noise
        p.grad = gradient if p.grad is None else p.grad.copy_(gradient)


def self_check(
    name: str,
    device: torch.device,
    shapes: Sequence[tuple[int, ...]] = ((300, 1000), (77,), (3, 5, 7), ()),
    steps: int = 5,
    backend: TritonBackend | None = None,
) -> tuple[str, bool]:
    """One kind of step by the kernels and by the rule, from the same gradients."""
    ours, plain = _parameters(shapes, device), _parameters(shapes, device)
    make = KINDS[name]
    mine, theirs = make(ours), make(plain)
    with torch.no_grad():
        for k in range(steps):
            _set_gradients(plain, k)
            for p, q in zip(ours, plain, strict=True):
                p.grad = None if q.grad is None else q.grad.clone()
            _stepper(mine, backend or TritonBackend())()
            _stepper(theirs, TorchSteps(together=False))()
    pairs = list(zip(ours, plain, strict=True)) + [
        (mine.state[p][key], theirs.state[q][key]) for p, q in zip(ours, plain, strict=True) for key in mine.state[p]
    ]
    same = all(torch.equal(a, b) for a, b in pairs)
    rounded = "bf16" in name
    worst = max(_difference(a, b) for a, b in pairs)
    good = same or worst <= (2.0**-5 if rounded else _CLOSE)
    return f"| {name} | {worst:.1e} | {'bit for bit' if same else 'agrees' if good else 'DIFFERS'} |", good


def _difference(a: Tensor, b: Tensor) -> float:
    a, b = a.detach().double(), b.detach().double()
    scale = b.abs().max().clamp(min=1e-30) if b.numel() else torch.ones(())
    return float(((a - b).abs() / scale).max()) if a.numel() else 0.0


def captured(device: torch.device) -> tuple[str, bool]:
    """A step in a CUDA graph, replayed, beside the same steps taken one by one."""
    shapes = ((300, 1000), (77,))
    ours, plain = _parameters(shapes, device), _parameters(shapes, device)
    mine, theirs = (
        GradaGrad(p, lr=torch.tensor(0.01, device=device), momentum=0.9, capturable=True) for p in (ours, plain)
    )
    backend = TritonBackend()
    with torch.no_grad():
        _set_gradients(ours, 0)
        _set_gradients(plain, 0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            _stepper(mine, backend)()
            _stepper(theirs, backend)()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _stepper(mine, backend)()
        for k in range(1, 4):
            _set_gradients(ours, k)
            _set_gradients(plain, k)
            graph.replay()
            _stepper(theirs, backend)()
    same = all(torch.equal(p, q) for p, q in zip(ours, plain, strict=True))
    return f"| captured in a CUDA graph | | {'bit for bit' if same else 'DIFFERS'} |", same


def _times(device: torch.device) -> Iterator[tuple[str, bool]]:
    free, _ = torch.cuda.mem_get_info(device)
    shapes = SHAPES if free > 6 * 2**30 else SHAPES[:40]
    params = _parameters(shapes, device)
    _set_gradients(params, 0)
    count = sum(p.numel() for p in params)
    adam = 0.0
    for name, fused in (("torch Adam, fused", True), ("torch Adam, foreach", False)):
        optimizer = torch.optim.Adam(params, lr=1e-6, fused=fused, foreach=not fused)
        gpu, host = _time(optimizer.step)
        adam = adam or gpu
        speed = f"{28 * count / gpu / 1e6:.0f}" if fused else ""
        yield f"| {name} | {gpu:.3f} | {host:.3f} | {speed} | {gpu / adam:.2f} |", True
        del optimizer
    for name, make in KINDS.items():
        yield _guarded(lambda name=name, make=make: _timed(name, make, params, adam), name)


def _timed(name: str, make: Maker, params: list[nn.Parameter], adam: float) -> tuple[str, bool]:
    optimizer = make(params)
    with torch.no_grad():
        gpu, host = _time(_stepper(optimizer, TritonBackend()))
    batch = optimizer._batches()[1][0]
    size = writer(Planner(batch, read_counters=True).plan(0)).traffic
    moved = size * sum(p.numel() for p in params)
    return f"| {name} | {gpu:.3f} | {host:.3f} | {moved / gpu / 1e6:.0f} | {gpu / adam:.2f} |", True


def _time(step: Callable[[], Any], repeats: int = 20) -> tuple[float, float]:
    """Milliseconds on the GPU and on the host."""
    for _ in range(5):
        step()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start = time.perf_counter()
    begin.record()
    for _ in range(repeats):
        step()
    end.record()
    host = (time.perf_counter() - start) / repeats * 1e3
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / repeats, host
