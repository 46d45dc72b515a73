"""Optimizers before their first step: checkpoints of them, changed settings, parameters without memory."""

import copy
import io

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine.state import has_stepped

MAKERS = {
    "element": lambda params: GradaGrad(params, lr=0.1),
    "row": lambda params: GradaGrad(params, lr=0.1, granularity="row", lazy=True),
    "tensor": lambda params: GradaGrad(params, lr=0.1, granularity="tensor"),
    "group": lambda params: GradaGrad(params, lr=0.1, granularity="group"),
    "auto": AutoGradaGrad,
}


def model(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)).to(dtype)


def train(net, optimizer, steps=4):
    for k in range(steps):
        optimizer.zero_grad()
        net(torch.full((2, 3), 1.0 + k, dtype=net[0].weight.dtype)).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def has_any_stepped(optimizer):
    return any(has_stepped(optimizer, p) for p in optimizer.state)


@pytest.mark.parametrize("name", MAKERS)
class TestEveryOptimizer:
    def test_a_step_of_zero_gradients_makes_state_and_changes_nothing(self, name):
        """TorchRec's KeyedOptimizer and torch.distributed.checkpoint ask so for the keys of the state."""
        net, other = model(), model()
        optimizer, plain = MAKERS[name](net.parameters()), MAKERS[name](other.parameters())
        assert not optimizer.state
        assert optimizer.diagnostics()[0].blocks == 0  # Before the first step there is nothing to tell.
        for p in net.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        keys = {key for state in optimizer.state.values() for key in state}
        assert all(map(torch.equal, net.parameters(), other.parameters()))
        assert len(optimizer.state) == 4
        for a, b in zip(train(net, optimizer), train(other, plain), strict=True):
            assert torch.equal(a, b)
        assert keys == {key for state in optimizer.state.values() for key in state}
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            for key in keys - {"step"}:
                assert torch.equal(optimizer.state[p][key], plain.state[q][key])

    def test_a_checkpoint_before_the_first_step_loads_into_a_fresh_optimizer(self, name):
        net, other = model(), model()
        first, second = MAKERS[name](net.parameters()), MAKERS[name](other.parameters())
        keys = set(get_optimizer_state_dict(other, second)["state"])
        assert keys == {n for n, _ in other.named_parameters()}
        torch.save(first.state_dict(), file := io.BytesIO())
        second.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
        assert not has_any_stepped(second)
        assert not has_any_stepped(copy.deepcopy(second))
        for a, b in zip(train(net, first), train(other, second), strict=True):
            assert torch.equal(a, b)
        assert has_any_stepped(copy.deepcopy(second))

    def test_state_loaded_in_place_is_not_begun_again(self, name):
        """TorchRec's wrappers copy saved numbers into the tensors of a fresh optimizer."""
        net, other = model(), model()
        first, second = MAKERS[name](net.parameters()), MAKERS[name](other.parameters())
        train(net, first)
        for p in other.parameters():
            p.grad = torch.zeros_like(p)
        second.step()
        other.load_state_dict(net.state_dict())
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            for key, value in second.state[q].items():
                value.copy_(first.state[p][key])
        assert second.diagnostics() == first.diagnostics()
        for a, b in zip(train(net, first), train(other, second), strict=True):
            assert torch.equal(a, b)


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
