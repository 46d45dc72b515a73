"""The average x̄ is swapped in and out exactly, and exported as copies."""

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


class Tied(nn.Module):
    """BatchNorm's buffers, and one weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.frozen = Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(x)).relu())


def tied_training() -> tuple[Tied, AutoGradaGrad, Tensor]:
    torch.manual_seed(0)
    model, data = Tied(), torch.randn(32, 4)
    optimizer = AutoGradaGrad(model.parameters(), gamma0=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        (model(data) - data).square().mean().backward()
        optimizer.step()
    return model, optimizer, data


def test_the_exported_weights_are_those_shown() -> None:
    model, optimizer, _ = tied_training()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.warns(UserWarning, match="BatchNorm"):
        exported = optimizer.averaged_state_dict(model)
    with optimizer.averaged():
        inside = {name: value.clone() for name, value in model.state_dict().items()}
    assert exported.keys() == inside.keys() == before.keys()
    for name, value in inside.items():
        assert torch.equal(exported[name], value), name
    assert torch.equal(exported["first.weight"], exported["last.weight"])
    assert not torch.equal(exported["first.weight"], before["first.weight"])
    assert torch.equal(exported["norm.running_mean"], before["norm.running_mean"])
    exported["first.weight"].zero_()
    exported["norm.running_mean"].zero_()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    Tied().load_state_dict(optimizer.averaged_state_dict(model))
