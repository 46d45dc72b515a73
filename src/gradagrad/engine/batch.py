"""What one param group brings to a step: aligned lists, one entry for each parameter that has a gradient."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from gradagrad.rules.rule import Field, Rule
from gradagrad.rules.scope import SHARED, Scope
from gradagrad.sharding import Axes

_LAYOUT = attrgetter("layout")
_PARAMETER, _STRIDED = {torch.nn.Parameter}, {torch.strided}


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
    """Whether bf16 parameters are rounded at random, as bf16 state is."""
    draws: bool = False
    """Whether anything is rounded at random."""
    params: list[Tensor] = field(default_factory=list)
    grads: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)
    """int64 counters, not yet counting this step."""
    state: dict[str, list[Tensor]] = field(default_factory=dict)
    """By field key: the element fields, and the block fields unless they are shared."""
    shared: dict[str, Tensor] = field(default_factory=dict)
    """By field key: the block fields of scope "group" or "all", one 0-d tensor each."""
    param_states: list[dict[str, Any]] = field(default_factory=list)
    """Each parameter's own entry in the optimizer's state, where sparse gradients keep their rows' clocks."""
    streams: list[int] = field(default_factory=list)
    """Each parameter's place in the optimizer, which numbers its random bits."""
    owners: list[Tensor] = field(default_factory=list)
    """The parameters as the user has them, where ``params`` are this rank's shards."""
    axes: Axes = ()
    """The process groups over which sums are added; none where every block is whole on this rank."""
    ranks: Any = None
    """The process group of TorchRec's tables, if they or replicas beside them share this batch's block."""
    backend: Any = None
    """The `Backend` that steps it."""
    prepared: list[Any] | None = None
    """What a backend has prepared or read, good for the rest of the step."""
    handles: Any = None
    """The optimizer's `HandleCache`, if it has one."""
    derived: dict[str, Any] = field(init=False, default_factory=dict)
    """What is worked out from the settings alone: good for every step until one of them changes."""

    fields: tuple[Field, ...] = field(init=False)
    """The state that the settings need."""
    keys: frozenset[str] = field(init=False)
    """Theirs."""
    is_shared: bool = field(init=False)
    """Whether all parameters share one block."""

    def __post_init__(self) -> None:
        self.fields = self.rule.fields(self.settings)
        self.keys = frozenset([field.key for field in self.fields])
        self.is_shared = self.scope in SHARED

    def copy(self) -> Batch:
        """The same settings without parameters. Not by `replace`, which takes longer than a small step."""
        batch = object.__new__(Batch)
        empty = {"params": [], "grads": [], "param_states": [], "state": {}, "shared": {}, "prepared": None}
        batch.__dict__.update(self.__dict__, **empty)
        return batch

    def is_plain(self) -> bool:
        """Whether all parameters are whole and on one rank, and all gradients dense, as nearly always."""
        return _PARAMETER.issuperset(map(type, self.params)) and _STRIDED.issuperset(map(_LAYOUT, self.grads))

    def own_fields(self, i: int) -> list[tuple[Field, Tensor]]:
        """The i-th parameter's fields and their tensors, but for those of a block that others share."""
        return [(field, self.state[field.key][i]) for field in self.fields if field.key in self.state]

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

    def lr(self, i: int, dtype: torch.dtype) -> Any:
        """The i-th parameter's learning rate in this step, decayed as torch.optim.Adagrad's; not read back to the
        host."""
        return self._decayed(self.steps[i].to(dtype), dtype) if self.lr_decay else self._lr(dtype)

    def lrs(self, dtype: torch.dtype) -> Any:
        """All of them: a row of numbers, or one where they are equal."""
        return self._decayed(torch.stack(self.steps).to(dtype), dtype) if self.lr_decay else self._lr(dtype)

    def lr_after(self, i: int, dtype: torch.dtype) -> Any:
        """The learning rate of the step before."""
        return (
            self._decayed((self.steps[i].to(dtype) - 1.0).clamp(min=0.0), dtype) if self.lr_decay else self._lr(dtype)
        )

    def _lr(self, dtype: torch.dtype) -> Any:
        lr = self.settings.lr
        return lr.reshape(()).to(dtype) if isinstance(lr, Tensor) else lr

    def _decayed(self, steps: Tensor, dtype: torch.dtype) -> Any:
        return self._lr(dtype) / (1.0 + steps * self.lr_decay)
