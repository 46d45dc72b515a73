"""Theorem 2: problems with known minima, the averaged iterate, both bounds, and the step of the proof that fails."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from gradagrad_lab import theorem
from gradagrad_lab.context import Context
from gradagrad_lab.figures import bound
from gradagrad_lab.figures.bound_claims import describe
from gradagrad_lab.problems.toy import BoxRegression, Loss
from gradagrad_lab.theorem import Measured, Trial

LOSSES: tuple[Loss, ...] = ("absolute", "logistic")


@pytest.mark.parametrize("loss", LOSSES)
def test_the_minimum_is_one(loss: Loss) -> None:
    problem = BoxRegression(loss)
    least, where = problem.minimum
    assert np.abs(where).max() == 1.0, "the box must bind, or the projection is not tested"
    random = np.random.default_rng(1)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(200):
            other = np.clip(where + size * random.normal(size=where.size), -1, 1)
            assert problem.value(other) >= least - 1e-12


@pytest.mark.parametrize("loss", LOSSES)
def test_single_rows_give_the_gradient_on_average_and_keep_to_the_bound(loss: Loss) -> None:
    problem = BoxRegression(loss, rows=40)
    stack = problem.stack(1, range(40))
    point = torch.linspace(-0.9, 0.8, problem.dimension, dtype=torch.float64)
    points = point.expand(1, 40, 1, -1).clone()
    rows = torch.empty_like(points)
    stack.gradient(points, torch.arange(40), rows)  # seed number i sees row i
    x = point.clone().requires_grad_()
    features, targets = (torch.as_tensor(part) for part in problem.data)
    score = features @ x
    losses = (score - targets).abs() if loss == "absolute" else torch.nn.functional.softplus(-targets * score)
    losses.mean().backward()
    assert x.grad is not None
    torch.testing.assert_close(rows.mean(1).flatten(), x.grad)
    assert float(rows.abs().max()) <= problem.gradient_bound
    assert float(stack.evaluate(points)["loss"][0, 0]) == pytest.approx(losses.mean().item(), rel=1e-12)


def test_every_seed_draws_its_own_rows_and_always_the_same() -> None:
    problem = BoxRegression("absolute", rows=50)
    both = torch.stack(list(problem.stack(1, [3, 4]).batches(0)))
    alone = torch.stack(list(problem.stack(1, [4]).batches(0)))
    assert torch.equal(both[:, 1], alone[:, 0])
    assert not torch.equal(both[:, 0], both[:, 1])
    assert not torch.equal(alone, torch.stack(list(problem.stack(1, [4]).batches(1))))


@pytest.fixture(scope="module")
def noisy() -> list[Measured]:
    trial = Trial(BoxRegression("absolute", rows=50), (1.0, 0.01), (0, 1, 2), 256)
    return theorem.read("absolute", theorem.train(trial))


@pytest.fixture(scope="module")
def alternating() -> Measured:
    return theorem.read("alternating", theorem.train(Trial(bound.ALTERNATING, (1.0,), (0,), 64)))[0]


def test_the_average_is_the_plain_mean_of_all_iterates() -> None:
    """The alternating example is short enough to follow by hand: x₀ = 3/4, steps 1, 1/√4, 1/√7, 1/√10, each a jump "
    "across."""
    record = theorem.train(Trial(bound.ALTERNATING, (1.0,), (0,), 4))
    x = [0.75]
    for k in range(3):
        x.append(x[-1] - math.copysign(1 / math.sqrt(1 + 3 * k), x[-1]))
    means = [abs(float(np.mean(x[:count]))) for count in (1, 2, 3, 4)]
    assert record.curves["iterates"] == [1, 2, 3, 4]
    assert record.curves["suboptimality"][0][0] == pytest.approx(means, rel=1e-9)
    assert record.curves["largest sum"][0] == pytest.approx([1, 4, 7, 10])


def test_the_proof_s_step_fails_and_the_safe_one_holds(alternating: Measured) -> None:
    """α = 1 + 3n while gradients alternate, though the proof bounds it by n + 1; (1 + ρ)(n + 1) is never passed."""
    early = alternating.iterates <= 40
    n = alternating.iterates[early] - 1
    assert alternating.sums[early] == pytest.approx((1 + 3 * n) / (n + 1))
    assert alternating.sums.max() > 2.9
    assert alternating.sums.max() <= 1 + theorem.RHO


def test_both_bounds_hold_and_differ_by_the_missing_factor(noisy: list[Measured], alternating: Measured) -> None:
    for curve in (*noisy, alternating):
        assert curve.closest[0] > 1
        assert curve.closest[1] > curve.closest[0]
    first = noisy[0]
    config = {"rho": 2.0, "momentum": 0.5, "diameter": 2.0, "gradient bound": 1.0, "problem": {"dimension": 10}}
    printed, corrected = (theorem.bound(config, 0.0, 100.0, 0.5, corrected=form) for form in (False, True))
    assert printed == pytest.approx(3 * 2 * 10 * 1 * 4 / (0.5 * 10))
    assert corrected == pytest.approx(printed * math.sqrt(3))
    assert theorem.bound(config, 7.0, 100.0, 0.5, corrected=False) - printed == pytest.approx((2 + 2) * 7 / 200)
    assert first.printed[0] > first.printed[-1]


def test_iterates_stay_in_the_box_and_the_numerator_under_its_cap(noisy: list[Measured]) -> None:
    problem = BoxRegression("absolute", rows=50)
    stack = problem.stack(1, [0])
    assert float(stack.evaluate(stack.start())["outside the box"].max()) == 0
    assert float(stack.evaluate(stack.start() * 1.5)["outside the box"].max()) == 0.5
    assert all(curve.numerator <= problem.diameter for curve in noisy)
    assert all(curve.gaps.min() > 0 for curve in noisy), "an average of points of the box cannot beat the minimum"


def test_a_rate_is_fitted_with_its_error() -> None:
    n = np.array([1.0, 4, 16, 64, 256, 1024])
    gaps = np.stack([3 * n**-0.4, 5 * n**-0.6])
    fitted = Measured("absolute", 0.0, 1.0, n, gaps, n, n, n, 1.0).rate
    assert fitted == pytest.approx((-0.5, 0.1))


def test_the_verdicts_follow_from_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "STEPS", {"quick": 128})
    context = Context(out=tmp_path, seeds=2)
    section = bound.run(context)
    verdicts = [claim.verdict for claim in section.claims]
    assert verdicts[:3] == ["holds", "holds", "does not hold"]
    assert {"bound.png", "bound.svg", "bound-narrow.svg"} <= {path.name for path in (tmp_path / "figures").iterdir()}
    written = sorted((tmp_path / "records").iterdir())
    assert len(written) == 5
    monkeypatch.setattr(bound, "train", None)  # whoever trains now fails
    assert bound.run(context).claims == section.claims


def test_a_bound_that_fails_is_called_so(noisy: list[Measured]) -> None:
    broken = [
        Measured(
            name,
            momentum,
            curve.initial,
            curve.iterates,
            curve.gaps * 1e6,
            curve.printed,
            curve.corrected,
            curve.sums,
            1.0,
        )
        for name in ("absolute", "logistic", "alternating")
        for momentum in (0.0, 0.9)
        for curve in noisy
    ]
    section = describe(broken, 0.0)
    assert [claim.verdict for claim in section.claims][:2] == ["does not hold", "does not hold"]
    assert section.summary.startswith("The printed bound was exceeded")
