"""Hooks around step, state_dict and load_state_dict fire, in order, and can be removed."""

from copy import deepcopy
from typing import Any

import torch
from torch.optim import SGD, Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .harness import Case, cases, quiet

pytestmark = quiet


def fresh(case: Case) -> Optimizer:
    return case.make([torch.rand(2, 3)])


def leave_a_mark(optimizer: Optimizer) -> None:
    optimizer.state["mark"] = 1  # pyright: ignore[reportArgumentType]


def report_the_mark(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    state_dict["mark_seen"] = state_dict["state"].pop("mark", None) is not None
    return state_dict


def lr_in_place(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    state_dict["param_groups"][0]["lr"] = 0.002


def lr_in_a_copy(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    copy = deepcopy(state_dict)
    copy["param_groups"][0]["lr"] = 0.003
    return copy


def note_what_was_loaded(optimizer: Optimizer) -> None:
    state: Any = optimizer.state
    state["saw_copy"] = optimizer.param_groups[0]["lr"] == 0.003
    state["ran_post_hook"] = True


@cases(few=True)
def test_state_dict_hooks(case: Case) -> None:
    optimizer = fresh(case)
    handle = optimizer.register_state_dict_post_hook(report_the_mark)
    assert optimizer.state_dict()["mark_seen"] is False
    handle.remove()
    assert "mark_seen" not in optimizer.state_dict()
    optimizer.register_state_dict_pre_hook(leave_a_mark)
    assert optimizer.state_dict()["state"]["mark"] == 1
    optimizer.register_state_dict_post_hook(report_the_mark)
    state_dict = optimizer.state_dict()
    assert "mark" not in state_dict["state"]
    assert state_dict["mark_seen"] is True


@cases(few=True)
def test_load_state_dict_pre_hook_and_prepend(case: Case) -> None:
    optimizer = fresh(case)
    saved = optimizer.state_dict()
    optimizer.register_load_state_dict_pre_hook(lr_in_place)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.002
    # Put in front, so the earlier hook has the last word.
    optimizer.register_load_state_dict_pre_hook(lr_in_a_copy, prepend=True)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.002


@cases(few=True)
def test_load_state_dict_post_hook(case: Case) -> None:
    optimizer = fresh(case)
    optimizer.register_load_state_dict_post_hook(note_what_was_loaded)
    for has_copy in (False, True):
        optimizer.state.clear()
        optimizer.load_state_dict(optimizer.state_dict())
        state: Any = optimizer.state
        assert bool(state["saw_copy"]) is has_copy
        assert state["ran_post_hook"] is True
        optimizer.register_load_state_dict_pre_hook(lr_in_a_copy)


class Log:
    """Hooks that write their name down."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def hook(self, name: str) -> Any:
        def write(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.lines.append(name)

        return write


@cases(few=True)
def test_step_pre_hook_can_replace_the_arguments(case: Case) -> None:
    optimizer = fresh(case)
    loss = torch.tensor(2.0)
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: ((opt, lambda: loss), {}))
    assert optimizer.step() is loss


@cases(few=True)
def test_step_all_hooks(case: Case) -> None:
    optimizer, bystander, log = fresh(case), SGD([torch.rand(2)]), Log()
    handles = [
        register_optimizer_step_pre_hook(log.hook("global pre")),
        register_optimizer_step_post_hook(log.hook("global post")),
    ]
    try:
        for each in (optimizer, bystander):
            handles += [each.register_step_pre_hook(log.hook("pre")), each.register_step_post_hook(log.hook("post"))]
        for each in (optimizer, bystander, optimizer):
            each.step()
    finally:
        for handle in handles:
            handle.remove()
    once = ["global pre", "pre", "post", "global post"]
    assert log.lines == once * 3
    optimizer.step()
    bystander.step()
    assert log.lines == once * 3
