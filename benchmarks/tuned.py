"""The baselines of a stacked comparison: SGD, AdaGrad and Adam at the best of a grid of learning rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.stacked import Block, Finals, Stack, elementwise, train

BASELINES: dict[str, tuple[Callable[..., Any], range]] = {
    "SGD": (lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9), range(-5, 1)),
    "AdaGrad": (lambda groups: torch.optim.Adagrad(groups, lr=1.0), range(-4, 2)),
    "Adam": (lambda groups: torch.optim.Adam(groups, lr=1.0), range(-6, 0)),
}
# Rates are 10^(place/2), two to a decade; a search that has not found its end there gives up.
LOWEST, HIGHEST = -24, 8


@dataclass(frozen=True)
class Tuned:
    """The best rate for the mean final training loss at the last point and at the average, and what came of it."""

    last: float
    averaged: float
    losses: tuple[float, float]


def lanes(name: str, rates: list[float]) -> Block:
    """A baseline, a lane for each rate."""
    return elementwise(BASELINES[name][0], [{"lr": rate} for rate in rates])


def tune(stack: Stack) -> dict[str, Tuned]:
    """Every baseline; a grid goes on while either of its two bests lies at its end."""
    found: dict[str, dict[int, Finals]] = {name: {} for name in BASELINES}
    wanted = {name: list(places) for name, (_, places) in BASELINES.items()}
    while any(wanted.values()):
        asked = [(name, place) for name, places in wanted.items() for place in places]
        blocks = [lanes(name, [_rate(place) for place in places]) for name, places in wanted.items() if places]
        for (name, place), finals in zip(asked, train(stack, blocks), strict=True):
            found[name][place] = finals
        wanted = {name: _further(finals) for name, finals in found.items()}
    return {name: _chosen(finals) for name, finals in found.items()}


def _rate(place: int) -> float:
    return float(f"{10.0 ** (place / 2):.6g}")


def _loss(finals: Finals, averaged: bool) -> float:
    return float(finals.losses(averaged).mean())


def _best(found: dict[int, Finals], averaged: bool) -> int:
    return min(found, key=lambda place: (_loss(found[place], averaged), place))


def _further(found: dict[int, Finals]) -> list[int]:
    best = [_best(found, averaged) for averaged in (False, True)]
    low, high = min(found), max(found)
    below = [low - 2, low - 1] if low in best and low > LOWEST else []
    return below + ([high + 1, high + 2] if high in best and high < HIGHEST else [])


def _chosen(found: dict[int, Finals]) -> Tuned:
    last, averaged = (_best(found, at) for at in (False, True))
    return Tuned(_rate(last), _rate(averaged), (_loss(found[last], False), _loss(found[averaged], True)))
