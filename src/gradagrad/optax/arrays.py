"""What a rule needs from JAX: its `Ops`, precisions, real pairs for complex numbers, and sums over blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gradagrad.rules.scope import SINGLE, block_shape

Array = Any


class ArrayOps:
    """A rule's `Ops` for arrays of one precision."""

    sqrt = staticmethod(jnp.sqrt)
    exp = staticmethod(jnp.exp)
    log = staticmethod(jnp.log)
    maximum = staticmethod(jnp.maximum)
    minimum = staticmethod(jnp.minimum)
    less = staticmethod(jnp.less)

    def __init__(self, dtype: Any) -> None:
        limits = jnp.finfo(dtype)
        self.dtype = dtype
        self.tiny = float(limits.tiny)
        self.largest = float(limits.max)

    def where(self, condition: Array, a: Array, b: Array) -> Array:
        return jnp.where(condition, a, b)

    def indicator(self, a: Array) -> Array:
        return (a != 0).astype(self.dtype)

    def narrow(self, a: Array) -> Array:
        if isinstance(a, int | float) or a.dtype == self.dtype:
            return a
        return jnp.minimum(a, self.largest).astype(self.dtype)


def in_precision(settings: Any, dtype: Any) -> Any:
    """A rule's settings with every array among them in one precision."""
    return type(settings)(*(a.astype(dtype) if isinstance(a, jax.Array) else a for a in settings))


def computing_dtype(dtype: Any) -> Any:
    """The real precision a parameter is updated in: float64 for double precision, else float32."""
    return jnp.dtype(jnp.float64 if dtype in (jnp.float64, jnp.complex128) else jnp.float32)


def wide_dtype() -> Any:
    """The precision of shared numbers: float64 if JAX allows it (``jax_enable_x64``)."""
    return jnp.dtype(jnp.float64 if jax.config.read("jax_enable_x64") else jnp.float32)


def as_real(a: Array, dtype: Any) -> Array:
    """The array in a real precision; complex numbers as pairs along a new last dimension."""
    a = jnp.asarray(a)
    return (jnp.stack([a.real, a.imag], axis=-1) if jnp.iscomplexobj(a) else a).astype(dtype)


def like(a: Array, model: Array) -> Array:
    """Undoes `as_real`: the result has the precision of ``model``, and is complex if ``model`` is."""
    dtype = jnp.asarray(model).dtype
    return (jax.lax.complex(a[..., 0], a[..., 1]) if jnp.issubdtype(dtype, jnp.complexfloating) else a).astype(dtype)


def filled(parameter: Array, value: Any, dtype: Any, scope: str) -> Array:
    """A state array of one value; elementwise ones are sharded as the parameter is."""
    parameter = jnp.asarray(parameter)
    is_complex = jnp.iscomplexobj(parameter)
    if scope == "element" and not is_complex:
        return jnp.full_like(parameter, value, dtype=dtype)
    return jnp.full(block_shape((*parameter.shape, 2) if is_complex else parameter.shape, scope), value, dtype)


class Blocks:
    """A rule's `Reduction`: sums over each block of one array. The caller adds up what arrays share."""

    def __init__(self, scope: str, dtype: Any) -> None:
        self._scope = scope
        self._dtype = dtype
        self._largest = float(jnp.finfo(dtype).max)

    def dot(self, a: Array, b: Array) -> Array:
        if self._scope in SINGLE and a.dtype == self._dtype:
            # Without an array of products. Their sum may be infinite, as the rule allows.
            axes = tuple(range(a.ndim))
            return jax.lax.dot_general(a, b, ((axes, axes), ((), ())), precision=jax.lax.Precision.HIGHEST)
        product = a.astype(self._dtype) * b.astype(self._dtype)
        return self._sum(product if a is b else jnp.clip(product, -self._largest, self._largest))

    def total(self, a: Array) -> Array:
        return self._sum(jnp.where(jnp.isfinite(a), a, 0.0).astype(self._dtype))

    def _sum(self, a: Array) -> Array:
        if self._scope == "element" or (self._scope == "row" and a.ndim < 2):
            return a
        return a.sum(axis=tuple(range(1, a.ndim)), keepdims=True) if self._scope == "row" else a.sum()


def touched(g: Array, scope: str) -> Array:
    """Which entries (`element`) or rows (all others) have a non-zero gradient, broadcastable to it."""
    nonzero = g != 0
    return nonzero if scope == "element" or g.ndim < 2 else nonzero.any(axis=tuple(range(1, g.ndim)), keepdims=True)


def mapped_axes(a: Array) -> frozenset[str]:
    """The axes of a `jax.shard_map` over which this array is only a part; versions of JAX name them differently."""
    kind: Any = jax.typeof(a)
    return kind.vma if hasattr(kind, "vma") else kind.mat.varying


def block_dtype(computing: Any, scope: str) -> Any:
    """The precision of a block's numbers, for a parameter computed in ``computing``."""
    return wide_dtype() if scope in SINGLE else computing
