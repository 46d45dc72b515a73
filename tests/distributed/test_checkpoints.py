"""Distributed checkpoints: saved on two ranks, resumed on one, two and four, at once or in the background."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from gradagrad import AutoGradaGrad, GradaGrad

from . import models
from .models import GRANULARITIES, SETTINGS, Net
from .test_sharded import sharded_net
from .world import World

Training = tuple[Net, AutoGradaGrad | GradaGrad]


def training(size: int, granularity: str, *, seed: int = 3, sharded: bool = True) -> Training:
    model = sharded_net(init_device_mesh("cpu", (size,)), ignore_scale=False) if sharded else Net()
    if seed != 3:
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.5)  # nothing but the checkpoint can bring the trained values back
    if granularity == "auto":
        return model, AutoGradaGrad(model.parameters(), **({} if seed == 3 else {"lr": 0.5, "gamma0": 1e-3}))
    settings: dict[str, Any] = SETTINGS["momentum"] | {"granularity": granularity, "lr": 1e-3 if seed == 3 else 0.5}
    return model, GradaGrad(model.parameters(), **settings)


def assert_numbers_are_shared(optimizer: AutoGradaGrad | GradaGrad) -> None:
    """AutoGradaGrad has one tensor for all parameters, which loading must not multiply."""
    if isinstance(optimizer, AutoGradaGrad):
        assert optimizer.param_groups[0]["gamma0"] == 1e-4
        assert len({id(state["common_gamma"]) for state in optimizer.state.values()}) == 1


def check_saving(rank: int, size: int, folder: str, granularity: str, asynchronous: bool, flat: bool) -> Any:
    """Trains, saves and goes on; returns what a resumed run must come to."""
    model, optimizer = training(size, granularity)
    models.train(model, optimizer, 30, share=models.share(rank, size))
    weights, state = get_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=flat))
    future: Any = None
    if asynchronous:
        # A group of its own, lest its messages mix with those of the training that goes on.
        own: Any = dist.new_group(backend="gloo")
        future = dcp.async_save({"model": weights, "optimizer": state}, checkpoint_id=folder, process_group=own)
    else:
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    saved = models.gathered(model, optimizer)
    models.train(model, optimizer, 20, start=30, share=models.share(rank, size))  # while an async save is under way
    if future is not None:
        future.result()
    return saved, models.gathered(model, optimizer)


def check_resuming(
    rank: int, size: int, folder: str, granularity: str, flat: bool, sharded: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    model, optimizer = training(size, granularity, seed=0, sharded=sharded)
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)
    assert optimizer.param_groups[0]["lr"] == (1.0 if granularity == "auto" else 1e-3)
    loaded = models.gathered(model, optimizer)
    key = "displacement" if granularity == "auto" else "momentum"
    assert isinstance(optimizer.state[model.first.weight][key], DTensor) is sharded
    assert_numbers_are_shared(optimizer)
    models.train(model, optimizer, 20, start=30, share=models.share(rank, size))
    return loaded, models.gathered(model, optimizer)


@pytest.mark.parametrize(
    ("granularity", "asynchronous", "flat"),
    [
        ("element", False, False),
        ("row", True, False),
        ("tensor", False, True),
        ("group", True, False),
        ("auto", False, False),
        ("auto", False, True),
    ],
)
def test_saved_on_two_ranks_and_resumed_on_any_number(
    world: World, tmp_path: Path, granularity: str, asynchronous: bool, flat: bool
):
    folder = str(tmp_path / "checkpoint")
    saved, finished = world.run(check_saving, 2, folder, granularity, asynchronous, flat)[0]
    assert (tmp_path / "checkpoint" / ".metadata").exists()
    for size, sharded in ((2, True), (4, True), (1, False)):
        loaded, resumed = world.run(check_resuming, size, folder, granularity, flat, sharded)[0]
        models.assert_equal(loaded, saved, rtol=0.0)
        models.assert_equal(resumed, finished, rtol=0.0 if size == 2 else 1e-9)


def check_eval_mode(rank: int, size: int, folder: str) -> None:
    """A pair that is saved in eval mode, into an optimizer in train mode."""
    (model, optimizer), (other, resumed) = training(size, "auto"), training(size, "auto", seed=0)
    models.train(model, optimizer, 10, share=models.share(rank, size))
    outputs: list[Tensor] = []
    for switch in (optimizer.train, optimizer.eval, optimizer.train, optimizer.eval):  # type: ignore
        switch()
        with torch.no_grad():  # A forward pass without a backward leaves the root's parameter gathered.
            outputs.append(model(models.batch(0)[0]))
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[1], outputs[3])
    model.reshard()  # type: ignore
    plain = Net()
    plain.load_state_dict({name: models.whole(p) for name, p in model.named_parameters()})
    torch.testing.assert_close(outputs[1], plain(models.batch(0)[0]))
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    weights, state = get_state_dict(other, resumed)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(other, resumed, model_state_dict=weights, optim_state_dict=state)
    models.assert_equal(models.gathered(other, resumed), models.gathered(model, optimizer), rtol=0.0)
    for one, own in ((model, optimizer), (other, resumed)):
        own.train()  # type: ignore
        models.train(one, own, 5, start=10, share=models.share(rank, size))
    models.assert_equal(models.gathered(other, resumed), models.gathered(model, optimizer))


def test_a_checkpoint_of_eval_mode(world: World, tmp_path: Path):
    world.run(check_eval_mode, 2, str(tmp_path / "checkpoint"))


def check_whole_states(rank: int, size: int, granularity: str) -> None:
    """A state dict of whole tensors made from shards, loaded without and with sharding; and the reverse."""
    options = StateDictOptions(full_state_dict=True)
    model, optimizer = training(size, granularity)
    models.train(model, optimizer, 10, share=models.share(rank, size))
    expected = {
        k: v for k, v in models.gathered(model, optimizer).items() if k.count(".") > 1 or k.startswith("scale.")
    }
    state = get_optimizer_state_dict(model, optimizer, options=options)
    assert not any(isinstance(v, DTensor) for s in state["state"].values() for v in s.values())  # pyright: ignore

    alone, plain = training(1, granularity, sharded=False)
    set_optimizer_state_dict(alone, plain, state, options=options)
    models.assert_equal({k: v for k, v in models.gathered(alone, plain).items() if k in expected}, expected, rtol=0.0)

    # Ordinary load_state_dict: whole tensors are cut to this rank's shards without communication.
    again, sharded = training(size, granularity)
    sharded.load_state_dict(plain.state_dict())
    models.assert_equal({k: v for k, v in models.gathered(again, sharded).items() if k in expected}, expected, rtol=0.0)
    sharded.load_state_dict(optimizer.state_dict())  # shards into shards
    models.assert_equal({k: v for k, v in models.gathered(again, sharded).items() if k in expected}, expected, rtol=0.0)
    assert_numbers_are_shared(sharded)
    with pytest.raises(ValueError, match="is sharded and the parameter is not"):
        plain.load_state_dict(optimizer.state_dict())

    # From rank 0 to all, as with a checkpoint that one rank has read.
    third, broadcast = training(size, granularity)
    source: Any = get_optimizer_state_dict(model, optimizer, options=options) if rank == 0 else {}
    both = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    if rank != 0:
        source = get_optimizer_state_dict(model, optimizer, options=options)
        source = {"state": {}, "param_groups": source["param_groups"]}
    set_optimizer_state_dict(third, broadcast, source, options=both)
    models.assert_equal(
        {k: v for k, v in models.gathered(third, broadcast).items() if k in expected}, expected, rtol=0.0
    )
    dist.barrier()


@pytest.mark.parametrize("granularity", [*GRANULARITIES, "auto"])
def test_whole_state_dicts_cross_between_sharded_and_plain(world: World, granularity: str):
    world.run(check_whole_states, 2, granularity)
