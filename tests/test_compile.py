"""torch.compile of the step: the same numbers, one graph, and no recompilation when a scheduler moves the lr."""

import contextlib
import copy

import pytest
import torch
from cases import (
    GRANULARITIES,
    KINDS,
    assert_same,
    coo,
    gammas,
    make,
    noisy_gradients,
    parameters,
    shared,
    through_a_file,
    train,
)
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.projections import Box

pytestmark = [
    pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # set off inside dynamo
]
every_way = pytest.mark.parametrize("foreach", [False, True], ids=["loop", "foreach"])
CLOSE = {"rtol": 1e-10, "atol": 1e-13}
OPTIONS = {
    "plain": {},
    "momentum": {"momentum": 0.9, "gamma_max": 2.0, "weight_decay": 0.1},
    "box": {"projection": Box(-0.5, 0.5), "rho": 10.0, "gamma_max": "travelled"},
}
AUTO = {"plain": {}, "no guard": {"guard": False}, "decay": {"weight_decay": 0.1, "maximize": True}}
CASES = [*((k, o) for k in GRANULARITIES for o in OPTIONS.items()), *(("auto", o) for o in AUTO.items())]


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(optimizer, backend=None):
    """The step, and a counter of graphs. CompileCounter runs what dynamo traced without code generation."""
    counter = backend or CompileCounter()
    return torch.compile(optimizer.step, backend=counter), counter


@every_way
@pytest.mark.parametrize(("kind", "options"), CASES, ids=[f"{kind}-{name}" for kind, (name, _) in CASES])
def test_one_graph_over_a_schedule(kind, options, foreach):
    params = parameters()
    lr = 1.0 if kind == "auto" else 0.1
    a, b = (
        make(kind, own, lr=torch.tensor(lr, dtype=torch.float64), foreach=foreach, fused=False, **options[1])
        for own in (params, copy.deepcopy(params))
    )
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (a, b)]
    step, counter = compiled(a)
    for k in range(12):
        train(a, 1, start=k, step=step)
        train(b, 1, start=k)
        for schedule in schedules:
            schedule.step()
    assert_same(a, b, **CLOSE)
    assert counter.frame_count == 1
    assert kind != "auto" or max(gammas(a)) > 2e-4


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_several_groups_are_one_graph(granularity):
    """torch.compile reads the state once, so the first group's turn must make every group's."""
    params = parameters()
    groups = [[{"params": own[:1]}, {"params": own[1:], "rho": 1.0}] for own in (params, copy.deepcopy(params))]
    a, b = (GradaGrad(own, lr=0.01, granularity=granularity) for own in groups)
    step, counter = compiled(a)
    train(a, 3, step=step)
    train(b, 3)
    assert_same(a, b, **CLOSE)
    assert counter.frame_count == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_scheduled_steps_are_compiled_once(kind):
    """Real code generation under warm restarts: the lr moves at each step, and nothing is ever compiled again."""
    params = parameters(torch.float32)[:3]
    options = {} if kind == "auto" else {"momentum": 0.5}
    lr, tolerance = (1.0, 1e-3) if kind == "auto" else (0.1, 1e-4)
    a = make(kind, params, lr=torch.tensor(lr), fused=False, **options)
    b = make(kind, copy.deepcopy(params), lr=lr, fused=False, **options)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 30) for o in (a, b)]
    step, counter = compiled(a, CompileCounterWithBackend("inductor"))
    rates = set()
    for k in range(100):
        rates.add(float(a.param_groups[0]["lr"]))
        with torch.compiler.set_stance("fail_on_recompile") if k else contextlib.nullcontext():
            found = train(a, 1, start=k, step=step)
        assert counter.frame_count == 1, f"compiled again at step {k}"
        expected = train(b, 1, start=k)
        torch.testing.assert_close(
            found, expected, rtol=tolerance, atol=tolerance / 10, msg=lambda m, k=k: f"step {k}: {m}"
        )
        assert kind != "auto" or gammas(a) == pytest.approx(gammas(b), rel=1e-2), k
        for schedule in schedules:
            schedule.step()
    assert len(rates) == 30
    assert all(state["step"] == 100 for optimizer in (a, b) for state in optimizer.state.values())


