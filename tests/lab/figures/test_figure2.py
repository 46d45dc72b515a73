"""Figure 2: both optimizers on |x|, from good and bad initial learning rates, in float32."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import Adagrad

from gradagrad import GradaGrad
from gradagrad_lab import pool
from gradagrad_lab.context import Context
from gradagrad_lab.figures import figure2
from gradagrad_lab.problems.toy import AbsoluteValue
from gradagrad_lab.study import conduct
from gradagrad_lab.train import train
from lab.store import recorded

Drawn = dict[str, list[figure2.Trajectory]]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return {
        name: [figure2.path_of(record) for group in figure2.PROBLEM.together(runs) for record in train(group)]
        for name, runs in figure2.groups().items()
    }


@pytest.mark.parametrize(("rule", "initial"), [(GradaGrad, 1.0), (GradaGrad, 1e-4), (GradaGrad, 1e-12), (Adagrad, 0.1)])
def test_the_record_holds_what_the_optimizer_did(drawn: Drawn, rule: Any, initial: float) -> None:
    """Stacked and recorded, or alone in a plain loop with autograd: for ours the same numbers, bit for bit."""
    x = torch.tensor([3.0], requires_grad=True)
    optimizer = rule([x], lr=initial)
    seen: list[float] = [x.item()]
    for _ in range(150):
        optimizer.zero_grad()
        x.abs().sum().backward()
        optimizer.step()
        seen.append(x.item())
    recorded = next(path for path in drawn[rule.__name__.lower()] if path.initial == initial)
    rounding = 0 if rule is GradaGrad else 1e-6
    assert recorded.x[:151].tolist() == pytest.approx(seen, rel=rounding, abs=0)


def test_every_tiny_start_arrives_in_single_precision(drawn: Drawn) -> None:
    assert [path.initial for path in drawn["gradagrad"]] == list(figure2.INITIAL)
    for path in drawn["gradagrad"]:
        assert path.reached_at is not None, path.initial
        assert path.reached_at < 90
    by_start = {path.initial: path for path in drawn["gradagrad"]}
    # The subtraction of iterates, which the printed algorithm relies on, is exactly 0 for this long.
    assert by_start[1e-12].standing == 34
    assert np.all(by_start[1e-12].x[:35] == 3.0)
    assert by_start[1e-12].x[35] < 3.0


def test_the_claims_follow_from_the_runs(drawn: Drawn) -> None:
    claims = figure2.claims(drawn)
    assert [(claim.verdict, claim.whose) for claim in claims] == [("holds", "paper")] * 4 + [("holds", "ours")]
    # Were GradaGrad no better than AdaGrad, the verdicts would say so.
    swapped = figure2.claims({**drawn, "adagrad": drawn["gradagrad"], "gradagrad": drawn["adagrad"]})
    expected = ["does not hold", "holds in part", "does not hold", "holds", "does not hold"]
    assert [claim.verdict for claim in swapped] == expected


def test_as_printed_the_algorithm_is_ours_until_precision_ends(drawn: Drawn) -> None:
    ours = {path.initial: path for path in drawn["gradagrad"]}
    printed = figure2.as_printed(0.1)
    np.testing.assert_allclose(printed.x[:30], ours[0.1].x[:30], atol=1e-4)
    for initial in (1e-8, 1e-12):
        still = figure2.as_printed(initial)
        assert (still.x == 3.0).all()
        assert still.rate.max() <= np.float32(initial)


def test_a_run_s_landmarks() -> None:
    path = figure2.Trajectory(0.1, np.array([3.0, 3.0, 1.0, -0.5, 0.05]), np.ones(4))
    assert (path.reached_at, path.crossing, path.standing) == (4, 3, 1)
    still = figure2.Trajectory(0.1, np.array([3.0, 3.0, 3.0]), np.ones(2))
    assert (still.reached_at, still.crossing, still.standing) == (None, 2, 2)


def test_the_section_is_drawn_from_records_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = conduct(figure2.STUDY, Context(out=tmp_path))
    assert [len(picture.panels) for picture in first.pictures] == [4]
    assert len(recorded(tmp_path)) == 2 * len(figure2.INITIAL) + 2

    def forbidden(runs: object, hooks: object) -> None:
        raise RuntimeError("trained again")

    monkeypatch.setattr(pool, "train", forbidden)
    assert conduct(figure2.STUDY, Context(out=tmp_path)).claims == first.claims


def test_the_problem_gives_subgradients_and_values() -> None:
    stack = AbsoluteValue(start_at=-2.0).stack(2, [0, 1, 2])
    points = stack.start()
    assert points.shape == (2, 3, 1, 1)
    points[0, 0] = 5.0
    points[1, 2] = 0.0
    out = torch.empty_like(points)
    stack.gradient(points, None, out)
    assert out.flatten().tolist() == [1, -1, -1, -1, -1, 0]
    measured = stack.evaluate(points)
    points.fill_(9.0)
    assert measured["x"].tolist() == [[5, -2, -2], [-2, -2, 0]], "what was measured must not follow the points"
    assert measured["loss"].tolist() == [[5, 2, 2], [2, 2, 0]]
