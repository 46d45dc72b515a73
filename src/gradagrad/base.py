"""What our optimizers have in common as torch optimizers: checked param groups, state of plain values, numbering."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, StateDict

from gradagrad import checkpoint, rounding
from gradagrad.steps.kept import Memory


class Base(Optimizer, ABC):
    """A torch optimizer whose arguments are checked wherever they come from; a subclass says what is allowed."""

    _memory: Memory

    @abstractmethod
    def _checked(self, group: dict[str, Any]) -> dict[str, Any]:
        """A copy of a param group whose values obey every rule; raises otherwise."""

    @abstractmethod
    def _init_state(self, group: dict[str, Any], parameter: Tensor) -> None:
        """Makes a parameter's state."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; what it leaves out is taken from the constructor's arguments."""
        if isinstance(param_group, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            checked = self._checked({**self.defaults, **param_group})
            param_group = {key: checked[key] for key in param_group}
        super().add_param_group(param_group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a pickle or a state dict; arguments that its version did not have take this optimizer's defaults."""
        super().__setstate__(state)
        self._memory = Memory()  # state has been replaced
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    @torch._disable_dynamo
    def state_dict(self) -> StateDict:
        """The state as tensors and plain values, loadable with ``weights_only=True``; projections stay outside."""
        result = super().state_dict()
        for group in result["param_groups"]:
            if "projection" in group:
                group["projection"] = None
            if "state_dtype" in group:
                group["state_dtype"] = checkpoint.dtype_name(group["state_dtype"])
        return result

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler may leave scaled gradients and its findings to `step`."""
        return all(group["fused"] is True for group in self.param_groups)

    def _parameters(self) -> Iterator[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def _stream_numbers(self) -> dict[Tensor, int]:
        """Each parameter's place, which numbers its random bits where state is rounded; empty where none is."""
        if not any(rounding.is_rounded(group["state_dtype"]) for group in self.param_groups):
            return {}
        return {parameter: number for number, parameter in enumerate(self._parameters())}

    def share_memory(self) -> None:
        """Moves the state to shared memory, for training in several processes (Hogwild), as Adagrad's does."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self.state[parameter]:
                    self._init_state(group, parameter)
                for value in self.state[parameter].values():
                    value.share_memory_()
