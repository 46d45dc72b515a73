"""A small model with TorchRec's tables, sharded in every way, and the same model in one process."""

# pyright: reportMissingImports=false

import logging
import os
import socket
import tempfile

import pytest
import torch
import torchrec
from torch import distributed as dist
from torch import multiprocessing
from torch.distributed import checkpoint
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import (
    column_wise,
    construct_module_sharding_plan,
    data_parallel,
    row_wise,
    table_wise,
)
from torchrec.distributed.types import ShardingEnv, ShardingPlan
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

import gradagrad
from gradagrad import step_in_backward
from gradagrad.integrations.torchrec import optimizer_for

logging.disable(logging.WARNING)
TABLES, WIDTH, BATCH, STEPS = 2, 8, 8, 20
LOOKUPS = [("table_wise", "SUM"), ("row_wise", "SUM"), ("row_wise", "MEAN")]
OPTIMIZERS = {
    "element": ("GradaGrad", {"lr": 0.05}),
    "row": ("GradaGrad", {"lr": 0.05, "granularity": "row", "momentum": 0.5}),
    "lazy row": ("GradaGrad", {"lr": 0.05, "granularity": "row", "lazy": True}),
    "tensor": ("GradaGrad", {"lr": 0.05, "granularity": "tensor", "rho": 10.0}),
    "group": ("GradaGrad", {"lr": 0.05, "granularity": "group", "rho": 10.0}),
    "all": ("GradaGrad", {"lr": 0.05, "granularity": "all", "rho": 10.0, "momentum": 0.5}),
    "auto": ("AutoGradaGrad", {"gamma0": 1e-2}),
}


def ways(kernel="dense"):
    """How a table is sharded, by its number and the number of ranks."""
    return {
        "data_parallel": lambda i, world: data_parallel(),
        "table_wise": lambda i, world: table_wise(rank=i % world, compute_kernel=kernel),
        "on_one_rank": lambda i, world: table_wise(rank=0, compute_kernel=kernel),
        "row_wise": lambda i, world: row_wise(compute_kernel=kernel),
        "column_wise": lambda i, world: column_wise(ranks=list(range(world)), compute_kernel=kernel),
    }


class Net(torch.nn.Module):
    def __init__(self, pooling="SUM"):
        super().__init__()
        tables = [
            torchrec.EmbeddingBagConfig(
                name=f"t{i}",
                embedding_dim=WIDTH,
                num_embeddings=20 + i,
                feature_names=[f"f{i}"],
                pooling=torchrec.PoolingType[pooling],
            )
            for i in range(TABLES)
        ]
        self.bags = torchrec.EmbeddingBagCollection(tables=tables, device=torch.device("cpu"))
        self.over = torch.nn.Linear(TABLES * WIDTH, 1)

    def forward(self, features):
        return self.over(torch.relu(self.bags(features).values()))


def sharded(kind, pooling="SUM", kernel="dense"):
    torch.manual_seed(0)
    net, sharder, world = Net(pooling), EmbeddingBagCollectionSharder(), dist.get_world_size()
    plan = construct_module_sharding_plan(
        net.bags,
        {f"t{i}": ways(kernel)[kind](i, world) for i in range(TABLES)},
        sharder=sharder,
        local_size=world,
        world_size=world,
        device_type="cpu",
    )
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    return DistributedModelParallel(
        net, env=env, device=torch.device("cpu"), plan=ShardingPlan({"bags": plan}), sharders=[sharder]
    )


def batch(step):
    """This rank's part of a batch, or the whole one without ranks."""
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(0, 20, (TABLES, BATCH, 2), generator=generator)
    target = torch.randn(BATCH, 1, generator=generator)
    size = BATCH // world
    own = slice(rank * size, (rank + 1) * size)
    keys, lengths = [f"f{i}" for i in range(TABLES)], torch.full((TABLES * size,), 2)
    return KeyedJaggedTensor(keys=keys, values=ids[:, own].reshape(-1), lengths=lengths), target[own]


def maker(name):
    kind, options = OPTIMIZERS[name]
    return lambda params: getattr(gradagrad, kind)(params.values() if isinstance(params, dict) else params, **options)


def train(net, optimizer, steps=range(STEPS)):
    for k in steps:
        features, target = batch(k)
        optimizer.zero_grad()
        (net(features) - target).square().mean().backward()
        optimizer.step()


def whole(values):
    """A state dict's tensors as rank 0 sees them, with the shards of all ranks."""
    result = {}
    for name, value in values.items():
        if type(value).__name__ == "ShardedTensor":
            gathered = torch.zeros(value.size(), dtype=value.dtype) if dist.get_rank() == 0 else None
            value.gather(0, gathered)
            value = gathered
        result[name] = None if value is None else value.detach().clone()
    return result


