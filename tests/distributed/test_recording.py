"""Recording and logging the learning rates."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from gradagrad import GradaGrad, learning_rates, log_learning_rates


def optimizer(**options: Any) -> GradaGrad:
    groups = [{"params": [nn.Parameter(torch.ones(3))]}, {"params": [nn.Parameter(torch.ones(2, 2))], "lr": 0.2}]
    return GradaGrad(groups, lr=0.1, **options)


def train(opt: GradaGrad, steps: int) -> None:
    for _ in range(steps):
        for group in opt.param_groups:
            for p in group["params"]:
                p.grad = torch.ones_like(p)  # always in agreement: γ grows from the second step on
        opt.step()


def test_one_line_records_every_step():
    opt = optimizer()
    history = log_learning_rates(opt)
    train(opt, 5)
    assert [record.step for record in history] == [1, 2, 3, 4, 5]
    gammas = [record.groups[1].gamma[0.5] for record in history]
    assert gammas[0] == pytest.approx(0.2)
    assert gammas == sorted(gammas)
    assert gammas[-1] > 0.4
    history.stop()
    train(opt, 2)
    assert len(history) == 5


def test_every_counts_steps_and_leaves_the_others_alone():
    opt = optimizer()
    history = log_learning_rates(opt, every=3)
    train(opt, 7)
    assert [record.step for record in history] == [3, 6]
    assert [record.step for record in history[:1]] == [3]


def test_recording_goes_on_counting_after_a_resume():
    first = optimizer()
    train(first, 7)
    second = optimizer()
    second.load_state_dict(first.state_dict())
    history = log_learning_rates(second)
    train(second, 1)
    assert history[0].step == 8


def loggers(seen: dict[tuple[str, int], float]) -> dict[str, Any]:
    """TensorBoard's, one with groups, Lightning's, and a function."""

    def note(values: dict[str, float], step: int) -> None:
        seen.update({(name, step): value for name, value in values.items()})

    def note_group(prefix: str, values: dict[str, float], step: int) -> None:
        assert prefix == "gradagrad"
        note(values, step)

    return {
        "add_scalar": SimpleNamespace(add_scalar=lambda name, value, step: note({name: value}, step)),
        "add_scalars": SimpleNamespace(
            add_scalars=lambda prefix, values, step: prefix == "gradagrad" and note(values, step)
        ),
        "log_metrics": SimpleNamespace(log_metrics=note),
        "function": note,
    }


@pytest.mark.parametrize("kind", loggers({}))
def test_any_logger_gets_the_same_numbers(kind: str):
    seen: dict[tuple[str, int], float] = {}
    opt = optimizer()
    log_learning_rates(opt, loggers(seen)[kind], every=2)
    train(opt, 4)
    assert {step for _, step in seen} == {2, 4}
    median = learning_rates(opt)["gradagrad/group0/gamma_median"]
    assert seen["gradagrad/group0/gamma_median", 4] == pytest.approx(median)
    quantiles = {f"{name}_{q}" for name in ("gamma", "step_size") for q in ("p5", "median", "p95")}
    assert {name.rsplit("/", 1)[1] for name, _ in seen} == quantiles | {"effective_lr", "total_growth"}


def test_what_is_not_known_is_left_out():
    opt = optimizer()
    numbers = learning_rates(opt)
    assert numbers == {}
    train(opt, 1)
    assert not any(math.isnan(value) for value in learning_rates(opt).values())
    assert "gradagrad/group0/effective_lr" in learning_rates(opt)


def test_wrong_loggers_and_intervals_are_named():
    opt = optimizer()
    with pytest.raises(TypeError, match=r"logger must have add_scalar.* got int"):
        log_learning_rates(opt, 3)
    for every in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"every must be a whole number >= 1, got {every!r}"):
            log_learning_rates(opt, every=every)  # pyright: ignore[reportArgumentType]


def test_a_history_has_columns():
    opt = optimizer()
    history = log_learning_rates(opt)
    train(opt, 3)
    columns = history.to_dict()
    assert columns["step"] == [1, 2, 3]
    assert columns["group1/gamma_median"] == [record.groups[1].gamma[0.5] for record in history]