def test_a_float_lr_compiles_too():
    """torch specialises on a Python float at first and makes it dynamic when it changes: two graphs, not one a step."""
    optimizer = GradaGrad(parameters()[:2], lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step, counter = compiled(optimizer)
    for k in range(10):
        train(optimizer, 1, start=k, step=step)
        schedule.step()
    assert counter.frame_count <= 2


def test_lr_decay_stays_on_the_device():
    """The step counter is a tensor, so that counting does not recompile either."""
    a, b = (GradaGrad(parameters()[:2], lr=0.1, lr_decay=0.1) for _ in range(2))
    step, counter = compiled(a)
    train(a, 5, step=step)
    train(b, 5)
    assert_same(a, b, rtol=1e-12, atol=1e-14)
    assert counter.frame_count == 1


@pytest.mark.parametrize("steps", [0, 3])
def test_gradients_of_zero_change_nothing_and_compile_nothing(steps):
    optimizer = AutoGradaGrad(params := parameters(torch.float32)[:3], gamma0=1e-2, fused=False)
    step, counter = compiled(optimizer)
    train(optimizer, steps, step=step)
    before = copy.deepcopy(optimizer)
    for p in params:
        p.grad = torch.zeros_like(p)
    step()
    if steps:  # Before the first step there is no state to compare with.
        assert_same(optimizer, before)
    train(optimizer, 1, start=steps, step=step)
    assert counter.frame_count == 1
    assert shared(optimizer).clock == steps + 1


@every_way
def test_a_parameter_without_a_gradient_goes_on_averaging(foreach):
    params, eager = parameters()[:3], parameters()[:3]
    a, b = (AutoGradaGrad(some, gamma0=0.1, foreach=foreach, fused=False) for some in (params, eager))
    step, counter = compiled(a)
    for k in range(8):
        for some, take in ((params, step if k else a.step), (eager, b.step)):
            noisy_gradients(some, k)
            some[1].grad = None if k else some[1].grad
            take()
    assert_same(a, b, **CLOSE)
    assert counter.frame_count == 1


def test_sparse_gradients_may_follow_a_compiled_step():
    """The state is the same, whoever made it; saved and loaded in between."""
    table = torch.nn.Parameter(torch.ones(4, 2))
    optimizer, resumed = (AutoGradaGrad([table], lr=torch.tensor(1.0), fused=False) for _ in range(2))
    table.grad = torch.ones(4, 2)
    torch.compile(optimizer.step, backend="eager")()
    resumed.load_state_dict(through_a_file(optimizer.state_dict()))
    table.grad = coo([[1]], torch.ones(1, 2), (4, 2))
    resumed.step()
    assert shared(resumed).clock == 2
    assert resumed.state[table]["accumulator"].tolist() == [[1.0] * 2, [2.0] * 2, [1.0] * 2, [1.0] * 2]


def test_modes_switch_between_compiled_steps():
    params = parameters()[:3]
    a, b = (AutoGradaGrad(some, gamma0=0.05, fused=False) for some in (params, copy.deepcopy(params)))
    step, counter = compiled(a)
    for k in range(0, 10, 2):
        train(a, 2, start=k, step=step)
        train(b, 2, start=k)
        a.eval()
        assert not any(map(torch.equal, params, b.param_groups[0]["params"]))
        with pytest.raises(RuntimeError, match="in eval mode"):
            step()
        a.train()
        assert_same(a, b, **CLOSE)
    assert counter.frame_count <= 3  # the step before there were modes, in eval mode, and in train mode


@pytest.mark.filterwarnings("ignore:Profiler")
def test_modes_switch_inside_a_compiled_function():
    def loss(optimizer):
        return sum((p - 1.0).square().sum() for p in optimizer.param_groups[0]["params"])

    def epoch(optimizer):
        for _ in range(2):
            optimizer.zero_grad()
            loss(optimizer).backward()
            optimizer.step()
        optimizer.eval()
        at_average = loss(optimizer)
        optimizer.train()
        with optimizer.averaged():
            return at_average, loss(optimizer)

    a, b = (AutoGradaGrad(parameters()[:3], gamma0=0.05, fused=False) for _ in range(2))
    compiled_epoch = torch.compile(epoch, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled_epoch(a), epoch(b), **CLOSE)
        assert_same(a, b, **CLOSE)
