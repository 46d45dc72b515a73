"""TorchRec: what our optimizers must know of sharded tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed as dist

from gradagrad.sharding import TableShard


def prepare(model: torch.nn.Module) -> None:
    """Tells each parameter of a ``DistributedModelParallel`` how TorchRec has sharded it. Call it on every rank.

    Needed before constructing an optimizer whose step sizes are shared by a row or more. Sums over tables are then
    added over the ranks that hold them, and replicas are counted once.

    Example:
        >>> prepare(model)  # doctest: +SKIP
        >>> optimizer = AutoGradaGrad(model.parameters())  # doctest: +SKIP
    """
    layouts: dict[int, TableShard] = {}
    ranks = None
    for module in model.modules():
        plan: dict[str, Any] | None = getattr(module, "module_sharding_plan", None)
        if plan is None:
            continue
        tables: Any = module.embedding_bags if hasattr(module, "embedding_bags") else module.embeddings
        env: Any = module._env
        if ranks is not None and ranks != env.process_group:
            raise ValueError("all tables must be sharded over one process group; construct one optimizer for each.")
        ranks = env.process_group
        for name, table in tables.items():
            kind = plan[name].sharding_type
            layouts[id(table.weight)] = TableShard(ranks, "replicated" if kind == "data_parallel" else kind)
    if ranks is None:
        raise ValueError("model has no sharded tables; prepare takes a torchrec.distributed.DistributedModelParallel.")
    replicated = TableShard(ranks, "replicated")
    if not dist.is_initialized():
        return
    for parameter in model.parameters():
        parameter._gradagrad_table_shard = layouts.get(id(parameter), replicated)  # pyright: ignore[reportAttributeAccessIssue]
