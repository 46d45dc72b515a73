"""One array's part of a step: its numbers in the precision of the computation, and their new values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from gradagrad.optax.arrays import (
    Array,
    ArrayOps,
    Blocks,
    Moved,
    Point,
    as_real,
    block_dtype,
    in_precision,
    like,
    touched,
)
from gradagrad.optax.rounding import Rounder, rounded
from gradagrad.optax.sharing import Names, over_devices
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import PARAMETER_LANE, Field, Rule

LARGE = 1 << 15
"""From this many elements on, memory traffic decides how long a step takes on a CPU, not the number of operations."""


@dataclass(frozen=True)
class Leaf:
    """A gradient with its parameter and state, as stored. `values` has them in the precision of the computation."""

    rule: Rule
    settings: Any
    scope: str
    dtype: Any
    """The precision of the computation."""
    gradient: Array
    parameter: Array | None
    state: Mapping[str, Array]
    """By field key: element fields, and block fields unless other leaves share them."""
    axes: Names
    rounder: Rounder
    maximize: bool = False
    coupled_decay: Any = 0.0
    decay_beside: Any = 0.0
    """Decoupled decay outside the rule: the share of the parameter that a step takes off."""

    @cached_property
    def block_dtype(self) -> Any:
        """The precision of the blocks' numbers."""
        return block_dtype(self.dtype, self.scope)

    @cached_property
    def reduction(self) -> Blocks:
        """Sums over blocks."""
        return Blocks(self.scope, self.block_dtype)

    @cached_property
    def ops(self) -> ArrayOps:
        """The rule's operations in this precision."""
        return ArrayOps(self.dtype)

    @cached_property
    def x(self) -> Array | None:
        """The parameter."""
        return None if self.parameter is None else as_real(self.parameter, self.dtype)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The element fields, the parameter and the gradient that the rule sees."""
        elements = {f.key for f in self.rule.fields(self.settings) if f.at == "element"}
        values: dict[str, Any] = {k: jnp.asarray(v, self.dtype) for k, v in self.state.items() if k in elements}
        g = as_real(self.gradient, self.dtype)
        g = -g if self.maximize else g
        values["g"] = g if is_off(self.coupled_decay) else g + self._share_of_x(self.coupled_decay)
        values["x"] = Point(self.x) if getattr(self.settings, "project", None) is None else self.x
        return values

    @cached_property
    def block(self) -> dict[str, Array]:
        """The numbers of this leaf's own blocks."""
        fields = (f for f in self.rule.fields(self.settings) if f.at == "block")
        return {f.key: jnp.asarray(self.state[f.key], self.block_dtype) for f in fields if f.key in self.state}

    @cached_property
    def touched(self) -> Array | None:
        """Where the gradient is not zero. None if that makes no difference."""
        if not getattr(self.settings, "lazy", False):
            return None
        here = touched(self.values["g"], self.scope)
        # The rest of a row may have a gradient elsewhere.
        return over_devices(here.astype(jnp.int32), self.axes) > 0 if self.scope == "row" else here

    def _share_of_x(self, share: Any) -> Array:
        assert self.x is not None  # with a decay, `params` is required
        return self.x * jnp.asarray(share, self.dtype)

    def measure(self) -> tuple[Array, ...]:
        """This array's part of the rule's sums."""
        return self.rule.measure(self.values, self._settings, self.reduction, self.ops)

    def decide(self, sums: Sequence[Array]) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """(this leaf's own blocks after the step, the factors of the move)."""
        return self.rule.decide(
            sums, self.block, in_precision(self.settings, self.block_dtype), ArrayOps(self.block_dtype)
        )

    def move(self, factors: Sequence[Array]) -> tuple[Array, dict[str, Array], tuple[Array, ...]]:
        """(the step to subtract from the parameter, the new element fields, this array's part of the statistics)."""
        new, statistics = self.rule.move(self.values, factors, self._settings, self.reduction, self.ops, self.touched)
        return self._step_to(new.pop("x")), new, statistics

    def outcome(self, factors: Sequence[Array]) -> tuple[Array, dict[str, Array], tuple[Array, ...]]:
        """The result of `move`. If every element is a block, this also decides its block fields."""
        block, factors = self.decide(self.measure()) if self.scope == "element" else ({}, factors)
        step, new, statistics = self.move(factors)
        return step, {**new, **block}, statistics

    def _step_to(self, end: Any) -> Array:
        step = end.step if isinstance(end, Moved) else self.x - end
        if is_off(self.decay_beside):
            return step
        decay = self._share_of_x(self.decay_beside)
        return step + (decay if self.touched is None else jnp.where(self.touched, decay, 0.0))

    @cached_property
    def _settings(self) -> Any:
        return in_precision(self.settings, self.dtype)

    def stored(self, field: Field, value: Array) -> Array:
        """A field's new value in the format of the old one."""
        return self.rounder.stored(value, self.state[field.key], field.lane)

    def update(self, step: Array) -> Array:
        """What to add to the parameter, in the format of the gradient."""
        return like(-step, self.gradient)

    def rounded_update(self, step: Array) -> Array:
        """The update in float32 that takes a bf16 parameter to a randomly rounded value."""
        if self.parameter is None or self.x is None or jnp.asarray(self.parameter).dtype != jnp.bfloat16:
            return self.update(step)
        # In float32 the difference of two bf16 numbers is exact, unless one is 2¹⁶ times the other.
        return rounded(self.x - step, self.rounder.bits(PARAMETER_LANE)).astype(jnp.float32) - self.x


def evaluate(leaf: Leaf, outcome: Callable[[Leaf], dict[str, Any]], order: Sequence[str]) -> dict[str, Any]:
    """``outcome(leaf)``. For large arrays on a CPU, in a form that XLA compiles to few passes over memory.

    XLA:CPU makes one loop for each result, and stores roots and quotients that several loops need instead of computing
    them twice. But memory is slower than arithmetic. So every result is computed by itself, from inputs that look
    different to XLA. ``order`` is the order in which results can overwrite their inputs.
    """
    if jax.default_backend() != "cpu" or not isinstance(leaf.gradient, Tracer) or leaf.gradient.size < LARGE:
        return outcome(leaf)
    results: dict[str, Any] = {}
    for key in order:
        gradient, parameter, state = jax.lax.optimization_barrier((leaf.gradient, leaf.parameter, dict(leaf.state)))
        leaf = replace(leaf, gradient=gradient, parameter=parameter, state=state)
        results[key] = outcome(leaf)[key]
    return results
