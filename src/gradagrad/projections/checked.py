"""A user's projection with its result checked, so that a mistake in it is named where it happens."""

from typing import Any

import torch
from torch import Tensor

from gradagrad.projections.sets import Projection


class Checked:
    """Calls a projection and checks its result. Values are checked only if asked, because that waits for the device."""

    def __init__(self, projection: Projection, *, values: bool = False) -> None:
        self.projection = projection
        self.values = values
        self.elementwise: bool = getattr(projection, "elementwise", False)

    def checking_values(self) -> "Checked":
        """The same projection, with its values checked too."""
        return Checked(self.projection, values=True)

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        result: Any = self.projection(point, metric)
        if not isinstance(result, Tensor):
            raise TypeError(f"projection must return a tensor, got {type(result).__name__} from {self.projection!r}.")
        if result.shape != point.shape or result.dtype != point.dtype:
            raise ValueError(
                f"projection must return the shape and dtype it is given, {tuple(point.shape)} and {point.dtype}, got "
                f"{tuple(result.shape)} and {result.dtype} from {self.projection!r}."
            )
        if self.values and bool((~torch.isfinite(result) & torch.isfinite(point)).any()):
            raise ValueError(f"projection must return finite values, got NaN or inf from {self.projection!r}.")
        return result
