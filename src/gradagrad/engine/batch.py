"""One param group's part of a step, and the interface of the backends that step it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from gradagrad.engine.plan import Plan
from gradagrad.sharding import Axes


@dataclass
class Batch:
    """The parameters of one group (or some of them) in one step, with their gradients and state."""

    plan: Plan
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
    streams: Sequence[int] = ()
    """Each parameter's place in the optimizer, which numbers its random bits."""
    owners: Sequence[Tensor] = ()
    """The parameters as the user has them, where ``params`` are this rank's shards."""
    axes: Axes = ()
    """The process groups over which sums are added; none where every block is whole on this rank."""
    moved: Tensor | None = None
    """Whether any gradient of the step is not zero, where only the device knows: a number above 0 if so."""

    @property
    def settings(self) -> Any:
        """What the rule is told: the plan's settings, and whether there is a gradient at all."""
        settings = self.plan.settings
        return settings if self.moved is None else settings._replace(moved=self.moved)

    def unscale(self, scale: Tensor) -> None:
        """Divides gradients by GradScaler's scale, in place, as torch's fused optimizers do."""
        for gradient in self.grads:
            values = gradient if gradient.layout == torch.strided else gradient._values()
            values.div_(scale.to(values.device))

    def select(self, indices: Iterable[int]) -> Batch:
        """The same plan over some of the parameters."""
        chosen = list(indices)
        names = ("params", "grads", "steps", "param_states", "streams", "owners")
        lists: dict[str, Any] = {name: [values[i] for i in chosen] for name in names if (values := getattr(self, name))}
        return replace(self, **lists, state={key: [values[i] for i in chosen] for key, values in self.state.items()})


class Step(Protocol):
    """A batch that a backend is ready to step. Sums and statistics are float64, a row of numbers for each block."""

    batch: Batch
    after: dict[str, Any]
    """The block after this step, where Python decides it for all parameters at once; empty until then."""

    def take(self) -> None:
        """Counts and takes the whole step of a batch that shares nothing with others: measure, decide, move, learn."""
        ...

    def measure(self) -> Any:
        """The rule's sums, one row for each tensor or one for all; None if the rule needs none. Writes nothing."""
        ...

    def move(self, sums: Any) -> Tensor | None:
        """Counts the step and moves parameters and element fields, given complete sums.

        Returns the statistics, a row for each parameter, if the rule learns from them. Blocks of one parameter are
        written unless they are learned; a block that parameters share is not.
        """
        ...

    def write_shared(self, sums: Any) -> None:
        """Writes a block that parameters share as it is after the step, given complete sums."""
        ...


class Backend(Protocol):
    """Steps batches."""

    def prepare(self, batch: Batch) -> Step | str:
        """A step that only needs to be taken, or why this batch cannot be stepped, as a sentence. Writes nothing."""
        ...
