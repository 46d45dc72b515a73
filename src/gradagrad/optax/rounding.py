"""Stochastic rounding to bf16, with the random bits of `gradagrad.precision`: a hash of step, leaf and element."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Array = Any
_GOLDEN = 0x9E3779B9


def _scramble(a: Array) -> Array:
    """A permutation of 32-bit numbers in which every bit of the result depends on every bit of the argument."""
    a = a ^ (a >> 16)
    a = a * jnp.uint32(0x7FEB352D)
    a = a ^ (a >> 15)
    a = a * jnp.uint32(0x846CA68B)
    return a ^ (a >> 16)


def random_bits(shape: tuple[int, ...], step: Array, stream: int) -> Array:
    """32 random bits for each element."""
    key = _scramble(jnp.uint32(_GOLDEN))
    key = _scramble(key ^ step.astype(jnp.uint32))
    key = _scramble(key ^ jnp.uint32(stream))
    places, stride = jnp.zeros(shape, jnp.uint32), 1
    for dim in reversed(range(len(shape))):
        along = jax.lax.broadcasted_iota(jnp.uint32, shape, dim)
        places, stride = places + along * jnp.uint32(stride & 0xFFFFFFFF), stride * shape[dim]
    # Elements n and n + 8 of sixteen share a hash with its halves exchanged.
    hashes = _scramble(key ^ ((((places >> 4) << 3) | (places & 7)) * jnp.uint32(_GOLDEN)))
    return jnp.where((places & 8) != 0, (hashes << 16) | (hashes >> 16), hashes)


def rounded(values: Array, random16: Array) -> Array:
    """``values`` in bf16, away from zero with the probability that makes the mean exact.

    Values that bf16 represents exactly stay, infinities and NaN too. A finite value beyond the largest bf16 becomes it.
    """
    bits = jax.lax.bitcast_convert_type(values.astype(jnp.float32), jnp.uint32)
    magnitude = bits & jnp.uint32(0x7FFFFFFF)
    up = jnp.minimum((magnitude + random16) >> 16, jnp.uint32(0x7F7F)) << 16
    special = jnp.where(magnitude > 0x7F800000, jnp.uint32(0x7FC00000), magnitude)
    magnitude = jnp.where(magnitude < 0x7F800000, up, special)
    halves = ((magnitude | (bits & jnp.uint32(0x80000000))) >> 16).astype(jnp.uint16)
    return jax.lax.bitcast_convert_type(halves, jnp.bfloat16)


class Rounder(NamedTuple):
    """What the random bits of one leaf depend on, and the conversion of its numbers to the format of its state."""

    shape: tuple[int, ...]
    step: Array
    stream: int

    def bits(self, lane: int) -> Array:
        """16 random bits for each element; lanes share none. Two lanes take the halves of one number."""
        bits = random_bits(self.shape, self.step, self.stream ^ (lane >> 1) << 30)
        return bits >> 16 if lane & 1 else bits & 0xFFFF

    def stored(self, values: Array, old: Array, lane: int) -> Array:
        """Computed values in the format of the state that they replace."""
        return rounded(values, self.bits(lane)) if old.dtype == jnp.bfloat16 else jnp.asarray(values, old.dtype)
