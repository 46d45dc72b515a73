"""Passes of the CPU kernel's loops over whole arrays, called by XLA (``passes.cpp``), where they can be used.

XLA:CPU makes a loop for each result of a step, and copies of the state that several of them read. A pass is one loop
that updates state in place. It has no derivative and no batched form; under `jax.grad` and `jax.vmap` the same rule
runs as ordinary operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gradagrad.codegen.cpp import STREAMS
from gradagrad.codegen.variants import VARIANTS, kernel_settings, phases_of, variant_of
from gradagrad.rules.rule import is_off
from gradagrad.rules.scope import block_shape

if TYPE_CHECKING:
    from gradagrad.optax.leaf import Leaf

Array = Any
LARGE = 1 << 15
"""Elements from which on memory, and not the number of operations, decides how long a step takes on a CPU."""
NARROW = 64
"""Elements of a row below which XLA handles rows better."""


@cache
def missing() -> str | None:
    """Why there are no compiled passes; None if there are: then they are known to JAX."""
    found = sorted(path for path in Path(__file__).parents[1].glob("_xla*") if path.suffix in (".so", ".dylib"))
    if not found:
        return "gradagrad was built without JAX or without a compiler: pip install --no-build-isolation builds them."
    try:
        library = ctypes.CDLL(str(found[-1]))
        for precision in ("float32", "float64"):
            handler = jax.ffi.pycapsule(library[f"gradagrad_pass_{precision}"])
            jax.ffi.register_ffi_target(f"gradagrad_pass_{precision}", handler, platform="cpu")
    except Exception as error:  # of the loader's and of XLA's own kinds, when it was built for another JAX
        return f"{found[-1].name} does not fit jax {jax.__version__} ({error})."
    return None


def fits(leaf: Leaf, fused: bool | None) -> bool:
    """Whether passes can step this array; for ``fused=None``, also whether they should.

    With several devices XLA may have spread an array over them, which a pass does not know of; with a mesh, as inside
    `jax.shard_map`, types of arrays say so, and a pass loses that.
    """
    shape, size, settings = jnp.shape(leaf.gradient), jnp.size(leaf.gradient), leaf.settings
    if fused is False or jax.default_backend() != "cpu" or missing() or not jax.sharding.get_abstract_mesh().empty:
        return False
    if fused is None and (size < LARGE or jax.device_count() > 1):
        return False
    formats = {jnp.asarray(a).dtype for a in (leaf.gradient, *leaf.element_state.values())}
    if formats != {leaf.dtype} or size == 0:
        return False
    if variant_of(settings) is None or getattr(settings, "project", None) is not None:
        return False  # not compiled, or not known to the loops
    if getattr(settings, "lazy", False) and leaf.scope != "element":
        return False  # rows would have to be looked through
    return leaf.scope != "row" or (len(shape) > 1 and size >= NARROW * shape[0])


def run(phase: str, leaf: Leaf, factors: Sequence[Array] = ()) -> tuple[dict[str, Array], tuple[Array, ...]]:
    """(the fields after a "step" or "move", the sums or statistics of a "measure" or "move")."""
    traced = {key: value for key, value in leaf.settings._asdict().items() if isinstance(value, jax.Array)}
    needs_x = getattr(leaf.settings, "averaging", False) or not is_off(leaf.settings.weight_decay)
    plain = replace(leaf, fused=False, maximize=False, coupled_decay=0.0, decay_beside=0.0)

    def given(g: Array, x: Array | None, state: Any, traced: Any) -> Leaf:
        return replace(plain, gradient=g, parameter=x, state=state, settings=leaf.settings._replace(**traced))

    def compiled(g: Array, x: Array | None, state: Any, factors: Any, traced: Any) -> Any:
        return _call(phase, given(g, x, state, traced), factors)

    def ordinary(g: Array, x: Array | None, state: Any, factors: Any, traced: Any) -> Any:
        same = given(g, x, state, traced)
        if phase == "measure":
            return {}, same.measure()
        block, factors = same.decide(same.measure()) if phase == "step" else ({}, factors)
        _, new, statistics = same.move(factors)
        return {**new, **block}, statistics

    call = _with_substitute(compiled, ordinary)
    factors = tuple(jnp.asarray(a, leaf.dtype) for a in factors)
    return call(leaf.values["g"], leaf.x if needs_x else None, dict(leaf.state), factors, traced)


def _with_substitute(function: Callable[..., Any], substitute: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, but for derivatives and for many at once ``substitute``, which does the same."""
    batched = jax.custom_batching.custom_vmap(function)

    def many(axis_size: int, in_batched: list[Any], *arguments: Any) -> Any:
        axes = [0 if is_batched else None for is_batched in jax.tree.leaves(in_batched)]
        axes = jax.tree.unflatten(jax.tree.structure(in_batched), axes)
        results = jax.vmap(substitute, axes, axis_size=axis_size)(*arguments)
        leaves, tree = jax.tree.flatten(results)
        return results, tree.unflatten([True] * len(leaves))

    def derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        return jax.jvp(substitute, primals, tangents)

    batched.def_vmap(many)
    with_derivative = jax.custom_jvp(batched)
    with_derivative.defjvp(derivative)
    return with_derivative


