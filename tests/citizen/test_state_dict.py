"""state_dict and load_state_dict: resuming, older and named dictionaries, other dtypes, files and copies."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from cases import through_a_file
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from .harness import ADAGRAD, Affine, Case, assert_identical, cases, give_gradients, named, quiet, step_alike
from .info import FUSED_DTYPES

pytestmark = quiet

NAMED = pytest.mark.parametrize("names", [(a, b) for a in (True, False) for b in (True, False)], ids=str)


def small_network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(4, 2, 1, stride=2), nn.BatchNorm2d(2))


def train(model: nn.Module, optimizer: Optimizer, steps: int) -> None:
    image = torch.linspace(0.0, 1.0, 4 * 8 * 8).reshape(1, 4, 8, 8)
    for _ in range(steps):
        optimizer.zero_grad()
        model(image).pow(2).sum().backward()
        optimizer.step()


@cases(skip=("differentiable",))
def test_can_load_older_state_dict(case: Case) -> None:
    """Flags that came after the first release may be missing, and the step count was once a number."""
    model = small_network()
    optimizer = case.make(model.parameters())
    train(model, optimizer, 3)
    older = deepcopy(optimizer.state_dict())
    for group in older["param_groups"]:
        for flag in case.info.not_og_supported_flags:
            group.pop(flag, None)
    for state in older["state"].values():
        state["step"] = state["step"].item()
    optimizer.load_state_dict(older)
    assert all(torch.is_tensor(state["step"]) for state in optimizer.state.values())
    before = [param.detach().clone() for param in model.parameters()]
    train(model, optimizer, 1)
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    for param in model.parameters():
        assert torch.isfinite(param).all()
        assert optimizer.state[param]["step"].item() == 4


@NAMED
@cases(skip=("differentiable",), few=True)
def test_can_load_from_to_named_state_dict(case: Case, names: tuple[bool, bool]) -> None:
    model = small_network()
    optimizer = case.make(model.named_parameters() if names[0] else model.parameters())
    train(model, optimizer, 3)
    saved = deepcopy(optimizer.state_dict())
    assert ("param_names" in saved["param_groups"][0]) is names[0]
    other = case.make(model.named_parameters() if names[1] else model.parameters())
    other.load_state_dict(saved)
    train(model, other, 1)
    group = other.state_dict()["param_groups"][0]
    if any(names):
        assert group["param_names"] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    else:
        assert "param_names" not in group


def primed(case: Case, dtype: torch.dtype) -> tuple[list[Tensor], Optimizer]:
    """Parameters and an optimizer that has taken two steps on them."""
    params = [torch.randn(4, 3).to(dtype), torch.randn(3).to(dtype)]
    optimizer = case.make(params)
    for _ in range(2):
        step_alike((params, optimizer))
    return params, optimizer


def dtypes_of(optimizer: Optimizer) -> list[dict[str, torch.dtype]]:
    return [{key: value.dtype for key, value in state.items()} for state in optimizer.state.values()]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (torch.float32, torch.float64),
        (torch.float64, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float32),
    ],
    ids=str,
)
@cases(skip=("differentiable", "foreach"))
def test_state_dict_of_another_dtype_can_be_loaded(case: Case, before: torch.dtype, after: torch.dtype) -> None:
    """Loaded state has the dtypes this optimizer would have made itself, and the values that were saved."""
    _, source = primed(case, before)
    params, native = primed(case, after)
    native_dtypes = dtypes_of(native)
    saved = deepcopy(source.state_dict())
    native.load_state_dict(saved)
    assert dtypes_of(native) == native_dtypes
    for index, state in enumerate(native.state.values()):
        for key, value in state.items():
            assert_identical(value, saved["state"][index][key].to(value.dtype))
    step_alike((params, native))
    for param, state in zip(params, native.state.values(), strict=True):
        assert torch.isfinite(param).all()
        assert state["step"].item() == 3


@cases()
def test_non_empty_state(case: Case) -> None:
    params = [torch.randn(5, 5), torch.randn(5)]
    optimizer = case.make(params)
    step_alike((params, optimizer))
    assert len(optimizer.state) == 2
    for state in optimizer.state.values():
        assert len(state) > 0
        # Distributed checkpoints and weights_only loading take nothing else.
        assert all(torch.is_tensor(value) for value in state.values())
    assert all(torch.is_tensor(key) for key in optimizer.state)


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
    kept = deepcopy(loaded)
    problem.train(optimizer, 4)
    twin.train(resumed, 4)
    if case.info is not ADAGRAD:  # which keeps the dictionary's own tensors
        assert_identical(loaded, kept)
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
        step_alike(*runs)
    assert_identical(*(own for own, _ in runs))
    assert_identical(*(each.state_dict() for _, each in runs))


def public_attributes(optimizer: Optimizer) -> set[str]:
    return {name for name in vars(optimizer) if not name.startswith("_")}


def stepped(case: Case, steps: int) -> tuple[list[Parameter], Optimizer]:
    params = [Parameter(torch.randn(2, 3)) for _ in range(2)]
    optimizer = case.make(params)
    for _ in range(steps):
        step_alike((params, optimizer))
    return params, optimizer


def check_an_independent_twin(optimizer: Optimizer, twin: Optimizer, params: list[Parameter]) -> None:
    """It has the same numbers, shares nothing, and continues in the same way."""
    twins = twin.param_groups[0]["params"]
    assert_identical(twin.state_dict(), optimizer.state_dict())
    for param, other in zip(params, twins, strict=True):
        assert other is not param
        assert twin.state[other].keys() == optimizer.state[param].keys()
        for key, value in optimizer.state[param].items():
            assert value.numel() == 0 or twin.state[other][key].data_ptr() != value.data_ptr()
    start = [other.detach().clone() for other in twins]
    step_alike((params, optimizer))
    assert_identical([other.detach() for other in twins], start)
    give_gradients(twins, [param.grad for param in params])
    twin.step()
    assert_identical([other.detach() for other in twins], [param.detach() for param in params])
    assert_identical(twin.state_dict(), optimizer.state_dict())


@pytest.mark.parametrize(
    "way", [deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("steps", [0, 3])
@cases(skip=("differentiable",))
def test_a_copy_is_independent_and_goes_on_alike(case: Case, steps: int, way: Callable[[Optimizer], Optimizer]) -> None:
    params, optimizer = stepped(case, steps)
    twin = way(optimizer)
    assert public_attributes(twin) == public_attributes(optimizer)
    check_an_independent_twin(optimizer, twin, params)
