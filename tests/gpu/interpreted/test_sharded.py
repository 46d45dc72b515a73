"""Shards of FSDP2 on two ranks give the numbers of one process: sums are added over ranks before any decision."""

import tempfile
from datetime import timedelta
from functools import partial

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.triton.backend import TritonBackend

GRANULARITIES = ("element", "tensor", "group")
MAKERS = [
    *(partial(GradaGrad, lr=1e-3, momentum=0.9, rho=4.0, granularity=granularity) for granularity in GRANULARITIES),
    partial(AutoGradaGrad, gamma0=1e-2),
]


def check(rank, folder):
    TritonBackend._check_once = lambda *_: None  # fixtures do not reach this process
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=300))
    mesh = init_device_mesh("cpu", (2,))
    batch = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    for make in MAKERS:
        models = []
        for sharded in (True, False):
            torch.manual_seed(0)
            model = nn.Sequential(
                nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)
            )  # the ranks get different numbers of rows
            if sharded:
                fully_shard(model, mesh=mesh)
            optimizer = make(model.parameters(), fused=sharded)
            for k in range(3):
                optimizer.zero_grad()
                (model(batch) - k).square().mean().backward()
                optimizer.step()
            models.append(model)
        for a, b in zip(*(model.parameters() for model in models), strict=True):
            torch.testing.assert_close(a.full_tensor(), b, rtol=1e-5, atol=1e-6)
    dist.destroy_process_group()


def test_two_ranks_equal_one_process():
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(check, (folder,), nprocs=2)
