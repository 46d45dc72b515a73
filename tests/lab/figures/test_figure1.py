"""Figure 1's curves are the optimizer's own, and say what the paper says."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gradagrad import GradaGrad
from gradagrad_lab.context import Context
from gradagrad_lab.figures import figure1
from gradagrad_lab.study import conduct


def test_the_naive_rule_explodes_and_ours_does_not() -> None:
    ratio = np.array([-3.0, -1.0, -1 + 1e-8, -0.75, 0.0, 3.0])
    assert figure1.naive(ratio) == pytest.approx([np.inf, np.inf, 1e4, 2.0, 1.0, 0.5], rel=1e-6)
    assert figure1.reparametrised(ratio) == pytest.approx([2.0, 2**0.5, 2**0.5, 1.75**0.5, 1.0, 0.5], rel=1e-7)
    # Equal gradients are clipped at a factor of ρ.
    clipped = figure1.reparametrised(np.array([-2.0, -3.0, -4.0, -100.0]), equal_gradients=True)
    assert clipped == pytest.approx([3**0.5, 2.0, 2.0, 2.0])


@pytest.mark.parametrize("second", [2.0, 1.0, 0.5, -1.0])
def test_the_curve_is_what_the_optimizer_does(second: float) -> None:
    """Two steps of the optimizer on one coordinate: the change of its learning rate lies on the drawn curve."""
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = GradaGrad([x], lr=1.0, rho=figure1.RHO, eps=0.0, initial_accumulator_value=9.0)
    rates: list[float] = []
    for gradient in (1.0, second):
        x.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        state = optimizer.state[x]
        rates.append(float(state["growth"] / state["accumulator"].sqrt()))
    v = second**2 - figure1.RHO * second
    expected = figure1.reparametrised(np.array([v / 10.0]))
    assert rates[1] / rates[0] == pytest.approx(expected[0], rel=1e-12)


def test_the_section_finds_what_the_paper_says(tmp_path: Path) -> None:
    context = Context(out=tmp_path)
    section = conduct(figure1.STUDY, context)
    assert [claim.verdict for claim in section.claims] == ["holds", "holds", "holds"]
    assert [len(picture.panels) for picture in section.pictures] == [1]


def test_the_verdict_depends_on_the_curves() -> None:
    curves = figure1.compute()
    curves["reparametrised"] = curves["naive"]
    curves["disagreement near zero"] = np.array([1.0, 10.0, 100.0])
    verdicts = [claim.verdict for claim in figure1.claims(curves)]
    assert verdicts[:2] == ["does not hold", "does not hold"]
