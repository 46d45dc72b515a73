"""A run of Figure 4: its optimizers are the ones it names, its rows are the stream's, its curve is what was trained."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Optimizer

from gradagrad_lab.data.clicks.stream import BLOCK, HELD_OUT, TRAINING, ClickStream, log_loss
from gradagrad_lab.figures.figure4.plan import of_rule
from gradagrad_lab.problems.clicks.dlrm import DLRM, Size
from gradagrad_lab.problems.clicks.runs import AUTO, NORM, SCALAR, ClickProblem, Clicks, Setup, optimizers_of
from gradagrad_lab.single import follow
from gradagrad_lab.study import Method, Run
from gradagrad_lab.train import train

TOY = Setup(rows=25 * 32 + 5, held_out=64, batch=32, cap=60, bottom=(8,), top=(8,))
pytestmark = pytest.mark.filterwarnings("ignore:the first step moves")


class AdagradNorm(Optimizer):
    """One step size for everything: the learning rate over the root of the sum of all squared gradient norms."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.total = 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients = [(p, p.grad.to_dense()) for group in self.param_groups for p in group["params"]]
        self.total += sum(float(gradient.square().sum()) for _, gradient in gradients)
        for p, gradient in gradients:
            p -= self.param_groups[0]["lr"] * gradient / (math.sqrt(self.total) + 1e-10)


class RowWiseAdagrad(Optimizer):
    """The industry's row-wise AdaGrad, written out: one sum per row, of the mean square of its gradient."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            for p in group["params"]:
                gradient = p.grad.to_dense()
                total = self.state[p].setdefault("sum", torch.zeros(len(p), 1, dtype=p.dtype))
                total += gradient.square().mean(dim=1, keepdim=True)
                p -= group["lr"] * gradient / (total.sqrt() + 1e-10)


def losses_of(optimizers: Any) -> list[float]:
    task = Clicks(TOY, seed=4)
    return [float(loss) for loss in follow(task, optimizers(task.model), range(TOY.steps))]


@pytest.mark.parametrize("name", [NORM, "row-wise adagrad"])
def test_baselines_made_of_gradagrad_are_what_they_are_called(name: str) -> None:
    found = losses_of(lambda model: optimizers_of(model, of_rule(name, 0.05)))
    written_out = losses_of(
        lambda model: (
            [AdagradNorm(model.parameters(), 0.05)]
            if name == NORM
            else [torch.optim.Adagrad(model.networks(), 0.05), RowWiseAdagrad([model.tables.weight], 0.05)]
        )
    )
    assert found == pytest.approx(written_out, rel=1e-4)
    assert found[-1] < found[0]


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", SCALAR, "gradagrad element", "gradagrad row", AUTO])
def test_every_parameter_has_one_optimizer(name: str) -> None:
    model = DLRM(size=Size(cap=20), seed=0)
    method = of_rule(name) if name == AUTO else of_rule(name, 0.01, 2.0 if "gradagrad" in name else None)
    held = [p for one in optimizers_of(model, method) for group in one.param_groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in model.parameters()}
    assert len(held) == len(list(model.parameters()))
    with pytest.raises(ValueError, match="unknown optimizer"):
        optimizers_of(model, Method.of("nothing"))


def test_the_curve_is_what_was_trained() -> None:
    record = train([Run(ClickProblem(TOY), of_rule(SCALAR, 0.01, 100.0), 3, TOY.steps)])[0]
    task, growth = Clicks(TOY, 3), list[float]()
    (optimizer,) = optimizers_of(task.model, of_rule(SCALAR, 0.01, 100.0))
    rows = ClickStream(TRAINING, TOY.cap).rows(TOY.rows)
    excess: list[float] = []
    for step in range(TOY.steps):
        cut = rows.cut(32 * step, 32 * step + 32)
        optimizer.zero_grad()
        logits = task.model(torch.from_numpy(cut.dense), torch.from_numpy(cut.ids).long())
        loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(cut.clicks))
        loss.backward()
        optimizer.step()
        assert cut.teacher is not None
        excess.append(float(loss.detach()) - float(log_loss(cut.teacher, cut.clicks).mean()))
        growth.append(float(optimizer.state[task.parameters[0]]["growth"]))
    assert record.curves["excess"] == pytest.approx([np.mean(excess[:10]), np.mean(excess[10:20])])
    assert record.curves["growth"] == pytest.approx([growth[9], growth[19]])
    held = ClickStream(HELD_OUT, TOY.cap).rows(64)
    with torch.no_grad():
        logits = task.model(torch.from_numpy(held.dense), torch.from_numpy(held.ids).long())
    expected = binary_cross_entropy_with_logits(logits, torch.from_numpy(held.clicks))
    assert record.curves["loss"] == pytest.approx([float(expected)])
    assert record.curves["references"][3] == pytest.approx(rows.clicks.mean())


def test_a_run_that_diverges_is_recorded_as_such() -> None:
    record = train([Run(ClickProblem(TOY), of_rule("sgd", 1e30), 1, TOY.steps)])[0]
    assert record.diverged


def test_rows_are_the_stream_s_across_the_ends_of_its_blocks() -> None:
    whole = ClickStream(TRAINING, TOY.cap).rows(BLOCK + 40)
    part = TOY.rows_of(TRAINING, BLOCK - 16, BLOCK + 16)
    np.testing.assert_array_equal(part.ids, whole.ids[BLOCK - 16 : BLOCK + 16])
    assert [len(rows.clicks) for rows in Setup(rows=64, held_out=700).held_out_rows()] == [512, 188]
