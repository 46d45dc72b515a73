"""What a user sees of the average: ``with optimizer.averaged()`` and the averaged weights. The rule keeps it."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.optimizer import EngineOptimizer
from gradagrad.torch_ops.ops import real_view

_INSIDE = "step and load_state_dict must be called outside of `with optimizer.averaged()`, which holds averages."


class Averaged(EngineOptimizer):
    """An optimizer that keeps the average of the points of its parameters, in the field "average"."""

    _averaged_depth = 0
    """How many `averaged` blocks are open."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As in the base class; a copy or a loaded optimizer is outside of every block."""
        super().__setstate__(state)
        self._averaged_depth, self._cannot_step = 0, ""

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
        self._cannot_step = _INSIDE
        try:
            if self._averaged_depth > 1:
                yield
            else:
                with _swapped(self._averages()):
                    yield
        finally:
            self._averaged_depth -= 1
            self._cannot_step = _INSIDE if self._averaged_depth else ""

    def _averages(self) -> dict[Tensor, Tensor]:
        """Each parameter's average at the present step."""
        self._catch_up()
        averaging = chain.from_iterable(
            group["params"] for group in self.param_groups if group["averaging"] is not None
        )
        stepped = (p for p in averaging if p not in self._unused)
        return {p: state["average"] for p in stepped if "average" in (state := self.state.get(p, {}))}

    def averaged_state_dict(self, model: torch.nn.Module) -> dict[str, Any]:
        """The model's state dict with averaged weights, as copies: what to export."""
        with self.averaged():
            result = model.state_dict()
            for name, value in result.items():
                if isinstance(value, Tensor):
                    result[name] = value.detach().clone()
            return result


@contextmanager
def _swapped(averages: Mapping[Tensor, Tensor]) -> Generator[None]:
    """Puts averages in the place of parameters, and the very same values back, whatever happens in between."""
    points = copies(averages)
    try:
        put({p: sharding.local(average) for p, average in averages.items()})
        yield
    finally:
        put(points)


def copies(tensors: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """What parameters and buffers hold on this rank."""
    return {tensor: sharding.local(tensor.detach()).clone() for tensor in tensors}


@torch.no_grad()
def put(values: Mapping[Tensor, Tensor]) -> None:
    """Writes copies, or averages, into parameters and buffers."""
    for target, value in values.items():
        place = sharding.local(target.detach())
        (place if value.dtype.is_complex else real_view(place)).copy_(value)
