"""What the shared learning rate is doing, in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradagrad.auto import rule


@dataclass(frozen=True)
class AutoDiagnostics:
    """The state of the one learning rate that all parameters share."""

    step: int
    gamma: float
    """γ, the numerator; a group's lr multiplies it."""
    step_size: float
    """γ/√step: what corresponds to Adam's learning rate, since √α is about √step gradients."""
    starting: bool
    """Whether the start-up goes on, in which agreement is added up over steps."""
    certified: bool
    """Whether gradients have agreed for long enough to be sure of a signal, whatever the noise."""
    evidence: float
    """Agreement added up since it was last negative, in standard deviations; γ can grow from 1/strictness on."""
    overshoot: float
    """The same of disagreement; the start-up ends once it exceeds the argument ``overshoot``."""
    growth_share: float
    """Share of the steps so far at which γ grew."""
    effective_coordinates: float
    """S²/Q: over how many coordinates the last gradient was spread; NaN before the second step."""


def describe(shared: Tensor | None, group: Mapping[str, Any]) -> AutoDiagnostics:
    """The diagnostics of an optimizer; before its first step, of one that has not begun."""
    numbers = (
        rule.start(group["gamma0"], group["certainty"]) if shared is None else rule.Shared(*shared.detach().tolist())
    )
    return AutoDiagnostics(
        step=int(numbers.step),
        gamma=numbers.gamma,
        step_size=numbers.gamma / math.sqrt(max(numbers.step, 1.0)),
        starting=bool(numbers.starting),
        certified=bool(numbers.certified),
        evidence=_deviations(numbers.agreement, numbers.agreement_noise),
        overshoot=_deviations(-numbers.disagreement, numbers.disagreement_noise),
        growth_share=numbers.growth_steps / max(numbers.step, 1.0),
        effective_coordinates=numbers.coordinates if numbers.coordinates > 0.0 else math.nan,
    )


def _deviations(total: float, variance: float) -> float:
    return total / math.sqrt(variance) if variance > 0.0 else 0.0
