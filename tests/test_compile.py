"""torch.compile of the step: the same numbers, one graph, and no recompilation when a scheduler moves the lr."""

import contextlib
import copy

import pytest
import torch
from cases import GRANULARITIES, parameters, train
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend

from gradagrad import GradaGrad
from gradagrad.projections import Box

pytestmark = [
    pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # set off inside dynamo
]


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("foreach", [False, True], ids=["loop", "foreach"])
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize(
    "options",
    [{}, {"momentum": 0.9, "gamma_max": 2.0, "weight_decay": 0.1}, {"projection": Box(-0.5, 0.5), "rho": 10.0}],
    ids=["plain", "momentum", "box"],
)
def test_one_graph_over_a_schedule(granularity, foreach, options):
    """CompileCounter runs the traced graph without code generation: it counts what dynamo had to trace."""
    params = parameters()
    eager = copy.deepcopy(params)
    a = GradaGrad(
        params, lr=torch.tensor(0.1, dtype=torch.float64), granularity=granularity, foreach=foreach, **options
    )
    b = GradaGrad(eager, lr=torch.tensor(0.1, dtype=torch.float64), granularity=granularity, **options)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (a, b)]
    counter = CompileCounter()
    compiled = torch.compile(a.step, backend=counter)
    for k in range(10):
        train_with(compiled, params, k)
        train(b, eager, 1, start=k)
        for schedule in schedules:
            schedule.step()
    torch.testing.assert_close(params, eager, rtol=1e-11, atol=1e-13)
    assert counter.frame_count == 1


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_several_groups_are_one_graph(granularity):
    """torch.compile reads the state once, so the first group's turn must make every group's."""
    params = parameters()
    eager = copy.deepcopy(params)
    groups = [[{"params": own[:1]}, {"params": own[1:], "rho": 1.0}] for own in (params, eager)]
    a, b = (GradaGrad(own, lr=0.01, granularity=granularity) for own in groups)
    counter = CompileCounter()
    compiled = torch.compile(a.step, backend=counter)
    for k in range(3):
        train_with(compiled, params, k)
        train(b, eager, 1, start=k)
    torch.testing.assert_close(params, eager, rtol=1e-11, atol=1e-13)
    assert counter.frame_count == 1


def train_with(step, params, k):
    from cases import noisy_gradients

    noisy_gradients(params, k)
    step()


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_hundred_scheduled_steps_are_compiled_once(granularity):
    """Real code generation under warm restarts: the lr moves at each step, and nothing is ever compiled again."""
    params = parameters(torch.float32)[:2]
    eager = copy.deepcopy(params)
    a = GradaGrad(params, lr=torch.tensor(0.1), momentum=0.5, granularity=granularity)
    b = GradaGrad(eager, lr=0.1, momentum=0.5, granularity=granularity, fused=False)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 30) for o in (a, b)]
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(a.step, backend=counter)
    rates = set()
    for k in range(100):
        rates.add(float(a.param_groups[0]["lr"]))
        with torch.compiler.set_stance("fail_on_recompile") if k else contextlib.nullcontext():
            train_with(compiled, params, k)
        assert counter.frame_count == 1, f"compiled again at step {k}"
        train(b, eager, 1, start=k)
        torch.testing.assert_close(params, eager, rtol=1e-4, atol=1e-5, msg=lambda m, k=k: f"step {k}: {m}")
        for schedule in schedules:
            schedule.step()
    assert len(rates) == 30
    assert all(a.state[p]["step"] == b.state[q]["step"] == 100 for p, q in zip(params, eager, strict=True))


def test_a_float_lr_compiles_too():
    """torch specialises on a Python float at first and makes it dynamic when it changes: two graphs, not one a step."""
    params = parameters()[:2]
    optimizer = GradaGrad(params, lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    counter = CompileCounter()
    compiled = torch.compile(optimizer.step, backend=counter)
    for k in range(10):
        train_with(compiled, params, k)
        schedule.step()
    assert counter.frame_count <= 2


def test_lr_decay_stays_on_the_device():
    """The step counter is a tensor, so that counting does not recompile either."""
    params = parameters()[:2]
    eager = copy.deepcopy(params)
    a, b = (GradaGrad(p, lr=0.1, lr_decay=0.1) for p in (params, eager))
    counter = CompileCounter()
    compiled = torch.compile(a.step, backend=counter)
    for k in range(5):
        train_with(compiled, params, k)
        train(b, eager, 1, start=k)
    torch.testing.assert_close(params, eager, rtol=1e-12, atol=1e-14)
    assert counter.frame_count == 1
