"""What scikit-learn expects of an estimator."""

import doctest
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator

from gradagrad.sklearn import GradaGradClassifier, GradaGradRegressor, classifier, regressor

from .problems import classes, numbers


def not_passed(estimator):
    """Checks that failed, and those that were skipped."""
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    return ({r["check_name"] for r in results if r["status"] == s} for s in ("failed", "skipped"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (GradaGradClassifier(), SGDClassifier()),
        (GradaGradClassifier("log_loss", penalty="l1"), SGDClassifier()),
        (GradaGradClassifier("hinge"), SGDClassifier()),
        (GradaGradRegressor(), SGDRegressor()),
        (GradaGradRegressor("huber"), SGDRegressor()),
    ],
    ids=str,
)
def test_all_of_scikit_learns_checks(ours, theirs):
    """At a kink rounding decides a slope, so weights equal repetition but roughly; SGDClassifier is excused too."""
    failed, skipped = not_passed(ours)
    kinked = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
    assert failed <= (kinked if ours.loss in ("hinge", "huber") else set())
    assert skipped <= set().union(*not_passed(theirs))


def test_pipelines_and_searches():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(PolynomialFeatures(2, interaction_only=True), GradaGradClassifier(random_state=0))
    grid = {"gradagradclassifier__alpha": [1e-3, 1.0], "gradagradclassifier__loss": ["softmax", "hinge"]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.95
    assert cross_val_score(GradaGradClassifier(random_state=0), X, y, cv=5).mean() > 0.95


@pytest.mark.parametrize(("estimator", "problem"), [(GradaGradClassifier, classes(3)), (GradaGradRegressor, numbers())])
def test_a_pickle_goes_on_where_it_was(estimator, problem):
    X, y = problem
    more = {"classes": np.unique(y)} if estimator is GradaGradClassifier else {}
    model = estimator(random_state=0).partial_fit(X, y, **more)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    for m in (model, copy):
        m.partial_fit(X, y)
    np.testing.assert_array_equal(copy.coef_, model.coef_)


def test_seeds_repeat_and_differ():
    X, y = classes(2, rows=4000)
    one, again, other = (GradaGradClassifier(random_state=seed, max_iter=3, tol=None).fit(X, y) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.coef_, again.coef_)
    assert not np.array_equal(one.coef_, other.coef_)


def test_too_few_epochs_are_told():
    with pytest.warns(ConvergenceWarning, match=r"max_iter \(2\) was reached .*; raise max_iter or tol"):
        GradaGradClassifier(max_iter=2).fit(*classes(2))


MISTAKES = [
    {"loss": "log"},
    {"penalty": "l3"},
    {"alpha": -1.0},
    {"alpha": np.inf},
    {"alpha": "best"},
    {"l1_ratio": 2},
    {"fit_intercept": "no"},
    {"max_iter": 0.5},
    {"max_iter": 0},
    {"tol": "small"},
    {"tol": np.nan},
    {"batch_size": "all"},
]


@pytest.mark.parametrize("arguments", MISTAKES, ids=str)
def test_mistakes_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=f"The '{name}' parameter of GradaGradClassifier must be .* Got {value!r}"):
        GradaGradClassifier(**arguments).fit(*classes(2))


def test_mistakes_of_streams_are_named():
    X, y = classes(2)
    with pytest.raises(ValueError, match="classes must be given at the first call of partial_fit"):
        GradaGradClassifier().partial_fit(X, y)
    model = GradaGradClassifier().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"y must hold only labels of classes, \[0, 1\], got 2"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match=r'class_weight must be .* got "balanced"; pass a dictionary'):
        GradaGradClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(
        ValueError, match=r"sample_weight must be positive|Sample weights must contain at least one non-zero"
    ):
        GradaGradClassifier().fit(X, y, np.zeros(len(y)))
    with pytest.raises(NotFittedError):
        GradaGradRegressor().predict(X)
    with pytest.raises(AttributeError, match="predict_proba"):
        GradaGradClassifier("hinge").fit(X, y).predict_proba(X)


@pytest.mark.parametrize("module", [classifier, regressor], ids=["classifier", "regressor"])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=4)
