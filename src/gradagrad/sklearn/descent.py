"""Drives the rule that needs no learning rate over NumPy arrays: all coordinates, or those that a batch touches."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad.rules import auto
from gradagrad.rules.rule import Rule
from gradagrad.sklearn.ops import ArrayOps, NumberOps, Sums

Floats = NDArray[np.float64]
Rows = NDArray[np.integer[Any]]


class _LinearRule(auto.AutoRule):
    """The rule without its limit: the losses of linear models are convex, so votes bring a large γ down."""

    def limit(self, statistics: Sequence[Any], block: Mapping[str, Any], due: Any, ops: Any) -> tuple[Any, ...]:
        return block["limit"], block["size"]


RULE: Rule = _LinearRule()
SETTINGS = auto.Settings()
ROUNDING = 1e-12
"""Gradients of a sample below this share of its column's spread are rounding."""
LARGEST = 1e100
"""A penalty this strong keeps every coefficient at 0, and its products do not overflow."""
ARRAYS, SCALARS, SUMS = ArrayOps(), NumberOps(), Sums()


class Descent:
    """Coefficients and intercept, which are one tensor to the rule, its state, and the penalty ½ Σ l2·x² + Σ l1·|x|.

    The penalty is part of the gradient, so that the minimiser is that of the penalised loss in any metric. A row that
    a batch does not touch is not penalised in that step. The next touch makes up for all steps since the last one, so
    that over time every row is penalised for every step.
    """

    def __init__(self, x: Floats, l2: Floats, l1: Floats, entries: int, sizes: Floats | None = None) -> None:
        """``l2``, ``l1`` and ``sizes`` broadcast over ``x``. Rows, where steps name them, are of the first dimension.

        The first step moves every coordinate by γ₀. Columns have unit spread, and a sample has ``entries`` of them, so
        γ₀ = 2/entries moves outputs by at most about 2. The rule adapts γ from there.
        """
        self.penalise(l2, l1)
        self.sizes = np.ones_like(l2) if sizes is None else sizes  # the spread of each column
        self._gamma0 = 2.0 / entries
        self.steps = 0
        self._clocks: Floats | None = None
        """The time (`_now`) at which each row was last up to date. None while every step takes all rows."""
        self.begin(x)

    def begin(self, x: Floats) -> None:
        """Begins at ``x``, also when the objective is another one from now on."""
        starts = SETTINGS._replace(gamma0=self._gamma0)._asdict()
        self.elements: dict[str, Floats] = {"x": x}
        self.block: dict[str, float] = {}
        for field in RULE.fields(SETTINGS):
            start = float(starts[field.start] if isinstance(field.start, str) else field.start)
            if field.at == "element":
                self.elements[field.key] = np.full_like(x, start)
            else:
                self.block[field.key] = start
        self.block["limit"] = LARGEST
        if self._clocks is not None:
            self._clocks[...] = self._now

    def penalise(self, l2: Floats, l1: Floats) -> None:
        """Sets the penalty."""
        given = {"l2": np.minimum(l2, LARGEST), "l1": np.minimum(l1, LARGEST)}
        self._penalties = {key: strength for key, strength in given.items() if strength.any()}

    @property
    def x(self) -> Floats:
        return self.elements["x"]

    @property
    def gamma(self) -> float:
        return self.block["gamma"]

    @property
    def _now(self) -> tuple[float, float]:
        """The clocks of the penalty and of the average."""
        return self.steps, self.block["weight_total"]

    def point(self, averaged: bool) -> Floats:
        """The weighted mean of all iterates, or the last one, with all rows up to date except for the penalty due."""
        if self._clocks is not None:
            self.elements |= self._idle(self.elements, self._clocks)
            self._clocks[:, 1] = self._now[1]
        return RULE.average(self.elements, SETTINGS) if averaged else self.x

    def penalty(self, x: Floats) -> float:
        """The value of the penalty."""
        sizes = {"l2": 0.5 * np.square(x), "l1": np.abs(x)}
        return sum(float((strength * sizes[key]).sum()) for key, strength in self._penalties.items())

    def step(self, g: Floats, samples: int) -> None:
        """One step of all coordinates along ``g``, the *sum* of a batch's gradients, whose scale does not matter."""
        self.steps += 1
        # With centred columns, the gradient of the intercept is only rounding. The rule does not depend on scale and
        # would follow it.
        g[np.abs(g) <= ROUNDING * samples * self.sizes] = 0.0
        self._move(self.elements, self._penalties, g, samples)

    def rows(self, rows: Rows) -> dict[str, Floats]:
        """The values and the state of these rows, up to date."""
        if self._clocks is None:
            self._clocks = np.full((len(self.x), 2), self._now)
        kept = {**self.elements, **self._penalties, "clocks": self._clocks}
        values = {key: _take(array, rows) for key, array in kept.items()}
        return values | self._idle(values, values["clocks"])

    def step_rows(self, rows: Rows, values: dict[str, Floats], g: Floats, samples: int) -> None:
        """One step of the rows that a batch touches. ``values`` comes from `rows` and is overwritten."""
        self.steps += 1
        part = slice(0 if self.steps == 1 else -1, None)  # Later on it is only the intercept, which is cheap.
        g[part][np.abs(g[part]) <= ROUNDING * samples * self.sizes[rows[part]]] = 0.0
        owed = self.steps - values["clocks"][:, :1]
        self._move(values, {key: values[key] * owed for key in self._penalties}, g, samples)
        for key, array in self.elements.items():
            _items(array)[rows] = _items(values[key])
        assert self._clocks is not None
        _items(self._clocks)[rows] = _items(np.array([self._now]))

    def _idle(self, values: dict[str, Floats], clocks: Floats) -> dict[str, Floats]:
        return RULE.idle(values, self.block, clocks[:, 1:], self._now[1], SETTINGS, ARRAYS)

    def _move(self, values: dict[str, Floats], penalties: dict[str, Floats], g: Floats, samples: int) -> None:
        """Adds the penalty to ``g``, moves, and replaces the arrays in ``values``. A ``g`` of zeros changes nothing."""
        x = values["x"]
        if "l2" in penalties:
            g = g + penalties["l2"] * x * samples
        if "l1" in penalties:
            g = _nearest_to_zero(g, x, penalties["l1"] * samples)
        if not g.any():
            return
        given = {**values, "g": g}
        block, factors = RULE.decide((), self.block, SETTINGS, SCALARS)
        new, statistics = RULE.move(given, factors, SETTINGS, SUMS, ARRAYS)
        if "l1" in penalties:
            _stop_at_zero(new, given, penalties["l1"])
        totals = RULE.report(statistics, block, self.x.size, SETTINGS, SCALARS)
        self.block = RULE.learn(statistics, totals, block, SETTINGS, SCALARS)
        values.update(new)


