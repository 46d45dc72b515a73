"""The baselines of a stacked comparison: SGD, AdaGrad and Adam at the best of a grid of learning rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.stacked import Block, Finals, Stack, elementwise, train

BASELINES: dict[str, tuple[Callable[..., Any], range]] = {
    "SGD": (lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9), range(-5, 1)),
    "AdaGrad": (lambda groups: torch.optim.Adagrad(groups, lr=1.0), range(-4, 2)),
    "Adam": (lambda groups: torch.optim.Adam(groups, lr=1.0), range(-6, 0)),
}
# Rates are 10^(place/2), two to a decade. The search for a best rate that has neighbours stops at these places.
LOWEST, HIGHEST = -24, 8


def lanes(name: str, rates: list[float]) -> Block:
    """A baseline with a lane for each rate."""
    return elementwise(BASELINES[name][0], [{"lr": rate} for rate in rates])


def tune(stack: Stack) -> dict[str, list[float]]:
    """For every baseline the rates with the least mean training loss at the last iterate and at the average.

    A grid is extended while either of its two best rates lies at its end.
    """
    found: dict[str, dict[int, Finals]] = {name: {} for name in BASELINES}
    wanted = {name: list(places) for name, (_, places) in BASELINES.items()}
    while any(wanted.values()):
        asked = [(name, place) for name, places in wanted.items() for place in places]
        blocks = [lanes(name, [_rate(place) for place in places]) for name, places in wanted.items() if places]
        for (name, place), finals in zip(asked, train(stack, blocks), strict=True):
            found[name][place] = finals
        wanted = {name: _further(finals) for name, finals in found.items()}
    return {name: [_rate(place) for place in _best(finals)] for name, finals in found.items()}


def _rate(place: int) -> float:
    return float(f"{10.0 ** (place / 2):.6g}")


def _best(found: dict[int, Finals]) -> list[int]:
    """The best places for the last iterate and for the average."""

    def order(place: int, averaged: bool) -> tuple[float, int]:
        return float(found[place].losses(averaged).mean()), place

    return [min(found, key=lambda place: order(place, at)) for at in (False, True)]


def _further(found: dict[int, Finals]) -> list[int]:
    best, low, high = _best(found), min(found), max(found)
    below = [low - 2, low - 1] if low in best and low > LOWEST else []
    return below + ([high + 1, high + 2] if high in best and high < HIGHEST else [])
