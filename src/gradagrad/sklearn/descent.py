"""Drives the rule that needs no learning rate over NumPy arrays: all coordinates, or those that a batch touches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad.rules import auto
from gradagrad.rules.rule import Rule
from gradagrad.sklearn.ops import ArrayOps, NumberOps, Sums

Floats = NDArray[np.float64]
Rows = NDArray[np.integer[Any]]

RULE: Rule = auto.RULE
SETTINGS = auto.Settings()  # the rule's own defaults; the average is taken here, see `Descent`
ROUNDING = 1e-12
"""Of a sample's gradient, as a share of its column's spread: anything real is far above it."""
LARGEST_L1 = 1e100
"""No coefficient leaves 0 against a penalty this strong, and its products do not overflow."""
ARRAYS, SCALARS, SUMS = ArrayOps(), NumberOps(), Sums()


class Descent:
    """Coefficients, the rule's state beside them, their weighted average, and the penalty ½ Σ l2·x² + Σ l1·|x|.

    The penalty is part of the gradient, so that the minimiser is that of the penalised loss in any metric. Where a
    batch leaves a row untouched nothing is paid; the next touch pays for all steps since the last one, so that over
    time every row pays for every step.

    The average is the rule's (the i-th of k iterates counts as about i⁸), written so that an idle row costs nothing:
    with S_k = k(k+1)…(k+8) it is x_k − Σ S_{i−1}·(x_i − x_{i−1}) / S_k, and an idle row adds nothing to the sum.
    """

    def __init__(self, x: Floats, l2: Floats, l1: Floats, entries: int, sizes: Floats | None = None) -> None:
        """``l2``, ``l1`` and ``sizes`` broadcast over ``x``. Rows, where steps name them, are of the first dimension.

        The first step moves every coordinate by γ₀. Columns have unit spread and a sample has so many ``entries``, so
        with γ₀ = 1/entries outputs move by 1 at most, about: neither nothing nor too far. The rule does the rest.
        """
        self.penalise(l2, l1)
        self.sizes = np.ones_like(l2) if sizes is None else sizes  # the spread of each column
        starts = SETTINGS._replace(gamma0=1.0 / entries)._asdict()
        self.elements: dict[str, Floats] = {"x": x, "lag": np.zeros_like(x)}
        self.block: dict[str, float] = {}
        for field in RULE.fields(SETTINGS):
            start = float(starts[field.start] if isinstance(field.start, str) else field.start)
            if field.at == "element":
                self.elements[field.key] = np.full_like(x, start)
            else:
                self.block[field.key] = start
        self.steps = 0
        self._room: dict[str, Floats] | None = None
        self.touched = np.zeros((len(x), 1))  # the step of each row's last touch

    def penalise(self, l2: Floats, l1: Floats) -> None:
        """Sets the penalty."""
        self.l2, self.l1 = l2, np.minimum(l1, LARGEST_L1)
        self.has_l2, self.has_l1 = bool(l2.any()), bool(l1.any())

    @property
    def x(self) -> Floats:
        return self.elements["x"]

    @property
    def gamma(self) -> float:
        return self.block["gamma"]

    def average(self) -> Floats:
        """The weighted mean of all iterates."""
        return self.x - self.elements["lag"] / max(_total_weight(self.steps), 1.0)

    def penalty(self) -> float:
        """Its value at the last iterate."""
        x = self.x
        total = 0.5 * float((self.l2 * x * x).sum()) if self.has_l2 else 0.0
        return total + (float((self.l1 * np.abs(x)).sum()) if self.has_l1 else 0.0)

    def step(self, g: Floats, samples: int) -> None:
        """One step of all coordinates along ``g``, the *sum* of a batch's gradients: the rule does not see scale."""
        self.steps += 1
        # With centred columns the intercept stays where its gradient is 0 but for rounding.
        _drop_rounding(g, self.sizes * samples)
        self._move(self.elements, g, samples, self.l2, self.l1)

    def rows(self, rows: Rows) -> dict[str, Floats]:
        """All that is kept of these rows, copied to room that the next call uses again."""
        if self._room is None or len(rows) > len(self._room["x"]):
            self._room = {key: np.empty((len(rows), array.shape[1])) for key, array in self._by_row().items()}
        return {key: _gather(array, rows, self._room[key][: len(rows)]) for key, array in self._by_row().items()}

    def step_rows(self, rows: Rows, values: dict[str, Floats], g: Floats, samples: int) -> None:
        """The same for the rows that a batch touches; ``values`` is what `rows` gave, and is overwritten."""
        self.steps += 1
        if self.steps == 1:  # where the intercept starts its gradient is 0 but for rounding
            _drop_rounding(g, self.sizes[rows] * samples)
        paid = values.pop("touched")
        np.subtract(self.steps, paid, out=paid)
        penalties = {key: values.pop(key) for key in ("l2", "l1") if key in values}
        for penalty in penalties.values():
            penalty *= paid
        self._move(values, g, samples, penalties.get("l2", self.l2), penalties.get("l1", self.l1))
        for key, array in self.elements.items():
            _items(array)[rows] = _items(values[key])
        self.touched[rows] = self.steps

    def transpose(self) -> None:
        """Exchanges the dimensions; all rows count as touched by now."""
        self.elements = {key: np.ascontiguousarray(array.T) for key, array in self.elements.items()}
        self.l2, self.l1, self.sizes = (np.ascontiguousarray(a.T) for a in (self.l2, self.l1, self.sizes))
        self.touched = np.full((len(self.x), 1), float(self.steps))

    def _by_row(self) -> dict[str, Floats]:
        penalties = ({"l2": self.l2} if self.has_l2 else {}) | ({"l1": self.l1} if self.has_l1 else {})
        return {**self.elements, "touched": self.touched, **penalties}

    def _move(self, values: dict[str, Floats], g: Floats, samples: int, l2: Floats, l1: Floats) -> None:
        """Adds the penalty to ``g``, moves, and replaces the arrays in ``values``."""
        x = values["x"]
        if self.has_l2:
            g = g + l2 * x * samples
        if self.has_l1:
            l1 = l1 * samples
            g = _nearest_to_zero(g, x, l1)
        given = {**values, "g": g}
        sums = RULE.measure(given, SETTINGS, SUMS, ARRAYS) if RULE.measures(SETTINGS) else ()
        block, factors = RULE.decide(sums, self.block, SETTINGS, SCALARS)
        new, statistics = RULE.move(given, factors, SETTINGS, SUMS, ARRAYS)
        if self.has_l1:
            _stop_at_zero(new, given, l1)
        self.block = RULE.learn(statistics, block, SETTINGS, SCALARS) if RULE.learns(SETTINGS) else block
        values["lag"] += (new["x"] - x) * _total_weight(self.steps - 1)
        values.update(new)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_room": None}


