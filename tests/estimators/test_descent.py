"""`Descent` steps all rows or the touched ones, stops at zero, and keeps the average."""

import numpy as np
import pytest
from auto_oracle import AutoOracle

from gradagrad.sklearn.descent import Descent


def test_a_number_that_is_not_finite_ruins_its_element_alone():
    descent = Descent(np.zeros((1, 4)), np.zeros((1, 4)), np.zeros((1, 4)), 4)
    for bad in (1.0, np.nan, 1.0, 1.0):
        descent.step(np.array([[1.0, bad, -1.0, 2.0]]), 1)
    assert np.isnan(descent.x[0, 1])
    assert np.isfinite(descent.x[0, [0, 2, 3]]).all()
    assert np.isfinite(descent.gamma)
    assert descent.gamma > 0.25


def test_steps_and_average_are_the_rules_without_its_limit(monkeypatch):
    monkeypatch.setattr("auto_oracle._limit", lambda *_: (1.0, 1e100))
    rng = np.random.RandomState(0)
    descent = Descent(np.ones((3, 2)), np.zeros((3, 1)), np.zeros((3, 1)), 4)
    oracle = AutoOracle([[1.0] * 6], gamma0=descent.gamma)
    oracle.tensors[0].limit = 1e100
    for k in range(200):
        g = rng.randn(3, 2) * (rng.rand(3, 2) < 0.8) * (k % 50 > 0)
        oracle.step([g.ravel().tolist()])
        descent.step(g, 1)
    np.testing.assert_allclose(descent.point(averaged=False).ravel(), oracle.tensors[0].y, rtol=1e-9)
    np.testing.assert_allclose(descent.point(averaged=True).ravel(), oracle.tensors[0].mean, rtol=1e-9)
    assert descent.gamma == pytest.approx(oracle.tensors[0].gamma, rel=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_touched_rows_take_the_steps_of_all_rows(outputs):
    """Without a penalty a row without a gradient is idle, so naming the others is all the same."""
    rng = np.random.RandomState(0)
    none = np.zeros((8, 1))
    whole, rows = (Descent(np.zeros((8, outputs)), none, none, 8) for _ in range(2))
    for _ in range(50):
        touched = np.flatnonzero(rng.rand(8) < 0.5)
        g = np.zeros((8, outputs))
        g[touched] = rng.randn(len(touched), outputs)
        whole.step(g, 1)
        rows.step_rows(touched, rows.rows(touched), g[touched], 1)
    for averaged in (False, True):
        np.testing.assert_allclose(rows.point(averaged), whole.point(averaged), rtol=1e-9)
    assert rows.gamma == pytest.approx(whole.gamma, rel=1e-9)


def test_l1_stays_at_zero_and_stops_there():
    l1 = np.array([[1.0, 1.0, 0.0]])
    descent = Descent(np.array([[0.0, 1e-9, 1e-9]]), np.zeros((1, 3)), l1, 3)
    descent.step(np.array([[0.5, 0.5, 0.5]]), 1)
    assert descent.x[0, 0] == 0.0  # |g| ≤ l1 at 0: stays
    assert descent.x[0, 1] == 0.0  # would cross 0: stops there
    assert descent.x[0, 2] < 0.0  # no penalty, no stop
    descent.step(np.array([[1.5, 0.0, 0.0]]), 1)
    assert descent.x[0, 0] < 0.0
