"""Checks of arguments that only JAX has: schedules, and arrays as numbers (injected ones are traced)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gradagrad.checks.arguments import Number, Table, check_number, check_projection, error_text
from gradagrad.checks.arguments import checked as checked_anywhere

Numeric = float | Any
"""A float or an array. `optax.inject_hyperparams` passes traced arrays."""
_INJECTED = "With optax.inject_hyperparams and complex parameters pass hyperparam_dtype=jnp.float32."
_PROJECTION = "For a box: lambda point, metric: jnp.clip(point, -1.0, 1.0)."


def checked(table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """The checked arguments: plain numbers as floats, arrays and schedules unchanged."""
    given = {"lr" if name == "learning_rate" else name: value for name, value in given.items()}
    # Injected settings are traced, so their values are unknown. Such a decay is accepted with lazy and projection.
    traced = {"weight_decay": 0.0} if isinstance(given.get("weight_decay"), Tracer) else {}
    result = checked_anywhere(table, {**given, **traced}, number=_check_number, lr_name="learning_rate")
    result |= {name: jnp.asarray(given[name]) for name in traced}
    check_projection(given.get("projection"), _PROJECTION)
    return result


def _check_number(name: str, value: Any, wanted: Number) -> Any:
    if name == "learning_rate":
        wanted = replace(wanted, rule=f"{wanted.rule} (or a schedule)")
        if callable(value):
            return value
    if not isinstance(value, jax.Array | np.ndarray):
        return check_number(name, value, wanted)
    if not (jnp.issubdtype(value.dtype, jnp.floating) or jnp.issubdtype(value.dtype, jnp.integer)):
        raise TypeError(error_text(name, wanted.rule, value, _INJECTED if jnp.iscomplexobj(value) else wanted.remedy))
    if value.shape != ():
        raise ValueError(error_text(name, wanted.rule, value, "Pass a 0-d array."))
    return jnp.asarray(value) if isinstance(value, Tracer) else check_number(name, float(value), wanted)
