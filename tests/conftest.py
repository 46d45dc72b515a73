import os

import pytest
import torch

os.environ["GRADAGRAD_OFFLINE"] = "1"  # no test waits for a network it did not ask for


@pytest.fixture(autouse=True)
def _seeded():
    """Every test starts from the same random state and leaves the thread count alone."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed also queues work for accelerators, which takes longer
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
