"""What a run of the suite ends with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradagrad_lab.average import AVERAGED
from gradagrad_lab.problems.training import ACCURACY, LOSS

# A run has diverged when a number is not finite or the final loss exceeds this many times the loss at the start.
DIVERGED = 10.0


@dataclass
class Outcome:
    """What a run ends with. ``averaged`` are the same measures at the averaged iterate.

    ``curve``: mini-batch loss, mean over each fortieth of the run. ``gamma``: the mean of AutoGradaGrad's γ at the end.
    """

    initial: float
    train: float
    averaged_train: float
    held_out: dict[str, float] = field(default_factory=dict)
    averaged_held_out: dict[str, float] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)
    gamma: float = math.nan

    @property
    def diverged(self) -> bool:
        return has_diverged(self.train, self.initial)


def has_diverged(loss: float, initial: float) -> bool:
    """Not finite, or more than `DIVERGED` times the loss at the start."""
    return not math.isfinite(loss) or loss > DIVERGED * abs(initial)


def loss_of(outcome: Outcome, averaged: bool) -> float:
    """The final training loss; at most `DIVERGED` times the loss at the start, which is what a diverged run gets."""
    value = outcome.averaged_train if averaged else outcome.train
    limit = DIVERGED * abs(outcome.initial)
    return min(value, limit) if math.isfinite(value) else limit


def outcome_of(curves: Mapping[str, Sequence[float]]) -> Outcome:
    """What a run of the suite leaves behind."""
    held_out, averaged = (
        {name: value for name in (LOSS, ACCURACY) if not math.isnan(value := curves[f"{where}held-out {name}"][0])}
        for where in ("", AVERAGED)
    )
    initial, last, mean = (curves[name][0] for name in ("initial loss", LOSS, AVERAGED + LOSS))
    return Outcome(initial, last, mean, held_out, averaged, list(curves["mini-batch loss"]), curves["gamma"][0])
