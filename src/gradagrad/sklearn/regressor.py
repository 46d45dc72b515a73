"""Linear regression without a learning rate."""

import math
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from gradagrad.checks.arguments import explains_unknown
from gradagrad.sklearn.batches import Moments
from gradagrad.sklearn.descent import Floats
from gradagrad.sklearn.estimator import NO_RATE, LinearEstimator, scale_of
from gradagrad.sklearn.losses import Huber, Loss
from gradagrad.sklearn.training import Model

LARGEST_TARGET = 1e150


class GradaGradRegressor(RegressorMixin, LinearEstimator):
    """A linear regression that needs no learning rate: squared or Huber loss, dense or sparse samples.

    Arguments that it shares with SGDRegressor have the same meaning, except for ``tol``. See `docs/sklearn.md`.

    Args:
        loss: "squared_error" (half the square) or "huber" (the same up to ``epsilon``, linear beyond).
        epsilon: where the Huber loss becomes linear, in units of y.
        tol: as in `GradaGradClassifier`, but in units of the targets' variance.

    All other arguments are those of `GradaGradClassifier`.

    Attributes:
        coef_, intercept_: of shape (features,) and (1,).

    The other attributes are those of `GradaGradClassifier`, except for ``classes_``.

    >>> from sklearn.datasets import load_diabetes
    >>> from gradagrad.sklearn import GradaGradRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> round(GradaGradRegressor(random_state=0).fit(X, y).score(X, y), 2)
    0.51
    """

    epsilon: float
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions({"squared_error", "huber"})],
        "epsilon": [Interval(Real, 0, math.inf, closed="right")],
    }

    @explains_unknown(NO_RATE)
    def __init__(
        self,
        loss: str = "squared_error",
        *,
        penalty: str | None = "l2",
        alpha: float | str = "auto",
        l1_ratio: float = 0.15,
        epsilon: float = 0.1,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        batch_size: int | str = "auto",
        average: bool = True,
        n_iter_no_change: int = 3,
        random_state: Any = None,
    ) -> None:
        self._keep_arguments(locals())

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Runs one epoch over these samples.

        Args:
            X: samples, dense or sparse.
            y: numbers.
            sample_weight: one non-negative weight for each sample; only their ratios within this call count.
        """
        return self._partial_fit(X, y, None, sample_weight)

    def predict(self, X: Any) -> Floats:
        """The predicted numbers, of shape (samples,)."""
        check_is_fitted(self)
        samples = validate_data(self, X, accept_sparse="csr", reset=False)
        outputs = safe_sparse_dot(samples, self.coef_.T, dense_output=True) + self.intercept_
        return np.ravel(outputs)  # a sparsified coef_ is a matrix

    def _read_targets(self, y: NDArray[Any], classes: Any, *, first: bool, streaming: bool) -> NDArray[Any]:
        if np.abs(y).max() > LARGEST_TARGET:
            raise ValueError(
                f"y must hold numbers of at most {LARGEST_TARGET:.0e} in size, because their squares are summed, "
                f"got {np.abs(y).max():.3g}; rescale y."
            )
        return y.astype(np.float64, copy=False)

    def _first(self, X: Any, targets: NDArray[Any], weights: Floats | None) -> Model:
        seen = Moments.of(targets[:, None], weights, centred=self.fit_intercept)
        return self._start(X, weights, self._make_loss(scale_of(seen)), np.zeros(1), seen)

    def _make_loss(self, scale: float) -> Loss:
        bound = self.epsilon / scale if self.loss == "huber" else math.inf
        return Huber(bound if bound < 1e30 else math.inf)  # Outputs may be float32.

    def _publish(self, model: Model, point: Floats) -> None:
        super()._publish(model, point)
        self.coef_ = self.coef_[0]
