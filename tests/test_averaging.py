"""The average x̄ is swapped in and out exactly, and exported as copies."""

import copy

import pytest
import torch
from cases import DRIVERS, train
from torch import Tensor, nn
from torch.nn import Parameter

from gradagrad import AutoGradaGrad


def bits(tensor: Tensor) -> Tensor:
    """NaN and the sign of zero included."""
    return tensor.detach().clone().contiguous().view(torch.uint8) if tensor.dim() else bits(tensor.reshape(1))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=["float32 state", "bf16 state"])
def test_swapping_is_exact(driver: str, dtype: torch.dtype, state_dtype: torch.dtype) -> None:
    params = [Parameter(torch.randn(4, 3).to(dtype)), Parameter(torch.randn(3).to(dtype)), Parameter(torch.zeros(()))]
    optimizer = AutoGradaGrad(params, gamma0=0.1, momentum=0.5, state_dtype=state_dtype, **DRIVERS[driver])
    train(optimizer, 6)
    with torch.no_grad():
        params[2].fill_(-0.0 if dtype.is_complex else torch.nan)
    before = [bits(p) for p in params]
    before_values = {p: (torch.view_as_real(p.detach()) if p.is_complex() else p.detach()).float() for p in params}
    before_values = {p: value.clone() for p, value in before_values.items()}
    memory = [p.data_ptr() for p in params]
    with optimizer.averaged():
        for p in params:
            held = torch.view_as_real(p.detach()) if p.is_complex() else p.detach()
            iterate = before_values[p]
            average = iterate - optimizer.state[p]["offset"].float()
            torch.testing.assert_close(held, average.to(held.dtype), equal_nan=True)
        assert not torch.equal(bits(params[0]), before[0])
        assert [p.data_ptr() for p in params] == memory
        with torch.no_grad():
            params[0].zero_()  # whatever is done to the average's place
    for p, kept in zip(params, before, strict=True):
        assert torch.equal(bits(p), kept)


def test_the_exported_weights_are_those_shown() -> None:
    """BatchNorm's buffers, and one weight under two names."""
    torch.manual_seed(0)
    model, data = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(32, 4)
    model[3].weight = model[0].weight
    optimizer = AutoGradaGrad(model.parameters(), gamma0=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        (model(data) - data).square().mean().backward()
        optimizer.step()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.warns(UserWarning, match="BatchNorm"):
        exported = optimizer.averaged_state_dict(model)
    with optimizer.averaged():
        inside = {name: value.clone() for name, value in model.state_dict().items()}
    assert exported.keys() == inside.keys() == before.keys()
    for name, value in inside.items():
        assert torch.equal(exported[name], value), name
    assert torch.equal(exported["0.weight"], exported["3.weight"])
    assert not torch.equal(exported["0.weight"], before["0.weight"])
    assert torch.equal(exported["1.running_mean"], before["1.running_mean"])
    exported["0.weight"].zero_()
    exported["1.running_mean"].zero_()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    copy.deepcopy(model).load_state_dict(optimizer.averaged_state_dict(model))
