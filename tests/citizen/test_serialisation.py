"""torch.save, pickle and deepcopy."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from cases import through_a_file
from torch.nn import Parameter
from torch.optim import Optimizer

from .harness import Affine, Case, assert_identical, cases, give_gradients, named, quiet, random_gradients
from .info import FUSED_DTYPES

pytestmark = quiet


def without_names(state_dict: dict[str, Any]) -> dict[str, Any]:
    copy = deepcopy(state_dict)
    for group in copy["param_groups"]:
        group.pop("param_names", None)
    return copy


@pytest.mark.parametrize("names", [(True, True), (False, False), (True, False)], ids=str)
@cases(skip=("differentiable",))
def test_resume_from_a_file(case: Case, names: tuple[bool, bool]) -> None:
    """The file holds what was saved; construct, load, go on: bit for bit the run that never stopped."""
    problem = Affine()
    optimizer = case.make(named(problem.params) if names[0] else problem.params)
    problem.train(optimizer, 3)
    saved = optimizer.state_dict()
    loaded = through_a_file(saved, weights_only=True)
    assert_identical(loaded, saved)
    assert_identical(through_a_file(saved, weights_only=False), saved)
    twin = problem.copy()
    resumed = case.make(named(twin.params) if names[1] else twin.params)
    resumed.load_state_dict(loaded)
    assert_identical(loaded, saved)  # loading leaves the dictionary alone
    problem.train(optimizer, 4)
    twin.train(resumed, 4)
    assert_identical(twin.params, problem.params)
    assert_identical(without_names(resumed.state_dict()), without_names(optimizer.state_dict()))
    resumed.param_groups.extend(resumed.param_groups)  # Repeated parameters are written the same way both times.
    last = [without_names(each.state_dict())["param_groups"][-1] for each in (resumed, optimizer)]
    assert_identical(*last)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64], ids=str)
@cases(skip=("differentiable",))
def test_other_parameters_resume_bit_for_bit(case: Case, dtype: torch.dtype) -> None:
    params = [torch.randn(4, 3).to(dtype)]
    # What the kernel does not take, it leaves to torch operations.
    changes = {"fused": None} if case.kwargs().get("fused", False) and dtype not in FUSED_DTYPES else {}
    optimizer = case.make(params, **changes)
    runs = [(params, optimizer)]
    for step in range(6):
        if step == 3:
            twins = [param.clone() for param in params]
            runs.append((twins, case.make(twins, **changes)))
            runs[1][1].load_state_dict(through_a_file(optimizer.state_dict()))
        grads = random_gradients(params)
        for own, each in runs:
            give_gradients(own, grads)
            each.step()
    assert_identical(*(own for own, _ in runs))
    assert_identical(*(each.state_dict() for _, each in runs))


def public_attributes(optimizer: Optimizer) -> set[str]:
    return {name for name in vars(optimizer) if not name.startswith("_")}


def primed(case: Case, steps: int) -> tuple[list[Parameter], Optimizer]:
    params = [Parameter(torch.randn(2, 3)) for _ in range(2)]
    optimizer = case.make(params)
    for _ in range(steps):
        give_gradients(params, random_gradients(params))
        optimizer.step()
    return params, optimizer


def check_an_independent_twin(optimizer: Optimizer, twin: Optimizer, params: list[Parameter]) -> None:
    """Same numbers, nothing shared, and it goes on the same way."""
    twins = twin.param_groups[0]["params"]
    assert_identical(twin.state_dict(), optimizer.state_dict())
    for param, other in zip(params, twins, strict=True):
        assert other is not param
        assert twin.state[other].keys() == optimizer.state[param].keys()
        for key, value in optimizer.state[param].items():
            assert value.numel() == 0 or twin.state[other][key].data_ptr() != value.data_ptr()
    grads = random_gradients(params)
    give_gradients(params, grads)
    start = [other.detach().clone() for other in twins]
    optimizer.step()
    assert_identical([other.detach() for other in twins], start)
    give_gradients(twins, grads)
    twin.step()
    assert_identical([other.detach() for other in twins], [param.detach() for param in params])
    assert_identical(twin.state_dict(), optimizer.state_dict())


@pytest.mark.parametrize(
    "way", [deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("steps", [0, 3])
@cases(skip=("differentiable",))
def test_a_copy_is_independent_and_goes_on_alike(case: Case, steps: int, way: Callable[[Optimizer], Optimizer]) -> None:
    params, optimizer = primed(case, steps)
    twin = way(optimizer)
    assert public_attributes(twin) == public_attributes(optimizer)
    check_an_independent_twin(optimizer, twin, params)
