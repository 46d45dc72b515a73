"""AutoGradaGrad on several ranks: all have the same learning rates, for one short message per step."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from gradagrad import AutoGradaGrad

from . import models
from .models import Net
from .test_ddp import Tables
from .test_sharded import Counted, averaged_scale, sharded_net
from .world import World

STEPS = 60


def shown(model: torch.nn.Module, optimizer: AutoGradaGrad) -> dict[str, Tensor]:
    """The averages, whole, as the model holds them while it is evaluated."""
    with optimizer.averaged():
        return {name: models.whole(p) for name, p in model.named_parameters()}


@cache
def reference() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Everything after training in one process, and the averages."""
    torch.manual_seed(3)
    model = Net()
    optimizer = AutoGradaGrad(model.parameters(), fused=False)
    models.train(model, optimizer, STEPS, share=slice(None))
    assert optimizer.diagnostics()[0].gamma[0.5] > 1e-3
    return models.gathered(model, optimizer), shown(model, optimizer)


def assert_same_on_all_ranks(tensor: Tensor, size: int) -> None:
    """Bit for bit: ranks that disagreed on γ by a bit would drift apart."""
    found = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(found, tensor)
    assert all(torch.equal(other, tensor) for other in found)


def check_fsdp2(rank: int, size: int, way: dict[str, Any], mesh_shape: tuple[int, ...]) -> None:
    names = ("replicate", "shard")[-len(mesh_shape) :]
    model = sharded_net(init_device_mesh("cpu", mesh_shape, mesh_dim_names=names))
    averaged_scale(model, size)
    optimizer = AutoGradaGrad(model.parameters(), **way)
    own = models.share(rank, size)
    models.train(model, optimizer, STEPS - 1, share=own)
    x, y = models.batch(STEPS - 1)
    optimizer.zero_grad()
    (model(x[own]) - y[own]).square().mean().backward()
    before = optimizer.state[model.first.weight]["gamma"].clone()
    with Counted() as counted:
        optimizer.step()
    # Whether there is a gradient; four statistics of four sharded tensors and four totals.
    assert counted.messages == [1, 4 * 4 + 4], counted.messages
    assert not torch.equal(optimizer.state[model.first.weight]["gamma"], before)
    expected, averages = reference()
    models.assert_equal(models.gathered(model, optimizer), expected)
    for p in model.parameters():
        assert_same_on_all_ranks(optimizer.state[p]["gamma"], size)
    bias: Any = model.second.bias
    assert bias.to_local().numel() == (1 if rank % mesh_shape[-1] == 0 else 0)  # an empty local shard

    points = models.gathered(model, optimizer)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    models.assert_equal(models.gathered(model, optimizer), points, rtol=0.0)
    models.assert_equal(shown(model, optimizer), averages)
    x, _ = models.batch(0)
    outputs: list[Tensor] = []
    for switch in (lambda: None, optimizer.eval, optimizer.train):  # A forward pass leaves the root's weights gathered.
        switch()
        with torch.no_grad():
            outputs.append(model(x))
    assert torch.equal(outputs[0], outputs[2])
    plain = Net()
    plain.load_state_dict(averages)
    torch.testing.assert_close(outputs[1], plain(x))
    assert not torch.allclose(outputs[0], outputs[1])
    exported = optimizer.averaged_state_dict(model)
    assert isinstance(exported["first.weight"], DTensor)
    models.assert_equal({name: models.whole(value) for name, value in exported.items()}, averages)
    models.assert_equal(models.gathered(model, optimizer), points, rtol=0.0)
    for p in model.parameters():  # One shard has gradients, and all ranks take the step.
        assert p.grad is not None
        (p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad).fill_(
            float(rank % mesh_shape[-1] == 0 and p.dim() == 2)
        )
    optimizer.step()
    shared = optimizer.state[model.first.weight]
    assert_same_on_all_ranks(torch.stack([shared["clock"], shared["weight_total"], shared["gamma"]]), size)
    assert shared["clock"] == STEPS + 1


@pytest.mark.parametrize("way", [{}, {"foreach": True}, {"fused": False}], ids=["default", "foreach", "loop"])
def test_two_ranks_of_fsdp2_equal_one_process(world: World, way: dict[str, Any]):
    world.run(check_fsdp2, 2, way, (2,))


def test_hybrid_sharding_over_four_ranks_equals_one_process(world: World):
    world.run(check_fsdp2, 4, {}, (2, 2))


def check_ddp(rank: int, size: int, sparse: bool, folder: str) -> None:
    results: list[dict[str, Tensor]] = []
    for parallel in (False, True):
        torch.manual_seed(5)
        model = Tables(sparse=sparse)
        optimizer = AutoGradaGrad(model.parameters(), gamma0=1e-3)
        wrapped = DistributedDataParallel(model) if parallel else model
        own = models.share(rank, size) if parallel else slice(None)
        models.train(wrapped, optimizer, 30, share=own)
        assert ("row_clocks" in optimizer.state[model.table.weight]) is sparse
        # Looking at the averages brings those of untouched rows up to date.
        averages = {f"average of {name}": value for name, value in shown(model, optimizer).items()}
        results.append(models.gathered(model, optimizer) | averages)
        models.train(wrapped, optimizer, 5, start=30, share=own)
    models.assert_equal(results[1], results[0])
    assert_same_on_all_ranks(optimizer.state[model.table.weight]["gamma"], size)

    # A checkpoint into a fresh optimizer, which has no row clocks yet.
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    fresh = Tables(sparse=sparse)
    resumed = AutoGradaGrad(fresh.parameters())
    weights, state = get_state_dict(fresh, resumed)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(fresh, resumed, model_state_dict=weights, optim_state_dict=state)
    models.assert_equal(shown(fresh, resumed), shown(model, optimizer), rtol=0.0)

    # The same in eval mode, whose pair a fresh optimizer in train mode reads.
    optimizer.eval()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder + " eval")
    fresh = Tables(sparse=sparse)
    resumed = AutoGradaGrad(fresh.parameters())
    weights, state = get_state_dict(fresh, resumed)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder + " eval")
    set_state_dict(fresh, resumed, model_state_dict=weights, optim_state_dict=state)
    models.assert_equal(dict(fresh.named_parameters()), dict(model.named_parameters()), rtol=0.0)
    for each in (optimizer, resumed):
        each.train()
    models.assert_equal(dict(fresh.named_parameters()), dict(model.named_parameters()))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_two_ranks_of_ddp_equal_one_process(world: World, tmp_path: Path, sparse: bool):
    run = world.run_sparse if sparse else world.run
    run(check_ddp, 2, sparse, str(tmp_path / "checkpoint"))
