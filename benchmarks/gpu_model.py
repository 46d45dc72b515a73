"""A model of the time of a step on an A100 and an H100. No GPU has run the kernels yet.

``python -m benchmarks.gpu_model`` prints launches, bytes of memory per parameter and modelled times for the Triton
kernels, for the same steps as lists of torch operations (foreach), and for torch's Adam. Launches and bytes of the
kernels follow from the generated text. Those of foreach are counted on a CPU, operation by operation, as CUDA would
launch them. On a machine with a GPU it prints measured times too.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gpu_compile import GPUS, Gpu
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine.batch import Batch, Step
from gradagrad.engine.step import look_on_device, moves
from gradagrad.torch_ops import views
from gradagrad.torch_ops.steps import TorchStep
from gradagrad.triton.backend import TritonBackend, TritonStep
from gradagrad.triton.launch import common_spec, specs_of
from gradagrad.triton.source import source_of

SHAPES = [(1024, 1024), (1024,)] * 80
"""The modelled tensors: 160 with 84 million parameters."""
SMALL = [(64, 64), (64,)] * 80
"""Smaller tensors to count operations on."""
EFFICIENCY, GPU_LAUNCH, HOST_LAUNCH, HOST_STEP = 0.85, 2e-6, 4e-6, 60e-6
ASSUMPTIONS = (
    f"Model: bytes at {EFFICIENCY:.0%} of the bandwidth plus {GPU_LAUNCH * 1e6:.0f} µs for each launch, or the host's "
    f"{HOST_STEP * 1e6:.0f} µs for a step and {HOST_LAUNCH * 1e6:.0f} µs for each launch, whichever is longer; "
    "torch's operations over lists launch anew after 320 blocks of 65,536 elements and 30 to 110 tensors; "
    f"{len(SHAPES)} tensors, {sum(map(math.prod, SHAPES)) / 1e6:.0f} million float32 parameters."
)
# These are no kernels: views, allocations, and reads of counters on the host.
_FREE = re.compile(
    "view|unbind|reshape|expand|select|slice|detach|alias|as_strided|unsqueeze|squeeze|permute|t|_unsafe_view|split|"
    "split_with_sizes|empty|empty_like|empty_strided|new_empty|lift_fresh|_local_scalar_dense"
)
# The tensors that one launch of multi_tensor_apply takes, by the number of lists. A launch takes 320 chunks of 65,536.
_TENSORS = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}


class Cost(NamedTuple):
    """The cost of one step."""

    operations: int
    """Calls that the host makes."""
    launches: int
    size: float
    """Bytes per parameter."""

    def seconds(self, gpu: Gpu, count: int) -> float:
        device = self.size * count / (EFFICIENCY * gpu.bandwidth) + GPU_LAUNCH * self.launches
        return max(device, HOST_STEP + HOST_LAUNCH * self.launches)


class Counter(TorchDispatchMode):
    """Counts kernels and bytes of dispatched operations as CUDA would launch them."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.launches, self.size = 0, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        read = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
        if _FREE.fullmatch(name) or not read or all(a.dim() == 0 and a.dtype == torch.int64 for a in read):
            return result  # counters stay on the host
        written = [a for a in tree_leaves(result) if isinstance(a, Tensor)]
        if name.endswith("_") and not written:
            written = list(args[0])
        if name in ("copy_", "_foreach_copy_"):
            read = [a for a in tree_leaves(args[1:]) if isinstance(a, Tensor)]
        self.size += sum(a.numel() * a.element_size() for a in (*read, *written))
        self.operations += 1
        self.launches += self._kernels(name, args) if name.startswith("_foreach") else 1
        return result

    @staticmethod
    def _kernels(name: str, args: Any) -> int:
        lists = [a for a in args if isinstance(a, list | tuple) and a and isinstance(a[0], Tensor)]
        first = lists[0]
        alike = all(a.shape == b.shape for other in lists[1:] for a, b in zip(first, other, strict=True))
        dtypes = {a.dtype for each in lists for a in each}
        if not alike or (len(dtypes) > 1 and name != "_foreach_copy_"):
            return len(first)  # the slow path launches a kernel for each tensor
        depth = len(lists) + (not name.endswith("_"))
        shapes = SHAPES * math.ceil(len(first) / len(SHAPES))  # a list may hold several lists in a row
        chunks = sum(max(1, math.ceil(math.prod(shape) / 65536)) for shape in shapes[: len(first)])
        return max(math.ceil(len(first) / _TENSORS[min(depth, 5)]), math.ceil(chunks / 320))


def _parameters(shapes: Sequence[tuple[int, ...]], device: str = "cpu") -> list[nn.Parameter]:
    params = [nn.Parameter(torch.zeros(shape, device=device)) for shape in shapes]
    for p in params:
        p.grad = torch.ones_like(p)
    return params


def kernels(make: Callable[[list[nn.Parameter]], Any]) -> Cost:
    """Launches of the Triton backend, those of torch operations between its kernels included, and bytes of its text."""
    launched: list[str] = []
    batches = make(_parameters(SMALL))._batches()
    with torch.no_grad(), Counter() as counter:
        backend = TritonBackend(lambda spec, name, programs, arguments: launched.append(name))
        _take(partial(TritonStep, backend), batches[0])
    size = traffic(batches[0]) + 4 * batches[0].plan.rule.learns
    return Cost(len(launched) + counter.operations, len(launched) + counter.launches, size)


def _take(make: Callable[[Batch], Step], batch: Batch) -> None:
    """Takes a step. Before one that learns, the device looks whether there is a gradient at all."""
    if batch.plan.rule.learns:
        moves([batch], [look_on_device(batch)])
    make(batch).take()