def _drop_rounding(g: Floats, sizes: Floats) -> None:
    """Zeros where there is nothing but rounding, which a rule blind to scale would follow."""
    g[np.abs(g) <= ROUNDING * sizes] = 0.0


def _gather(array: Floats, rows: Rows, out: Floats) -> Floats:
    _items(array).take(rows, out=_items(out), mode="clip")
    return out


def _items(array: Floats) -> NDArray[Any]:
    """A row as one item: NumPy copies items up to ten times as fast as rows."""
    outputs = array.shape[1]
    return array[:, 0] if outputs == 1 else array.view(np.dtype((np.void, outputs * array.itemsize)))[:, 0]


def _nearest_to_zero(g: Floats, x: Floats, l1: Floats) -> Floats:
    """The subgradient of the loss plus l1·|x| of least size: 0 where x = 0 is the best, so that the element stays."""
    at_zero = np.sign(g) * np.maximum(np.abs(g) - l1, 0.0)
    return np.where(x == 0.0, at_zero, g + l1 * np.sign(x))


def _stop_at_zero(new: dict[str, Floats], old: dict[str, Floats], l1: Floats) -> None:
    """Stops coefficients that would cross zero, and shortens their displacement to the step that was made."""
    side = np.where(old["x"] == 0.0, -np.sign(old["g"]), np.sign(old["x"]))
    crossed = (new["x"] * side < 0.0) & (l1 > 0.0)
    if crossed.any():
        share = old["x"] / np.where(crossed, old["x"] - new["x"], 1.0)
        shorter = old["displacement"] + (new["displacement"] - old["displacement"]) * share
        new["displacement"] = np.where(crossed, shorter, new["displacement"])
        new["x"][crossed] = 0.0


def _total_weight(k: int) -> float:
    total = float(k)
    for t in range(1, auto.POWER + 1):
        total *= k + t
    return total
