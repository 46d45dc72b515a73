"""DistributedDataParallel and ZeroRedundancyOptimizer."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradagrad import GradaGrad, step_in_backward

from . import models
from .models import GRANULARITIES, Net
from .test_sharded import assert_same_on_all_ranks
from .world import World


class Tables(nn.Module):
    """Two embedding tables and a small net on top."""

    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 3, sparse=sparse, dtype=torch.float64)
        self.bag = nn.EmbeddingBag(12, 3, sparse=sparse, mode="sum", dtype=torch.float64)
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        first = (x[:, 0].abs() * 10).long() % 20
        second = (x[:, 1:4].abs() * 10).long() % 12
        return self.net(torch.cat([self.table(first), self.bag(second)], dim=1))


def check_ddp(rank: int, size: int, kind: str, sparse: bool, options: dict[str, Any]) -> None:
    results: list[dict[str, Tensor]] = []
    for parallel in (False, True):
        torch.manual_seed(5)
        model = Tables(sparse=sparse)
        optimizer = models.optimizer_of(model, kind, **options)
        wrapped = DistributedDataParallel(model) if parallel else model
        models.train(wrapped, optimizer, 40, share=models.share(rank, size) if parallel else slice(None))
        assert kind != "auto" or ("row_clocks" in optimizer.state[model.table.weight]) is sparse
        # Looking at the averages brings those of untouched rows up to date.
        results.append(models.shown(model, optimizer) | models.gathered(model, optimizer))
    models.assert_equal(results[1], results[0])
    models.assert_growth(optimizer)
    for p in model.parameters() if kind == "auto" else ():
        assert_same_on_all_ranks(optimizer.state[p]["gamma"], size)


DDP = {"dense": (False, {"momentum": 0.9}), "sparse": (True, {}), "lazy": (True, {"lazy": True, "momentum": 0.9})}
AUTO = {"dense": (False, {"gamma0": 1e-3}), "sparse": (True, {"gamma0": 1e-3})}
CASES = [*((kind, name, *DDP[name]) for kind in GRANULARITIES for name in DDP), *(("auto", n, *AUTO[n]) for n in AUTO)]


def check_modes(rank: int, size: int, sparse: bool) -> None:
    """Ranks switch modes, and resume from a pair saved in eval mode. One process does neither."""

    def run(saved: Any, *, parallel: bool) -> tuple[Any, dict[str, Tensor]]:
        torch.manual_seed(5)
        model = Tables(sparse=sparse)
        optimizer = models.optimizer_of(model, "auto", gamma0=1e-3)
        wrapped = DistributedDataParallel(model) if parallel else model
        share = models.share(rank, size) if parallel else slice(None)
        if saved:
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
            optimizer.train()
        else:
            models.train(wrapped, optimizer, 20, share=share)
            optimizer.state_dict()  # Idle rows catch up, as they do when modes switch.
        if parallel:
            optimizer.eval()
            with pytest.raises(RuntimeError, match="in eval mode"):
                optimizer.step()
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
            optimizer.train()
        models.train(wrapped, optimizer, 20, start=20, share=share)
        return saved, models.shown(model, optimizer) | models.gathered(model, optimizer)

    _, expected = run(None, parallel=False)
    saved, switched = run(None, parallel=True)
    models.assert_equal(switched, expected)
    models.assert_equal(run(saved, parallel=True)[1], expected)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_modes_of_two_ranks_equal_one_process(world: World, sparse: bool):
    (world.run_sparse if sparse else world.run)(check_modes, 2, sparse)


def check_in_backward(rank: int, size: int, wrapped_first: bool) -> None:
    model = Net()
    optimizer = GradaGrad(model.parameters(), lr=1e-3)
    if wrapped_first:
        wrapped = DistributedDataParallel(model)
        step_in_backward(wrapped.module, optimizer)
    else:
        step_in_backward(model, optimizer)
        wrapped = DistributedDataParallel(model)
    inputs = torch.ones(2, 6, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="FSDP2"):
        wrapped(inputs)
    del optimizer
    wrapped(inputs)


@pytest.mark.parametrize("wrapped_first", [False, True])
def test_steps_in_backward_are_refused_in_either_order(world: World, wrapped_first: bool):
    world.run(check_in_backward, 1, wrapped_first)


@pytest.mark.parametrize(
    ("kind", "name", "sparse", "options"), CASES, ids=[f"{kind}-{name}" for kind, name, *_ in CASES]
)
def test_two_ranks_of_ddp_equal_one_process(world: World, kind: str, name: str, sparse: bool, options: dict[str, Any]):
    run = world.run_sparse if sparse else world.run
    run(check_ddp, 2, kind, sparse, options)


def check_zero(rank: int, size: int, granularity: str) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer  # in the ranks only: importing it warns

    torch.manual_seed(3)
    model = Net()
    parallel = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(
        parallel.parameters(), GradaGrad, granularity=granularity, **models.SETTINGS["momentum"]
    )
    models.train(parallel, optimizer, 50, share=models.share(rank, size))

    # Saved on rank 0, loaded everywhere, gone on with.
    optimizer.consolidate_state_dict(to=0)
    saved: list[Any] = [optimizer.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(saved)
    resumed = ZeroRedundancyOptimizer(
        parallel.parameters(), GradaGrad, granularity=granularity, **models.SETTINGS["momentum"]
    )
    resumed.load_state_dict(saved[0])
    models.train(parallel, resumed, 50, start=50, share=models.share(rank, size))

    expected = models.reference(granularity, "momentum")
    models.assert_equal(
        {n: p.detach() for n, p in model.named_parameters()}, {n: expected[n] for n in dict(model.named_parameters())}
    )
    held = [p for group in resumed.optim.param_groups for p in group["params"]]
    assert 0 < len(held) < len(list(model.parameters()))  # each rank keeps the state of its own parameters only
    for p in held:
        name = next(n for n, q in model.named_parameters() if q is p)
        for key, value in resumed.optim.state[p].items():
            torch.testing.assert_close(value, expected[f"{name}.{key}"], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("granularity", ["element", "row", "tensor"])
def test_zero_redundancy_optimizer_equals_one_process(world: World, granularity: str):
    """Not "group": each rank's optimizer sees its own parameters only, so a group would be one per rank."""
    world.run(check_zero, 2, granularity)
