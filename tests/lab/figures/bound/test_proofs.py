"""The paper's statements, the steps of its proofs that fail, and what consecutive gradients tell."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from gradagrad import GradaGrad
from gradagrad_lab.figures.bound import agreement, proofs, slips
from gradagrad_lab.figures.bound.proofs import Check, Noiseless, Settings
from gradagrad_lab.problems.toy import BoxRegression, Loss

LOSSES: tuple[Loss, ...] = ("absolute", "logistic")
ROUNDING = 1e-9


@pytest.mark.parametrize(("loss", "rho", "momentum"), [*itertools.product(LOSSES, (0.5, 2.0, 10.0), (0.0, 0.9))])
def test_the_statements_hold_below_the_cap(loss: Loss, rho: float, momentum: float) -> None:
    """At ρ = 0.5 too: Lemma 6, on which Theorem 2 rests, asks for ρ ≥ 1 and does not use it."""
    problem = Noiseless(loss)
    path = problem.follow(Settings(0.01, rho, momentum, cap=2.0), 120)
    assert path.gamma.max() < 2
    for name, check in problem.statements(path).items():
        assert check.worst <= ROUNDING, name


@pytest.mark.parametrize("rho", [2.0, 10.0])
def test_at_the_cap_the_theorem_holds_and_lemma_9_does_not(rho: float) -> None:
    problem = Noiseless("absolute")
    found = problem.statements(problem.follow(Settings(proofs.DIAMETER, rho, cap=proofs.DIAMETER), 120))
    assert found.pop("Lemma 9").worst > 1e-4
    assert all(check.worst <= ROUNDING for check in found.values())


def test_a_check_notices_one_step_that_fails() -> None:
    right = np.array([1.0, 2.0, 3.0])
    assert Check(right, right).worst == 0
    assert Check(right + np.array([0, 0.3, 0]), right).worst == pytest.approx(0.3 / 2.3)
    assert Check(np.array([]), np.array([])).worst < 0


def test_every_slip_is_one() -> None:
    by_place: dict[str, list[slips.Slip]] = {}
    for slip in slips.slips():
        assert slip.fails, slip
        by_place.setdefault(slip.where, []).append(slip)
    ratios = [slip.left / slip.right for slip in by_place["Lemma 10"]]
    assert ratios == pytest.approx([1.376, 2.913], abs=1e-3)
    assert [slip.left for slip in by_place["Theorem 3"]] == [1 + 3 * 400, 1 + 11 * 400]
    assert by_place["Lemma 9"][0].left == pytest.approx(4 + 1 / math.sqrt(2) + 2)
    assert by_place["Lemma 9"][0].right == pytest.approx(4 * math.sqrt(2))
    assert by_place["Lemma 7"][0].left == pytest.approx(4 + 0.25**2)
    assert by_place["used throughout"][0].left == pytest.approx(1.21, abs=0.01)
    assert by_place["Algorithm 1"][0].left == 11


@pytest.mark.parametrize("rho", [1.0, 2.0, 10.0])
def test_lemma_10_holds_at_the_cap_with_the_repaired_constant(rho: float) -> None:
    """Also on gradients of random size and sign, which are harder than alternating ones."""
    random = np.random.default_rng(0)
    for spread in (0.0, 1.0, 4.0):
        sizes = np.exp(-spread * random.random(300))
        sizes[0] = 1
        signs = np.where(np.arange(300) % 2, -1, 1) if spread < 4 else random.choice([-1, 1], 300)
        path = proofs.follow(lambda k, x, g=sizes * signs: g[k], 300, Settings(rho=rho, cap=1.0))
        assert slips.lemma_10(path, 1 + rho).worst <= ROUNDING
    limit = (1 + rho) / math.sqrt(2 + rho)
    longest = slips.lemma_10(slips.alternating(Settings(rho=rho, cap=1.0), 401), math.sqrt(2 + rho))
    assert longest.left[-1, 0] / longest.right[-1, 0] == pytest.approx(limit, rel=0.1)


def test_momentum_stays_within_the_bound_from_rho_1_on() -> None:
    for rho, momentum in itertools.product((1.0, 2.0, 10.0), (0.9, 0.99)):
        path = proofs.follow(lambda k, x: 1.0, 300, Settings(rho=rho, momentum=momentum))
        assert np.abs(path.m).max() <= 1 + ROUNDING


def test_the_group_s_clip_keeps_what_algorithm_1_as_printed_breaks() -> None:
    gradients = [1.5**k for k in range(13)]
    point = Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = GradaGrad([point], granularity="group", growth_limit=math.sqrt(2))
    for gradient in gradients:
        point.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    assert point.item() == pytest.approx(-8126.76, rel=1e-5)


def test_the_printed_constant_survives_the_sum_up_to_a_certain_rho() -> None:
    assert proofs.largest_rho(every=False) == pytest.approx(5.4, abs=0.05)
    assert proofs.largest_rho() == pytest.approx(4.42, abs=0.01)
    for rho, n in itertools.product((0.5, 2.0, 4.4), range(1000)):
        assert proofs.constant_needed(rho, n) <= proofs.constant(rho, "printed")
    for rho, n in itertools.product((0.5, 2.0, 10.0, 100.0), (*range(100), math.inf)):
        assert proofs.constant_needed(rho, n) <= proofs.constant(rho, "sum corrected")


def gradient(x: np.ndarray) -> np.ndarray:
    """Of logistic regression without noise."""
    return BoxRegression("logistic").gradients(x).mean(axis=0)


def test_the_hyper_gradient_is_what_a_finite_difference_gives() -> None:
    """∂f(x − η∘g)/∂η_i = −g_i(x − η∘g)·g_i(x), coordinate by coordinate; for one η shared by all, their sum."""
    problem = BoxRegression("logistic")
    x, rates = np.linspace(-0.8, 0.9, 10), np.linspace(0.1, 2.0, 10)
    g = gradient(x)
    next_g = gradient(x - rates * g)
    h = 1e-5
    measured = []
    for i in range(10):
        ends = [problem.value(x - (rates + sign * h * np.eye(10)[i]) * g) for sign in (1, -1)]
        measured.append((ends[0] - ends[1]) / (2 * h))
    assert measured == pytest.approx(-next_g * g, rel=1e-6, abs=1e-12)
    ends = [problem.value(x - (0.7 + sign * h) * g) for sign in (1, -1)]
    assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(-gradient(x - 0.7 * g) @ g, rel=1e-6)


def test_v_over_alpha_is_read_from_the_state_as_it_is() -> None:
    """By hand without noise: the second step has v = g₁² − 2·g₁·g₀ and α = g₀²."""
    x = np.zeros(10)
    g0 = gradient(x)
    g1 = gradient(x - 0.01 * g0 / np.linalg.norm(g0))
    by_hand = abs(g1 @ g1 - 2 * g1 @ g0) / (g0 @ g0)
    seen = agreement.observe(0.01, 0, steps=agreement.LOOKS[-1])
    assert seen.sizes[0] == pytest.approx(by_hand, rel=1e-9)
    assert seen.sizes[0] > 0.5 > 1e-6 > seen.sizes[-1]


@pytest.mark.parametrize(("ratio", "rho"), [(0.01, 2.0), (1.0, 2.0), (0.1, 10.0), (1.0, 10.0), (0.1, 100.0)])
def test_the_mean_of_v_lies_on_the_line(ratio: float, rho: float) -> None:
    found = agreement.noise(ratio, rho, coordinates=2000, steps=50)
    assert found.predicted == pytest.approx(1 - (rho - 1) * ratio)
    assert abs(found.measured - found.predicted) < 4 * found.error
    assert found.error < 0.03 * rho


@pytest.mark.parametrize("initial", [1e-3, 1.0])
def test_rho_1_hardly_grows_and_not_at_all_under_its_cap(initial: float) -> None:
    """Gradients that shrink make v = g² − g·g′ negative; with ``gamma_max`` at γ₀ the rule is AdaGrad, step by step."""
    problem = Noiseless("logistic")
    free = problem.follow(Settings(initial, 1.0), 100)
    assert (free.v < 0).sum() > 100
    assert 1 < free.gamma[-1].max() / initial < 1.1
    assert (np.diff(free.alpha, axis=0)[free.v[1:] < 0] == 0).all()
    capped = problem.follow(Settings(initial, 1.0, cap=initial), 100)
    squares = np.concatenate([np.ones((1, 10)), capped.gradients[1:] ** 2]).cumsum(axis=0)  # v₀ = G∞² = 1
    assert (capped.gamma == initial).all()
    np.testing.assert_allclose(capped.alpha, squares, rtol=1e-12)
    moved = np.clip(capped.x[:-1] - initial * capped.gradients / np.sqrt(squares), -1, 1)
    np.testing.assert_allclose(capped.x[1:], moved, atol=1e-9)  # eps
