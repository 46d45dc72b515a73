"""The examples that need only torch or scikit-learn. Other tests run the rest."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))


def test_sklearn_text():
    pytest.importorskip("sklearn")
    results = import_module("examples.sklearn_text").main(6000)
    assert min(results.values()) > 0.6  # seven packages
    assert results["GradaGradClassifier, weak penalty"] > results["SGDClassifier, defaults"] - 0.05


def test_every_example_is_run_by_a_test():
    root = Path(__file__).parents[1]
    texts = "".join(path.read_text(encoding="utf-8") for path in root.glob("tests/**/*.py"))
    assert [path.stem for path in root.glob("examples/*.py") if path.stem not in texts] == []
