"""Recording, logging and drawing the one learning rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from matplotlib import pyplot as plt

from gradagrad import AutoGradaGrad, History, learning_rates, log_learning_rates, plot_learning_rates

from .cases import parameters, shared, train

mpl.use("Agg")

NAMES = {"gamma", "step_size", "evidence", "growth_share", "effective_coordinates", "starting"}


def optimizer() -> AutoGradaGrad:
    params = parameters()
    groups: list[dict[str, Any]] = [{"params": params[:2]}, {"params": params[2:], "lr": 0.5}]
    return AutoGradaGrad(groups, strictness=6.0, overshoot=2.0)


def test_numbers_have_plain_names() -> None:
    opt = optimizer()
    assert learning_rates(opt)["gradagrad/gamma"] == 1e-5
    assert "gradagrad/effective_coordinates" not in learning_rates(opt)  # not known yet
    train(opt, 20)
    numbers = learning_rates(opt)
    assert set(numbers) == {f"gradagrad/{name}" for name in NAMES}
    assert all(type(value) is float for value in numbers.values())
    assert numbers["gradagrad/gamma"] == shared(opt).gamma > 1e-5
    assert numbers["gradagrad/starting"] == float(opt.diagnostics().starting)
    assert set(learning_rates(opt, prefix="train")) == {f"train/{name}" for name in NAMES}


def test_one_line_records_and_logs_every_so_many_steps() -> None:
    opt, seen = optimizer(), {}
    history = log_learning_rates(opt, lambda values, step: seen.update({step: values}), every=5)
    train(opt, 12)
    assert [record.step for record in history] == [5, 10] == [*seen]
    assert history[1].shared is not None
    assert history[1].groups == ()
    assert seen[10]["gradagrad/gamma"] == history[1].shared.gamma
    assert history[1].shared.gamma > history[0].shared.gamma  # pyright: ignore[reportOptionalMemberAccess]
    resumed = optimizer()
    resumed.load_state_dict(opt.state_dict())
    more = log_learning_rates(resumed)
    train(resumed, 1)
    assert more[0].step == 13
    history.stop()
    train(opt, 5)
    assert len(history) == 2


def test_wrappers_are_opened_and_strangers_refused() -> None:
    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self.optimizer = inner

    assert learning_rates(Wrapper(Wrapper(optimizer())))["gradagrad/gamma"] == 1e-5
    with pytest.raises(TypeError, match="optimizer must be a GradaGrad or a wrapper of one, got Adam"):
        learning_rates(torch.optim.Adam(parameters()))


def test_history_survives_a_file(tmp_path: Path) -> None:
    opt = optimizer()
    train(opt, 2)
    history = log_learning_rates(opt)
    train(opt, 4)
    history.save(tmp_path / "history.json")
    assert History.load(tmp_path / "history.json").records == history.records


def test_the_plot_shows_gamma_and_the_start(tmp_path: Path) -> None:
    opt = optimizer()
    history = log_learning_rates(opt)
    train(opt, 80, noise=0.03)
    assert not opt.diagnostics().starting
    figure = plot_learning_rates(history)
    gamma, step_size, evidence = figure.axes
    curve: Any = gamma.get_lines()[0]
    assert list(curve.get_xdata()) == list(range(1, 81))
    assert list(curve.get_ydata()) == [record.shared.gamma for record in history]  # pyright: ignore
    assert gamma.get_yscale() == step_size.get_yscale() == "log"
    assert [line.get_label() for line in evidence.get_lines()] == ["agreement", "disagreement"]
    last = max(record.step for record in history if record.shared.starting)  # pyright: ignore
    shade: Any = gamma.patches[0]
    assert shade.get_x() + shade.get_width() == last < 80
    figure.savefig(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").stat().st_size > 5000
    plt.close(figure)
    with pytest.raises(ValueError, match=r"labels must be None for AutoGradaGrad.*\['one'\]"):
        plot_learning_rates(history, labels=["one"])
