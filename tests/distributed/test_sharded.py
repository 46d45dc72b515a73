"""Sharded parameters (FSDP2, DTensor) train as whole ones do, with one small all-reduce at most."""

from typing import Any

import pytest
import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from . import models
from .models import GRANULARITIES, Net
from .world import World

STEPS = (100, 60)  # for GradaGrad and for AutoGradaGrad


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
    """The work that FSDP2 leaves to the user for parameters it ignores."""
    model.scale.register_post_accumulate_grad_hook(
        lambda p: (dist.all_reduce(p.grad), p.grad.div_(size))[0]  # pyright: ignore
    )


def trained_by_fsdp2(rank: int, size: int, kind: str, setting: str, way: dict[str, Any], mesh_shape: Any) -> Any:
    names = ("replicate", "shard")[-len(mesh_shape) :]
    model = sharded_net(init_device_mesh("cpu", mesh_shape, mesh_dim_names=names))
    averaged_scale(model, size)
    optimizer = models.optimizer_of(model, kind, setting, **way)
    own, steps = models.share(rank, size), STEPS[kind == "auto"]
    models.train(model, optimizer, steps - 1, share=own)
    with Counted() as counted:
        optimizer.register_step_pre_hook(lambda *_: counted.messages.clear())
        models.train(model, optimizer, 1, start=steps - 1, share=own)
    # gg and gm of the four sharded tensors, or of all four together. AutoGradaGrad asks whether there is a gradient
    # and adds up five statistics of each tensor and five totals.
    expected = {"tensor": [2 * 4], "group": [2], "auto": [1, 5 * 4 + 5]}.get(kind, [])
    assert counted.messages == expected, counted.messages
    reference = models.reference(kind, setting, steps)
    models.assert_equal(models.shown(model, optimizer) | models.gathered(model, optimizer), reference)
    models.assert_growth(optimizer)
    state = optimizer.state[model.first.weight]
    assert isinstance(state["displacement" if kind == "auto" else "momentum"], DTensor)
    assert kind == "auto" or isinstance(state["growth"], DTensor) is not (kind in ("tensor", "group"))
    bias: Any = model.second.bias
    assert bias.to_local().numel() == (1 if rank % mesh_shape[-1] == 0 else 0)  # an empty local shard
    return model, optimizer


def check_fsdp2(rank: int, size: int, *arguments: Any) -> None:
    trained_by_fsdp2(rank, size, *arguments)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize(
    ("setting", "way", "mesh_shape"),
    [("plain", {}, (2,)), ("momentum", {"foreach": True}, (2,)), ("bounded", {"fused": False}, (2,)),
     ("momentum", {}, (2, 2))],
    ids=["plain-kernel", "momentum-foreach", "bounded-loop", "hybrid"],
)  # fmt: skip
def test_ranks_of_fsdp2_equal_one_process(world: World, granularity: str, setting: str, way: Any, mesh_shape: Any):
    world.run(check_fsdp2, 2 * len(mesh_shape), granularity, setting, way, mesh_shape)


def check_auto(rank: int, size: int, way: dict[str, Any], mesh_shape: tuple[int, ...]) -> None:
    """All ranks have the same learning rates bit for bit, or they would drift apart."""
    model, optimizer = trained_by_fsdp2(rank, size, "auto", "plain", way, mesh_shape)
    for p in model.parameters():
        assert_same_on_all_ranks(optimizer.state[p]["gamma"], size)
    points, averages = models.gathered(model, optimizer), models.shown(model, optimizer)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    models.assert_equal(models.gathered(model, optimizer), points, rtol=0.0)
    exported = optimizer.averaged_state_dict(model)
    assert isinstance(exported["first.weight"], DTensor)
    models.assert_equal({f"average of {name}": models.whole(value) for name, value in exported.items()}, averages)
    models.assert_equal(models.gathered(model, optimizer), points, rtol=0.0)
    for p in model.parameters():  # One shard has gradients, and all ranks take the step.
        assert p.grad is not None
        own = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
        own.fill_(float(rank % mesh_shape[-1] == 0 and p.dim() == 2))
    optimizer.step()
    shared = optimizer.state[model.first.weight]
    assert_same_on_all_ranks(torch.stack([shared["clock"], shared["weight_total"], shared["gamma"]]), size)
    assert shared["clock"] == STEPS[True] + 1


def assert_same_on_all_ranks(tensor: torch.Tensor, size: int) -> None:
    found = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(found, tensor)
    assert all(torch.equal(other, tensor) for other in found)


@pytest.mark.parametrize(
    ("way", "mesh_shape"), [({}, (2,)), ({"foreach": True}, (2,)), ({"fused": False}, (2,)), ({}, (2, 2))], ids=str
)
def test_ranks_of_fsdp2_find_the_learning_rates_of_one_process(world: World, way: dict[str, Any], mesh_shape: Any):
    world.run(check_auto, 2 * len(mesh_shape), way, mesh_shape)
