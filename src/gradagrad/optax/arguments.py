"""Checks of what only the JAX half takes: schedules, arrays as numbers (injected ones are traced), JAX's dtypes."""

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

_INJECTED = "With optax.inject_hyperparams and complex parameters pass hyperparam_dtype=jnp.float32."
_PROJECTION = "For a box: lambda point, metric: jnp.clip(point, -1.0, 1.0)."


def checked(table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, all obeying their rules: plain numbers as floats, arrays and schedules as they are."""
    result = checked_anywhere(table, given, number=_check_number, lr_name="learning_rate")
    check_projection(given.get("projection"), _PROJECTION)
    result["state_dtype"] = _checked_dtype(given["state_dtype"])
    if given.get("lazy") and given["axis_name"] is not None and given["granularity"] not in ("element", "row"):
        remedy = "A row with no gradient on one device may have one on another."
        rule = "False with axis_name, except for granularity 'element' and 'row'"
        raise ValueError(error_text("lazy", rule, True, remedy))
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
    if not isinstance(value, Tracer):  # of which nothing is known yet
        check_number(name, float(value), wanted)
    return jnp.asarray(value)


def _checked_dtype(value: Any) -> Any:
    try:
        dtype = jnp.dtype(value)
    except TypeError:
        dtype = None
    if value is None or dtype not in (jnp.float32, jnp.bfloat16):
        remedy = "float32 means the precision of the computation: float64 for float64 parameters."
        raise ValueError(error_text("state_dtype", "jnp.float32 or jnp.bfloat16", value, remedy))
    return dtype
