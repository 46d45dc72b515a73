"""An adapter for a peer whose package offers no optimizer class."""

from typing import Any

import torch
from mechanic_pytorch import mechanize  # pyright: ignore[reportMissingTypeStubs]
from torch.optim import Optimizer


def mechanic(params: Any, lr: float = 1.0, **options: Any) -> Optimizer:
    """Mechanic around Adam; ``store_delta`` trades a copy of the weights for the accuracy of its first steps."""
    return mechanize(torch.optim.Adam, store_delta=True)(params, lr=lr, **options)