def _call(phase: str, leaf: Leaf, factors: Sequence[Array]) -> tuple[dict[str, Array], tuple[Array, ...]]:
    settings, dtype = leaf.settings, leaf.dtype
    variant = variant_of(settings)
    assert variant is not None  # or it would not fit
    arrays = {key: value for key, value in settings._asdict().items() if isinstance(value, jax.Array)}
    order = VARIANTS[variant].order
    traced = [key for key in order if key in arrays]
    streams = {"g": 1, **({} if leaf.x is None else {"x": 0})}
    for kind in ("element", "block") if phase == "step" else ("element",):
        keys = [f.key for f in leaf.rule.fields(settings) if f.at == kind]
        streams |= {key: STREAMS[kind] + i for i, key in enumerate(keys)}
    values: dict[str, Any] = {**leaf.state, "g": leaf.gradient, "x": leaf.x}
    blocks = leaf.gradient.shape[0] if leaf.scope == "row" else 1
    nothing = jnp.zeros(1, dtype)
    operands = [
        jnp.stack([jnp.asarray(arrays[key], dtype) for key in traced]) if traced else nothing,
        jnp.stack([jnp.broadcast_to(jnp.ravel(a), blocks) for a in factors]) if factors else nothing,
        *(values[key] for key in streams),
    ]
    results = {} if phase == "measure" else {key: i + 2 for i, key in enumerate(streams) if key not in ("g", "x")}
    shapes = [jax.ShapeDtypeStruct(values[key].shape, dtype) for key in results]
    counts = phases_of(variant)
    if totals := {"measure": counts.sums, "move": counts.statistics}.get(phase, 0):
        shapes.append(jax.ShapeDtypeStruct((totals, blocks), leaf.block_dtype))
    call = jax.ffi.ffi_call(
        f"gradagrad_pass_{dtype}", shapes, input_output_aliases={i: place for place, i in enumerate(results.values())}
    )
    found = call(
        *operands,
        variant=np.int64(variant),
        phase=phase,
        blocks=np.int64(blocks),
        settings=np.array(kernel_settings(settings._replace(**dict.fromkeys(arrays, 0.0)))),
        traced=np.array([order.index(key) for key in traced], np.int64),
        streams=np.array(list(streams.values()), np.int64),
        results=np.array(list(results.values()), np.int64),
    )
    new = dict(zip(results, found, strict=False))
    if not totals:
        return new, ()
    shape = block_shape(leaf.gradient.shape, leaf.scope)
    return new, tuple(jnp.reshape(total, shape) for total in found[-1])
