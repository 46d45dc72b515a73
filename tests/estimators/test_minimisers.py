"""The estimators find the minimiser of the documented objective, for dense and sparse samples."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from gradagrad.sklearn import GradaGradClassifier, GradaGradRegressor

from .problems import ALPHA, classes, least, numbers, objective, rare_columns


def long(**changes: Any) -> Any:
    """Arguments of a fit to the end."""
    return {"alpha": ALPHA, "tol": None, "max_iter": 1500, "random_state": 0} | changes


PROBLEMS: dict[str, Any] = {
    "softmax": (GradaGradClassifier, classes(3), 3),
    "log_loss": (GradaGradClassifier, classes(3), 3),
    "squared_error": (GradaGradRegressor, numbers(), 1),
    "huber": (GradaGradRegressor, numbers(), 1),
}


@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"weighted": True}, {"fit_intercept": False}], ids=str)
@pytest.mark.parametrize("loss", PROBLEMS)
def test_smooth_losses(loss, options):
    estimator, (X, y), outputs = PROBLEMS[loss]
    weights = np.random.RandomState(0).randint(0, 4, len(y)).astype(float) if "weighted" in options else None
    intercept = options.get("fit_intercept", True)
    model = estimator(loss, fit_intercept=intercept, **long())
    model.fit(sp.csr_matrix(X) if "sparse" in options else X, y, weights)
    best = least(loss, X, y, outputs, weights=weights, fit_intercept=intercept)
    assert objective(loss, X, y, model.coef_, model.intercept_, weights=weights) <= best * (1.0 + 2e-4)


@pytest.mark.parametrize("count", [2, 3])
def test_hinge(count):
    X, y = classes(count)
    model = GradaGradClassifier("hinge", **long()).fit(X, y)
    best = least("soft hinge", X, y, 1 if count == 2 else count)
    assert objective("hinge", X, y, model.coef_, model.intercept_) <= best * 1.01


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_l1_finds_the_zeros(kind):
    X, y = classes(2, columns=20)
    X = X / np.logspace(-1, 1, 20)
    ours = GradaGradClassifier(penalty="l1", **long(alpha=0.05)).fit(kind(X), y)
    theirs = LogisticRegression(l1_ratio=1.0, solver="saga", C=1.0 / (0.05 * len(y)), max_iter=20000, tol=1e-8)
    theirs.fit(X, y)
    np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    assert 0 < np.count_nonzero(ours.coef_) < 20
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert (ours.sparsify().predict(X) == theirs.predict(X)).mean() > 0.99


def test_rare_columns_pay_for_the_steps_between():
    """With several batches most columns are left out by most steps; the penalty is the documented one all the same."""
    X, y = rare_columns()
    model = GradaGradClassifier(batch_size=20, **long(max_iter=300)).fit(X, y)
    best = least("log_loss", X.toarray(), y, 1)
    assert objective("log_loss", X.toarray(), y, model.coef_, model.intercept_) <= best + 1e-3


def test_batches_and_single_precision():
    X, y = classes(4, rows=6000)
    best = least("softmax", X, y, 4)
    for kind in (np.float64, np.float32):
        model = GradaGradClassifier(**long(max_iter=60)).fit(X.astype(kind), y)
        assert objective("softmax", X, y, model.coef_, model.intercept_) <= best + 1e-3


def test_units_of_columns_do_not_matter():
    """Scaled by powers of two, every number is the same but for its exponent."""
    X, y = classes(3)
    X -= 3.0
    scales = 2.0 ** np.array([-20, 10, 0, 30, -5, 7])
    plain, scaled = (GradaGradClassifier(penalty=None, tol=None, max_iter=50).fit(X * s, y) for s in (1.0, scales))
    np.testing.assert_allclose(scaled.coef_ * scales, plain.coef_, rtol=1e-9)
    np.testing.assert_allclose(scaled.predict_proba(X * scales), plain.predict_proba(X), rtol=1e-9)


def test_class_weights_are_sample_weights():
    X, y = classes(3)
    y = np.array(["a", "b", "c"])[y]
    chosen = {"a": 2.0, "b": 0.5, "c": 1.0}
    by_class = GradaGradClassifier(class_weight=chosen, tol=None, max_iter=50).fit(X, y)
    by_sample = GradaGradClassifier(tol=None, max_iter=50).fit(X, y, [chosen[label] for label in y])
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, rtol=1e-9)
    rare = (y != "c") | (np.arange(len(y)) % 10 == 0)
    plain, balanced = (GradaGradClassifier(class_weight=w).fit(X[rare], y[rare]) for w in (None, "balanced"))
    assert (balanced.predict(X) == "c").sum() > (plain.predict(X) == "c").sum()


def test_constant_columns_count_for_nothing():
    X, y = classes(2)
    with_constant = np.hstack([X, np.full((len(X), 1), 0.1)])
    plain, more = GradaGradClassifier().fit(X, y), GradaGradClassifier().fit(with_constant, y)
    assert more.coef_[0, -1] == 0.0
    np.testing.assert_allclose(more.predict_proba(with_constant), plain.predict_proba(X), atol=0.02)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_targets_whose_spread_is_one_or_none(loss, kind):
    X = np.random.RandomState(0).randn(100, 3)
    y = np.where(X[:, 0] < np.median(X[:, 0]), 99.0, 101.0)
    X = kind(X)
    np.testing.assert_allclose(GradaGradRegressor(loss).fit(X, np.full(100, 3.0)).predict(X), 3.0)
    assert y.std() == 1.0
    assert GradaGradRegressor(loss).fit(X, y).score(X, y) > 0.3


def test_a_strong_penalty_keeps_the_direction():
    """Columns of spread 1e-8 have coefficients near 0, and these decide nevertheless."""
    made: Any = make_classification(1000, 10, n_informative=6, n_classes=5, n_clusters_per_class=1, random_state=0)
    X, y = made
    model, theirs = GradaGradClassifier(), LogisticRegression(C=1e4 / len(y))
    assert model.fit(1e-8 * X, y).score(1e-8 * X, y) > theirs.fit(1e-8 * X, y).score(1e-8 * X, y) - 0.02


REFUSED: list[Any] = [
    ({"alpha": np.inf}, 1.0, 1.0, 1.0, "The 'alpha' parameter of GradaGradRegressor must be"),
    ({}, 1.0, 1e300, 1.0, r"y must hold numbers of at most 1e\+150"),
    ({}, 1e305, 1.0, 1.0, r"X must hold numbers of at most 1e\+300 .* in column \d; rescale it"),
    ({"penalty": None}, 1e-200, 1e140, 1.0, "The coefficients overflow"),
]
FITTED: list[Any] = [
    *(({"penalty": p}, x, 1.0, 1.0) for p in (None, "l2", "l1") for x in (1e160, 1e-90, 1e-300) if p is None or x > 1),
    *(({}, 1.0, y, 1.0) for y in (1e140, 1e-200)),
    *(({}, 1.0, 1.0, weight) for weight in (1e308, 1e-320)),
]


@pytest.mark.filterwarnings("error")
def test_extreme_numbers_are_refused_or_fitted():
    X, y = numbers()
    for options, x_size, y_size, weight, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            GradaGradRegressor(**options).fit(X * x_size, y * y_size, np.full(len(y), weight))
    for kind in (np.asarray, sp.csr_matrix):
        plain = GradaGradRegressor().fit(kind(X), y).predict(X)
        for options, x_size, y_size, weight in FITTED:
            scaled = kind(X * x_size)
            model = GradaGradRegressor(**options).fit(scaled, y * y_size, np.full(len(y), weight))
            np.testing.assert_allclose(model.predict(scaled) / y_size, plain, atol=0.2 * plain.std())
        for options in ({"alpha": 1e300}, {"alpha": 1e308, "penalty": "l1"}):
            model = GradaGradRegressor(**options).fit(kind(X), y)
            np.testing.assert_allclose(model.predict(kind(X)), y.mean(), atol=0.02 * y.std())


@pytest.mark.parametrize("loss", ["squared_error", "huber"])
@pytest.mark.parametrize("spread", [3e-172, 8e157])
def test_columns_that_cannot_be_squared(loss, spread):
    """Their penalty is infinite; 0 times it must not become NaN."""
    X = np.random.default_rng(0).standard_normal((60, 3)) * [1.0, 1.0, spread]
    y = X[:, 0] - X[:, 1]
    model = GradaGradRegressor(loss, random_state=0).fit(X, y)
    tiny = GradaGradRegressor(loss, random_state=0).fit(X[:, :2], y * 1e-90)
    assert model.score(X, y) > (0.9 if spread < 1.0 else -0.1)
    assert tiny.score(X[:, :2] * 1e90, y) > 0.9  # coefficients of y·1e-90, times 1e90
