"""A small model with TorchRec's tables, sharded in every way, and the same in one process."""

import logging
import os
import socket

import torch
import torchrec
from torch import distributed as dist
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
from gradagrad.integrations.torchrec import prepare, step_in_lookup

logging.disable(logging.WARNING)
TABLES, WIDTH, WORLD, BATCH, STEPS = 2, 8, 2, 8, 20
KINDS = ("data_parallel", "table_wise", "on_one_rank", "row_wise", "column_wise")
OPTIMIZERS = {
    "element": ("GradaGrad", {"lr": 0.05}),
    "row": ("GradaGrad", {"lr": 0.05, "granularity": "row", "lazy": True}),
    "tensor": ("GradaGrad", {"lr": 0.05, "granularity": "tensor", "rho": 10.0}),
    "group": ("GradaGrad", {"lr": 0.05, "granularity": "group", "rho": 10.0}),
    "all": ("GradaGrad", {"lr": 0.05, "granularity": "all", "rho": 10.0, "momentum": 0.5}),
    "auto": ("AutoGradaGrad", {"gamma0": 1e-2}),
    "auto unguarded": ("AutoGradaGrad", {"gamma0": 1e-2, "guard": False, "averaging": "polynomial"}),
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        tables = [
            torchrec.EmbeddingBagConfig(
                name=f"t{i}", embedding_dim=WIDTH, num_embeddings=20 + i, feature_names=[f"f{i}"]
            )
            for i in range(TABLES)
        ]
        self.bags = torchrec.EmbeddingBagCollection(tables=tables, device=torch.device("cpu"))
        self.over = torch.nn.Linear(TABLES * WIDTH, 1)

    def forward(self, features):
        return self.over(torch.relu(self.bags(features).values()))


def sharded(kind):
    torch.manual_seed(0)
    net, sharder = Net(), EmbeddingBagCollectionSharder()
    kernel = {"compute_kernel": "dense"}
    ways = {
        "data_parallel": lambda i: data_parallel(),
        "table_wise": lambda i: table_wise(rank=i % WORLD, **kernel),
        "on_one_rank": lambda i: table_wise(rank=0, **kernel),
        "row_wise": lambda i: row_wise(**kernel),
        "column_wise": lambda i: column_wise(ranks=list(range(WORLD)), **kernel),
    }
    plan = construct_module_sharding_plan(
        net.bags,
        {f"t{i}": ways[kind](i) for i in range(TABLES)},
        sharder=sharder,
        local_size=WORLD,
        world_size=WORLD,
        device_type="cpu",
    )
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    return DistributedModelParallel(
        net, env=env, device=torch.device("cpu"), plan=ShardingPlan({"bags": plan}), sharders=[sharder]
    )


def batch(step, rank=0, world=1):
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(0, 20, (TABLES, BATCH, 2), generator=generator)
    target = torch.randn(BATCH, 1, generator=generator)
    size = BATCH // world
    own = slice(rank * size, (rank + 1) * size)
    keys, lengths = [f"f{i}" for i in range(TABLES)], torch.full((TABLES * size,), 2)
    return KeyedJaggedTensor(keys=keys, values=ids[:, own].reshape(-1), lengths=lengths), target[own]


def optimizer_of(name, params):
    kind, options = OPTIMIZERS[name]
    return getattr(gradagrad, kind)(params, **options)


def train(net, optimizer, rank=0, world=1, steps=range(STEPS)):
    for k in steps:
        features, target = batch(k, rank, world)
        optimizer.zero_grad()
        (net(features) - target).square().mean().backward()
        optimizer.step()


def whole(net):
    """The weights of all ranks, on rank 0."""
    result = {}
    for name, value in net.state_dict().items():
        if type(value).__name__ == "ShardedTensor":
            gathered = torch.zeros(value.size()) if dist.get_rank() == 0 else None
            value.gather(0, gathered)
            value = gathered
        result[name] = None if value is None else value.detach().clone()
    return result


def cell(rank, kind, name):
    """How far two ranks are from one process, or why they are refused."""
    net = sharded(kind)
    prepare(net)
    start = whole(net)
    try:
        optimizer = optimizer_of(name, net.parameters())
    except ValueError as error:
        return str(error)
    train(net, optimizer, rank, WORLD)
    end = whole(net)
    if rank:
        return None
    one = Net()
    one.load_state_dict(start)
    train(one, optimizer_of(name, one.parameters()))
    return max((end[key] - value).abs().max().item() for key, value in one.state_dict().items())


def in_lookup(rank, kind):
    """How far steps inside the lookup are from ordinary ones, and what they refuse."""
    nets = [sharded(kind) for _ in range(2)]
    for net in nets:
        prepare(net)
        for number, parameter in enumerate(net.parameters()):
            parameter.data.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    first, second = (optimizer_of("row", net.parameters()) for net in nets)
    step_in_lookup(nets[1], second)
    train(nets[0], first, rank, WORLD)
    train(nets[1], second, rank, WORLD)
    pairs = list(zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    states = [(first.state[p][k], second.state[q][k]) for p, q in pairs if p.numel() for k in first.state[p]]
    difference = max((a - b).abs().max().item() for a, b in [*pairs, *states] if a.numel())
    features, _ = batch(0, rank, WORLD)
    nets[1](features).sum().backward()
    has_gradients = any(p.grad is not None for p in nets[1].parameters() if type(p) is not torch.nn.Parameter)
    message = ""
    try:
        nets[1](features).sum().backward()
    except RuntimeError as error:
        message = str(error)
    return difference, has_gradients, message


def cells(rank, port, path):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    results = {(kind, name): cell(rank, kind, name) for kind in KINDS for name in OPTIMIZERS}
    results |= {("in lookup", kind): in_lookup(rank, kind) for kind in ("table_wise", "row_wise")}
    unprepared = sharded("table_wise")
    optimizer_of("element", unprepared.parameters())
    try:
        optimizer_of("auto", unprepared.parameters())
    except ValueError as error:
        results["unprepared"] = str(error)
    if rank == 0:
        torch.save(results, path)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
