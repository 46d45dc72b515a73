"""One array's part of a step: its numbers in the precision of the computation, and their new values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from gradagrad.optax.arrays import Array, ArrayOps, Blocks, as_real, block_dtype, computing_dtype, in_precision, touched
from gradagrad.rules.gradagrad import is_off
from gradagrad.rules.rule import Field, Rule

SMALL = 2.0**-60
"""The rule sees the parameter times this number, and the decay divided by it. A rule returns the parameter after its
step, and an update of 1e-9 would lose its bits in a float32 parameter of 3, but not in one of 3e-18."""


class Leaf:
    """A gradient with its parameter and state, as the rule sees them."""

    def __init__(
        self,
        rule: Rule,
        settings: Any,
        scope: str,
        gradient: Array,
        parameter: Array | None,
        state: Mapping[str, Array],
        *,
        maximize: bool,
        coupled_decay: Any,
        decay_beside: Any,
    ) -> None:
        """``state`` has the element fields, and the block fields unless other leaves share them, by key.

        ``decay_beside`` is decoupled decay outside the rule: the share of the parameter that a step takes off.
        """
        self.rule, self.gradient, self._state = rule, gradient, state
        dtype = computing_dtype(jnp.asarray(gradient if parameter is None else parameter).dtype)
        self.ops, self._decay_beside = ArrayOps(dtype), decay_beside
        self.x: Any = None if parameter is None else as_real(parameter, dtype)
        g = as_real(gradient, dtype)
        g = -g if maximize else g
        g = g if is_off(coupled_decay) else g + self._share_of_x(coupled_decay)
        self._start = jnp.zeros_like(g) if self.x is None else self.x
        if not rule.learns and getattr(settings, "project", None) is None:  # These two need the parameter's size.
            self._start = self._start * SMALL
            settings = settings._replace(weight_decay=settings.weight_decay / SMALL)
        self.settings = in_precision(settings, dtype)
        self._block_dtype = block_dtype(dtype, scope)
        self._block_settings = in_precision(settings, self._block_dtype)
        self._sums = Blocks(scope, self._block_dtype)
        self.values: dict[str, Any] = {"x": self._start, "g": g}
        self.block: dict[str, Any] = {}
        for field in (f for f in rule.fields(settings) if f.key in state):
            if field.at == "element":
                self.values[field.key] = jnp.asarray(state[field.key], dtype)
            elif field.at == "block":
                self.block[field.key] = jnp.asarray(state[field.key], self._block_dtype)
        self.touched = touched(g, scope) if getattr(settings, "lazy", False) else None

    def _share_of_x(self, share: Any) -> Array:
        return self.x * jnp.asarray(share, self.ops.dtype)

    def measure(self) -> tuple[Array, ...]:
        """This array's part of the rule's sums."""
        return self.rule.measure(self.values, self.settings, self._sums, self.ops)

    def decide(self, sums: Sequence[Array]) -> tuple[dict[str, Array], tuple[Array, ...]]:
        """(this leaf's own blocks after the step, the factors of the move)."""
        return self.rule.decide(sums, self.block, self._block_settings, ArrayOps(self._block_dtype))

    def move(self, factors: Sequence[Array]) -> tuple[Array, dict[str, Array], tuple[Array, ...]]:
        """(the step to subtract from the parameter, the new element fields, this array's part of the statistics)."""
        new, statistics = self.rule.move(self.values, factors, self.settings, self._sums, self.ops, self.touched)
        step = self._start - new.pop("x")
        if not is_off(self._decay_beside):
            decay = self._share_of_x(self._decay_beside)
            step = step + (decay if self.touched is None else jnp.where(self.touched, decay, 0.0))
        return step, new, statistics

    def stored(self, field: Field, value: Array) -> Array:
        """A field's new value in the format of the old one."""
        return jnp.asarray(value, self._state[field.key].dtype)
