"""DTensor parameters in every layout: rows split over ranks, two mesh dimensions, replicas, odd dtypes."""

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from cases import Ball
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from gradagrad import AutoGradaGrad, GradaGrad, LargeFirstStepWarning, from_adagrad
from gradagrad.kernel.load import kernel_status
from gradagrad.projections import Box

from .models import GRANULARITIES, whole
from .test_sharded import Counted
from .world import World

R, S0, S1 = Replicate(), Shard(0), Shard(1)
SHAPES = ((5, 6), (6, 4, 3), (7,), (1, 3), (3, 2))

# For each mesh: the placements of the five tensors, and how many all-reduces a shared step size costs.
LAYOUTS: dict[str, tuple[tuple[int, ...], list[Any], int]] = {
    "columns": ((2,), [[S1], [Shard(2)], [S0], [S1], [R]], 1),
    "mixed": ((2,), [[S0], [R], [R], [S0], [S1]], 1),
    "rows": ((2,), [[S0], [S0], [S0], [R], [S0]], 1),
    "replicas": ((2,), [[R]] * 5, 0),
    "grid": ((2, 2), [[S0, S1], [S1, S0], [S0, S0], [R, S0], [S1, R]], 2),
    "fsdp_and_tensor_parallel": (
        (2, 2),
        [[_StridedShard(0, split_factor=2), S0], [S0, S1], [R, S0], [S0, R], [R, R]],
        2,
    ),
}


def gradients(params: list[Tensor], k: int) -> list[Tensor]:
    """Gradients of a shifted quadratic, with noise that every rank draws alike, and some rows of zeros."""
    generator = torch.Generator().manual_seed(k)
    result: list[Tensor] = []
    for p in params:
        noise = torch.randn((*p.shape, 2), generator=generator, dtype=torch.float64)
        noise = torch.view_as_complex(noise) if p.is_complex() else noise[..., 0]
        result.append(0.3 * (p.detach() - 1.0) + 0.3 * noise.to(p.dtype))
    if k % 3 == 0:
        result[0][1] = 0.0
    return result


def both(
    mesh: Any, placements: list[Any], dtype: torch.dtype, granularity: str, **settings: Any
) -> tuple[list[Tensor], Any, list[Tensor], Any]:
    """The same parameters whole and sharded, each with its optimizer: AutoGradaGrad, if the granularity is "auto"."""
    torch.manual_seed(1)
    values = [torch.randn(shape, dtype=dtype) for shape in SHAPES]
    plain: list[Tensor] = [nn.Parameter(v.clone()) for v in values]
    shards: list[Tensor] = [
        nn.Parameter(distribute_tensor(v.clone(), mesh, p, src_data_rank=None))
        for v, p in zip(values, placements, strict=True)
    ]
    groups = [slice(0, 3), slice(3, 5)]  # two param groups, one message
    make: Any = AutoGradaGrad if granularity == "auto" else partial(GradaGrad, granularity=granularity)
    a, b = (make([{"params": own[g]} for g in groups], **settings) for own in (plain, shards))
    return plain, a, shards, b


def sharded_like(value: Tensor, parameter: Tensor) -> Tensor:
    assert isinstance(parameter, DTensor)
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)


