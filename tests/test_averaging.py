"""The average x̄ is swapped in and out exactly, exported as copies, and kept lazily with sparse gradients."""

import copy
from typing import Any

import pytest
import torch
from cases import DRIVERS, assert_same, averages_of, coo, noisy_gradients, parameters, train
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim.swa_utils import update_bn

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
    for p, kept in zip(params, before, strict=True):
        assert torch.equal(bits(p), kept)


def test_nested_and_exception_safe() -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params)
    train(optimizer, 5)
    points, averages = [p.detach().clone() for p in params], averages_of(optimizer)

    def evaluate() -> None:
        with optimizer.averaged():
            with optimizer.averaged():
                torch.testing.assert_close([p.detach() for p in params], averages, rtol=0, atol=0)
            with pytest.raises(ZeroDivisionError), optimizer.averaged():
                raise ZeroDivisionError
            torch.testing.assert_close([p.detach() for p in params], averages, rtol=0, atol=0)
            with torch.no_grad():
                params[0].zero_()  # whatever is done to the average's place
            raise KeyError

    with pytest.raises(KeyError):
        evaluate()
    torch.testing.assert_close([p.detach() for p in params], points, rtol=0, atol=0)
    torch.testing.assert_close(averages_of(optimizer), averages, rtol=0, atol=0)
    train(optimizer, 1)


def test_looking_changes_nothing_in_the_training() -> None:
    looking, plain = AutoGradaGrad(parameters()), AutoGradaGrad(parameters())
    for k in range(20):
        train(looking, 1, start=k)
        averages_of(looking)
        train(plain, 1, start=k)
    assert_same(looking, plain)


def test_before_the_first_step_the_average_is_the_iterate() -> None:
    model = nn.Linear(2, 1)
    optimizer = AutoGradaGrad(model.parameters())
    start = [p.detach().clone() for p in model.parameters()]
    torch.testing.assert_close(averages_of(optimizer), start, rtol=0, atol=0)


def test_parameters_without_a_gradient_go_on_averaging() -> None:
    """Their weight in the average of the run does not stand still; zero gradients of the tensor say what it is."""
    for state_dtype in (torch.float32, torch.bfloat16):
        params, zeros = parameters(torch.float32), parameters(torch.float32)
        a, b = (AutoGradaGrad(some, gamma0=0.1, state_dtype=state_dtype) for some in (params, zeros))
        for k in range(12):
            for i, (p, q, g) in enumerate(zip(params, zeros, noisy_gradients(zeros, k), strict=True)):
                idle = i == 1 and k > 8
                p.grad, q.grad = (None, torch.zeros_like(g)) if idle else (g, g.clone())
            a.step()
            b.step()
        tolerance = 2e-2 if state_dtype == torch.bfloat16 else 1e-3  # other votes, and other random bits
        torch.testing.assert_close(averages_of(a)[1], averages_of(b)[1], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(params[1], zeros[1], rtol=tolerance, atol=tolerance)


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
    for _ in range(10):
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


def test_update_bn_inside() -> None:
    """BatchNorm's statistics are recomputed for the average, and stay so: they are buffers, not parameters."""
    model, optimizer, data = tied_training()
    twin = Tied()
    twin.load_state_dict(optimizer.averaged_state_dict(model, [data]))
    with optimizer.averaged():
        update_bn([data], model)
        model.eval()
        twin.eval()
        assert torch.equal(model(data), twin(data))
        assert (model(data) - data).square().mean() < (Tied().eval()(data) - data).square().mean()


# --- sparse gradients: untouched rows are averaged when they are touched next, or looked at

ROWS = 6
touches = st.lists(
    st.one_of(
        st.lists(st.integers(0, ROWS - 1), max_size=4),  # rows of a sparse gradient, repeats included
        st.sampled_from(["dense", "look", "save", "none", "entries"]),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(touches)
def test_lazy_averages_equal_the_dense_computation(pattern: list[Any]) -> None:
    """Whatever rows are touched when, dense gradients and swapping in between, single entries instead of rows."""
    torch.default_generator.manual_seed(0)
    table, twin = (Parameter(torch.linspace(-1.0, 1.0, ROWS * 2, dtype=torch.float64).reshape(ROWS, 2)) for _ in "ab")
    beside = [Parameter(torch.ones(2, dtype=torch.float64)) for _ in "ab"]
    lazy, dense = (AutoGradaGrad([t, b], gamma0=0.05) for t, b in zip((table, twin), beside, strict=True))
    for what in pattern:
        if what == "look":
            torch.testing.assert_close(averages_of(lazy), averages_of(dense), rtol=1e-12, atol=1e-14)
            continue
        if what == "save":
            lazy.load_state_dict(copy.deepcopy(lazy.state_dict()))
            continue
        gradient: Tensor | None = None
        if what == "entries":
            values = torch.randn(3, dtype=torch.float64)
            gradient = coo([[0, 3, 3], [1, 0, 1]], values, (ROWS, 2))
        elif what != "none":
            rows = list(range(ROWS)) if what == "dense" else what
            values = torch.randn(len(rows), 2, dtype=torch.float64)
            gradient = coo(torch.tensor([rows]).long().reshape(1, -1), values, (ROWS, 2))
        twin.grad = None if gradient is None else gradient.to_dense()
        table.grad = gradient if gradient is None or what != "dense" else gradient.to_dense()
        for b in beside:
            b.grad = torch.ones(2, dtype=torch.float64)
        lazy.step()
        dense.step()
    torch.testing.assert_close(averages_of(lazy), averages_of(dense), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(table, twin, rtol=1e-12, atol=1e-14)
