"""`partial_fit`, and sparse samples, which stay sparse."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from gradagrad.sklearn import GradaGradClassifier, GradaGradRegressor
from gradagrad.sklearn.batches import Samples

from .problems import classes, numbers, rare_columns

DENSE, SPARSE = np.asarray, sp.csr_matrix


@pytest.mark.parametrize("kinds", [(DENSE,), (SPARSE,), (DENSE, SPARSE), (SPARSE, DENSE)], ids=lambda k: str(len(k)))
def test_chunks_of_any_kind_teach(kinds):
    X, y = classes(3, rows=6000)
    model = GradaGradClassifier(random_state=0)
    for i in range(60):
        rows = slice(100 * i, 100 * i + 100)
        model.partial_fit(kinds[i % len(kinds)](X[rows]), y[rows], classes=[0, 1, 2] if i == 0 else None)
    assert model.score(X, y) > GradaGradClassifier(random_state=0).fit(X, y).score(X, y) - 0.02
    assert len(model.objective_) == 60


def test_a_class_may_come_late():
    X, y = classes(3, rows=900)
    order = np.argsort(y == 2, kind="stable")
    model = GradaGradClassifier(random_state=0)
    for rows in np.array_split(order, 9):
        model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert set(model.predict(X)) == {0, 1, 2}


def test_regression_in_chunks():
    X, y = numbers(rows=4000)
    model = GradaGradRegressor(random_state=0)
    for rows in np.array_split(np.arange(4000), 40):
        model.partial_fit(X[rows], y[rows])
    assert model.score(X, y) > GradaGradRegressor(random_state=0).fit(X, y).score(X, y) - 0.02


def test_sparse_samples_stay_sparse(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("made dense")

    rng = np.random.RandomState(0)
    rows, columns, stored = 3000, 200_000, 40
    places = rng.randint(columns, size=(rows, stored))
    y = np.arange(rows) % 2
    places[:, 0] = rng.randint(50, size=rows) + 100 * y  # one column of each sample tells its class
    X = sp.csr_matrix((np.ones(places.size), (np.repeat(np.arange(rows), stored), places.ravel())), (rows, columns))
    with monkeypatch.context() as patch:
        for form in (sp.csr_matrix, sp.csc_matrix):
            patch.setattr(form, "toarray", refuse)
            patch.setattr(form, "todense", refuse)
        model = GradaGradClassifier(random_state=0).fit(X, y)
        model.predict_proba(X)
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.95


def test_sparse_columns_that_were_never_seen_stay_at_zero():
    X: Any
    X, y = rare_columns()
    wide: Any = sp.hstack([X, sp.csr_matrix((X.shape[0], 5))], format="csr")
    model = GradaGradClassifier().fit(wide, y)
    assert not model.coef_[0, -5:].any()
    assert model.score(wide, y) >= SGDClassifier(loss="log_loss", random_state=0).fit(X, y).score(X, y) - 0.02


def test_one_row_at_a_time_teaches():
    """The first row tells no spread, of columns or of targets."""
    X, y = classes(2, rows=800)
    rates, target = GradaGradClassifier(random_state=0), 1e6 * (X @ np.arange(6.0) + 10.0)
    values = GradaGradRegressor(random_state=0)
    for i in range(len(X)):
        rates.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        values.partial_fit(X[i : i + 1], target[i : i + 1])
    assert rates.score(X, y) > GradaGradClassifier(random_state=0).fit(X, y).score(X, y) - 0.03
    assert values.score(X, target) > 0.99


def test_changing_units_changes_no_prediction():
    X, y = numbers()
    model = GradaGradRegressor(random_state=0).partial_fit(X[:20], y[:20])
    before = model.coef_, model.intercept_
    model._see(model._model, Samples(1e3 * X + 1e5, 1e3 * y, None))
    for a, b in zip(before, model._model.coefficients(model._model.point(True)), strict=True):
        np.testing.assert_allclose(a, b.ravel(), rtol=1e-9)


@pytest.mark.parametrize("kind", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize(("estimator", "problem"), [(GradaGradClassifier, classes(2)), (GradaGradRegressor, numbers())])
def test_an_alpha_set_between_calls_counts(estimator, problem, kind):
    X, y = problem
    more = {"classes": [0, 1]} if estimator is GradaGradClassifier else {}
    for penalty in ("l2", "l1"):
        changed, strong = (estimator(alpha=alpha, penalty=penalty, random_state=0) for alpha in (1e-4, 1.0))
        for i in range(120):
            if i == 20:
                assert np.abs(changed.coef_).sum() > 1.1 * np.abs(strong.coef_).sum()
                changed.set_params(alpha=1.0)
            for model in (changed, strong):
                model.partial_fit(kind(X), y, **more)
            assert i != 25 or np.abs(changed.coef_).sum() < 2.0 * np.abs(strong.coef_).sum()
        assert np.abs(changed.coef_).sum() == pytest.approx(np.abs(strong.coef_).sum(), rel=0.03)
