"""Sharded parameters (FSDP2, DTensor) train as whole ones do, with one small all-reduce at most."""

from typing import Any

import pytest
import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from gradagrad import GradaGrad

from . import models
from .models import GRANULARITIES, SETTINGS, Net
from .world import World


class Counted:
    """Counts the all-reduces of the code within, and the numbers they carry."""

    def __enter__(self) -> "Counted":
        self.messages: list[int] = []
        self._original = dist.all_reduce

        def counting(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self.messages.append(tensor.numel())
            return self._original(tensor, *args, **kwargs)

        dist.all_reduce = counting
        return self

    def __exit__(self, *_: object) -> None:
        dist.all_reduce = self._original


def sharded_net(mesh: Any, *, ignore_scale: bool = True) -> Net:
    """The net of `models.reference`, with its layers sharded one by one; the scale stays a plain tensor."""
    torch.manual_seed(3)
    model = Net()
    for layer in (model.first, model.second):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params={model.scale} if ignore_scale else None)
    return model


def averaged_scale(model: Net, size: int) -> None:
    """What FSDP2 leaves to the user for parameters it ignores."""
    model.scale.register_post_accumulate_grad_hook(
        lambda p: (dist.all_reduce(p.grad), p.grad.div_(size))[0]  # pyright: ignore
    )


def check_fsdp2(
    rank: int, size: int, granularity: str, setting: str, way: dict[str, Any], mesh_shape: tuple[int, ...]
) -> None:
    names = ("replicate", "shard")[-len(mesh_shape) :]
    model = sharded_net(init_device_mesh("cpu", mesh_shape, mesh_dim_names=names))
    averaged_scale(model, size)
    settings: dict[str, Any] = SETTINGS[setting] | {"granularity": granularity} | way
    optimizer = GradaGrad(model.parameters(), **settings)
    models.train(model, optimizer, 99, share=models.share(rank, size))

    x, y = models.batch(99)
    optimizer.zero_grad()
    (model(x[models.share(rank, size)]) - y[models.share(rank, size)]).square().mean().backward()
    with Counted() as counted:
        optimizer.step()
    shared = granularity in ("tensor", "group")
    # gg and gm of the four sharded tensors, or of all four together.
    assert counted.messages == {"tensor": [2 * 4], "group": [2]}.get(granularity, []), counted.messages

    expected, *_ = models.reference(granularity, setting)
    models.assert_equal(models.gathered(model, optimizer), expected)
    models.assert_growth(optimizer)
    state = optimizer.state[model.first.weight]
    assert isinstance(state["momentum"], DTensor)
    assert isinstance(state["growth"], DTensor) is not shared
    bias: Any = model.second.bias
    assert bias.to_local().numel() == (1 if rank % mesh_shape[-1] == 0 else 0)  # an empty local shard


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize(
    ("setting", "way"),
    [("plain", {}), ("momentum", {"foreach": True}), ("bounded", {"fused": False})],
    ids=["plain-kernel", "momentum-foreach", "bounded-loop"],
)
def test_two_ranks_of_fsdp2_equal_one_process(world: World, granularity: str, setting: str, way: dict[str, Any]):
    world.run(check_fsdp2, 2, granularity, setting, way, (2,))


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_hybrid_sharding_over_four_ranks_equals_one_process(world: World, granularity: str):
    world.run(check_fsdp2, 4, granularity, "momentum", {}, (2, 2))
