"""Optimizers before their first step: checkpoints of them, changed settings, parameters without memory."""

import copy
import sys

import pytest
import torch
from cases import KINDS, assert_same, every_parameter, make, parameters, through_a_file, train
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from gradagrad import GradaGrad
from gradagrad.engine.state import has_stepped

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
every_kind = pytest.mark.parametrize("kind", KINDS)


def pair(kind):
    """Two models of the same parameters, and their optimizers."""
    models = [torch.nn.ParameterList(parameters(torch.float32)) for _ in range(2)]
    options = {"lazy": True} if kind == "row" else {}
    return models, [make(kind, model.parameters(), **options) for model in models]


def zero_step(optimizer):
    for p in every_parameter(optimizer):
        p.grad = torch.zeros_like(p)
    optimizer.step()


def has_any_stepped(optimizer):
    return any(has_stepped(optimizer, p) for p in optimizer.state)


@every_kind
def test_a_step_of_zero_gradients_makes_state_and_changes_nothing(kind):
    """TorchRec's KeyedOptimizer and torch.distributed.checkpoint ask so for the keys of the state."""
    models, (optimizer, plain) = pair(kind)
    assert not optimizer.state
    assert optimizer.diagnostics()[0].blocks == 0  # Before the first step there is nothing to tell.
    zero_step(optimizer)
    assert all(map(torch.equal, *(model.parameters() for model in models)))
    assert set(optimizer.state) == set(models[0].parameters())
    keys = [set(state) for state in optimizer.state.values()]
    train(optimizer, 4)
    train(plain, 4)
    assert keys == [set(state) for state in optimizer.state.values()]
    for p, q in zip(*(model.parameters() for model in models), strict=True):
        optimizer.state[p]["step"] = plain.state[q]["step"]  # A step of zeros is counted.
    assert_same(optimizer, plain)


@every_kind
def test_a_checkpoint_before_the_first_step_loads_into_a_fresh_optimizer(kind):
    (_, other), (first, second) = pair(kind)
    assert set(get_optimizer_state_dict(other, second)["state"]) == {name for name, _ in other.named_parameters()}
    second.load_state_dict(through_a_file(first.state_dict()))
    assert not has_any_stepped(second)
    assert not has_any_stepped(copy.deepcopy(second))
    train(first, 4)
    train(second, 4)
    assert_same(first, second)
    assert has_any_stepped(copy.deepcopy(second))


@every_kind
def test_state_loaded_in_place_is_not_begun_again(kind):
    """TorchRec's wrappers copy saved numbers into the tensors of a fresh optimizer."""
    (model, other), (first, second) = pair(kind)
    train(first, 4)
    zero_step(second)
    other.load_state_dict(model.state_dict())
    for p, q in zip(model, other, strict=True):
        for key, value in second.state[q].items():
            value.copy_(first.state[p][key])
    assert second.diagnostics() == first.diagnostics()
    train(first, 4)
    train(second, 4)
    assert_same(first, second)


def test_settings_changed_before_the_first_step_count():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = GradaGrad([p], lr=0.1)
    optimizer.param_groups[0].update(initial_accumulator_value=2.0, granularity="tensor")
    p.grad = torch.ones(3)
    optimizer.step()
    assert optimizer.state[p]["accumulator"] == 5.0


def test_parameters_without_memory_or_gradients_wait():
    frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    meta, lazy = torch.nn.Parameter(torch.ones(3, device="meta")), torch.nn.LazyLinear(2).weight
    optimizer = GradaGrad([frozen, meta, lazy], lr=0.1)
    assert not optimizer.state
    optimizer.add_param_group({"params": [added := torch.nn.Parameter(torch.ones(2))]})
    assert not optimizer.state
    added.grad = torch.ones(2)
    optimizer.step()
    assert set(optimizer.state) == {added}


@every_kind
def test_a_first_step_calls_as_much_for_each_group(kind):
    calls = []
    for n in (20, 20, 40):  # The first step of a process loads the kernel.
        params = [torch.nn.Parameter(torch.ones(2)) for _ in range(n)]
        optimizer = make(kind, [{"params": [p]} for p in params])
        for p in params:
            p.grad = torch.full((2,), 1e-3)
        calls.append(0)
        sys.setprofile(lambda *_: calls.append(calls.pop() + 1))
        optimizer.step()
        sys.setprofile(None)
    assert calls[2] < 2.3 * calls[1]


def test_a_large_table_is_written_once():
    written = 0

    class Counter(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            nonlocal written
            result = operation(*args, **(kwargs or {}))
            written += result.numel() if isinstance(result, torch.Tensor) and "detach" not in str(operation) else 0
            return result

    table = torch.nn.Embedding(1000, 4, sparse=True)
    with Counter():
        optimizer = GradaGrad(table.parameters(), lr=0.1, granularity="row", lazy=True)
    assert not written
    for most in (1000 * (4 + 2 + 1) + 300, 1000):  # The state and the clocks of rows are written in the first step.
        written = 0
        table.zero_grad()
        table(torch.tensor([1, 2])).sum().backward()
        with Counter():
            optimizer.step()
        assert written < most
