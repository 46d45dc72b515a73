"""Parameters sharded over ranks (FSDP2, DTensor, tables of TorchRec): this rank's shards, and sums over all ranks.

All numbers of an element are on one rank, so most of a step needs no communication. Where a block is spread over ranks,
its sums are added by one small all-reduce for the whole optimizer. This module does not know the update rule, and the
rule does not know this module.

A plain tensor is a parameter that this rank has whole, alone or as one of DDP's replicas: nothing needs adding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import torch
from torch import Tensor
from torch import distributed as dist

from gradagrad.rules.scope import SINGLE, Scope, block_shape
from gradagrad.torch_ops.ops import real_view

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.placement_types import Placement

    from gradagrad.engine.batch import Batch

# The process groups over which a parameter's sums are added, one for each mesh dimension that splits a block.
Axes = tuple["dist.ProcessGroup", ...]


class TableShard(NamedTuple):
    """How TorchRec has sharded a table, as `gradagrad.integrations.torchrec` tells its parameter on every rank."""

    ranks: dist.ProcessGroup | None
    """Who holds shards of it; None if every rank has a replica."""
    splits_rows: bool
    """Whether ranks hold parts of the same row."""


def table_shard(parameter: Tensor) -> TableShard | None:
    """What we know about a table's shard."""
    return getattr(parameter, "_gradagrad_table_shard", None)


def unfit_table(parameter: Tensor, scope: Scope) -> str | None:
    """Why an optimizer cannot step this table of TorchRec, and the remedy; None if it can."""
    if type(parameter).__name__ != "TableBatchedEmbeddingSlice":
        return None
    if hasattr(parameter, "_in_backward_optimizers"):
        return (
            "this table of TorchRec has the compute kernel fused, and FBGEMM steps it in backward. Leave it out "
            '(in_backward_optimizer_filter), or put compute_kernel="dense" into the sharding plan.'
        )
    alone = not dist.is_initialized() or dist.get_world_size() == 1
    if scope == "element" or table_shard(parameter) is not None or alone:
        return None
    return (
        f'a table of TorchRec does not say how it is sharded, so each rank would choose its own "{scope}" step sizes. '
        "Construct the optimizer with gradagrad.integrations.torchrec.optimizer_for."
    )


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether this is a DTensor (replicated ones included)."""
    if type(tensor) in (Tensor, torch.nn.Parameter) or not dist.is_available():
        return False
    from torch.distributed.tensor import DTensor  # This import takes seconds, and only users of DTensor need it.

    return isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """This rank's shard, in the same memory. A plain tensor is returned as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def reshard() -> None:
    """Frees whole parameters that FSDP2 has gathered, so that the next forward pass gathers the shards anew."""
    from torch.distributed._composable_state import _module_state_mapping
    from torch.distributed.fsdp import FSDPModule

    for module in list(_module_state_mapping):
        if isinstance(module, FSDPModule):
            module.reshard()


def local_gradient(gradient: Tensor, parameter: Tensor) -> Tensor:
    """This rank's shard of a gradient, redistributed first if it is laid out unlike its parameter."""
    if not is_sharded(parameter) or not is_sharded(gradient):
        return gradient
    if gradient.placements != parameter.placements:
        gradient = gradient.redistribute(parameter.device_mesh, parameter.placements)
    return gradient.to_local()


def axes(parameter: Tensor, scope: Scope = "tensor") -> Axes:
    """The process groups over which sums of this parameter must be added; by default sums over the whole tensor.

    A mesh dimension that replicates the parameter is left out.
    """
    if scope == "element" or type(parameter) is torch.nn.Parameter:
        return ()
    if not is_sharded(parameter):
        shard = table_shard(parameter)
        if shard is None or shard.ranks is None or (scope == "row" and not shard.splits_rows):
            return ()
        return (shard.ranks,) if dist.get_world_size(shard.ranks) > 1 else ()
    mesh = parameter.device_mesh
    if mesh.get_coordinate() is None:
        return ()  # a rank outside the mesh holds nothing
    whole = (None, 0) if scope == "row" else (None,)
    split = (i for i, p in enumerate(parameter.placements) if _dim(p) not in whole and mesh.size(i) > 1)
    return tuple(mesh.get_group(i) for i in split)


def _dim(placement: Placement) -> int | None:
    """The dimension that a placement shards, or None. FSDP2's placement under tensor parallelism is not a `Shard`."""
    return getattr(placement, "dim", None)