def traffic(batch: Batch) -> int:
    """How many bytes the kernels read and write for each element."""
    spec = specs_of(batch, common_spec(batch))[0]
    sizes = {key: getattr(torch, dtype).itemsize for key, dtype in spec.dtypes}
    tiles = re.findall(r"def (\w+)_tile\((.*?)(?=\n\n|\Z)", source_of(spec).text(), re.DOTALL)
    return sum(sizes[key] for _, text in tiles for key in re.findall(r"(?:read|write|write_rounded)\(at_(\w+) ", text))


def foreach(make: Callable[[list[nn.Parameter]], Any]) -> Cost:
    """Launches and bytes of a step by lists of torch operations."""
    params = _parameters(SMALL)
    optimizer = make(params)

    def step() -> None:
        if isinstance(optimizer, torch.optim.Adam):
            optimizer.step()
        else:
            _take(partial(TorchStep, together=True), optimizer._batches()[0])

    with torch.no_grad(), mock.patch.object(views, "CACHED", math.inf):  # as on a GPU
        step()
        counter = Counter()
        with counter:
            step()
    return Cost(counter.operations, counter.launches, counter.size / sum(p.numel() for p in params))


def fused_adam() -> Cost:
    """Fused Adam reads x, g, m, v and writes x, m, v. It counts on the device and takes five lists at a time."""
    chunks = sum(math.ceil(math.prod(shape) / 65536) for shape in SHAPES)
    launches = max(math.ceil(len(SHAPES) / _TENSORS[5]), math.ceil(chunks / 320))
    return Cost(2, launches + math.ceil(len(SHAPES) / _TENSORS[1]), 28)


OURS: dict[str, Callable[[list[nn.Parameter]], Any]] = {
    "element": lambda p: GradaGrad(p),
    "element, β = 0.9": lambda p: GradaGrad(p, momentum=0.9),
    "element, β = 0.9, bf16 state": lambda p: GradaGrad(p, momentum=0.9, state_dtype=torch.bfloat16),
    "row, β = 0.9": lambda p: GradaGrad(p, momentum=0.9, granularity="row"),
    "tensor, β = 0.9": lambda p: GradaGrad(p, momentum=0.9, granularity="tensor"),
    "group": lambda p: GradaGrad(p, granularity="group"),
    "group, β = 0.9": lambda p: GradaGrad(p, momentum=0.9, granularity="group"),
    "AutoGradaGrad": lambda p: AutoGradaGrad(p),
    "AutoGradaGrad, no guard": lambda p: AutoGradaGrad(p, guard=False),
}
BY_KERNELS = {name: make for name, make in OURS.items() if not name.startswith("row")}


def costs() -> Iterator[tuple[str, str, Cost]]:
    """Yields each optimizer, its backend, and the cost of a step."""
    yield "torch Adam", "fused", fused_adam()
    yield "torch Adam", "foreach", foreach(lambda p: torch.optim.Adam(p, foreach=True))
    for name, make in OURS.items():
        if name in BY_KERNELS:
            yield name, "Triton", kernels(make)
        yield name, "foreach", foreach(make)


def measured() -> None:
    """Prints times on this machine's GPU, beside torch's Adam."""
    print("\n| step, measured | GPU ms | host ms | GB/s | × fused Adam |\n|---|---|---|---|---|")
    params, adam = _parameters(SHAPES, "cuda"), torch.optim.Adam
    steps: dict[str, tuple[Callable[[], Any], float]] = {
        "torch Adam, fused": (adam(params, lr=1e-6, fused=True).step, 28),
        "torch Adam, foreach": (adam(params, lr=1e-6, foreach=True).step, 0),
    }
    for name, make in BY_KERNELS.items():
        batch = make(params)._batches()[0]
        steps[name] = (
            partial(_take, partial(TritonStep, TritonBackend()), batch),
            traffic(batch) + 4 * batch.plan.rule.learns,
        )
    count, unit = sum(p.numel() for p in params), 0.0
    for name, (step, size) in steps.items():
        gpu, host = _timed(step)
        unit = unit or gpu
        speed = f"{size * count / gpu / 1e6:.0f}" if size else ""
        print(f"| {name} | {gpu:.3f} | {host:.3f} | {speed} | {gpu / unit:.2f} |", flush=True)


@torch.no_grad()
def _timed(step: Callable[[], Any], repeats: int = 20) -> tuple[float, float]:
    """The milliseconds of a step on the GPU and on the host."""
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


def main() -> None:
    print(ASSUMPTIONS + "\n")
    names = " | ".join(f"{gpu.name}, ms | × fused Adam" for gpu in GPUS.values())
    print(
        f"| step | backend | operations | launches | bytes per parameter | {names} |\n|---|---|---|---|---|"
        + "---|---|" * len(GPUS)
    )
    count, adam = sum(map(math.prod, SHAPES)), fused_adam()
    for name, backend, cost in costs():
        cells = [
            f"{cost.seconds(gpu, count) * 1e3:.2f} | {cost.seconds(gpu, count) / adam.seconds(gpu, count):.2f}"
            for gpu in GPUS.values()
        ]
        print(
            f"| {name} | {backend} | {cost.operations} | {cost.launches} | {cost.size:.0f} | {' | '.join(cells)} |",
            flush=True,
        )
    if torch.cuda.is_available():
        measured()
    else:
        print("\nNo GPU has run this yet. To check one: python -m gradagrad gpu")


if __name__ == "__main__":
    main()
