"""State: tensors under parameters, one shared tensor, exact resumption, and dictionaries that do not fit."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from gradagrad import AutoGradaGrad, GradaGrad

from .cases import DRIVERS, assert_same, coo, every_parameter, gammas, parameters, shared, through_a_file, train

COPIES: dict[str, Callable[[AutoGradaGrad], AutoGradaGrad]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda optimizer: pickle.loads(pickle.dumps(optimizer)),
}


@pytest.mark.parametrize("way", COPIES)
def test_one_tensor_is_shared_by_all_parameters(way: str) -> None:
    """Of all groups, of latecomers too, and still after loading or copying."""
    params = parameters(torch.bfloat16)
    late = Parameter(torch.ones(2))
    optimizer = AutoGradaGrad([{"params": params}, {"params": [late]}])
    for k in range(4):
        for p in params:
            p.grad = torch.ones_like(p)
        late.grad = torch.ones_like(late) if k == 3 else None
        optimizer.step()
    assert shared(optimizer).clock == 4
    assert optimizer.state[late]["step"] == 1
    twin = COPIES[way](optimizer)
    assert shared(twin) == shared(optimizer)
    assert twin.state[every_parameter(twin)[0]]["clock"] is not optimizer.state[late]["clock"]
    loaded = AutoGradaGrad([{"params": copy.deepcopy(params)}, {"params": [Parameter(torch.ones(2))]}])
    loaded.load_state_dict(through_a_file(optimizer.state_dict()))
    assert shared(loaded) == shared(optimizer)  # the base class would have rounded it to bfloat16
    train(loaded, 1)
    assert shared(loaded).clock == 5
    assert shared(optimizer).clock == 4


RESUMED: dict[str, dict[str, Any]] = {
    "plain": {},
    "bfloat16": {"state_dtype": torch.bfloat16},
    "decay, no guard": {"weight_decay": 0.1, "guard": False},
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_continues_bit_for_bit(driver: str, dtype: torch.dtype, name: str) -> None:
    params = [Parameter(torch.randn(4, 3).to(dtype)), Parameter(torch.randn(5).to(dtype))]
    optimizer = AutoGradaGrad(params, **DRIVERS[driver], **RESUMED[name])
    train(optimizer, 7)
    others = copy.deepcopy(params)
    resumed = AutoGradaGrad(others, lr=0.7, gamma0=1.0)
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    assert_same(optimizer, resumed)
    train(optimizer, 7, start=7)
    train(resumed, 7, start=7)
    assert_same(optimizer, resumed)
    assert max(gammas(optimizer)) > 2e-5


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_sparse_run_resumes_bit_for_bit(state_dtype: torch.dtype) -> None:
    """Distributed checkpoints load nothing that a fresh optimizer has not; row clocks must therefore not be needed."""

    def step(optimizer: AutoGradaGrad, k: int) -> None:
        (p,) = every_parameter(optimizer)
        p.grad = coo([[k % 4, (k * k) % 7]], torch.ones(2, 3), p.shape)
        optimizer.step()

    optimizer = AutoGradaGrad([Parameter(torch.randn(8, 3))], gamma0=0.01, state_dtype=state_dtype)
    for k in range(9):
        step(optimizer, k)
    saved = through_a_file(optimizer.state_dict())  # Idle rows catch up, so the parameters are copied after it.
    assert "row_clocks" not in saved["state"][0]
    resumed = AutoGradaGrad([copy.deepcopy(every_parameter(optimizer)[0])], state_dtype=state_dtype)
    resumed.load_state_dict(saved)
    twin = copy.deepcopy(optimizer)
    for k in range(9, 20):
        for each in (optimizer, resumed, twin):
            step(each, k)
        if k == 14:
            twin = copy.deepcopy(twin)  # in the middle, clocks and all
    for each in (resumed, twin):
        assert_same(optimizer, each)
    assert max(gammas(optimizer)) > 0.011


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("other", [GradaGrad, torch.optim.Adagrad, torch.optim.Adam])
@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
def test_other_optimizers_dictionaries_are_refused(other: Any, steps: int) -> None:
    params = parameters()
    foreign = other(params, lr=0.01)
    train(foreign, steps)
    victim = AutoGradaGrad(parameters())
    train(victim, 1)
    before = copy.deepcopy(victim)
    with pytest.raises(ValueError, match=r"AutoGradaGrad cannot use it\. Load only"):
        victim.load_state_dict(foreign.state_dict())
    assert_same(victim, before)
    assert "rho" not in victim.param_groups[0]


def test_its_dictionary_is_refused_by_gradagrad() -> None:
    optimizer = AutoGradaGrad(parameters())
    train(optimizer, 1)
    with pytest.raises(ValueError, match="saved by AutoGradaGrad; GradaGrad cannot use it"):
        GradaGrad(parameters()).load_state_dict(optimizer.state_dict())


def test_shared_memory() -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params)
    optimizer.share_memory()
    numbers = shared(optimizer)
    assert all(value.is_shared() for p in params if p.numel() for value in optimizer.state[p].values())
    assert numbers.clock == 0
    reference = AutoGradaGrad(parameters())
    assert train(optimizer, 5)[0].equal(train(reference, 5)[0])
    assert optimizer.state[params[0]]["gamma"].is_shared()
    assert shared(optimizer) == shared(reference)


def test_diagnostics_say_where_gamma_stays_above_its_limit():
    """A constant gradient agrees with every step, so γ is drawn back to its limit all the time; noise does not."""
    found = {}
    for kind in ("slope", "noise"):
        p = torch.nn.Parameter(torch.zeros(50))
        optimizer = AutoGradaGrad([p])
        for k in range(1100):
            p.grad = torch.ones(50) if kind == "slope" else torch.randn(50, generator=torch.Generator().manual_seed(k))
            optimizer.step()
            if k == 600:
                assert optimizer.diagnostics()[0].note == ""  # It waits for 1,000 steps.
        (found[kind],) = optimizer.diagnostics()
    assert found["slope"].limited > 0.75
    assert "γ was above its limit for 8" in found["slope"].note
    assert "unit spread" in found["slope"].note
    assert found["noise"].limited < 0.5
    assert not found["noise"].note