def as_shard(state: Tensor, parameter: Tensor, scope: Scope) -> Tensor:
    """A local state tensor as a shard of one laid out like the parameter, so that checkpoints can reshard it.

    Blocks of a whole tensor stay plain.
    """
    if not is_sharded(parameter) or scope in SINGLE:
        return state
    from torch.distributed.tensor import DTensor

    whole = real_view(torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype, device="meta"))
    if scope == "row":
        whole = whole.new_empty(block_shape(whole.shape, "row"))
    mesh = parameter.device_mesh
    layout = _placements(parameter, scope)
    result = DTensor.from_local(state, mesh, layout, run_check=False, shape=whole.shape, stride=whole.stride())
    if result._local_tensor.device != state.device:
        result._local_tensor = state  # FSDP2's CPU offload keeps shards off the mesh's device
    return result


def shard_of(value: Tensor, parameter: Tensor, scope: Scope) -> Tensor:
    """The inverse of `as_shard`: the local part of a saved tensor, which may be whole or laid out differently."""
    if not is_sharded(parameter):
        return value
    from torch.distributed.tensor import distribute_tensor

    if scope in SINGLE:
        return local(value)
    mesh, layout = parameter.device_mesh, _placements(parameter, scope)
    if is_sharded(value):
        return value.redistribute(mesh, layout).to_local()
    # Every rank has the whole tensor and takes its part without communication.
    return distribute_tensor(value, mesh, layout, src_data_rank=None).to_local()


def _placements(parameter: DTensor, scope: Scope) -> Sequence[Placement]:
    from torch.distributed.tensor import Replicate

    if scope == "element":
        return parameter.placements
    return [p if _dim(p) == 0 else Replicate() for p in parameter.placements]


def add_over_ranks(values: Sequence[Tensor], over: Sequence[Axes]) -> list[Tensor]:
    """Adds each tensor over its process groups, all of them in one message for each group.

    Ranks must list the same tensors in the same order, as they do when they hold shards of the same parameters. Nothing
    is read back to the host.
    """
    result = list(values)
    # A parameter split along two mesh dimensions is added along one after the other.
    for group in dict.fromkeys(group for groups in over for group in groups):
        members = [i for i, groups in enumerate(over) if group in groups]
        parts = [result[i].detach().reshape(-1) for i in members]
        device = _sendable(parts[0].device, group)
        # Always in double, so that ranks cannot disagree on the type; these are a handful of numbers.
        message = torch.cat([part.to(device=device, dtype=torch.float64) for part in parts])
        dist.all_reduce(message, group=group)
        for i, total in zip(members, message.split([part.numel() for part in parts]), strict=True):
            result[i] = total.reshape(result[i].shape).to(device=result[i].device, dtype=result[i].dtype)
    return result


def _sendable(device: torch.device, group: dist.ProcessGroup) -> torch.device:
    """The device on which the group can add. NCCL needs the GPU even if the shards are offloaded to the CPU."""
    able = [] if torch.compiler.is_compiling() else group._device_types
    return device if not able or device.type in {d.type for d in able} else able[0]


def unfit(parameter: Tensor, gradient: Tensor, *, differentiable: bool) -> str | None:
    """Why this parameter cannot be stepped with this gradient, and the remedy; None if it can."""
    if not is_sharded(parameter):
        return None
    if any(p.is_partial() for p in parameter.placements):
        return (
            f"sharded parameters must have placements Shard or Replicate, got {parameter.placements}; "
            "redistribute the parameter before giving it to the optimizer."
        )
    if not is_sharded(gradient):
        return "the gradient of a sharded parameter must be a DTensor, got a plain tensor; wrap it as the parameter is."
    if gradient.layout != torch.strided:
        return "sharded parameters need dense gradients; construct the embedding with sparse=False."
    if differentiable:
        return "differentiable=True needs plain tensors, got a sharded parameter; pass differentiable=False."
    return None


def split(batch: Batch) -> list[Batch]:
    """A batch as this rank's shards, split by the ranks over which sums are added; dense gradients come first."""
    if {*map(type, batch.params)} == {torch.nn.Parameter} and len({gradient.layout for gradient in batch.grads}) == 1:
        return [batch]  # The usual case: all gradients are dense, or all are sparse.
    here = _shards(batch) if any(map(is_sharded, batch.params)) else batch
    members: dict[tuple[bool, Axes], list[int]] = {}
    for i, (owner, gradient) in enumerate(zip(batch.params, batch.grads, strict=True)):
        members.setdefault((gradient.layout != torch.strided, axes(owner, batch.plan.scope)), []).append(i)
    result: list[Batch] = []
    for is_sparse, over in sorted(members, key=lambda key: key[0]):
        part = here if len(members) == 1 else here.select(members[is_sparse, over])
        part.axes = over
        result.append(part)
    return result


def _shards(batch: Batch) -> Batch:
    """A copy of a batch in which every tensor is this rank's shard of it, in the same memory."""
    owners = batch.params
    return replace(
        batch,
        params=[local(p) for p in owners],
        grads=[local_gradient(g, p) for g, p in zip(batch.grads, owners, strict=True)],
        state={key: [local(a) for a in tensors] for key, tensors in batch.state.items()},
        owners=owners,
    )
