"""Training a linear model: batches in, coefficients out, until the objective no longer falls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradagrad.sklearn.batches import Batch, Moments, Units
from gradagrad.sklearn.descent import Descent, Floats
from gradagrad.sklearn.losses import Loss

WINDOW = 8
"""Progress is judged over whole epochs with at least this many steps, because single steps say too little."""
RISE = 1.5
"""While γ rises by more than this factor in a window, the method is still finding its rate and nothing is judged."""


@dataclass
class Model:
    """A model in training, with all that is needed to continue. Targets are (y − centre) / scale.

    ``columns`` and ``targets`` are the moments of all dense columns and regression targets seen so far.
    """

    descent: Descent
    """Coefficients (outputs, inputs), or (inputs, outputs) if ``by_rows``, for batches that touch only some inputs."""
    by_rows: bool
    units: Units
    loss: Loss
    centre: float = 0.0
    scale: float = 1.0
    columns: Moments | None = None
    targets: Moments | None = None
    history: list[float] = field(default_factory=list[float])
    """The objective, in the units of y."""

    def encode(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Targets in the form that the loss takes, in the model's units."""
        outputs = self.descent.x.shape[1 if self.by_rows else 0]
        if self.targets is not None:
            targets = (targets - self.centre) / self.scale
            targets = np.where(np.abs(targets) > 1e-200, targets, 0.0)
        return self.loss.encode(targets, outputs)

    def point(self, averaged: bool) -> Floats:
        """The last iterate or the average."""
        point = self.descent.point(averaged)
        return point.T if self.by_rows else point

    def change_units(self, units: Units, centre: float | None = None, scale: float | None = None) -> None:
        """Converts all state to other units of columns and targets; the model's predictions stay the same.

        With x = coef·unit/scale and the objective in units of scale², a gradient is that of coef divided by unit·scale.
        """
        elements, block = self.descent.elements, self.descent.block
        centre, scale = self.centre if centre is None else centre, scale or self.scale
        known = np.isfinite(self.units.unit)  # coefficients of other columns are 0
        ratio = np.append(np.divide(units.unit, self.units.unit, out=np.ones_like(units.unit), where=known), 1.0)
        shift = (units.centre - self.units.centre) / self.units.unit
        size = self.scale / scale if elements["x"].any() else 1.0  # equal targets do not determine a scale
        for key, array in elements.items():
            array = array.T if self.by_rows else array  # (outputs, inputs), in place
            if key == "accumulator":
                array *= np.minimum(size / ratio, 1e150) ** 2
            else:
                array[:, -1] += array[:, :-1] @ shift
                array *= size * ratio
        elements["x"][(-1,) if self.by_rows else (slice(None), -1)] += (self.centre - centre) / scale
        for key in ("agreement_square", "common_square"):
            block[key] *= size**4
        self.units, self.centre, self.scale = units, centre, scale

    def penalise(self, l2: Floats, l1: Floats) -> None:
        """Sets the penalty, given for (outputs, inputs)."""
        self.descent.penalise(*(np.ascontiguousarray(a.T) if self.by_rows else a for a in (l2, l1)))

    def coefficients(self, point: Floats) -> tuple[Floats, Floats]:
        """(coef_, intercept_) for columns and targets as they were given."""
        coefficients, intercept = self.units.restore(point)
        return np.ascontiguousarray(coefficients * self.scale), intercept * self.scale + self.centre


def train(
    model: Model, batches: Sequence[Batch], rng: Any, *, max_iter: int, tol: float | None, patience: int, average: bool
) -> tuple[Floats, int, bool]:
    """Trains and returns (the coefficients, the number of epochs, whether it stopped by itself)."""
    descent = model.descent
    stride = -(-WINDOW // len(batches))
    best, waited, epochs = np.inf, 0, 0
    best_point = model.point(average)
    while epochs < max_iter:
        gamma = descent.gamma
        for _ in range(min(stride, max_iter - epochs)):
            epoch(model, batches, rng)
            epochs += 1
        value = objective(model, batches, average)
        model.history.append(value * model.scale * model.scale)
        if value < best:
            best_point = model.point(average).copy()
        if tol is not None:
            # An objective above its best is about to fall again.
            unsettled = descent.gamma >= RISE * gamma or value > best + tol
            waited = 0 if value <= best - tol or unsettled else waited + 1
        best = min(best, value)
        if waited >= patience:
            return best_point, epochs, True
    return best_point, epochs, tol is None


def epoch(model: Model, batches: Sequence[Batch], rng: np.random.RandomState) -> None:
    """Every batch once, in random order."""
    step = _step_touched if model.by_rows else _step
    for i in rng.permutation(len(batches)) if len(batches) > 1 else (0,):
        step(model.descent, batches[i], model.loss)


def objective(model: Model, batches: Sequence[Batch], averaged: bool) -> float:
    """The objective at the average or at the last iterate."""
    x = model.descent.point(averaged)
    total, samples = 0.0, 0
    for batch in batches:
        losses = model.loss.value(_outputs(x if batch.touched is None else x[batch.touched], batch), batch.targets)
        total += float((losses if batch.weights is None else losses * batch.weights).sum())
        samples += batch.samples
    return total / samples + model.descent.penalty(x)


def _outputs(x: Floats, batch: Batch) -> NDArray[Any]:
    x = x.astype(batch.X.dtype, copy=False)
    if batch.touched is None:
        return x @ batch.X_T
    return (batch.X @ x[:-1] + (x[-1] if batch.centre is None else x[-1] - batch.centre @ x[:-1])).T


def _slope(x: Floats, batch: Batch, loss: Loss) -> NDArray[Any]:
    slope = loss.slope(_outputs(x, batch), batch.targets)
    return slope if batch.weights is None else slope * batch.weights


def _step(descent: Descent, batch: Batch, loss: Loss) -> None:
    slope = _slope(descent.x, batch, loss)
    descent.step((slope @ batch.X).astype(np.float64, copy=False), batch.samples)


def _step_touched(descent: Descent, batch: Batch, loss: Loss) -> None:
    assert batch.touched is not None
    values = descent.rows(batch.touched)
    slope = _slope(values["x"], batch, loss)
    g = np.empty_like(values["x"])
    g[:-1] = batch.X_T @ slope.T
    g[-1] = slope.sum(axis=1) if batch.intercept else 0.0
    if batch.centre is not None:
        g[:-1] -= batch.centre[:, None] * g[-1]
    descent.step_rows(batch.touched, values, g, batch.samples)
