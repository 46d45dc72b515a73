"""The cost of sharding: step times at 1, 2 and 4 ranks as ratios to torch's Adagrad under the same sharding.

    python benchmarks/distributed.py --ranks 1 2 4

Each rank holds its part of the parameters as FSDP2 would (DTensor, first dimension sharded). Steps of all optimizers
are interleaved in shuffled rounds and medians of ratios are reported, because absolute times on a shared machine mean
little. The all-reduces of a step and their sizes are counted.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import distributed as dist
from torch import multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from gradagrad import GradaGrad

MODELS: dict[str, list[tuple[int, ...]]] = {
    "few large": [(1024, 1024)] * 4,
    "many small": [(64, 32), (64,)] * 60,
}
CONTENDERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "torch Adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-3),
    "torch Adagrad foreach": lambda params: torch.optim.Adagrad(params, lr=1e-3, foreach=True),
    **{own: partial(GradaGrad, lr=1e-3, granularity=own) for own in ("element", "row", "tensor", "group")},
}
BASELINE = "torch Adagrad"


def prepared(shapes: list[tuple[int, ...]], make: Callable[[Any], torch.optim.Optimizer]) -> torch.optim.Optimizer:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    shard = partial(distribute_tensor, device_mesh=mesh, placements=[Shard(0)], src_data_rank=None)
    params = [torch.nn.Parameter(shard(torch.randn(shape))) for shape in shapes]
    for parameter, shape in zip(params, shapes, strict=True):
        parameter.grad = shard(torch.randn(shape))
    optimizer = make(params)
    for _ in range(3):  # these steps create the state and fill the caches
        optimizer.step()
    return optimizer


def messages(optimizer: torch.optim.Optimizer) -> list[int]:
    """The sizes of the all-reduces of one step."""
    with mock.patch.object(dist, "all_reduce", wraps=dist.all_reduce) as sent:
        optimizer.step()
    return [call.args[0].numel() for call in sent.call_args_list]


def worker(rank: int, size: int, store: str, rounds: int) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    for name, shapes in MODELS.items():
        optimizers = {label: prepared(shapes, make) for label, make in CONTENDERS.items()}
        sent = {label: messages(optimizer) for label, optimizer in optimizers.items()}
        times: dict[str, list[float]] = {label: [] for label in optimizers}
        order = random.Random(0)  # the same in every rank
        for _ in range(rounds):
            for label in order.sample(list(optimizers), len(optimizers)):
                dist.barrier()
                start = time.perf_counter()
                optimizers[label].step()
                times[label].append(time.perf_counter() - start)
        if rank == 0:
            print(f"\n{size} rank(s), {name}: {len(shapes)} tensors, {sum(map(math.prod, shapes)):,} parameters")
            for label, values in times.items():
                ratio = statistics.median(v / b for v, b in zip(values, times[BASELINE], strict=True))
                sizes = sent[label]
                what = f"{len(sizes)} all-reduce of {sum(sizes)} numbers" if sizes else "no communication"
                print(f"  {label:22s} {ratio:6.2f} x   {1e3 * statistics.median(values):8.2f} ms   {what}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, one thread a rank; ratios to {BASELINE} of the same run")
    for size in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(worker, (size, f"file://{folder}/store", arguments.rounds), nprocs=size)


if __name__ == "__main__":
    main()
