"""What every test here needs."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Instead of the one above it: torch.manual_seed also queues a call (with its stack) for every kind of accelerator,
    which takes longer than most of the thousands of tests here."""
    torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True)
def checked_sparse_tensors() -> Iterator[None]:
    """torch warns unless one decides; Adagrad builds sparse tensors in its step, so the decision is made out here."""
    with torch.sparse.check_sparse_tensor_invariants(True):
        yield
