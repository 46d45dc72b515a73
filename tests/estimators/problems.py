"""Small problems, and an independent form of their objectives."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn.datasets import make_classification, make_regression

ALPHA = 1e-2


def classes(count, rows=240, columns=6, seed=0):
    made: Any = make_classification(
        rows, columns, n_informative=4, n_redundant=1, n_classes=count, n_clusters_per_class=1, random_state=seed
    )
    X, y = made
    return X * np.logspace(-1, 1, columns) + 3.0, y


def numbers(rows=240, columns=6, seed=0):
    made: Any = make_regression(rows, columns, noise=20.0, random_state=seed)
    X, y = made
    y[:5] += 500.0
    return X * np.logspace(-1, 1, columns) - 2.0, y + 100.0


def rare_columns(rows=400, columns=60, seed=0):
    """Column j is stored in a share of about 1/j of the rows."""
    rng = np.random.RandomState(seed)
    X = rng.randn(rows, columns) * (rng.rand(rows, columns) < 1.0 / np.arange(1, columns + 1))
    y = (X @ rng.randn(columns) + rng.randn(rows) > 0.0).astype(int)
    return sp.csr_matrix(X), y


def _signs(Z, y):
    return np.where(y[:, None] == (np.arange(Z.shape[1]) if Z.shape[1] > 1 else [1]), 1.0, -1.0)


SOFT = 1e-3  # over which the reference's hinge is rounded off


def _losses(loss, Z, y, epsilon=0.1):
    """(each sample's loss, its gradient with respect to the outputs)."""
    if loss == "softmax":
        log_p = Z - logsumexp(Z, axis=1, keepdims=True)
        hot = y[:, None] == np.arange(Z.shape[1])
        return -log_p[hot], np.exp(log_p) - hot
    if loss in ("log_loss", "hinge", "soft hinge"):
        signs = _signs(Z, y)
        m = signs * Z
        if loss == "hinge":
            return np.maximum(1.0 - m, 0.0).sum(axis=1), -signs * (m < 1.0)
        width, edge = (1.0, 0.0) if loss == "log_loss" else (SOFT, 1.0)
        u = (edge - m) / width
        return width * np.logaddexp(0.0, u).sum(axis=1), -signs * expit(u)
    r = Z[:, 0] - y
    g = np.clip(r, -epsilon, epsilon) if loss == "huber" else r
    return g * (r - 0.5 * g), g[:, None]


def objective(loss, X, y, coef, intercept, *, alpha=ALPHA, weights=None):
    coef = np.atleast_2d(coef)
    losses, _ = _losses(loss, X @ coef.T + intercept, y)
    return float(np.average(losses, weights=weights) + 0.5 * alpha * np.sum(coef**2))


def least(loss, X, y, outputs, *, weights=None, fit_intercept=True):
    """The least objective, by a quasi-Newton method on standardised columns; for smooth losses."""
    centre, spread = (X.mean(axis=0) if fit_intercept else 0.0), X.std(axis=0)
    X = np.hstack([(X - centre) / spread, np.full((len(X), 1), float(fit_intercept))])
    share = np.full(len(y), 1.0 / len(y)) if weights is None else weights / weights.sum()
    strength = np.append(ALPHA / spread**2, 0.0)

    def at(flat):
        point = flat.reshape(outputs, -1)
        losses, slope = _losses(loss, X @ point.T, y)
        gradient = (slope * share[:, None]).T @ X + strength * point
        return share @ losses + 0.5 * np.sum(strength * point**2), gradient.ravel()

    options = {"maxiter": 10**5, "maxfun": 10**6, "ftol": 1e-14, "gtol": 1e-9}
    return float(minimize(at, np.zeros(outputs * X.shape[1]), jac=True, method="L-BFGS-B", options=options).fun)
