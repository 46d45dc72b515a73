"""The paper's click model with TorchRec's sharded tables on two ranks, trained by three optimizers.

    torchrun --standalone --nproc-per-node 2 examples/torchrec_dlrm.py --steps 300

FBGEMM's RowWiseAdagrad steps fused tables in backward, with Adagrad for the networks. GradaGrad by rows takes the steps
of tables inside their lookup. AutoGradaGrad decides for everything, over all ranks, without a learning rate.
"""

# pyright: reportMissingImports=false

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from itertools import islice

import torch
import torchrec
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.functional import binary_cross_entropy_with_logits
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, table_wise
from torchrec.distributed.types import ShardingEnv, ShardingPlan
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.integrations.torchrec import optimizer_for
from gradagrad_lab.data.clicks.stream import HELD_OUT, TRAINING, ClickStream, Rows
from gradagrad_lab.problems.clicks.dlrm import DLRM, SIZES, Size

CPU = torch.device("cpu")
# TorchRec warns of its own internals on every rank. GradaGrad warns too: the rows of large tables start at almost zero.
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")


class Tables(nn.Module):
    """DLRM's tables as TorchRec has them."""

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.names = [f"field{i}" for i in range(len(sizes))]
        self.bags = torchrec.EmbeddingBagCollection(
            tables=[
                torchrec.EmbeddingBagConfig(
                    name=f"table_{name}",
                    num_embeddings=rows,
                    embedding_dim=width,
                    feature_names=[name],
                    weight_init_min=-(rows**-0.5),
                    weight_init_max=rows**-0.5,
                )
                for name, rows in zip(self.names, sizes, strict=True)
            ],
            device=torch.device("meta"),
        )
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.register_buffer("starts", torch.tensor(starts), persistent=False)
        self.starts: Tensor

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors of ids, which number the rows of all tables one after another: (rows, fields, width)."""
        values = (ids - self.starts).T.reshape(-1)
        features = torchrec.KeyedJaggedTensor(self.names, values, lengths=torch.ones_like(values))
        return self.bags(features).values().reshape(*ids.shape, -1)


def sharded(model: nn.Module, tables: Tables, path: str, kernel: str, lr: float) -> DistributedModelParallel:
    """A model with its tables, which are at ``path``, dealt out to the ranks, the largest first."""
    fused = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": lr, "eps": 1e-8}
    sharder, ranks = EmbeddingBagCollectionSharder(fused if kernel == "fused" else None), dist.get_world_size()
    largest_first = sorted(tables.bags.embedding_bag_configs(), key=lambda config: -config.num_embeddings)
    places = {config.name: table_wise(rank=i % ranks, compute_kernel=kernel) for i, config in enumerate(largest_first)}
    plan = construct_module_sharding_plan(tables.bags, places, sharder, ranks, ranks, "cpu")
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    return DistributedModelParallel(model, env, CPU, ShardingPlan({path: plan}), [sharder])


def sharded_model(size: Size, kernel: str, lr: float) -> DistributedModelParallel:
    """DLRM with TorchRec's tables."""
    torch.manual_seed(0)
    model = DLRM(size=size)
    tables = Tables(model.sizes, size.dimension)
    model.tables = tables  # pyright: ignore[reportAttributeAccessIssue]
    return sharded(model, tables, "tables.bags", kernel, lr)


def adagrad(size: Size, lr: float) -> tuple[nn.Module, CombinedOptimizer]:
    """FBGEMM's fused optimizer for tables, and torch's for the networks."""
    model = sharded_model(size, "fused", lr)
    networks = dict(in_backward_optimizer_filter(model.named_parameters()))
    dense = KeyedOptimizerWrapper(networks, lambda params: torch.optim.Adagrad(params, lr=lr))
    return model, CombinedOptimizer([model.fused_optimizer, dense])


def by_rows(size: Size, lr: float) -> tuple[nn.Module, KeyedOptimizerWrapper]:
    """Tables by rows, inside their lookup; networks by elements."""

    def make(params: dict[str, nn.Parameter]) -> GradaGrad:
        tables = [p for name, p in params.items() if name.startswith("tables.")]
        networks = [p for name, p in params.items() if not name.startswith("tables.")]
        return GradaGrad([{"params": tables, "granularity": "row", "lazy": True}, {"params": networks}], lr=lr)

    model = sharded_model(size, "dense", lr)
    return model, optimizer_for(model, make, in_lookup=True)


def automatic(size: Size, lr: float) -> tuple[nn.Module, KeyedOptimizerWrapper]:
    """One decision for tables and networks together."""
    model = sharded_model(size, "dense", lr)
    return model, optimizer_for(model, lambda params: AutoGradaGrad(params.values()))


MAKERS: dict[str, Callable[[Size, float], tuple[nn.Module, torch.optim.Optimizer]]] = {
    "RowWiseAdagrad": adagrad,
    "GradaGrad by rows": by_rows,
    "AutoGradaGrad": automatic,
}


def loss_of(model: nn.Module, rows: Rows) -> Tensor:
    """The log-loss of this rank's part of some rows."""
    ranks, size = dist.get_world_size(), len(rows.clicks)
    own = rows.cut(dist.get_rank() * size // ranks, (dist.get_rank() + 1) * size // ranks)
    dense, ids, clicks = torch.tensor(own.dense), torch.tensor(own.ids, dtype=torch.int64), torch.tensor(own.clicks)
    return binary_cross_entropy_with_logits(model(dense, ids), clicks)


def main() -> None:
    """Trains each model on the same rows and prints one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=512, help="rows of all ranks together")
    parser.add_argument("--lr", type=float, default=0.01, help="of RowWiseAdagrad and GradaGrad (default 0.01)")
    parser.add_argument("--size", choices=SIZES, default="default")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    size = SIZES[options.size]
    held_out = ClickStream(HELD_OUT, size.cap).rows(8192)
    if dist.get_rank() == 0:
        print(f"{'optimizer':<18} {'held-out loss':>13} {'ms per step':>11}   ({options.steps} steps)")
    for name, make in MAKERS.items():
        model, optimizer = make(size, options.lr)
        times: list[float] = []
        blocks = ClickStream(TRAINING, size.cap).blocks()
        batches = (rows.cut(b, b + options.batch) for rows in blocks for b in range(0, 8192, options.batch))
        for rows in islice(batches, options.steps):
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss_of(model, rows).backward()
            optimizer.step()
            times.append(time.perf_counter() - begin)
        with torch.no_grad():
            loss = loss_of(model, held_out)
        dist.all_reduce(loss)
        if dist.get_rank() == 0:
            middle = sorted(times)[len(times) // 2]
            print(f"{name:<18} {loss.item() / dist.get_world_size():>13.4f} {1e3 * middle:>11.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
