"""Steps inside the backward pass equal ordinary steps, hold one gradient at a time, and refuse what they cannot do."""

import copy
import weakref

import pytest
import torch
import torch.utils.checkpoint

from gradagrad import AutoGradaGrad, GradaGrad, LargeFirstStepWarning, step_in_backward

WAYS = {"kernel": {"fused": True}, "one by one": {"fused": False, "foreach": False}, "default": {}}
OPTIONS = {
    "element": {"momentum": 0.5, "lr_decay": 0.1},
    "row": {"granularity": "row", "lazy": True, "weight_decay": 0.1, "decoupled_weight_decay": True},
    "tensor": {"granularity": "tensor", "rho": 10.0},
    "bf16 state": {"state_dtype": torch.bfloat16},
}


def net():
    torch.manual_seed(0)
    first = torch.nn.Linear(8, 8)
    return torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh(), first)  # first is tied


def optimizer_of(model, **options):
    biases = [p for p in model.parameters() if p.dim() == 1]
    weights = [p for p in model.parameters() if p.dim() > 1]
    return GradaGrad([{"params": weights}, {"params": biases, "lr": 0.02}], lr=0.01, **options)


def loss_of(model, k):
    return model(torch.sin(torch.arange(16.0) + k).reshape(2, 8)).square().mean()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPTIONS)
def test_equal_to_ordinary_steps_bit_for_bit(name, way):
    ordinary, inside = net(), net()
    first = optimizer_of(ordinary, **OPTIONS[name], **WAYS[way])
    second = optimizer_of(inside, **OPTIONS[name], **WAYS[way])
    steps = step_in_backward(inside, second)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer in (first, second)]
    for k in range(6):
        if k == 5:
            steps.remove()
        first.zero_grad()
        second.zero_grad()
        loss_of(ordinary, k).backward()
        loss_of(inside, k).backward()
        assert all(p.grad is None for p in inside.parameters()) or k == 5
        first.step()
        second.step()
        for scheduler in schedulers:
            scheduler.step()
    states = zip(first.state_dict()["state"].items(), second.state_dict()["state"].items(), strict=True)
    for (number, a), (other, b) in states:
        assert number == other
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert all(torch.equal(p, q) for p, q in zip(ordinary.parameters(), inside.parameters(), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_autogradagrad_moves_at_once_and_learns_at_the_end(way):
    """With a layer that has no gradient for some steps, and one parameter that is stepped after backward."""
    runs = []
    for inside in (False, True):
        torch.manual_seed(0)
        model = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])
        outside = torch.nn.Parameter(torch.ones(8))
        weights = [layer.weight for layer in model]
        groups = [{"params": weights}, {"params": [*(layer.bias for layer in model), outside], "lr": 0.5}]
        optimizer = AutoGradaGrad(groups, gamma0=1e-2, **WAYS[way])
        if inside:
            step_in_backward(model, optimizer)
        for k in range(12):
            optimizer.zero_grad()
            value = torch.sin(torch.arange(16.0) + k).reshape(2, 8)
            for layer in model[: 2 if 3 < k < 8 else 3]:
                value = torch.tanh(layer(value) + outside)
            value.square().mean().backward()
            assert not inside or all(p.grad is None for p in model.parameters())
            optimizer.step()
        with optimizer.averaged():
            average = [p.detach().clone() for p in model.parameters()]
        states = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
        runs.append([*average, *(p.detach() for p in (*model.parameters(), outside)), *states])
    tolerance = {"rtol": 0, "atol": 0} if way == "one by one" else {"rtol": 1e-6, "atol": 1e-9}
    torch.testing.assert_close(*runs, **tolerance)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steps", [0, 3])
def test_autogradagrad_learns_nothing_where_every_gradient_is_zero(way, steps):
    model = net()
    optimizer = AutoGradaGrad(model.parameters(), gamma0=1e-2, **WAYS[way])
    step_in_backward(model, optimizer)
    before = {}
    for k in range(steps + 1):
        before = copy.deepcopy(optimizer.state_dict()["state"])
        (loss_of(model, k) * float(k < steps)).backward()
        optimizer.step()
    moved = {"step", "offset"} if steps else {"step"}
    for own, old in zip(optimizer.state_dict()["state"].values(), before.values(), strict=True):
        assert all(key in moved or torch.equal(own[key], old[key]) for key in old)


@pytest.mark.parametrize("make", [optimizer_of, lambda model: AutoGradaGrad(model.parameters())])
def test_one_gradient_at_a_time(make):
    model = net()
    optimizer = make(model)
    alive = []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(
            lambda _: alive.append(sum(q.grad is not None for q in model.parameters()))
        )
    step_in_backward(model, optimizer)
    gradients = []
    for p in model.parameters():
        p.register_hook(lambda gradient: gradients.append(weakref.ref(gradient)))
    loss_of(model, 0).backward()
    assert alive == [1] * 4
    assert [gradient() for gradient in gradients] == [None] * len(gradients)


