"""The average x̄ is swapped in and out exactly, exported as copies, and kept lazily with sparse gradients."""

import contextlib
import copy
import signal
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim.swa_utils import update_bn
from torch.utils._python_dispatch import TorchDispatchMode

from gradagrad import AutoGradaGrad, averaging

from .cases import DRIVERS, assert_same, coo, every_parameter, noisy_gradients, parameters, train


def shown(optimizer: AutoGradaGrad) -> list[Tensor]:
    """What the parameters hold inside of `averaged`."""
    with optimizer.averaged():
        return [p.detach().clone() for p in every_parameter(optimizer)]


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
    points, averages = [p.detach().clone() for p in params], shown(optimizer)

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
    torch.testing.assert_close(shown(optimizer), averages, rtol=0, atol=0)
    train(optimizer, 1)


def test_steps_saving_and_loading_inside_are_refused() -> None:
    """A checkpoint saved there would hold averages in the model and a state that belongs to the iterates."""
    optimizer = AutoGradaGrad(parameters())
    train(optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    twin = copy.deepcopy(optimizer)
    with optimizer.averaged(), optimizer.averaged():
        for call in (optimizer.step, optimizer.state_dict, lambda: optimizer.load_state_dict(saved)):
            with pytest.raises(RuntimeError, match=r"must be called outside of `with optimizer\.averaged\(\)`"):
                call()
    assert_same(optimizer, twin)
    train(optimizer, 2, start=3)  # and outside again


def test_looking_changes_nothing_in_the_training() -> None:
    looking, plain = AutoGradaGrad(parameters()), AutoGradaGrad(parameters())
    for k in range(20):
        train(looking, 1, start=k)
        shown(looking)
        train(plain, 1, start=k)
    assert_same(looking, plain)


def test_before_the_first_step_the_average_is_the_iterate() -> None:
    model = nn.Linear(2, 1)
    optimizer = AutoGradaGrad(model.parameters())
    start = [p.detach().clone() for p in model.parameters()]
    torch.testing.assert_close(shown(optimizer), start, rtol=0, atol=0)


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
        torch.testing.assert_close(shown(a)[1], shown(b)[1], rtol=tolerance, atol=tolerance)
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
    for _ in range(40):
        optimizer.zero_grad()
        (model(data) - data).square().mean().backward()
        optimizer.step()
    return model, optimizer, data


def test_the_exported_weights_are_those_shown() -> None:
    model, optimizer, _ = tied_training()
    before = {name: value.clone() for name, value in model.state_dict().items()}
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
    twin.load_state_dict(optimizer.averaged_state_dict(model))
    update_bn([data], twin)
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
            torch.testing.assert_close(shown(lazy), shown(dense), rtol=1e-12, atol=1e-14)
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
    torch.testing.assert_close(shown(lazy), shown(dense), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(table, twin, rtol=1e-12, atol=1e-14)


def _stepped() -> tuple[torch.nn.Module, AutoGradaGrad, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = AutoGradaGrad(model.parameters(), gamma0=0.1)
    inputs = torch.randn(16, 3)
    for _ in range(5):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return model, optimizer, inputs


def test_batch_norm_is_measured_at_the_average_and_put_back() -> None:
    model, optimizer, inputs = _stepped()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with optimizer.averaged(model, batches=[inputs]):
        expected = model[0](inputs).mean(0)
        torch.testing.assert_close(model[1].running_mean, expected)
        assert not torch.equal(model[1].running_mean, before["1.running_mean"])
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    with optimizer.averaged():
        with optimizer.averaged(model):  # without batches
            assert torch.equal(model[1].running_mean, before["1.running_mean"])
        with optimizer.averaged(model, batches=[inputs]):
            torch.testing.assert_close(model[1].running_mean, expected)
        torch.testing.assert_close(model[1].running_mean, expected)
    with pytest.raises(ValueError, match="at least one batch"), optimizer.averaged(model, batches=iter(())):
        pass
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_no_exit_leaves_a_mixture(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A handler that would raise while iterates are put back waits; before that, the next call puts them back."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # Jobs in the background ignore it.
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    model, optimizer, _ = _stepped()
    twin, peaceful = copy.deepcopy((model, optimizer))
    before, averages = [p.detach().clone() for p in model.parameters()], shown(optimizer)
    put, parameters = averaging.put, list(model.parameters())

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    def interrupt() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(optimizer, "_put_back", interrupted)
            with pytest.raises(KeyboardInterrupt), optimizer.averaged():
                pass
        assert not all(map(torch.equal, parameters, before))

    for go_on in (optimizer.state_dict, lambda: shown(optimizer)):
        interrupt()
        seen = go_on()
        assert all(map(torch.equal, parameters, before))
        assert isinstance(seen, dict) or all(map(torch.equal, seen, averages))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), optimizer.averaged():
        patch.setattr(averaging, "put", lambda values: (signal.raise_signal(signal.SIGINT), put(values)))  # pyright: ignore
    assert all(map(torch.equal, parameters, before))
    interrupt()
    for p, q in zip(parameters, twin.parameters(), strict=True):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    optimizer.step()
    peaceful.step()
    before = [p.detach().clone() for p in twin.parameters()]
    assert all(map(torch.equal, parameters, before))
    with pytest.raises(RuntimeError, match="1 parameters were resized"), optimizer.averaged():
        model[0].bias.data = torch.zeros(7)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True) if p.shape == q.shape)


@pytest.mark.parametrize("postponed", [True, False])
def test_why_averaged_postpones_signals(
    postponed: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A handler that raises between two copies would leave a model of averages and iterates, which may get saved."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    if not postponed:
        monkeypatch.setattr(averaging, "uninterrupted", contextlib.nullcontext)
    model, optimizer, _ = _stepped()
    before = [p.detach().clone() for p in model.parameters()]

    class Interrupting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func is torch.ops.aten.copy_.default:
                signal.raise_signal(signal.SIGINT)
            return result

    block = optimizer.averaged()
    block.__enter__()
    with Interrupting(), pytest.raises(KeyboardInterrupt):
        block.__exit__(None, None, None)
    restored = list(map(torch.equal, model.parameters(), before))
    assert all(restored) if postponed else len({*restored}) == 2


def test_signals_reach_their_handlers_after_the_block() -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    try:
        with averaging.uninterrupted():
            signal.raise_signal(signal.SIGUSR1)
            assert not calls
        assert calls == [1]
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls == [1, 1]
