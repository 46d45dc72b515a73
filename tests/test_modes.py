"""The optimizer owns one mode. Parameters are iterates in train mode, averages in eval mode, and never a mixture."""

import copy
import pickle
import random
import signal
from typing import Any

import pytest
import torch
from auto_oracle import AutoOracle
from cases import DRIVERS, assert_same, coo, every_parameter, through_a_file, train
from torch import nn
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from gradagrad import AutoGradaGrad, GradaGrad, step_in_backward


class Run:
    """An optimizer beside the literal oracle, and the mode it should be in."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.params = [Parameter(torch.linspace(-1.0, 1.0, n, dtype=torch.float64).reshape(n // 2, 2)) for n in (4, 6)]
        options: dict[str, Any] = {"gamma0": 0.05, **DRIVERS[dice.choice([*DRIVERS])]}
        groups = [{"params": self.params[:1]}, {"params": self.params[1:], "lr": 0.5}]
        self.optimizer = AutoGradaGrad(groups, **options)
        start = [p.flatten().tolist() for p in self.params]
        self.oracle = AutoOracle(start, gamma0=0.05, lr=[1.0, 0.5])
        self.training = True
        self.iterates: list[torch.Tensor] = []
        """The last ones seen, unless a step or a checkpoint has changed them."""
        self.saved = self.checkpoint()

    def checkpoint(self) -> Any:
        state = [self.optimizer.state_dict(), [p.detach() for p in self.params]]
        return copy.deepcopy((state, self.oracle, self.training))

    def go(self, depth: int = 0) -> None:
        """Does something, and compares."""
        does = ["step", "step", "step", "eval", "train", "averaged", "averaged", "save", "load", "copy", "raise"]
        what = self.dice.choice(does if depth == 0 else [d for d in does if d != "copy"])
        if what == "step":
            self.step()
        elif what in ("eval", "train"):
            getattr(self.optimizer, what)()
            self.expect(training=what == "train")
        elif what == "averaged":
            before = self.training
            try:
                with self.optimizer.averaged():
                    self.expect(training=False)
                    for _ in range(self.dice.randrange(3)):
                        self.go(depth + 1)
            finally:
                self.expect(training=before)
        elif what == "save":
            self.saved = self.checkpoint()
        elif what == "load":
            self.load()
        elif what == "copy":
            pair = self.params, self.optimizer
            way = self.dice.choice([copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
            self.params, self.optimizer = way(pair)
        else:
            raise ZeroDivisionError
        self.expect(training=self.training)

    def step(self) -> None:
        sparse, idle = self.dice.random() < 0.5, self.dice.random() < 0.2
        gradients: list[torch.Tensor | None] = [torch.randn(p.shape, dtype=torch.float64) for p in self.params]
        gradients[1] = coo([[self.dice.randrange(3)]], torch.randn(1, 2, dtype=torch.float64), (3, 2))
        gradients[1] = None if idle else gradients[1] if sparse else gradients[1].to_dense()
        for p, g in zip(self.params, gradients, strict=True):
            p.grad = g
        if self.training:
            self.iterates = []
            self.optimizer.step()
            self.oracle.step([None if g is None else g.to_dense().flatten().tolist() for g in gradients])
        else:
            with pytest.raises(RuntimeError, match=r"in eval mode: .* Call optimizer\.train\(\)"):
                self.optimizer.step()

    def load(self) -> None:
        """The pair of a model and its optimizer, in either order."""
        (state, values), oracle, self.training = self.saved
        self.oracle, self.iterates = copy.deepcopy(oracle), []
        first = self.dice.random() < 0.5
        if first:
            self.optimizer.load_state_dict(state)
        with torch.no_grad():
            for p, value in zip(self.params, values, strict=True):
                p.copy_(value)
        if not first:
            self.optimizer.load_state_dict(state)

    def expect(self, *, training: bool) -> None:
        self.optimizer._catch_up()
        self.training = training
        if training:
            assert all(map(torch.equal, self.params, self.iterates))
            self.iterates = [p.detach().clone() for p in self.params]
        for p, own in zip(self.params, self.oracle.tensors, strict=True):
            expected = torch.tensor(own.y if training else own.mean, dtype=torch.float64)
            torch.testing.assert_close(p.detach().flatten(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("part", range(4))
def test_random_sequences_are_at_the_iterate_or_at_the_average_of_the_oracle(part: int) -> None:
    modes: set[bool] = set()
    for seed in range(500 * part, 500 * (part + 1)):
        torch.manual_seed(seed)
        run = Run(random.Random(seed))
        for _ in range(10):
            try:
                run.go()
            except ZeroDivisionError:
                run.expect(training=run.training)
        modes.add(run.training)
    assert modes == {True, False}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16"])
def test_a_pair_saved_in_eval_mode_continues_within_rounding(dtype: torch.dtype, state_dtype: Any) -> None:
    params = [Parameter(torch.randn(4, 3).to(dtype)), Parameter(torch.ones(5).to(dtype))]
    optimizer = AutoGradaGrad(params, gamma0=0.05, state_dtype=state_dtype)
    train(optimizer, 6)
    optimizer.eval()
    weights, state = through_a_file(([p.detach() for p in params], optimizer.state_dict()))
    assert [group["mode"] for group in state["param_groups"]] == ["eval"]
    optimizer.train()
    resumed = AutoGradaGrad([Parameter(value) for value in weights], state_dtype=state_dtype)
    resumed.load_state_dict(state)
    assert "mode" not in resumed.param_groups[0]
    with resumed.averaged():  # at the average already, without a shift
        assert all(map(torch.equal, every_parameter(resumed), weights))
    resumed.train()
    tolerance = {torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    torch.testing.assert_close(every_parameter(resumed), params, rtol=tolerance, atol=tolerance)
    assert optimizer.state_dict()["param_groups"][0]["mode"] == "train"
    train(optimizer, 3, start=6)
    train(resumed, 3, start=6)
    torch.testing.assert_close(every_parameter(resumed), params, rtol=10 * tolerance, atol=10 * tolerance)


def batch_norm() -> tuple[nn.Sequential, AutoGradaGrad, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer, inputs = AutoGradaGrad(model.parameters(), gamma0=0.1), torch.randn(16, 3)
    for _ in range(5):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return model, optimizer, inputs


def test_batch_norm_is_measured_in_eval_mode() -> None:
    model, optimizer, inputs = batch_norm()
    before = copy.deepcopy(model.state_dict())
    for _ in range(2):
        optimizer.eval(model, [inputs])
        torch.testing.assert_close(model[1].running_mean, model[0](inputs).mean(0))
        assert not torch.equal(model[1].running_mean, before["1.running_mean"])
        optimizer.eval()
    twin, copied = copy.deepcopy((model, optimizer))
    for each, own in ((model, optimizer), (twin, copied)):
        own.train()
        assert all(torch.equal(value, before[name]) for name, value in each.state_dict().items())
    assert_same(optimizer, copied)
    with pytest.raises(RuntimeError, match="shapes"):
        optimizer.eval(model, [inputs, torch.ones(4, 7)])  # the second batch does not fit
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    optimizer.step()


def test_mistaken_calls_name_the_right_one() -> None:
    model, optimizer, inputs = batch_norm()
    for call in (optimizer.averaged, optimizer.eval):
        with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, got list\. .* averaged\(model, batches\)"):
            call([inputs]).__enter__()
        with pytest.raises(TypeError, match=r"batches needs the model .* averaged\(model, batches"):
            call(batches=[inputs]).__enter__()
    with pytest.warns(UserWarning, match=r"BatchNorm layers.* averaged\(model, batches\)") as warned:
        optimizer.eval(model)
    assert warned[0].filename == __file__
    optimizer.train()
    with optimizer.averaged(model):  # It warns once.
        optimizer.averaged_state_dict(model)
    exported = optimizer.averaged_state_dict(model, [inputs])
    with optimizer.averaged(model, [inputs]):
        assert all(torch.equal(value, exported[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("name", ["averaged", "eval", "train"])
def test_gradagrad_has_no_average_and_says_who_has(name: str) -> None:
    optimizer = GradaGrad([Parameter(torch.ones(2))])
    assert not hasattr(optimizer, name)  # Trainers call what is there.
    with pytest.raises(AttributeError, match=rf"no {name}.*torch\.optim\.swa_utils\.AveragedModel"):
        getattr(optimizer, name)


def test_steps_inside_the_backward_pass_are_refused_in_eval_mode() -> None:
    model = nn.Linear(2, 1)
    optimizer = AutoGradaGrad(model.parameters())
    step_in_backward(model, optimizer)
    optimizer.eval()
    with pytest.raises(RuntimeError, match="in eval mode"):
        model(torch.ones(3, 2)).sum().backward()
    optimizer.train()
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()


def test_autocast_does_not_go_on_with_weights_of_the_other_mode() -> None:
    model, optimizer, inputs = batch_norm()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(inputs)
        optimizer.eval()
        cached = model(inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(cached, model(inputs))


def test_batch_norm_in_nested_blocks() -> None:
    model, optimizer, inputs = batch_norm()
    before = copy.deepcopy(model.state_dict())
    with optimizer.averaged():
        with optimizer.averaged(model, batches=[inputs]):
            expected = model[0](inputs).mean(0)
            torch.testing.assert_close(model[1].running_mean, expected)
        torch.testing.assert_close(model[1].running_mean, expected)
        with pytest.raises(ValueError, match="at least one batch"):
            optimizer.eval(model, batches=iter(()))
        torch.testing.assert_close(model[1].running_mean, expected)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(ValueError, match="at least one batch"), optimizer.averaged(model, batches=iter(())):
        pass
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())


class Interrupting(TorchDispatchMode):
    """Raises Ctrl-C after a copy, once."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.after -= func is torch.ops.aten.copy_.default
        if self.after == 0:
            self.after = -1000
            signal.raise_signal(signal.SIGINT)
        return result


@pytest.mark.parametrize("call", ["eval", "train"])
def test_a_signal_whose_handler_raises_leaves_no_mixture(call: str, request: pytest.FixtureRequest) -> None:
    """Someone who saves in an exception handler would save a model of averages and iterates."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # Jobs in the background ignore it.
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    model, optimizer, _ = batch_norm()
    iterates = [p.detach().clone() for p in model.parameters()]
    with optimizer.averaged():
        averages = [p.detach().clone() for p in model.parameters()]
    for after in range(1, 5):
        getattr(optimizer, "train" if call == "eval" else "eval")()
        with Interrupting(after), pytest.raises(KeyboardInterrupt):
            getattr(optimizer, call)()
        assert all(map(torch.equal, model.parameters(), iterates if call == "train" else averages)), after
        assert optimizer.state_dict()["param_groups"][0]["mode"] == call
    optimizer.train()
    assert all(map(torch.equal, model.parameters(), iterates))


def test_parameters_resized_in_eval_mode_are_named() -> None:
    model, optimizer, _ = batch_norm()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match=r"1 parameters .* the first to \(7,\)"), optimizer.averaged():
        model[0].bias.data = torch.zeros(7)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True) if p.shape == q.shape)
