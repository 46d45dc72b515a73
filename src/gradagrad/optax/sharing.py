"""Sums over leaves and over devices.

Inside `jax.shard_map` every device sees its own part of a leaf, and ``axis_name`` says over which mapped axes a leaf is
split. A replicated leaf must not be added up. Under plain `jax.jit` XLA sees whole arrays and needs none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gradagrad.checks.arguments import error_text

Array = Any
Names = tuple[str, ...]


def axes_of_leaves(axis_name: Any, tree: Any) -> list[Names]:
    """For each leaf of ``tree``, the axes over which it is split.

    ``axis_name`` is a name, a tuple of names, or a tree of these (a prefix is enough). None marks replicated leaves.
    """
    if axis_name is None or _is_names(axis_name):
        return [_as_names(axis_name)] * len(jax.tree.leaves(tree))
    try:
        whole = jax.tree.map(_axes_of_part, axis_name, tree, is_leaf=lambda a: a is None or _is_names(a))
    except (TypeError, ValueError, AttributeError) as error:
        rule = "a name, a tuple of names, or a tree of these that is a prefix of the parameters' tree"
        raise ValueError(error_text("axis_name", rule, axis_name, "None in it marks replicated leaves.")) from error
    return [axes.names for axes in jax.tree.leaves(whole, is_leaf=lambda a: isinstance(a, _Axes))]


def _axes_of_part(names: Any, part: Any) -> list[_Axes]:
    return [_Axes(_as_names(names))] * len(jax.tree.leaves(part))


class _Axes:
    """Hides a tuple of names from tree functions."""

    def __init__(self, names: Names) -> None:
        self.names = names


def _is_names(a: Any) -> bool:
    return isinstance(a, str) or (isinstance(a, tuple) and all(isinstance(name, str) for name in a))


def _as_names(a: Any) -> Names:
    if not (a is None or _is_names(a)):
        raise TypeError("not a name")
    return () if a is None else (a,) if isinstance(a, str) else a


def over_devices(a: Array, names: Names) -> Array:
    """The sum over the devices that hold parts of a leaf."""
    return jax.lax.psum(a, names) if names else a


def rows_over_devices(parts: Sequence[Array], axes: Sequence[Names]) -> Array:
    """Adds each leaf's row over the devices that hold parts of the leaf, with one message for each set of axes."""
    rows = list(parts)
    for names in filter(None, dict.fromkeys(axes)):  # in one order on every host
        here = [i for i, own in enumerate(axes) if own == names]
        for i, row in zip(here, over_devices(jnp.stack([rows[i] for i in here]), names), strict=True):
            rows[i] = row
    return jnp.stack(rows)
