"""Optimizers for TorchRec's sharded tables, whose state is resharded with them, and row steps inside the lookup."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from torch import Tensor
from torch import distributed as dist
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
from torch.distributed._shard.sharded_tensor.shard import Shard
from torchrec.optim.keyed import KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from gradagrad import sharding
from gradagrad.averaging import Averaged
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.engine.state import begin
from gradagrad.in_backward import StepsInBackward
from gradagrad.sharding import TableShard


def optimizer_for(
    model: torch.nn.Module, make: Callable[[dict[str, torch.nn.Parameter]], EngineOptimizer], *, in_lookup: bool = False
) -> TableOptimizer:
    """An optimizer for all parameters of a ``DistributedModelParallel`` that FBGEMM does not step itself.

    Two ranks step as one process would: sums that a table's shards share are added over ranks, and replicas are counted
    once. Plan the tables with the compute kernel "dense". The result is one of TorchRec's keyed optimizers, for its
    ``CombinedOptimizer``, ``WarmupOptimizer`` and so on. Its state dict holds the state of tables as ``ShardedTensor``,
    which torch.distributed.checkpoint loads into any number of ranks.

    Args:
        model: the sharded model. Call this on every rank.
        make: makes the optimizer from a dictionary of names and parameters.
        in_lookup: tables take their step inside the backward pass of their lookup, without a gradient of the size of
            the table, so the cost of a step depends on the touched rows. Tables need `GradaGrad` with
            ``granularity="row", lazy=True`` and whole rows on one rank. Keep calling ``step()`` after every
            ``backward()``, because it steps everything else.

    Example:
        >>> optimizer = optimizer_for(model, lambda params: AutoGradaGrad(params.values()))  # doctest: +SKIP
    """
    return TableOptimizer(model, make, in_lookup=in_lookup)


class NoShard(torch.nn.Parameter):
    """Stands for a table of which this rank has no shard, so that all ranks list the same tables in the same order."""


class TableOptimizer(KeyedOptimizerWrapper):
    """What `optimizer_for` returns: TorchRec's wrapper, with state of tables that can be resharded."""

    def __init__(self, model: torch.nn.Module, make: Callable[..., EngineOptimizer], *, in_lookup: bool) -> None:
        weights = model.state_dict()
        params: dict[str, Tensor] = {}
        self._tables: dict[Tensor, ShardedTensor] = {}
        for name, parameter in in_backward_optimizer_filter(model.named_parameters()):
            params[name], weight = parameter, weights[name]
            if sharding.is_sharded(weight) and not sharding.is_sharded(parameter):
                raise ValueError(f"{name} is a DTensor; construct the ShardingEnv with output_dtensor=False.")
            if isinstance(weight, ShardedTensor):
                params[name] = _told(name, parameter, weight)
                self._tables[params[name]] = weight
            else:
                parameter._gradagrad_table_shard = TableShard(None, splits_rows=False)
        super().__init__(params, make, pass_params_dict=True)
        if not isinstance(self._optimizer, EngineOptimizer):
            raise TypeError(f"make must return a GradaGrad or an AutoGradaGrad, got {type(self._optimizer).__name__}.")
        if isinstance(inner := self._optimizer, Averaged):
            self.eval, self.train, self.averaged = inner.eval, inner.train, inner.averaged
        # TorchRec reads the keys of the state before the first step.
        begin(self._optimizer, lambda p: p.requires_grad and not p.is_meta)
        # Ranks that hold all tables find out by themselves which of them have a gradient.
        if any(_is_missing_somewhere(weight) for weight in self._tables.values()):
            self._optimizer.register_step_pre_hook(self._give_gradients)
        if in_lookup:
            _step_in_lookup(model, self._optimizer)

    @property
    def state(self) -> Mapping[Any, Any]:
        """The state by parameter. What belongs to rows or elements of a table is a `ShardedTensor` over its memory."""
        result: dict[Any, Any] = {}
        for parameter, state in self._optimizer.state.items():
            weight = self._tables.get(parameter)
            if weight is None:
                result[parameter] = state
            elif not isinstance(parameter, NoShard) or self._axes(parameter):  # Others are not stepped on this rank.
                result[parameter] = {key: _sharded(value, parameter, weight) for key, value in state.items()}
        return result

    @state.setter
    def state(self, _: Mapping[Any, Any]) -> None:
        """Ignored: the optimizer inside holds the state."""

    def state_dict(self) -> dict[str, Any]:
        """The state by the parameters' names. It does not name the mode, so it is refused in eval mode."""
        if self._optimizer._cannot_step:
            raise RuntimeError("TorchRec's state dicts do not name the mode, now eval. Call optimizer.train() first.")
        self._optimizer._catch_up()
        return super().state_dict()

    def _axes(self, parameter: Tensor) -> sharding.Axes:
        group = next(group for group in self._optimizer.param_groups if any(p is parameter for p in group["params"]))
        return sharding.axes(parameter, self._optimizer._scope(group))

    def _give_gradients(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Gives an empty gradient to missing shards of tables that have one elsewhere and share a decision."""
        if any(argument is not None for argument in (*args[1:], *kwargs.values())):
            raise RuntimeError("a closure cannot be used if ranks hold different tables; call backward() first.")
        shared = [p for p in self._tables if self._axes(p)]
        if not shared:
            return
        (ranks,) = {group for p in shared for group in self._axes(p)}
        found = torch.tensor([p.grad is not None for p in shared], dtype=torch.uint8, device=shared[0].device)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=ranks)
        for parameter, has_gradient in zip(shared, found.tolist(), strict=True):
            if isinstance(parameter, NoShard):
                parameter.grad = torch.zeros_like(parameter) if has_gradient else None


def _told(name: str, parameter: Tensor, weight: ShardedTensor) -> Tensor:
    """A table's parameter that knows how it is sharded, or the placeholder for it."""
    whole = weight.metadata()
    rows, columns = whole.size
    splits_rows = any(shard.shard_sizes[1] != columns for shard in whole.shards_metadata)
    own = [shard.metadata.shard_sizes for shard in weight.local_shards()]
    if not own:
        shape = (rows, 0) if splits_rows else (0, columns)
        parameter = NoShard(torch.empty(shape, dtype=whole.tensor_properties.dtype, device=parameter.device))
    elif sum(size[0] for size in own) != parameter.shape[0] or (splits_rows and len(own) > 1):
        raise ValueError(f"{name} has several blocks of rows on this rank, got {own}; give each rank at most one.")
    parameter._gradagrad_table_shard = TableShard(weight._process_group, splits_rows)
    return parameter


def _is_missing_somewhere(weight: ShardedTensor) -> bool:
    holders = {shard.placement.rank() for shard in weight.metadata().shards_metadata}
    return len(holders) < dist.get_world_size(weight._process_group)


def _sharded(value: Tensor, parameter: Tensor, weight: ShardedTensor) -> Tensor:
    """A state tensor of a table's shard as part of one laid out like the table, in the same memory."""
    columns = value.shape[1] if value.dim() == 2 and value.shape[1] != parameter.shape[1] else None
    is_replicated = columns is not None and parameter._gradagrad_table_shard.splits_rows
    if value.dim() != 2 or is_replicated:
        return value

    def resized(shard: ShardMetadata) -> ShardMetadata:
        sizes = [shard.shard_sizes[0], columns or shard.shard_sizes[1]]
        return ShardMetadata(list(shard.shard_offsets), sizes, shard.placement)

    start, shards = 0, []
    for shard in weight.local_shards():
        end = start + shard.metadata.shard_sizes[0]
        shards.append(Shard(value[start:end], resized(shard.metadata)))
        start = end
    whole = weight.metadata()
    size = torch.Size([whole.size[0], columns or whole.size[1]])
    every = [resized(shard) for shard in whole.shards_metadata]
    metadata = ShardedTensorMetadata(every, size, TensorProperties(dtype=value.dtype))
    return ShardedTensor._init_from_local_shards_and_global_metadata(shards, metadata, weight._process_group)


_DENSE = "DenseTableBatchedEmbeddingBagsCodegen"


def _step_in_lookup(model: torch.nn.Module, optimizer: EngineOptimizer) -> None:
    groups = {p: (index, group) for index, group in enumerate(optimizer.param_groups) for p in group["params"]}
    lookups: list[tuple[Any, list[tuple[Tensor, int]]]] = []
    for kernel in _kernels(model):
        tables = [kernel._param_per_table[config.name] for config in kernel.config.embedding_tables]
        if not any(table in groups for table in tables):
            continue  # FBGEMM steps them.
        for table in tables:
            _, group = groups[table]
            if group.get("granularity") != "row" or not group["lazy"]:
                raise ValueError('in_lookup=True needs GradaGrad with granularity="row" and lazy=True for tables.')
        is_pooled = getattr(kernel.emb_module, "pooling_mode", PoolingMode.NONE) != PoolingMode.NONE
        if type(kernel.emb_module).__name__ != _DENSE or not is_pooled or len(set(tables)) < len(tables):
            raise ValueError(
                "in_lookup=True needs pooled tables (EmbeddingBagCollection) with the compute kernel dense, and one "
                "shard of a table on each rank."
            )
        lookups.append((kernel, [(table, groups[table][0]) for table in tables]))
    if not any(sharding.table_shard(parameter) for parameter in groups):
        raise ValueError("in_lookup=True needs a model with sharded tables.")
    steps = optimizer._in_backward = StepsInBackward(optimizer)
    for kernel, tables in lookups:
        kernel.emb_module.forward = _Lookup(kernel, tables, steps)


def _kernels(model: torch.nn.Module) -> Iterator[Any]:
    """The parts of the model that look up sharded tables; those of replicated tables are inside DDP, and not here."""
    for module in model.modules():
        for lookup in getattr(module, "_lookups", ()):
            yield from getattr(lookup, "_emb_modules", ())


class _Lookup:
    """The forward of FBGEMM's tables, with a backward that steps the rows that were looked up."""

    def __init__(self, kernel: Any, tables: list[tuple[Tensor, int]], steps: StepsInBackward) -> None:
        self.look_up = kernel.emb_module.forward
        self._of_features: list[int] = kernel._feature_table_map
        self._is_mean = kernel.emb_module.pooling_mode.name == "MEAN"
        self._tables, self._steps = tables, steps
        self._counted = torch.arange(0)
        self._leaf = torch.zeros((), requires_grad=True)  # lets autograd call our backward

    def __call__(
        self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None, **others: Any
    ) -> Any:
        if others:
            raise ValueError(f"in_lookup=True does not support {sorted(others)}; use batches of one size per feature.")
        if per_sample_weights is not None and per_sample_weights.requires_grad:
            raise ValueError("in_lookup=True gives no gradient to per_sample_weights; detach them.")
        return _Function.apply(self._leaf, self, indices, offsets, per_sample_weights)

    def step(self, gradient: Tensor, indices: Tensor, offsets: Tensor, weights: Tensor | None) -> None:
        """Steps each table by the gradients of its features."""
        samples, column = gradient.shape[0], 0
        starts = offsets[::samples].tolist() if samples else [0] * (len(self._of_features) + 1)
        if len(self._counted) != len(offsets):
            self._counted = torch.arange(len(offsets)).to(offsets)
        one_each = len(indices) == len(offsets) - 1 and torch.equal(offsets, self._counted)
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for feature, (place, (start, end)) in enumerate(zip(self._of_features, pairwise(starts), strict=True)):
            width = self._tables[place][0].shape[1]
            values = gradient[:, column : column + width]
            column += width
            if not one_each:
                counts = offsets[feature * samples : (feature + 1) * samples + 1].diff()
                if self._is_mean:
                    values = values / counts.clamp(min=1).unsqueeze(1)
                values = values.repeat_interleave(counts, 0, output_size=end - start)
            if weights is not None:
                values = values * weights[start:end].unsqueeze(1)
            found.setdefault(place, []).append((indices[start:end], values))
        for place, parts in found.items():
            table, group = self._tables[place]
            rows, values = parts[0] if len(parts) == 1 else (torch.cat(part) for part in zip(*parts, strict=True))
            new = torch.sparse_coo_tensor(rows.long()[None], values, table.shape, check_invariants=False)
            table.grad = new if table.grad is None else table.grad + new
            self._steps.step(table, group)


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