@pytest.mark.filterwarnings("default")
def test_a_large_first_step_is_warned_of_once():
    model = net()
    optimizer = GradaGrad(model.parameters(), lr=100.0)
    step_in_backward(model, optimizer)
    with pytest.warns(LargeFirstStepWarning) as found:
        loss_of(model, 0).backward()
    assert len(found) == 1


@pytest.mark.parametrize("make", [optimizer_of, lambda model: AutoGradaGrad(model.parameters(), gamma0=1e-2)])
def test_a_refused_second_gradient_is_not_stepped_later(make):
    expected, model = net(), net()
    ordinary, optimizer = make(expected), make(model)
    step_in_backward(model, optimizer)
    for k in range(3):
        ordinary.zero_grad()
        loss_of(expected, k).backward()
        ordinary.step()
        loss_of(model, k).backward()
        with pytest.raises(RuntimeError, match=r"second gradient.*Call optimizer.step\(\) after every backward\(\)"):
            loss_of(model, 7).backward()
        optimizer.step()
        assert all(p.grad is None for p in model.parameters())
    torch.testing.assert_close([*model.parameters()], [*expected.parameters()], rtol=1e-6, atol=1e-9)


def test_half_a_step_is_neither_saved_nor_averaged():
    model = net()
    optimizer = AutoGradaGrad(model.parameters(), gamma0=1e-2)
    steps = step_in_backward(model, optimizer)
    loss_of(model, 0).backward()
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    loss_of(model, 1).backward()
    for attempt in (optimizer.state_dict, optimizer.averaged().__enter__, steps.remove):
        with pytest.raises(RuntimeError, match=r"Call optimizer.step\(\) first"):
            attempt()
    optimizer.load_state_dict(saved)  # This replaces what the backward pass has begun.
    assert optimizer.state_dict()["state"][0]["clock"] == 1.0


@pytest.mark.parametrize("make", [optimizer_of, lambda model: AutoGradaGrad(model.parameters(), gamma0=1e-2)])
def test_a_step_that_an_exception_interrupts_can_be_abandoned(make):
    model = net()
    optimizer = make(model)
    steps = step_in_backward(model, optimizer)

    def fail(_):
        raise ValueError("out of memory")

    handle = model[0].bias.register_hook(fail)
    with pytest.raises(ValueError, match="out of memory"):
        loss_of(model, 0).backward()
    handle.remove()
    with pytest.raises(RuntimeError, match=r"call abandon\(\)"):
        loss_of(model, 0).backward()
    steps.abandon()
    for k in range(3):
        loss_of(model, k).backward()
        optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] >= 3


def test_hooks_end_with_their_optimizer_and_a_later_one_takes_over():
    model = net()
    before = optimizer_of(model)
    steps = step_in_backward(model, before)
    assert step_in_backward(model, before) is steps
    assert len(steps.hooks) == 6  # four parameters in two modules
    later = optimizer_of(model)
    step_in_backward(model, later)
    loss_of(model, 0).backward()
    later.step()
    assert {int(state["step"]) for state in later.state.values()} == {1}
    with pytest.raises(RuntimeError, match="Use only one of the two"):
        before.step()
    del later
    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    old = copy.deepcopy(model.state_dict())
    loss_of(model, 0).backward()
    plain.step()
    assert all(p.grad is not None for p in model.parameters())
    assert all(torch.equal(value, old[name]) for name, value in model.state_dict().items())


def test_a_weight_shared_by_reentrant_checkpoints_gets_the_remedy():
    model = net()
    optimizer = optimizer_of(model)
    step_in_backward(model, optimizer)

    def loss(reentrant):
        value = torch.ones(2, 8, requires_grad=True)
        for part in (model[:2], model[2:]):
            value = torch.utils.checkpoint.checkpoint(part, value, use_reentrant=reentrant)
        return value.square().mean()

    loss(False).backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        loss(True).backward()


def test_grad_scaler_is_refused():
    model = net()
    optimizer = optimizer_of(model, fused=True)
    step_in_backward(model, optimizer)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_of(model, 0)).backward()
    with pytest.raises((RuntimeError, AssertionError), match=r"GradScaler|inf checks"):
        scaler.step(optimizer)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: GradaGrad(model.parameters(), granularity="group"), "needs all gradients at once"),
        (lambda model: GradaGrad(model.parameters(), granularity="all"), "needs all gradients at once"),
        (lambda model: GradaGrad(model.parameters(), differentiable=True), "step after backward"),
        (lambda model: GradaGrad([torch.nn.Parameter(torch.ones(2))]), "no parameters of this model"),
        (lambda model: torch.optim.SGD(model.parameters()), "must be a GradaGrad or an AutoGradaGrad"),
    ],
)
def test_what_is_impossible_is_refused(make, message):
    model = net()
    with pytest.raises((TypeError, ValueError), match=message):
        step_in_backward(model, make(model))
