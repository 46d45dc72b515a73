"""`benchmarks.hardening` measures changes around the product's rule: without a change it must be the product."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from benchmarks.variants import (
    VARIANTS,
    Blocks,
    Clipped,
    Growth,
    Halving,
    OwnGamma,
    Tilted,
    Variant,
)
from gradagrad import AutoGradaGrad
from gradagrad.auto import rule

from .cases import shared

STEPS = 60
SIZES = (70, 6)
# Options of the product.
PRODUCTS = ("default", "prototype (no certificate, β = 0)", "c = 6", "γ₀ = 1e-08", "uniform weighting", "r_max = 3")
# Each driver, the number that makes it the product, and one that does not.
DRIVERS = [
    (Clipped, math.inf, 0.1),
    (Tilted, 0.5, 0.6),
    (Halving, math.inf, 2.0),
    (OwnGamma, math.inf, 8.0),
]


class Quadratics:
    """Noisy quadratics in two tensors; each row has noise, and now and then zeros, of its own."""

    def __init__(self) -> None:
        self.start = torch.full((2, sum(SIZES)), 2.0, dtype=torch.float64)
        self.tensor_of = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))

    def gradient(self, x: Tensor, step: int) -> Tensor:
        random = torch.Generator().manual_seed(step)
        noise = torch.randn(self.start.shape, generator=random, dtype=torch.float64)
        curvatures = torch.logspace(-2, 1, x.shape[1], dtype=torch.float64)
        return torch.where(noise > 1.5, 0.0, curvatures * x + 0.3 * noise)


def run(variant: Variant, problem: Quadratics) -> Growth:
    growth = variant.on(problem)
    for step in range(STEPS):
        growth.step(problem.gradient(growth.x, step))
    return growth


@pytest.mark.parametrize("name", PRODUCTS)
def test_each_row_is_the_product(name: str) -> None:
    problem, options = Quadratics(), VARIANTS[name].options
    growth = run(VARIANTS[name], problem)
    for row, start in enumerate(problem.start):
        parameters = [Parameter(part.clone()) for part in start.split(SIZES)]
        optimizer = AutoGradaGrad(parameters, fused=False, **options)
        for step in range(STEPS):
            x = torch.cat([p.detach() for p in parameters]).expand_as(problem.start)
            for p, g in zip(parameters, problem.gradient(x, step)[row].split(SIZES), strict=True):
                p.grad = g
            optimizer.step()
        for ours, its in zip(growth.shared, shared(optimizer), strict=True):
            assert float(ours[row]) == pytest.approx(its, rel=1e-9, abs=1e-12)
        assert growth.shared.growth_steps[row] > 1
        with optimizer.averaged():
            torch.testing.assert_close(growth.mean[row], torch.cat([*parameters]).detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("driver", "neutral", "other"), DRIVERS)
def test_a_driver_differs_from_the_product_by_its_number_only(
    driver: type[Growth], neutral: float, other: float
) -> None:
    variant = Variant(driver=driver, number=neutral)
    plain, same, changed = (
        run(v, Quadratics()) for v in (replace(variant, driver=None), variant, replace(variant, number=other))
    )
    torch.testing.assert_close(same.gamma, plain.gamma, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(same.mean, plain.mean, rtol=1e-9, atol=1e-12)
    assert ((changed.gamma - plain.gamma).abs() > 1e-3 * plain.gamma).any()


def test_blocks_of_single_elements_are_the_product() -> None:
    problem, variant = Quadratics(), Variant(driver=Blocks)
    plain = run(Variant(), problem)
    assert (run(variant, problem).gamma < plain.gamma).any()
    problem.tensor_of = torch.arange(sum(SIZES))
    torch.testing.assert_close(run(variant, problem).gamma, plain.gamma, rtol=1e-9, atol=0.0)


def test_a_certificate_expires_only_where_it_should() -> None:
    """Gradients of zero agree with nothing: the sum of signs fades below what certifies."""
    runs = [run(v, Quadratics()) for v in (Variant(), Variant(constants={"EXPIRY": 50.0}))]
    for growth in runs:
        assert (growth.shared.certified > 0.0).all()
        for _ in range(150):
            growth.step(torch.zeros_like(growth.x))
    assert (runs[0].shared.certified > 0.0).all()
    assert (runs[1].shared.certified == 0.0).all()


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if variant.constants])
def test_constants_are_changed_only_while_a_variant_steps(name: str) -> None:
    variant = VARIANTS[name]
    before = {key: getattr(rule, key) for key in variant.constants}
    with variant.changed():
        inside = {key: getattr(rule, key) for key in variant.constants}
    assert inside == variant.constants != before
    problem = Quadratics()
    growth = variant.on(problem)
    growth.step(problem.gradient(growth.x, 0))
    assert {key: getattr(rule, key) for key in variant.constants} == before
    if "FREE_GROWTH" in variant.constants:
        assert growth.settings.free_gamma == pytest.approx(100.0 * growth.group["gamma0"])
