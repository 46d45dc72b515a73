"""A model at the average of its optimizers, for callbacks, which cannot enter a block in one hook and leave it in
another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from gradagrad.averaging import Averaged, copies, forward, measure, norms_of, put
from gradagrad.integrations.wrappers import ours
from gradagrad.monitoring.diagnostics import readings


def shown(optimizers: Iterable[Any]) -> dict[str, float]:
    """What a callback logs for each param group: γ without the schedule of lr, and the effective learning rate with it.

    Numbers that are not known yet are left out.
    """
    groups = [(optimizer, group) for optimizer in ours(optimizers) for group in optimizer.param_groups]
    every: dict[str, float] = {}
    for index, (optimizer, group) in enumerate(groups):
        steady = {**group, "lr": group.get("initial_lr", group["lr"])}
        every[f"gradagrad/group{index}/gamma"] = readings(optimizer, steady)["gamma"]
        every[f"gradagrad/group{index}/effective_lr"] = readings(optimizer, group)["effective_lr"]
    return {name: value for name, value in every.items() if not math.isnan(value)}


class AtAverage:
    """Puts the averages into the model and takes them out again: parameters, and with ``batches`` BatchNorm's numbers.

    The iterates are kept here meanwhile, so that a checkpoint can hold them. Without an average nothing changes.
    ``run(model, batch)`` runs the model on a batch.
    """

    def __init__(self, batches: Iterable[Any] | None, run: Callable[[Any, Any], Any] | None = None) -> None:
        self._batches = batches
        self._forward = run or forward
        self._iterates: dict[Tensor, Tensor] = {}
        self._optimizers: list[Averaged] = []

    @property
    def inside(self) -> bool:
        """Whether the model holds averages now."""
        return bool(self._iterates)

    def enter(self, model: nn.Module, optimizers: Iterable[Any]) -> bool:
        """Puts the averages into the model. Returns False if there are none, or if it already holds them."""
        if self.inside:
            return False
        averages: dict[Tensor, Tensor] = {}
        self._optimizers = [optimizer for optimizer in ours(optimizers) if isinstance(optimizer, Averaged)]
        for optimizer in self._optimizers:
            averages |= optimizer._averages()
        norms = norms_of(model) if self._batches is not None and averages else []
        self._iterates = copies([*averages, *(buffer for norm in norms for buffer in norm.buffers())])
        put(averages)
        try:
            if norms:
                measure(model, norms, self._batches, self._forward)
        except BaseException:
            self.leave()
            raise
        return self.inside

    def leave(self) -> bool:
        """Puts the iterates back. Returns False if the model already holds them."""
        put(self._iterates)
        was_inside, self._iterates = self.inside, {}
        return was_inside

    def stay(self) -> None:
        """Keeps the averages in the model, so that more training starts from them."""
        for optimizer in self._optimizers:
            optimizer._stay()
        self._iterates = {}