def check_layout(
    rank: int, size: int, layout: str, granularity: str, dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    shape, placements, messages = LAYOUTS[layout]
    mesh = init_device_mesh("cpu", shape)
    options = {"lr": 0.01, "momentum": 0.5, "granularity": granularity} | settings
    plain, expected, shards, optimizer = both(mesh, placements, dtype, **options)
    for k in range(40):
        for p, q, g in zip(plain, shards, gradients(plain, k), strict=True):
            p.grad, q.grad = g, sharded_like(g, q)
        expected.step()
        with Counted() as counted:
            optimizer.step()
        if granularity in ("tensor", "group", "auto") and k:
            # AutoGradaGrad first asks all ranks whether there is a gradient.
            assert len(counted.messages) == messages * (2 if granularity == "auto" else 1)
        if granularity == "element" and k:
            assert not counted.messages
    tolerance = 1e-5 if dtype in (torch.bfloat16, torch.float32) else 1e-10
    for p, q in zip(plain, shards, strict=True):
        torch.testing.assert_close(
            whole(q), p.detach(), rtol=1e-2 if dtype == torch.bfloat16 else tolerance, atol=tolerance
        )
        for key, value in expected.state[p].items():
            ours = optimizer.state[q][key]
            assert whole(ours).shape == value.shape
            assert ours.dtype == value.dtype
            torch.testing.assert_close(whole(ours), value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("granularity", [*GRANULARITIES, "auto"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_equals_whole_tensors(world: World, layout: str, granularity: str):
    size = 4 if len(LAYOUTS[layout][0]) == 2 else 2
    world.run(check_layout, size, layout, granularity, torch.float64, {})


@pytest.mark.parametrize("granularity", ["row", "group", "auto"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex128], ids=["bf16", "complex"])
def test_precision_and_complex_numbers(world: World, dtype: torch.dtype, granularity: str):
    world.run(check_layout, 2, "mixed", granularity, dtype, {"foreach": granularity == "group"})


@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group", "auto"])
@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "plain"])
def test_the_kernel_steps_local_shards_as_torch_operations_do(world: World, granularity: str, fused: bool):
    """In float32, where the kernel would refuse what it cannot step."""
    if fused and not kernel_status().loaded:
        pytest.skip(str(kernel_status()))
    world.run(check_layout, 2, "rows", granularity, torch.float32, {"fused": fused})


@pytest.mark.parametrize("granularity", ["element", "row", "tensor"])
def test_options_that_look_at_gradients_and_points(world: World, granularity: str):
    """Lazy rows (whole on each rank), a box, ascent, decay, and a cap from the distance travelled."""
    options = {"projection": Box(-0.8, 0.8), "maximize": True, "weight_decay": 0.1}
    world.run(check_layout, 2, "mixed", granularity, torch.float64, options)
    world.run(check_layout, 2, "replicas", granularity, torch.float64, {"lazy": True})
    world.run(check_layout, 2, "columns", granularity, torch.float64, {"gamma_max": "travelled", "rho": 5.0, "lr": 0.1})


def check_partial_gradient(rank: int, size: int) -> None:
    """A replicated parameter whose gradient is still a sum over ranks, as with sequence parallelism."""
    mesh = init_device_mesh("cpu", (size,))
    plain = nn.Parameter(torch.ones(4, dtype=torch.float64))
    shared = nn.Parameter(distribute_tensor(plain.detach().clone(), mesh, [R], src_data_rank=None))
    expected, optimizer = GradaGrad([plain], lr=0.1), GradaGrad([shared], lr=0.1)
    for k in range(5):
        part = torch.arange(4, dtype=torch.float64) + rank + k
        plain.grad = torch.stack([torch.arange(4, dtype=torch.float64) + r + k for r in range(size)]).sum(0)
        shared.grad = DTensor.from_local(part, mesh, [Partial()])
        expected.step()
        optimizer.step()
    torch.testing.assert_close(whole(shared), plain.detach())


def test_gradients_that_are_partial_sums_are_completed(world: World):
    world.run(check_partial_gradient, 2)


def check_taking_over(rank: int, size: int, granularity: str) -> None:
    """A sharded Adagrad run goes on as a sharded GradaGrad, with the accumulator a whole one would have."""
    mesh = init_device_mesh("cpu", (size,))
    results: list[list[Tensor]] = []
    for sharded in (False, True):
        torch.manual_seed(1)
        values = [torch.randn(shape, dtype=torch.float64) for shape in SHAPES]
        params: list[Tensor] = [
            nn.Parameter(distribute_tensor(v, mesh, p, src_data_rank=None) if sharded else v)
            for v, p in zip(values, LAYOUTS["columns"][1], strict=True)
        ]
        optimizer: torch.optim.Optimizer = torch.optim.Adagrad(params, lr=0.01)
        for k in range(6):
            if k == 3:
                optimizer = from_adagrad(optimizer, granularity=granularity)
            for p, g in zip(params, gradients([whole(p) for p in params], k), strict=True):
                p.grad = sharded_like(g, p) if sharded else g
            optimizer.step()
        accumulators = [whole(optimizer.state[p]["accumulator"]) for p in params]
        results.append([whole(p) for p in params] + accumulators)
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_sharded_adagrad_run_is_taken_over(world: World, granularity: str):
    world.run(check_taking_over, 2, granularity)


def check_guard(rank: int, size: int, granularity: str) -> list[str]:
    """Rank 1's shard alone would be fine: its entries are large, and its gradient is zero."""
    mesh = init_device_mesh("cpu", (size,))
    value = torch.tensor([[0.1, 0.1], [3.0, 4.0]])
    gradient = torch.tensor([[5.0, 5.0], [0.0, 0.0]])
    found: list[str] = []
    for lr in (1e-3, 1.0, 20.0):
        p = nn.Parameter(distribute_tensor(value.clone(), mesh, [S0], src_data_rank=None))
        p.grad = sharded_like(gradient, p)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            GradaGrad([p], lr=lr, granularity=granularity).step()  # pyright: ignore[reportArgumentType]
        found.append(" ".join(str(w.message) for w in caught if w.category is LargeFirstStepWarning))
    return found


@pytest.mark.parametrize("granularity", ["element", "group"])
def test_all_ranks_agree_on_the_first_step_warning(world: World, granularity: str):
    first, second = world.run(check_guard, 2, granularity)
    assert first == second
    # Moved by lr·√2 (element) or lr (group), from a tensor of norm 5: only the last lr is too large.
    assert [bool(text) for text in first] == [False, False, True]
    assert "1 of 1 parameter tensors" in first[2]
    assert f"{20 * (2**0.5 if granularity == 'element' else 1) / 5.002:.3g} times" in first[2]


REFUSALS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "ball": ({"projection": Ball(1.0)}, [S0], "projection must be elementwise .* for sharded parameters"),
    "split_lazy_rows": ({"lazy": True, "granularity": "row"}, [S1], "needs whole rows on one rank"),
    "differentiable": ({"differentiable": True}, [S0], "differentiable=True needs plain tensors"),
    "partial": ({}, [Partial()], "must have placements Shard or Replicate"),
    "kernel_over_split_rows": ({"fused": True, "granularity": "row"}, [S1], "fused=True is impossible here: rows"),
    "plain_gradient": ({}, [S0], "gradient of a sharded parameter must be a DTensor"),
}


def check_refusals(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    for name, (options, placements, message) in REFUSALS.items():
        p = nn.Parameter(DTensor.from_local(torch.ones(2, 2), mesh, placements))
        if name == "plain_gradient":
            p._grad = torch.ones(4, 2)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            p.grad = DTensor.from_local(torch.ones(2, 2), mesh, placements)
        optimizer = GradaGrad([p], lr=1e-3, **options)
        with pytest.raises(RuntimeError, match=message):
            optimizer.step()
        assert all(state["step"] == 0 for state in optimizer.state.values())


def test_what_cannot_be_sharded_is_refused_by_name(world: World):
    world.run(check_refusals, 2)


def check_compiled(rank: int, size: int, granularity: str) -> None:
    mesh = init_device_mesh("cpu", (size,))
    options = {"lr": torch.tensor(0.01, dtype=torch.float64), "granularity": granularity}
    plain, expected, shards, optimizer = both(mesh, LAYOUTS["mixed"][1], torch.float64, **options)
    counter = CompileCounter()
    step = torch.compile(optimizer.step, backend=counter)
    for k in range(6):
        for p, q, g in zip(plain, shards, gradients(plain, k), strict=True):
            p.grad, q.grad = g, sharded_like(g, q)
        expected.step()
        step()
        for rates in (expected, optimizer):
            for group in rates.param_groups:
                group["lr"] = group["lr"] * 0.9
    for p, q in zip(plain, shards, strict=True):
        torch.testing.assert_close(whole(q), p.detach(), rtol=1e-10, atol=1e-12)
    assert counter.frame_count == 1
    torch._dynamo.reset()


@pytest.mark.parametrize("granularity", ["element", "group", "auto"])
def test_a_sharded_step_compiles_to_one_graph(world: World, granularity: str):
    """Communication included, and without another when a schedule moves the learning rate."""
    world.run(check_compiled, 2, granularity)
