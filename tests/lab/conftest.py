import pytest


@pytest.fixture(autouse=True)
def _no_local_data(tmp_path, monkeypatch):
    """Every test has a cache of its own and finds no data set but those it makes."""
    monkeypatch.setenv("GRADAGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADAGRAD_DATA", raising=False)
