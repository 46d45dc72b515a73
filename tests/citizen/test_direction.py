"""Every implementation, with and without schedulers, moves the loss the right way."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.optim import Optimizer

from .harness import ADAGRAD, Affine, Case, assert_moved_the_right_way, cases, quiet
from .info import AUTOGRADAGRAD

pytestmark = quiet

SETTINGS = pytest.mark.parametrize(
    ("which", "contiguous"),
    [
        pytest.param(None, True, id="constant_lr"),
        pytest.param(0, True, id="first_lrsched"),
        pytest.param(-1, True, id="last_lrsched"),
        pytest.param(0, False, id="first_lrsched-strided"),
    ],
)


def schedulers(case: Case, which: int | None, optimizer: Optimizer) -> list[Any]:
    constructors: Any = () if which is None else case.info.scheduler_inputs[which]
    return [constructor(optimizer) for constructor in constructors]


@SETTINGS
@cases(skip=("differentiable",))
def test_every_implementation_goes_the_right_direction(case: Case, which: int | None, contiguous: bool) -> None:
    problem, changes = Affine(contiguous=contiguous), {}
    if case.kwargs().get("fused") and not contiguous:
        if case.info is ADAGRAD:
            return  # Its CPU kernel silently reads a strided parameter as if it were dense.
        with pytest.raises(RuntimeError, match=r"fused=True is impossible.*Pass fused=None"):
            problem.train(case.make(problem.params), 1)
        changes = {"fused": None}  # leaves such a parameter to torch operations
    optimizer = case.make(problem.params, **changes)
    before = problem.loss().item()
    problem.train(optimizer, 20, schedulers(case, which, optimizer))
    assert_moved_the_right_way(before, problem.loss().item(), case)


@cases(skip=("differentiable",))
def test_defaults_changed_to_tensor_lr(case: Case) -> None:
    """lr turned into a tensor after some steps changes nothing; a group added later takes the new default."""
    problem = Affine()
    twin = problem.copy()
    constant, changed = case.make(problem.params, lr=0.125), case.make(twin.params, lr=0.125)
    problem.train(constant, 3)
    twin.train(changed, 3)
    changed.param_groups[0]["lr"] = changed.defaults["lr"] = torch.tensor(0.125)
    problem.train(constant, 3)
    twin.train(changed, 3)
    torch.testing.assert_close(twin.params, problem.params)
    changed.add_param_group({"params": [torch.nn.Parameter(torch.randn(3))]})
    assert torch.is_tensor(changed.param_groups[1]["lr"])


@pytest.mark.parametrize("shape", [(), (1,)], ids=["0-d", "1-d"])
@cases(skip=("differentiable",))
def test_scheduler_with_tensor_lr_matches_float_lr(case: Case, shape: tuple[int, ...]) -> None:
    """A scheduler writes into the tensor; the steps must see it."""
    problem = Affine()
    twin = problem.copy()
    by_float, by_tensor = case.make(problem.params, lr=0.25), case.make(twin.params, lr=torch.full(shape, 0.25))
    halve = [torch.optim.lr_scheduler.StepLR(opt, gamma=0.5, step_size=2) for opt in (by_float, by_tensor)]
    problem.train(by_float, 6, halve[:1])
    twin.train(by_tensor, 6, halve[1:])
    assert by_tensor.param_groups[0]["lr"].shape == shape
    assert by_tensor.param_groups[0]["lr"].item() == by_float.param_groups[0]["lr"] == 0.25 / 8
    torch.testing.assert_close(twin.params, problem.params)


@pytest.mark.parametrize("lr", [0.25, torch.tensor(0.25)], ids=["float", "tensor"])
@cases(skip=("differentiable",), few=True)
def test_schedule_that_ends_at_zero_stops_the_run(case: Case, lr: Any) -> None:
    """The lr a step uses is the scheduler's of that moment, not one remembered from an earlier step.

    AutoGradaGrad's parameters go on towards z = y + offset, which stops.
    """
    problem = Affine()
    with torch.no_grad():
        for param in problem.params:
            param.clamp_(-1.0, 1.0)  # inside every set, so that a projection has no reason to move it
    optimizer = case.make(problem.params, lr=lr.clone() if torch.is_tensor(lr) else lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: float(epoch < 2))
    paths = [[param.detach().clone() for param in problem.params]]
    for _ in range(4):
        problem.train(optimizer, 1, [schedule])
        offsets = [optimizer.state[param].get("offset", 0.0) for param in problem.params]
        paths.append([param.detach() + offset for param, offset in zip(problem.params, offsets, strict=True)])
    rounding = 1e-6 if case.info is AUTOGRADAGRAD else 0.0
    for step, (before, after) in enumerate(pairwise(paths)):
        for old, new in zip(before, after, strict=True):
            assert torch.allclose(old, new, rtol=0.0, atol=rounding) is (step >= 2)


@cases(skip=("differentiable",))
def test_closure_is_called_once_with_grad_enabled_and_its_loss_returned(case: Case) -> None:
    problem = Affine()
    optimizer = case.make(problem.params)
    calls: list[bool] = []
    loss = torch.tensor(3.0)

    def closure() -> Any:
        calls.append(torch.is_grad_enabled())
        problem.closure(optimizer)()
        return loss

    before = [param.detach().clone() for param in problem.params]
    assert optimizer.step(closure) is loss
    assert calls == [True]
    assert all(not torch.equal(old, new) for old, new in zip(before, problem.params, strict=True))
    assert optimizer.step() is None
