"""Fixtures of every test here."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def checked_sparse_tensors() -> Iterator[None]:
    """torch warns unless one decides; Adagrad builds sparse tensors in its step, so the decision is made out here."""
    with torch.sparse.check_sparse_tensor_invariants(True):
        yield
