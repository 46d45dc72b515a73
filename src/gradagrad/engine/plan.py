"""What the settings of a param group decide about its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from torch import Tensor

from gradagrad.rules.rule import Field, Rule
from gradagrad.rules.scope import SHARED, SINGLE, Scope


class KeptState:
    """The state tensors of a group whose handles the kernel keeps, so that a step need not pass them.

    The kernel checks memory, shapes and strides at every step, and a list in which a tensor was replaced is passed
    again. Parameters and gradients are never kept, because users may replace them.
    """

    def __init__(self) -> None:
        self._ops: Any = None  # Python may have cleared the module when the last optimizers go.
        self._state: list[Tensor] = []
        self._number = 0

    def number_of(self, ops: Any, state: list[Tensor]) -> int:
        """The kernel's number for a list."""
        if len(state) != len(self._state) or not all(map(is_, state, self._state)):
            self.__del__()
            self._ops, self._state, self._number = ops, state, ops.keep(state)
        return self._number

    def __del__(self) -> None:
        if self._number:
            self._ops.release_list(self._number)


@dataclass(eq=False)
class Plan:
    """How a param group is stepped. It is made when one of the group's values is replaced, and not changed.

    All fields are computed at once: torch.compile cannot enter the lock of Python 3.11's cached properties.
    """

    rule: Rule
    settings: Any
    """The rule's own NamedTuple; ``lr`` may be a tensor."""
    scope: Scope
    coupled_decay: float = 0.0
    lr_decay: float = 0.0
    maximize: bool = False
    differentiable: bool = False
    stochastic_rounding: bool = False
    """Whether bf16 parameters are rounded stochastically, as bf16 state is."""
    draws: bool = False
    """Whether anything is rounded stochastically."""
    fused: bool | None = None
    foreach: bool | None = None
    momentum: float = 0.0
    """The group's momentum as it was constructed or loaded."""
    group: dict[str, Any] = field(default_factory=dict)
    """The param group, in which steps show d."""
    values: Sequence[Any] = ()
    """The group's values from which this plan was made; none if it is outdated."""
    kept: KeptState | None = None

    fields: tuple[Field, ...] = field(init=False)
    """The state that the settings need."""
    entries: int = field(init=False)
    """How many entries a parameter's state has. One without fields is new, and one with more has clocks of rows."""
    own_keys: list[str] = field(init=False)
    """The fields of which each parameter has its own."""
    shared_keys: list[str] = field(init=False)
    """The fields that parameters share."""
    is_shared: bool = field(init=False)
    """Whether all parameters share one block."""
    shown: str = field(init=False)
    """The key of the field that is shown as d; empty where there are too many numbers."""
    kernel: Any = field(init=False, default=None)
    """The kernel's arguments, from its first step on; none if an argument is a tensor, whose value may change."""
    backends: dict[Any, Any] = field(init=False, default_factory=dict)
    """The backend of compiled steps that took the last step, by the layout of the gradients."""

    def __post_init__(self) -> None:
        self.fields = self.rule.fields(self.settings)
        self.entries = 1 + len(self.fields)  # with the counter of steps
        self.is_shared = self.scope in SHARED
        self.shown = (self.rule.common or self.rule.numerator) if self.scope in SINGLE else ""
        self.shared_keys = [f.key for f in self.fields if f.at == "shared" or (f.at == "block" and self.is_shared)]
        self.own_keys = [f.key for f in self.fields if f.key not in self.shared_keys]