def _take(array: Floats, rows: Rows) -> Floats:
    return _items(array).take(rows, mode="clip").view(np.float64).reshape(len(rows), array.shape[1])


def _items(array: Floats) -> NDArray[Any]:
    """A view in which a row is one item, because NumPy copies items up to ten times as fast as rows."""
    outputs = array.shape[1]
    return array[:, 0] if outputs == 1 else array.view(np.dtype((np.void, outputs * array.itemsize)))[:, 0]


def _nearest_to_zero(g: Floats, x: Floats, l1: Floats) -> Floats:
    """The smallest subgradient of the loss plus l1·|x|. It is 0 where x = 0 is best, so that the element stays."""
    at_zero = np.sign(g) * np.maximum(np.abs(g) - l1, 0.0)
    return np.where(x == 0.0, at_zero, g + l1 * np.sign(x))


def _stop_at_zero(new: dict[str, Floats], old: dict[str, Floats], l1: Floats) -> None:
    """Stops coefficients that would cross zero, and shortens their displacement to the step that was made.

    The rest of the offset would carry them across, so it becomes 0. The average is then at zero too.
    """
    side = np.where(old["x"] == 0.0, -np.sign(old["g"]), np.sign(old["x"]))
    crossed = (new["x"] * side < 0.0) & (l1 > 0.0)
    if crossed.any():
        share = old["x"] / np.where(crossed, old["x"] - new["x"], 1.0)
        shorter = old["displacement"] + (new["displacement"] - old["displacement"]) * share
        new["displacement"] = np.where(crossed, shorter, new["displacement"])
        new["x"][crossed] = new["offset"][crossed] = 0.0
