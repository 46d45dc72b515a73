"""Linear classification without a learning rate."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from gradagrad.checks.arguments import explains_unknown
from gradagrad.sklearn.descent import Floats
from gradagrad.sklearn.estimator import NO_RATE, LinearEstimator
from gradagrad.sklearn.losses import Hinge, Logistic, Softmax
from gradagrad.sklearn.training import Model

RAREST = 1e-3  # a class with a smaller share than this starts from the intercept of this share


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss != "hinge":
        return True
    raise AttributeError('predict_proba needs loss="softmax" or loss="log_loss", got loss=\'hinge\'.')


class GradaGradClassifier(LinearClassifierMixin, LinearEstimator):
    """A linear classifier that needs no learning rate: logistic, softmax or hinge loss, dense or sparse samples.

    Arguments that it shares with SGDClassifier have the same meaning. AutoGradaGrad trains it: each coefficient has
    AdaGrad's step size, times one learning rate that is trained too. See `docs/sklearn.md`.

    Args:
        loss: "softmax" (for two classes the logistic loss), "log_loss" (logistic, each class against the rest) or
            "hinge" (a linear support vector machine, each class against the rest).
        penalty: "l2", "l1", "elasticnet" (a mixture, see ``l1_ratio``) or None. The intercept is never penalised.
        alpha: strength of the penalty, as in SGDClassifier: the objective is the mean loss + α·(½‖coef‖² or ‖coef‖₁).
            "auto" is 1e-4. With fewer than ten samples for each column, search a larger one with GridSearchCV.
        l1_ratio: share of l1 in "elasticnet".
        fit_intercept: whether there is an intercept.
        max_iter: the largest number of epochs.
        tol: training ends when the objective has not improved by this much in any of ``n_iter_no_change`` windows. None
            trains ``max_iter`` epochs. A window is one or more epochs with at least 8 steps.
        batch_size: samples in a step. "auto" is an eighth of the samples, at least 1,024 (32 in `partial_fit`) and at
            most 4,096.
        average: True returns the average of all iterates, in which late ones count most; False returns the last one.
        class_weight: a dictionary of weights by label, "balanced" (inversely proportional to frequencies), or None.
        n_iter_no_change: windows without improvement after which training ends.
        random_state: seed of the shuffling; the same seed gives the same coefficients.

    Attributes:
        coef_, intercept_: of shape (classes, features) and (classes,). Two classes have one row.
        classes_: the labels.
        alpha_: the penalty strength that was used.
        n_iter_: the number of epochs.
        t_: the number of steps.
        gamma_: the learning rate at the end.
        objective_: the objective after each window. `partial_fit` records that of its samples before each call.

    >>> from sklearn.datasets import load_wine
    >>> from gradagrad.sklearn import GradaGradClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> GradaGradClassifier(random_state=0).fit(X, y).score(X, y)
    1.0
    """

    class_weight: dict[Any, float] | str | None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions({"softmax", "log_loss", "hinge"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    @explains_unknown(NO_RATE)
    def __init__(
        self,
        loss: str = "softmax",
        *,
        penalty: str | None = "l2",
        alpha: float | str = "auto",
        l1_ratio: float = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        batch_size: int | str = "auto",
        average: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        n_iter_no_change: int = 3,
        random_state: Any = None,
    ) -> None:
        self._keep_arguments(locals())

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Runs one epoch over these samples.

        Args:
            X: samples, dense or sparse.
            y: labels.
            classes: all labels that will occur; required at the first call.
            sample_weight: one non-negative weight for each sample; only their ratios within this call count.
        """
        return self._partial_fit(X, y, classes, sample_weight)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of shape (samples, classes), classes in the order of ``classes_``."""
        outputs = self.decision_function(X)
        if outputs.ndim == 1:
            positive = expit(outputs)
            return np.stack([1.0 - positive, positive], axis=1)
        if self.loss == "softmax":
            return softmax(outputs, axis=1)
        positive = np.maximum(expit(outputs), np.finfo(np.float64).tiny)
        return positive / positive.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _read_targets(self, y: NDArray[Any], classes: Any, *, first: bool, streaming: bool) -> NDArray[Any]:
        """The class numbers of the labels, checked."""
        if streaming and self.class_weight == "balanced":
            raise ValueError(
                'class_weight must be None or a dictionary in partial_fit, got "balanced"; pass a dictionary, '
                "such as compute_class_weight gives, or sample_weight."
            )
        check_classification_targets(y)
        if first:
            if classes is None and streaming:
                raise ValueError("classes must be given at the first call of partial_fit, got None; pass all labels.")
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) < 2:
                raise ValueError(f"y must hold at least two classes, got one class: {self.classes_[0]}.")
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {classes}.")
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(f"y must hold only labels of classes, {self.classes_.tolist()}, got {y[unknown][0]}.")
        return codes

    def _class_weights(self, targets: NDArray[Any], weights: Floats | None) -> Floats | None:
        """Sample weights times the weights of their classes."""
        if self.class_weight is None:
            return weights
        by_class = compute_class_weight(
            self.class_weight, classes=self.classes_, y=self.classes_[targets], sample_weight=weights
        )
        return by_class[targets] if weights is None else by_class[targets] * weights

    def _first(self, X: Any, targets: NDArray[Any], weights: Floats | None) -> Model:
        count = len(self.classes_)
        shares = np.bincount(targets, weights=weights, minlength=count) / len(targets)
        shares = np.clip(shares[1:] if count == 2 else shares, RAREST, 1.0 - RAREST)
        loss = self._make_loss(1.0)
        return self._start(X, weights, loss, loss.start(shares))

    def _make_loss(self, scale: float) -> Softmax | Hinge:
        if self.loss == "hinge":
            return Hinge()
        return Logistic() if self.loss == "log_loss" or len(self.classes_) == 2 else Softmax()
