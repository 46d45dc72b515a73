"""torch.compile of the step: the same numbers, one graph, and no recompilation when a scheduler moves the lr."""

import contextlib
import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend

from gradagrad import AutoGradaGrad

from .cases import assert_same, coo, gammas, noisy_gradients, parameters, shared

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # set off inside dynamo


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def advance(step: Callable[[], Any], params: list[Any], k: int) -> None:
    for p, g in zip(params, noisy_gradients(params, k), strict=True):
        p.grad = g
    step()


@pytest.mark.parametrize("foreach", [False, True], ids=["loop", "foreach"])
@pytest.mark.parametrize(
    "options",
    [{}, {"guard": False}, {"weight_decay": 0.1, "maximize": True}],
    ids=["plain", "no guard", "decay"],
)
def test_one_graph_over_a_schedule(foreach: bool, options: Any) -> None:
    """CompileCounter runs the traced graph without code generation: it counts what dynamo had to trace."""
    params = parameters()
    eager = copy.deepcopy(params)
    a, b = (
        AutoGradaGrad(some, lr=torch.tensor(1.0, dtype=torch.float64), foreach=foreach, fused=False, **options)
        for some in (params, eager)
    )
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (a, b)]
    counter = CompileCounter()
    compiled = torch.compile(a.step, backend=counter)
    for k in range(12):
        advance(compiled, params, k)
        advance(b.step, eager, k)
        for schedule in schedules:
            schedule.step()
    assert_same(a, b, rtol=1e-10, atol=1e-13)
    assert counter.frame_count == 1
    assert max(gammas(a)) > 2e-4


@pytest.mark.parametrize("steps", [0, 3])
def test_gradients_of_zero_change_nothing_and_compile_nothing(steps: int) -> None:
    params = parameters(torch.float32)[:3]
    optimizer = AutoGradaGrad(params, gamma0=1e-2, fused=False)
    counter = CompileCounter()
    compiled = torch.compile(optimizer.step, backend=counter)
    for k in range(steps):
        advance(compiled, params, k)
    before = copy.deepcopy(optimizer)
    for p in params:
        p.grad = torch.zeros_like(p)
    compiled()
    if steps:  # Before the first step there is no state to compare with.
        assert_same(optimizer, before)
    advance(compiled, params, steps)
    assert counter.frame_count == 1
    assert shared(optimizer).clock == steps + 1


def test_a_hundred_scheduled_steps_are_compiled_once() -> None:
    """Real code generation, and the lr moves at each step."""
    params = parameters(torch.float32)[:3]
    eager = copy.deepcopy(params)
    a, b = AutoGradaGrad(params, lr=torch.tensor(1.0), fused=False), AutoGradaGrad(eager, lr=1.0, fused=False)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 30) for o in (a, b)]
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(a.step, backend=counter)
    rates: set[float] = set()
    for k in range(100):
        rates.add(float(a.param_groups[0]["lr"]))
        with torch.compiler.set_stance("fail_on_recompile") if k else contextlib.nullcontext():
            advance(compiled, params, k)
        assert counter.frame_count == 1, f"compiled again at step {k}"
        advance(b.step, eager, k)
        for schedule in schedules:
            schedule.step()
        assert gammas(a) == pytest.approx(gammas(b), rel=1e-2), k
        torch.testing.assert_close(params, eager, rtol=1e-3, atol=1e-4, msg=lambda m, k=k: f"step {k}: {m}")
    assert len(rates) == 30
    assert shared(a).clock == 100


@pytest.mark.parametrize("foreach", [False, True], ids=["loop", "foreach"])
def test_a_parameter_without_a_gradient_goes_on_averaging(foreach: bool) -> None:
    params = parameters()[:3]
    eager = copy.deepcopy(params)
    a, b = (AutoGradaGrad(some, gamma0=0.1, foreach=foreach, fused=False) for some in (params, eager))
    counter = CompileCounter()
    compiled = torch.compile(a.step, backend=counter)
    for k in range(8):
        for some, step in ((params, a.step if k == 0 else compiled), (eager, b.step)):
            for p, g in zip(some, noisy_gradients(some, k), strict=True):
                p.grad = None if k and p is some[1] else g
            step()
    assert_same(a, b, rtol=1e-10, atol=1e-13)
    assert counter.frame_count == 1


def test_sparse_gradients_may_follow_a_compiled_step() -> None:
    """The state is the same, whoever made it; saved and loaded in between."""
    table = torch.nn.Parameter(torch.ones(4, 2))
    optimizer = AutoGradaGrad([table], lr=torch.tensor(1.0), fused=False)
    compiled = torch.compile(optimizer.step, backend="eager")
    table.grad = torch.ones(4, 2)
    compiled()
    torch.save(optimizer.state_dict(), file := io.BytesIO())
    file.seek(0)
    optimizer = AutoGradaGrad([table], lr=torch.tensor(1.0), fused=False)
    optimizer.load_state_dict(torch.load(file, weights_only=True))
    table.grad = coo([[1]], torch.ones(1, 2), (4, 2))
    optimizer.step()
    assert shared(optimizer).clock == 2
    assert optimizer.state[table]["accumulator"].tolist() == [[1.0] * 2, [2.0] * 2, [1.0] * 2, [1.0] * 2]


def test_a_compiled_step_is_refused_in_eval_mode() -> None:
    params = parameters()
    optimizer = AutoGradaGrad(params, fused=False)
    step = torch.compile(optimizer.step, backend=CompileCounter())
    for k in range(3):
        advance(step, params, k)
    before = copy.deepcopy(params)
    optimizer.eval()
    with pytest.raises(RuntimeError, match="in eval mode"):
        step()
    optimizer.train()
    assert all(map(torch.equal, params, before))
    advance(step, params, 3)
    assert not torch.equal(params[0], before[0])
