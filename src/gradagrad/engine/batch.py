"""One param group's part of a step, and the interface of the backends that step it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from gradagrad.rules.rule import Field, Rule
from gradagrad.rules.scope import SHARED, Scope
from gradagrad.sharding import Axes


@dataclass
class Batch:
    """The parameters of one group (or some of them) with their gradients and state, and the settings of the step."""

    rule: Rule
    settings: Any
    """The rule's own NamedTuple; ``lr`` may be a tensor."""
    scope: Scope
    coupled_decay: float = 0.0
    lr_decay: float = 0.0
    group: int = 0
    """The param group's place in the optimizer."""
    maximize: bool = False
    differentiable: bool = False
    stochastic_rounding: bool = False
    """Whether bf16 parameters are rounded stochastically, as bf16 state is."""
    draws: bool = False
    """Whether anything is rounded stochastically."""
    params: list[Tensor] = field(default_factory=list)
    grads: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)
    """int64 counters, not yet counting this step."""
    state: dict[str, list[Tensor]] = field(default_factory=dict)
    """By field key: the fields of elements and blocks, unless they are shared."""
    shared: dict[str, Tensor] = field(default_factory=dict)
    """By field key: the fields that parameters share, one 0-d tensor each."""
    param_states: list[dict[str, Any]] = field(default_factory=list)
    """Each parameter's own entry in the optimizer's state, which has the clocks of idle rows."""
    streams: list[int] = field(default_factory=list)
    """Each parameter's place in the optimizer, which numbers its random bits."""
    owners: list[Tensor] = field(default_factory=list)
    """The parameters as the user has them, where ``params`` are this rank's shards."""
    axes: Axes = ()
    """The process groups over which sums are added; none where every block is whole on this rank."""
    backend: Any = None
    """The `Backend` that steps it."""
    prepared: list[Any] | None = None
    """What a backend has prepared or read for this step."""
    handles: Any = None
    """The optimizer's `HandleCache`, if it has one."""
    derived: dict[Any, Any] = field(init=False, default_factory=dict)
    """Computed from the settings alone, and valid until one of them changes."""

    fields: tuple[Field, ...] = field(init=False)
    """The state that the settings need."""
    keys: frozenset[str] = field(init=False)
    """The keys of these fields."""
    shared_keys: list[str] = field(init=False)
    """Those of the fields that parameters share."""
    is_shared: bool = field(init=False)
    """Whether all parameters share one block."""

    def __post_init__(self) -> None:
        self.fields = self.rule.fields(self.settings)
        self.keys = frozenset([field.key for field in self.fields])
        self.is_shared = self.scope in SHARED
        self.shared_keys = [f.key for f in self.fields if f.at == "shared" or (f.at == "block" and self.is_shared)]

    def unscale(self, scale: Tensor) -> None:
        """Divides gradients by GradScaler's scale, in place, as torch's fused optimizers do."""
        for gradient in self.grads:
            values = gradient if gradient.layout == torch.strided else gradient._values()
            values.div_(scale.to(values.device))

    def select(self, indices: Iterable[int]) -> Batch:
        """The same settings over some of the parameters."""
        chosen = list(indices)
        names = ("params", "grads", "steps", "param_states", "streams", "owners")
        lists: dict[str, Any] = {name: [values[i] for i in chosen] for name in names if (values := getattr(self, name))}
        return replace(
            self, **lists, prepared=None, state={key: [values[i] for i in chosen] for key, values in self.state.items()}
        )


class Backend(Protocol):
    """Steps batches. Sums and statistics are float64 tensors with a row of numbers for each block."""

    name: str

    def prepare(self, batch: Batch) -> str | None:
        """Gets a step ready and returns None, or says why this batch cannot be stepped. Writes nothing."""
        ...

    def forget(self, batch: Batch) -> None:
        """Releases what was prepared or read, if the step is not taken after all."""
        ...

    def step(self, batch: Batch) -> None:
        """Counts and takes the whole step of a batch that shares nothing with others: measure, decide, move, learn."""
        ...

    def measure(self, batch: Batch) -> Any:
        """The rule's sums, one row for each tensor or one for all; None if the rule needs none. Writes nothing."""
        ...

    def move(self, batch: Batch, sums: Any) -> Tensor | None:
        """Counts the step and moves parameters and element fields, given complete sums.

        Returns the statistics, a row for each parameter, if the rule learns from them. Blocks of one parameter are
        written unless they are learned; a block that parameters share is not.
        """
        ...

    def write_shared(self, batch: Batch, sums: Tensor | None) -> None:
        """Writes a block that parameters share as it is after the step, given complete sums."""
        ...