def largest_difference(ours, others):
    return max((ours[key].double() - others[key].double()).abs().max().item() for key in others)


def on_ranks(world, function, *args):
    """Runs a function on some ranks and returns what it returned on rank 0."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_rank, (world, port, f"{folder}/answer", function, args), world)
        return torch.load(f"{folder}/answer")


def _rank(rank, world, port, file, function, args):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    result = function(*args)
    if rank == 0:
        torch.save(result, file)
    dist.barrier()
    dist.destroy_process_group()


def cell(kind, name):
    """How far two ranks are from one process after some steps, or why they are refused.

    AutoGradaGrad is at the average half-way, which is the last result.
    """
    net = sharded(kind)
    start, average = whole(net.state_dict()), None
    optimizer = optimizer_for(net, maker(name))
    try:
        train(net, optimizer, range(STEPS // 2))
        if name == "auto":
            optimizer.eval()
            average = whole(net.state_dict())
            with pytest.raises(RuntimeError, match=r"do not name the mode, .* Call optimizer\.train\(\)"):
                optimizer.state_dict()
            optimizer.train()
        train(net, optimizer, range(STEPS // 2, STEPS))
    except RuntimeError as error:
        return str(error)
    return start, whole(net.state_dict()), average


def stage(folder, steps, kinds):
    """Continues the trainings that a folder holds, if there are any, and saves them; returns their weights."""
    results = {}
    for name, kind in kinds.items():
        net = sharded(kind)
        optimizer = optimizer_for(net, maker(name), in_lookup=name == "lazy row")
        path = f"{folder}/{name}"
        saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
        if steps.start:
            checkpoint.load(saved, checkpoint_id=path)
            net.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        else:
            results["start"] = whole(net.state_dict())
        train(net, optimizer, steps)
        saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
        checkpoint.save(saved, checkpoint_id=path, storage_writer=checkpoint.FileSystemWriter(path, overwrite=True))
        results[name] = whole(net.state_dict())
    return results


def in_lookup(kind, pooling):
    """How far steps inside the lookup are from ordinary ones, and whether there were gradients."""
    nets = [sharded(kind, pooling) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers = [optimizer_for(net, maker("lazy row"), in_lookup=net is nets[1]) for net in nets]
    for net, optimizer in zip(nets, optimizers, strict=True):
        train(net, optimizer)
    values = [
        [value for p in own.params.values() for value in (p, *own._optimizer.state[p].values())] for own in optimizers
    ]
    differences = [(a - b).abs().max().item() for a, b in zip(*values, strict=True) if a.numel()]
    farthest = torch.tensor(float(max(differences)))
    dist.all_reduce(farthest, dist.ReduceOp.MAX)
    features, _ = batch(0)
    nets[1](features).sum().backward()
    has_gradients = any(p.grad is not None for p in nets[1].parameters() if type(p) is not torch.nn.Parameter)
    return farthest.item(), len(differences), has_gradients


def refusals():
    """The errors of calls that cannot work."""
    net, fused = sharded("table_wise"), sharded("table_wise", kernel="fused")
    by_row, kept = maker("lazy row"), []

    def lasting():
        kept.append(optimizer_for(net, by_row, in_lookup=True))
        return kept[0]

    attempts = {
        "unknown": lambda: maker("auto")(net.parameters()),
        "fused": lambda: maker("element")(p for p in fused.parameters() if p.numel()),
        "not ours": lambda: optimizer_for(net, lambda params: torch.optim.SGD(params.values())),
        "auto": lambda: optimizer_for(net, maker("auto"), in_lookup=True),
        "not by row": lambda: optimizer_for(net, maker("element"), in_lookup=True),
        "in backward": lambda: step_in_backward(net, lasting()._optimizer),
        "closure": lambda: optimizer_for(net, maker("auto")).step(lambda: 0.0),
        "accumulated": lambda: [net(batch(0)[0]).sum().backward() for _ in range(2)],
    }
    messages = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except (TypeError, ValueError, RuntimeError) as error:
            messages[name] = f"{type(error).__name__}: {error}"
    maker("element")(net.parameters())
    messages["left to FBGEMM"] = list(optimizer_for(fused, maker("auto")).params)
    return messages


def everything(folder, kinds):
    """All that two ranks do in one start, because starting them takes most of the time."""
    cells = {(kind, name): cell(kind, name) for kind in ways() for name in OPTIMIZERS}
    lookups = {lookup: in_lookup(*lookup) for lookup in LOOKUPS}
    return cells, lookups, stage(folder, range(6), kinds), refusals()
