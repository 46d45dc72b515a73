"""What a user sees of the average: ``with optimizer.averaged()`` and the averaged weights. `averaging` keeps it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from gradagrad.auto import averaging
from gradagrad.base import Base


class Averaged(Base):
    """An optimizer that keeps the average of the points of its parameters."""

    _averaged_depth = 0
    """How many `averaged` blocks are open."""

    @abstractmethod
    def _shared(self) -> Tensor | None:
        """The numbers that all parameters share, the step first; None before the first step."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As in `Base`; a copy or a loaded optimizer is outside of every block."""
        super().__setstate__(state)
        self._averaged_depth = 0

    @contextmanager
    def averaged(self) -> Generator[None]:
        """Inside, parameters hold their averages; afterwards the very same points as before, whatever happened.

        Needs memory for one copy of the parameters. May be nested. BatchNorm's running statistics belong to the points;
        recompute them for the average with ``torch.optim.swa_utils.update_bn(loader, model)`` inside.

        Example:
            >>> with optimizer.averaged():  # doctest: +SKIP
            ...     accuracy = evaluate(model)
        """
        if all(group["averaging"] is None for group in self.param_groups):
            raise RuntimeError(
                "averaged() needs an average, got averaging=None in every param group; construct the optimizer with "
                'averaging="polynomial".'
            )
        self._averaged_depth += 1
        try:
            if self._averaged_depth > 1:
                yield
            else:
                with averaging.swapped(self._averages()):
                    yield
        finally:
            self._averaged_depth -= 1

    def _averages(self) -> dict[Tensor, Tensor]:
        """Each parameter's average at the present step."""
        shared = self._shared()
        found: dict[Tensor, Tensor] = {}
        averaging_groups = (group["params"] for group in self.param_groups if group["averaging"] is not None)
        for parameter in chain.from_iterable(averaging_groups):
            state = self.state.get(parameter)
            if state and "average" in state and shared is not None:
                averaging.bring_up_to_date(parameter, state, shared[0])
                found[parameter] = state["average"]
        return found

    def averaged_state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """The model's state dict with averaged weights, as copies: what to export."""
        with self.averaged():
            result = model.state_dict()
            for name, value in result.items():
                if isinstance(value, Tensor):
                    result[name] = value.detach().clone()
            return result

    def _refuse_inside_averaged(self, what: str) -> None:
        if self._averaged_depth:
            raise RuntimeError(f"{what} must be called outside of `with optimizer.averaged()`, which holds averages.")
