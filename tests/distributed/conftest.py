from collections.abc import Iterator

import pytest

from .world import World


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """Up to four ranks, started at first use."""
    ranks = World()
    yield ranks
    ranks.close()
