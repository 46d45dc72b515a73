"""What the classifier and the regressor share: arguments, preparation, training and the resulting coefficients."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import SparseCoefMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from gradagrad.sklearn.batches import Batch, Moments, Samples, Units, cut, dense_spread, sparse_moments
from gradagrad.sklearn.descent import Descent, Floats
from gradagrad.sklearn.losses import Loss
from gradagrad.sklearn.training import Model, epoch, objective, train

COUNT, LEAST, MOST = 8, 1024, 4096
"""Batches in an epoch, and the limits of their size. Convergence takes a few hundred steps of any size, and small
batches do not cost less."""
LEAST_STREAMING = 32
"""The smallest batch in `partial_fit`, which sees every sample once and needs more steps."""
WEAK = 1e-4
"""The penalty strength of SGDClassifier."""
LARGEST = 1e300
"""The difference of two larger numbers may overflow."""
NO_RATE: dict[str, str] = dict.fromkeys(("learning_rate", "eta0"), "Leave it out: there is no learning rate to choose.")


class LinearEstimator(SparseCoefMixin, BaseEstimator):
    """A linear model trained without a learning rate."""

    coef_: Any
    intercept_: Floats
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [StrOptions({"l2", "l1", "elasticnet"}), None],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, None, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "average": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    # scikit-learn reads the arguments from each class's own signature; these are their types.
    loss: str
    penalty: str | None
    alpha: float | str
    l1_ratio: float
    fit_intercept: bool
    max_iter: int
    tol: float | None
    batch_size: int | str
    average: bool
    n_iter_no_change: int
    random_state: Any

    def _keep_arguments(self, given: dict[str, Any]) -> None:
        """Sets the arguments of ``__init__`` as attributes, as scikit-learn requires."""
        vars(self).update({name: given[name] for name in self._get_param_names()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read_targets(self, y: NDArray[Any], classes: Any, *, first: bool, streaming: bool) -> NDArray[Any]:
        """y as numbers, checked."""
        raise NotImplementedError

    def _class_weights(self, targets: NDArray[Any], weights: Floats | None) -> Floats | None:
        return weights

    def _first(self, X: Any, targets: NDArray[Any], weights: Floats | None) -> Model:
        """Makes a model at its starting point."""
        raise NotImplementedError

    def _make_loss(self, scale: float) -> Loss:
        """The loss of targets in units of ``scale``."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains until the objective no longer falls.

        Args:
            X: samples, dense or sparse (CSR is used as it is and stays sparse).
            y: labels or numbers.
            sample_weight: one non-negative weight for each sample; only their ratios count.
        """
        samples = self._read(X, y, None, sample_weight, first=True, streaming=False)
        rng = check_random_state(self.random_state)
        model = self._model = self._first(*samples)
        batches = self._batches(model, samples, rng, streaming=False)
        limits: Any = {"max_iter": int(self.max_iter), "tol": self.tol, "patience": int(self.n_iter_no_change)}
        point, self.n_iter_, converged = train(model, batches, rng, **limits, average=self.average)
        if not converged:
            warnings.warn(
                f"max_iter ({self.max_iter}) was reached before the objective stopped falling by tol ({self.tol}); "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._publish(model, point)
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        """One epoch. Dense columns and regression targets are scaled by everything seen so far."""
        first = not hasattr(self, "_model")
        before = getattr(self, "alpha_", None)
        samples = self._read(X, y, classes, sample_weight, first=first, streaming=True)
        if not first and self.alpha_ != before:  # `set_params` has changed it since the last call.
            self._model.descent.begin(self._model.descent.point(self.average))
        if first:
            self._model = self._first(*samples)
        model, rng = self._model, check_random_state(self.random_state)
        if model.by_rows is not sp.issparse(samples.X):  # The first call decides which of the two a model is.
            samples = samples._replace(X=sp.csr_matrix(samples.X) if model.by_rows else samples.X.toarray())
        if not first:
            self._see(model, samples)
        batches = self._batches(model, samples, rng, streaming=True)
        model.history.append(objective(model, batches, self.average) * model.scale * model.scale)
        epoch(model, batches, rng)
        self.n_iter_ = 1
        self._publish(model, model.point(self.average))
        return self

    def _read(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, first: bool, streaming: bool) -> Samples:
        """Checks what the user gave, and sets `alpha_`."""
        self._validate_params()
        X_, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first, accept_large_sparse=False
        )
        targets = self._read_targets(y, classes, first=first, streaming=streaming)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X_, dtype=np.float64, ensure_non_negative=True)
        with np.errstate(over="ignore"):
            weights = self._class_weights(targets, weights)
        if weights is not None and not np.isfinite(weights).all():
            raise ValueError("sample_weight times class_weight must be finite, got infinity; only ratios count.")
        samples = Samples(X_, targets, weights).normalised()
        self.alpha_ = WEAK if self.alpha == "auto" else float(self.alpha)
        return samples

    def _start(
        self, X: Any, weights: Floats | None, loss: Loss, start: Floats, targets: Moments | None = None
    ) -> Model:
        """A model whose outputs are constant, ``start`` in units of the targets."""
        by_rows = not isinstance(X, np.ndarray)
        columns = None if by_rows else self._columns(X, weights)
        dense = None if columns is None else (columns.centre, dense_spread(columns))
        centre, spread = dense or sparse_moments(X, weights, centred=self.fit_intercept)
        units = Units.of(centre, spread, self.fit_intercept, self._strengths(self.alpha_)[0])
        x = np.zeros((len(start), X.shape[1] + 1))
        if self.fit_intercept:
            x[:, -1] = start
        scale = 1.0 if targets is None else scale_of(targets)
        arrays = (x, *self._penalty(self.alpha_, units, scale), units.sizes[None])
        x, l2, l1, sizes = (np.ascontiguousarray(a.T) if by_rows else a for a in arrays)
        entries = X.nnz // X.shape[0] if by_rows else X.shape[1]  # of a sample; the mean number of stored ones
        descent = Descent(x, l2, l1, 1 + entries, sizes)
        middle = 0.0 if targets is None else float(targets.centre[0])
        return Model(descent, by_rows, units, loss, middle, scale, columns, targets)

    def _see(self, model: Model, samples: Samples) -> None:
        """Updates the units of columns and targets with more samples."""
        units, centre, scale = model.units, model.centre, model.scale
        if model.columns is not None:
            model.columns = model.columns.joined(self._columns(samples.X, samples.weights))
            spread = dense_spread(model.columns)
            spread = np.where(np.isfinite(spread), spread, units.spread)  # a column that has varied keeps its unit
            middle = model.columns.centre
            middle = np.where(np.abs(middle - units.centre) < spread, units.centre, middle)  # close enough
            units = Units.of(middle, spread, self.fit_intercept, units.strength)
        if model.targets is not None:
            more = Moments.of(samples.targets[:, None], samples.weights, centred=self.fit_intercept)
            model.targets = model.targets.joined(more)
            centre, scale = float(model.targets.centre[0]), scale_of(model.targets)
            model.loss = self._make_loss(scale)
        model.change_units(units, centre, scale)
        model.penalise(*self._penalty(self.alpha_, units, scale))

    def _columns(self, X: NDArray[Any], weights: Floats | None) -> Moments:
        columns = Moments.of(X.astype(np.float64, copy=False), weights, centred=self.fit_intercept)
        if columns.largest.max() > LARGEST:
            j = int(columns.largest.argmax())
            found = f"{columns.largest[j]:.3g} in column {j}"
            raise ValueError(f"X must hold numbers of at most {LARGEST:.0e} in size, got {found}; rescale it.")
        return columns

    def _strengths(self, alpha: float) -> tuple[float, float]:
        """The strengths of the l2 and the l1 part of the penalty."""
        l1_ratio = {"l1": 1.0, "elasticnet": float(self.l1_ratio)}.get(self.penalty or "", 0.0)
        return (0.0, 0.0) if self.penalty is None else (alpha * (1.0 - l1_ratio), alpha * l1_ratio)

    def _penalty(self, alpha: float, units: Units, scale: float) -> tuple[Floats, Floats]:
        """l2 and l1 for each input in the model's units, (1, inputs).

        The objective is in units of scale². There ½α·coef² keeps its strength, but α·|coef| does not.
        """
        l2, l1 = self._strengths(alpha)
        with np.errstate(over="ignore"):  # `Descent` limits both
            return np.append(l2 / units.unit / units.unit, 0.0)[None], np.append(l1 / units.unit / scale, 0.0)[None]

    def _batches(self, model: Model, samples: Samples, rng: np.random.RandomState, *, streaming: bool) -> list[Batch]:
        count = len(samples.targets)
        size = min(max(count // COUNT, LEAST_STREAMING if streaming else LEAST), MOST)
        size = size if self.batch_size == "auto" else int(self.batch_size)
        return cut(samples.X, model.encode(samples.targets), samples.weights, model.units, size, rng)

    def _publish(self, model: Model, point: Floats) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.coef_, self.intercept_ = model.coefficients(point)
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise ValueError(
                "The coefficients overflow: y is too large for columns this small. Rescale y or the columns of X."
            )
        self.gamma_, self.t_ = model.descent.gamma, model.descent.steps
        self.objective_ = np.asarray(model.history)


def scale_of(targets: Moments) -> float:
    """The spread of regression targets; 1 while they are all equal."""
    spread = float(targets.spread[0])
    return spread if spread > 1e-300 else 1.0
