"""TorchRec: what our optimizers must know of sharded tables, and row steps inside the backward of their lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch import distributed as dist

from gradagrad.sharding import TableShard

if TYPE_CHECKING:
    from gradagrad.gradagrad import GradaGrad


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


def step_in_lookup(model: torch.nn.Module, optimizer: GradaGrad) -> None:
    """Lets the sharded tables of a model take their lazy row step inside the backward pass of their lookup.

    No gradient of the size of a table is made: a step costs what the touched rows cost. Plan the tables with the
    compute kernel "dense", and give all parameters to one optimizer, the tables with ``granularity="row"`` and
    ``lazy=True``. Go on calling ``optimizer.step()`` after every ``backward()``: it steps everything else.
    """
    groups = {p: (index, group) for index, group in enumerate(optimizer.param_groups) for p in group["params"]}
    if optimizer._in_backward is not None:
        raise ValueError("this optimizer steps inside the backward pass already.")
    kernels: list[tuple[Any, list[tuple[int, Tensor]]]] = []
    for lookup in (lookup for module in model.modules() for lookup in getattr(module, "_lookups", ())):
        for kernel in getattr(lookup, "_emb_modules", ()):  # Those of replicated tables are inside DDP, and not here.
            if not hasattr(kernel, "_pooling") or type(kernel.emb_module).__name__ != _DENSE:
                raise ValueError(
                    f"tables must be pooled and have the compute kernel dense, got {type(kernel).__name__}; put "
                    'compute_kernel="dense" into the sharding plan.'
                )
            tables = [kernel._param_per_table[config.name] for config in kernel.config.embedding_tables]
            for table in tables:
                _, group = groups.get(table, (0, {}))
                if group.get("granularity") != "row" or not group["lazy"]:
                    raise ValueError(
                        'tables need an optimizer with granularity="row" and lazy=True; see step_in_lookup.'
                    )
            kernels.append((kernel, [(groups[table][0], table) for table in tables]))
    if not kernels:
        raise ValueError("model has no sharded tables; step_in_lookup takes a DistributedModelParallel.")
    optimizer._in_backward = steps = _LookupSteps(optimizer)
    for kernel, tables in kernels:
        kernel.emb_module.forward = _Lookup(kernel, tables, steps)


_DENSE = "DenseTableBatchedEmbeddingBagsCodegen"


class _LookupSteps:
    """Steps rows, each table once before ``optimizer.step()`` ends the step."""

    def __init__(self, optimizer: GradaGrad) -> None:
        self._optimizer = optimizer
        self._stepped: set[Tensor] = set()
        self._warned = False

    def step(self, index: int, table: Any, rows: Tensor, values: Tensor) -> None:
        if table in self._stepped:
            raise RuntimeError(
                "a table got a second gradient before optimizer.step(). Gradients cannot be accumulated here, since "
                "each of them is used inside the backward pass. Call optimizer.step() after every backward()."
            )
        self._stepped.add(table)
        table.grad = torch.sparse_coo_tensor(rows[None], values, table.shape, check_invariants=False)
        try:
            self._warned |= self._optimizer._step_one(index, table, looks=not self._warned)
        finally:
            table.grad = None

    def end_step(self) -> None:
        if getattr(self._optimizer, "grad_scale", None) is not None:
            raise RuntimeError("GradScaler cannot be used with step_in_lookup: rows have been stepped already.")
        self._stepped.clear()


class _Lookup:
    """The forward of FBGEMM's tables, with a backward that steps the rows that were looked up."""

    def __init__(self, kernel: Any, tables: list[tuple[int, Tensor]], steps: _LookupSteps) -> None:
        self._forward = kernel.emb_module.forward
        self._of_features: list[int] = kernel._feature_table_map
        self._is_mean = kernel._pooling.name == "MEAN"
        self._tables, self._steps = tables, steps
        self._leaf = torch.zeros((), requires_grad=True)  # lets autograd call our backward

    def __call__(
        self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None, **others: Any
    ) -> Any:
        if others:
            raise ValueError(f"step_in_lookup does not support {sorted(others)}; use batches of one size per feature.")
        if per_sample_weights is not None and per_sample_weights.requires_grad:
            raise ValueError("step_in_lookup gives no gradient to per_sample_weights; detach them.")
        return _Function.apply(self._leaf, self, indices, offsets, per_sample_weights)

    def look_up(self, *args: Any) -> Tensor:
        return self._forward(*args)

    def step(self, gradient: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor | None) -> None:
        """Steps each table by the gradients of its features."""
        samples, column = gradient.shape[0], 0
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for feature, place in enumerate(self._of_features):
            width = self._tables[place][1].shape[1]
            bounds = offsets[feature * samples : (feature + 1) * samples + 1]
            own, lengths = slice(int(bounds[0]), int(bounds[-1])), bounds.diff()
            values = gradient[:, column : column + width]
            if self._is_mean:
                values = values / lengths.clamp(min=1).unsqueeze(1)
            values = values.repeat_interleave(lengths, 0)
            if weights is not None:
                values = values * weights[own].unsqueeze(1)
            found.setdefault(place, []).append((indices[own], values))
            column += width
        for place, parts in found.items():
            rows, values = (torch.cat([part[i] for part in parts]) for i in range(2))
            self._steps.step(*self._tables[place], rows.long(), values)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf: Tensor, lookup: _Lookup, *args: Any) -> Tensor:
        ctx.lookup = lookup
        ctx.save_for_backward(*args)
        return lookup.look_up(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.lookup.step(gradients[0], *ctx.saved_tensors)
        return (None,) * 5
