"""Time and memory of a step on a large table, beside FBGEMM's fused RowWiseAdagrad: python -m torchrec_half.cost."""

import os
import resource
import sys
import time

import torch
import torchrec
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import distributed as dist
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, table_wise
from torchrec.distributed.types import ShardingEnv, ShardingPlan
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gradagrad import GradaGrad
from gradagrad.integrations.torchrec import prepare, step_in_lookup
from torchrec_half.model import free_port

ROWS, WIDTH, TOUCHED = 1_000_000, 16, 4096


def model(kernel):
    config = torchrec.EmbeddingBagConfig(name="t", embedding_dim=WIDTH, num_embeddings=ROWS, feature_names=["f"])
    bags = torchrec.EmbeddingBagCollection(tables=[config], device=torch.device("meta"))
    fused = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.01} if kernel == "fused" else None
    sharder = EmbeddingBagCollectionSharder(fused_params=fused)
    way = {"t": table_wise(rank=0, compute_kernel=kernel)}
    plan = construct_module_sharding_plan(bags, way, sharder=sharder, local_size=1, world_size=1, device_type="cpu")
    return DistributedModelParallel(
        bags,
        env=ShardingEnv.from_process_group(dist.group.WORLD),
        device=torch.device("cpu"),
        plan=ShardingPlan({"": plan}),
        sharders=[sharder],
    )


def main():
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(free_port()))
    dist.init_process_group("gloo", rank=0, world_size=1)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randperm(ROWS, generator=generator)[:TOUCHED] for _ in range(30)]
    batches = [KeyedJaggedTensor(["f"], values, lengths=torch.ones(TOUCHED, dtype=torch.long)) for values in rows]
    upstream = torch.randn(TOUCHED, WIDTH)
    steps = {}
    if "fused" in sys.argv[1:]:
        fused = model("fused")
        steps["fused"] = lambda features: fused(features).values().backward(upstream)
    if "ours" in sys.argv[1:]:
        ours = model("dense")
        prepare(ours)
        optimizer = GradaGrad(ours.parameters(), lr=0.01, granularity="row", lazy=True)
        step_in_lookup(ours, optimizer)

        def step(features):
            ours(features).values().backward(upstream)
            optimizer.step()

        steps["ours"] = step
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = {name: [] for name in steps}
    for _ in range(6):
        for features in batches:
            for name, take in steps.items():
                start = time.perf_counter()
                take(features)
                seconds[name].append(time.perf_counter() - start)
    for name, times in seconds.items():
        times = sorted(times[len(batches) :])
        print(
            f"{name}: median {times[len(times) // 2] * 1e3:.2f} ms, best tenth {times[len(times) // 10] * 1e3:.2f} ms"
        )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(
        f"peak memory grew by {grown / 1024:.0f} MiB in the steps; the weights are {ROWS * WIDTH * 4 / 2**20:.0f} MiB"
    )


if __name__ == "__main__":
    main()
