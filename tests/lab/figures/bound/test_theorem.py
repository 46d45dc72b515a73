"""Theorem 3: problems with known minima, the averaged iterate, both bounds, and the step of the proof that fails."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gradagrad_lab import pool
from gradagrad_lab.context import Context
from gradagrad_lab.figures.bound import claims as bound_claims
from gradagrad_lab.figures.bound import study as bound
from gradagrad_lab.figures.bound import theorem
from gradagrad_lab.figures.bound.theorem import Measured, OnBox
from gradagrad_lab.problems.toy import BoxRegression, Loss
from gradagrad_lab.study import Frame, Method, Plan, conduct, runs_of
from gradagrad_lab.train import train
from lab.store import recorded

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


def settings(*initial: float, rho: float = 2.0, momentum: float = 0.0) -> list[Method]:
    return [Method.of("gradagrad", lr=one, rho=rho, momentum=momentum) for one in initial]


def measured(out: Path, problem: OnBox, methods: list[Method], seeds: tuple[int, ...], steps: int) -> list[Measured]:
    context = Context(out=out)
    context.records.add(*train(runs_of(problem, methods, seeds, steps)))
    return [theorem.read(Frame(context, Plan()), problem, method, seeds, steps) for method in methods]


SMALL = OnBox(BoxRegression("absolute", rows=50), "absolute")
ALTERNATING = bound.PROBLEMS["alternating"]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> list[Measured]:
    methods = [*settings(2.0, 1.0, 0.01), *settings(2.0, 1.0, rho=10.0)]
    return measured(tmp_path_factory.mktemp("noisy"), SMALL, methods, (0, 1, 2), 256)


@pytest.fixture(scope="module")
def alternating(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory.mktemp("alternating"), ALTERNATING, settings(1.0), (0,), 64)[0]


def test_the_average_is_the_plain_mean_of_all_iterates() -> None:
    """The alternating example is short enough to follow by hand: x₀ = 3/4, steps 1, 1/√4, 1/√7, 1/√10, each a jump "
    "across."""
    curves = train(runs_of(ALTERNATING, settings(1.0), [0], 4))[0].curves
    x = [0.75]
    for k in range(3):
        x.append(x[-1] - math.copysign(1 / math.sqrt(1 + 3 * k), x[-1]))
    means = [abs(float(np.mean(x[:count]))) for count in (1, 2, 3, 4)]
    assert theorem.checkpoints(4) == [1, 2, 3, 4]
    assert curves["suboptimality"] == pytest.approx(means, rel=1e-9)
    assert curves["largest sum"] == pytest.approx([1, 4, 7, 10])


def test_the_proof_s_step_fails_and_the_safe_one_holds(alternating: Measured) -> None:
    """α = 1 + 3n while gradients alternate, though the proof bounds it by n + 1; (1 + ρ)(n + 1) is never passed."""
    early = alternating.iterates <= 40
    n = alternating.iterates[early] - 1
    assert alternating.sums[early] == pytest.approx((1 + 3 * n) / (n + 1))
    assert alternating.sums.max() > 2.9
    assert alternating.sums.max() <= 1 + alternating.rho


def test_every_bound_holds_and_they_differ_by_the_missing_factors(noisy: list[Measured], alternating: Measured) -> None:
    for curve in (*noisy, alternating):
        assert curve.closest() > 1
        assert curve.closest("safe") > curve.closest()
    problem = OnBox(BoxRegression("logistic"), "logistic")
    method = Method.of("gradagrad", lr=0.5, rho=2.0, momentum=0.5)
    first = (2 + 2) * problem.start / 200
    second = [problem.bound(method, 100.0, form) - first for form in theorem.FORMS]
    printed = 3 * 2 * 10 * 1 * 4 / (0.5 * 10)
    assert second == pytest.approx([printed, printed * math.sqrt(3) * 3 / 2])
    assert noisy[0].bounds["printed"][0] > noisy[0].bounds["printed"][-1]


def test_what_runs_in_the_box_give_and_the_rate_fitted_to_them(noisy: list[Measured]) -> None:
    problem = BoxRegression("absolute", rows=50)
    stack = problem.stack(1, [0])
    assert float(stack.evaluate(stack.start())["outside the box"].max()) == 0
    assert float(stack.evaluate(stack.start() * 1.5)["outside the box"].max()) == 0.5
    assert all(curve.numerator <= problem.diameter for curve in noisy)
    assert all(curve.gaps.min() > 0 for curve in noisy), "an average of points of the box cannot beat the minimum"
    n = np.array([1.0, 4, 16, 64, 256, 1024])
    fitted = replace(noisy[0], iterates=n, gaps=np.stack([3 * n**-0.4, 5 * n**-0.6])).rate
    assert fitted == pytest.approx((-0.5, 0.1))


def test_the_verdicts_follow_from_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "STEPS", {"quick": 128})
    context = Context(out=tmp_path, seeds=2, workers=1)
    section = conduct(bound.STUDY, context)
    verdicts = {claim.text: claim.verdict for claim in section.claims}
    false = [text for text, verdict in verdicts.items() if verdict == "does not hold"]
    assert [text.split(":")[0] for text in false] == ["A step of Theorem 3's proof"]
    assert section.claims[0].verdict == "holds"
    assert section.summary.startswith("The printed bound held in all")
    assert len(recorded(tmp_path)) == 2 * (12 + 8) + 6
    monkeypatch.setattr(pool, "train", None)  # whoever trains now fails
    again = bound.plan(context)
    assert bound_claims.all_claims(bound.read_all(Frame(context, again))) == section.claims


def test_a_bound_that_fails_is_called_so(noisy: list[Measured], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [replace(curve, gaps=curve.gaps * 1e6) for curve in noisy]
    assert bound_claims._bound(broken).verdict == "does not hold"
    assert bound_claims.summary(broken).startswith("The printed bound was exceeded")
    assert bound_claims._bound(noisy).verdict == "holds"
