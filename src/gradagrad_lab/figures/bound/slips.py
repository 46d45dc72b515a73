"""Where a step of the paper's proofs is false as printed: a run that contradicts it, and what holds instead.

Letters and numbers are those of `gradagrad_lab.figures.bound.proofs`.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from gradagrad_lab.figures.bound.proofs import DIAMETER, Check, PathOf, Settings, constant, constant_needed, follow


class Slip(NamedTuple):
    """A step as printed, the run that contradicts it, its two sides there, and what is true."""

    where: str
    printed: str
    example: str
    left: float
    right: float
    instead: str

    @property
    def fails(self) -> bool:
        return self.left > self.right * (1 + 1e-9)


ALTERNATING_STEPS = 401


def alternating(settings: Settings, steps: int = ALTERNATING_STEPS) -> PathOf:
    """Gradients +1, −1, +1, …"""
    return follow(lambda k, x: (-1.0) ** k, steps, settings)


def lemma_10(path: PathOf, constant: float) -> Check:
    """Its two sides on one coordinate, q being 2·``constant``·γ²; the lemma prints √(2 + ρ)."""
    q = 2 * constant * path.gamma**2
    return Check(path.error_terms.cumsum(axis=0), q * path.A[:1] + q / path.settings.initial * np.sqrt(path.alpha))


@cache
def slips() -> list[Slip]:
    """All of them, in the order of the paper."""
    return [_clip(), _momentum(), *_iterates(), *_recursion(), *_errors(), _sum(2.0), _sum(10.0)]


def _clip() -> Slip:
    """Algorithm 1 as printed, without Lemma 4's clip, transcribed: the library has no such mode."""
    rho, r = 2.0, 1.0
    gamma, alpha, before, previous_A, failed = 1.0, 0.0, 0.0, math.inf, 0
    gradients = [1.5**k for k in range(13)]
    for g in gradients:
        v = g * g - rho * g * before
        if v >= 0:
            alpha += v
        else:
            gamma *= math.sqrt(1 - max(v, -r * alpha) / alpha)
        A = math.sqrt(alpha) / gamma
        failed += g * g / A - rho * g * before / previous_A > 1e-12
        before, previous_A = g, A
    return Slip(
        "Algorithm 1",
        "a fixed r in place of Lemma 4's: g²/A′ − ρ·g·m/A ≤ 0 whenever v < 0",
        f"g = 1.5^k, r = 1: steps of {len(gradients) - 1} that break it",
        failed - 1.0,  # the first step has no predecessor and adds g² by definition
        0.0,
        "“group” here is Algorithm 1 with Lemma 4's clip, which never breaks it",
    )


def _momentum() -> Slip:
    path = follow(lambda k, x: 1.0, 300, Settings(rho=0.25, momentum=0.99))
    return Slip(
        "used throughout",
        "|m| ≤ G∞",
        "ρ = 0.25, β = 0.99, every gradient 1: largest |m|",
        float(np.abs(path.m).max()),
        1.0,
        "held in every run with ρ ≥ 1, and always without momentum, where m is a gradient",
    )


def _iterates() -> list[Slip]:
    """Lemma 7's two cases are exchanged; the step displayed for v > 0 cannot hold, since A then grows."""
    path = follow(lambda k, x: np.sign(x), 2, Settings(cap=DIAMETER), [0.75])
    scale = DIAMETER**2 / path.settings.initial
    root, A, z = np.sqrt(path.alpha[:, 0]), path.A[:, 0], path.z[:, 0]
    left = scale * root[0] + (A[1] - A[0]) * z[1] ** 2
    return [
        Slip(
            "Lemma 7",
            "v > 0: D²/γ₀·√α + (A′ − A)·|z − x*|² ≤ D²/γ₀·√α, “γ increases and α stays”",
            "|x| from 3/4, γ₀ = 1: second step, v = 3",
            float(left),
            float(scale * root[0]),
            "v < 0 is that case; for v > 0, A′ − A = (√α′ − √α)/γ ≤ (√α′ − √α)/γ₀. The lemma's conclusion holds",
        )
    ]


def _recursion() -> list[Slip]:
    """Lemma 9 at γ = D∞, where v is g² alone."""
    found: list[Slip] = []
    for rho in (2.0, 10.0):
        path = alternating(Settings(rho=rho, cap=1.0), 2)
        q = 2 * math.sqrt(2 + rho)
        left = q * path.A[0, 0] + path.error_terms[1, 0]
        found.append(
            Slip(
                "Lemma 9",
                "q·A + g²/A′ − ρ·g·m/A ≤ q·A′ with q = 2·√(2+ρ)·γ²",
                f"γ₀ = D∞ = 1, gradients 1, −1, ρ = {rho:g}",
                float(left),
                float(q * path.A[1, 0]),
                f"true below the cap; at it no constant will do: gradients 1, −0.01 ask for q ≥ {_needed(rho):.0f}",
            )
        )
    return found


def _needed(rho: float) -> float:
    """The q that Lemma 9 would need at the cap for gradients 1, −0.01."""
    path = follow(lambda k, x: (1.0, -0.01)[k], 2, Settings(rho=rho, cap=1.0))
    return float(path.error_terms[1, 0] / (path.A[1, 0] - path.A[0, 0]))


def _errors() -> list[Slip]:
    found: list[Slip] = []
    for rho in (2.0, 10.0):
        path = alternating(Settings(rho=rho, cap=1.0))
        printed, repaired = lemma_10(path, math.sqrt(2 + rho)), lemma_10(path, 1 + rho)
        held = "holds" if repaired.worst <= 0 else "fails too"
        found.append(
            Slip(
                "Lemma 10",
                "Σ(g²/A′ − ρ·g·m/A) ≤ q·A₁ + q·√α/γ₀ with q = 2·√(2+ρ)·γ²",
                f"γ₀ = D∞ = 1, {ALTERNATING_STEPS} gradients ±1, ρ = {rho:g}",
                float(printed.left[-1, 0]),
                float(printed.right[-1, 0]),
                f"with 1 + ρ for √(2+ρ) it {held} here; 2|g·m| ≤ g² + m² and telescoping prove it",
            )
        )
    return found


def _sum(rho: float) -> Slip:
    path = alternating(Settings(rho=rho, cap=DIAMETER))
    steps = len(path.alpha)
    survives = "survives it" if constant_needed(rho) <= constant(rho, "printed") else "does not survive it"
    return Slip(
        "Theorem 3",
        "α_{n+1} ≤ (n + 1)·G∞²",
        f"γ₀ = 1 below the cap, {steps} gradients ±1, ρ = {rho:g}",
        float(path.alpha[-1, 0]),
        float(steps),
        f"α_{{n+1}} ≤ (1 + (1 + ρ)·n)·G∞²; the printed constant {survives}",
    )
