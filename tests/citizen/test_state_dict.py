"""state_dict and load_state_dict: older and named dictionaries, other dtypes."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .harness import Case, assert_identical, cases, give_gradients, quiet, random_gradients

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
        give_gradients(params, random_gradients(params))
        optimizer.step()
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
    give_gradients(params, random_gradients(params))
    native.step()
    for param, state in zip(params, native.state.values(), strict=True):
        assert torch.isfinite(param).all()
        assert state["step"].item() == 3


@cases()
def test_non_empty_state(case: Case) -> None:
    params = [torch.randn(5, 5), torch.randn(5)]
    optimizer = case.make(params)
    give_gradients(params, random_gradients(params))
    optimizer.step()
    assert len(optimizer.state) == 2
    for state in optimizer.state.values():
        assert len(state) > 0
        # Distributed checkpoints and weights_only loading take nothing else.
        assert all(torch.is_tensor(value) for value in state.values())
    assert all(torch.is_tensor(key) for key in optimizer.state)
