"""Parameter groups behave like separate optimizers."""

from typing import Any

import pytest
import torch
from torch.nn import Parameter
from torch.testing import assert_close

from .harness import (
    Affine,
    Case,
    assert_identical,
    assert_moved_the_right_way,
    cases,
    give_gradients,
    groups_are_apart,
    quiet,
    random_gradients,
    step_alike,
)

pytestmark = quiet


def without_differentiable() -> pytest.MarkDecorator:
    return cases(skip=("differentiable",))


@without_differentiable()
def test_param_groups_weight_decay(case: Case) -> None:
    """All arguments by group; one group without weight decay."""
    problem = Affine()
    groups: list[dict[str, Any]] = [
        {"params": [problem.weight], **case.kwargs()},
        {"params": [problem.bias], **case.kwargs(weight_decay=0.0)},
    ]
    optimizer = case.info.optim_cls(groups)  # pyright: ignore[reportCallIssue]
    before = problem.loss().item()
    problem.train(optimizer, 20)
    assert_moved_the_right_way(before, problem.loss().item(), case)


@without_differentiable()
def test_param_groups_lr(case: Case) -> None:
    problem = Affine()
    bystander = Parameter(torch.randn(2))
    start = bystander.detach().clone()
    kwargs = case.kwargs()
    kwargs.setdefault("lr", 1e-3)
    groups: list[dict[str, Any]] = [{"params": problem.params, **kwargs}, {"params": [bystander]}]
    optimizer = case.info.optim_cls(groups, lr=1e-28, **case.shared)  # pyright: ignore[reportCallIssue]
    before = problem.loss().item()
    for _ in range(20):
        problem.closure(optimizer)()
        bystander.grad = torch.rand_like(bystander)
        optimizer.step()
    assert_moved_the_right_way(before, problem.loss().item(), case)
    assert_close(bystander.detach(), start)


@cases()
def test_param_group_with_lr_zero_does_not_move(case: Case) -> None:
    """It does not move by a bit, with weight decay too. Its neighbour moves, and it moves once lr is raised."""
    params = [torch.rand(4, 3), torch.rand(4, 3)]
    start = [param.clone() for param in params]
    optimizer = case.make([{"params": params[:1], "lr": 0.0}, {"params": params[1:]}])
    for _ in range(3):
        step_alike((params, optimizer))
    assert_identical(params[0].detach(), start[0])
    assert not torch.equal(params[1], start[1])
    optimizer.param_groups[0]["lr"] = 0.1
    step_alike((params, optimizer))
    assert torch.isfinite(params[0]).all()
    assert not torch.equal(params[0], start[0])


@cases(only=groups_are_apart)
def test_param_groups_equal_separate_optimizers(case: Case) -> None:
    params = [torch.randn(4, 3), torch.randn(3), torch.randn(2, 2)]
    twins = [param.clone() for param in params]
    together = case.make([{"params": params[:2], "lr": 0.25, "eps": 1e-8}, {"params": params[2:], "lr": 0.0625}])
    apart = [case.make(twins[:2], lr=0.25, eps=1e-8), case.make(twins[2:], lr=0.0625)]
    for _ in range(4):
        grads = random_gradients(params)
        give_gradients(params, grads)
        give_gradients(twins, grads)
        together.step()
        for optimizer in apart:
            optimizer.step()
        assert_close(params, twins)


@cases(only=groups_are_apart)
def test_add_param_group_after_steps(case: Case) -> None:
    """The newcomer starts its own count; those already there go on as if alone."""
    first, late = torch.randn(4, 3), torch.randn(3)
    twins = [first.clone(), late.clone()]
    optimizer, alone = case.make([first]), case.make(twins[:1])
    newcomer = case.make(twins[1:], lr=0.125)
    for step in range(5):
        if step == 2:
            optimizer.add_param_group({"params": [late], "lr": 0.125})
        params = [first, late][: 1 if step < 2 else 2]
        grads = random_gradients(params)
        give_gradients(params, grads)
        give_gradients(twins[: len(params)], grads)
        optimizer.step()
        alone.step()
        if step >= 2:
            newcomer.step()
    assert_close([first, late], twins)
    assert optimizer.state[first]["step"].item() == 5
    assert optimizer.state[late]["step"].item() == 3


@cases()
def test_add_param_group_takes_the_defaults_and_keeps_overrides(case: Case) -> None:
    optimizer = case.make([torch.randn(3)])
    optimizer.add_param_group({"params": torch.randn(2), "eps": 0.25})
    first, second = optimizer.param_groups
    assert first.keys() == second.keys()
    assert second["eps"] == 0.25
    for name in first.keys() - {"params", "eps"}:
        assert_identical(second[name], first[name])
    with pytest.raises(TypeError, match="dict"):
        optimizer.add_param_group([torch.randn(2)])  # pyright: ignore[reportArgumentType]
