"""Compiled passes take the steps of ordinary operations, in place, and make way where they cannot be used."""

# Optax types states and updates as any tree of arrays.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from gradagrad.optax import auto_gradagrad, fused, gradagrad

pytestmark = pytest.mark.skipif(fused.missing() is not None, reason=str(fused.missing()))

# One of each form that the loops are compiled in, and what is done to gradients before.
GRADAGRAD = {
    "plain": {},
    "momentum": {"momentum": 0.9, "maximize": True},
    "full": {"rho": 4.0, "grad_bound": 2.0, "gamma_max": 0.7, "growth_limit": 1.2, "eps": 1e-3, "weight_decay": 0.01},
    "lazy": {"lazy": True, "momentum": 0.5, "weight_decay": 0.1, "decoupled_weight_decay": True},
}
AUTO = {
    "auto": {},
    "unguarded": {"guard": False},
    "averaged": {"averaging": "polynomial", "weight_decay": 0.1},
    "coupled": {"weight_decay": 0.1, "decoupled_weight_decay": False, "gamma_max": 0.05, "eps": 0.01},
}
SHAPES = {"matrix": (3, 70), "long": (40_000,)}


def parameters(dtype):
    generator = np.random.default_rng(0)
    return {k: jnp.asarray(generator.standard_normal(shape), dtype) for k, shape in SHAPES.items()}


def stepper(optimizers):
    """Six steps of each, every gradient with noise and now and then exactly zero."""
    generator = np.random.default_rng(1)
    noise = {k: generator.standard_normal((6, *shape)) * 0.3 for k, shape in SHAPES.items()}
    hit = {k: (generator.random((6, *shape)) < 0.8) * 1.0 for k, shape in SHAPES.items()}

    def step(optimizer, carry, given):
        params, state = carry
        grads = jax.tree.map(lambda p, n, h: (0.6 * (p - 1.0) + n) * h, params, *given)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    def run(params):
        ends = {}
        for name, optimizer in optimizers.items():
            carry = (params, optimizer.init(params))
            carry, _ = jax.lax.scan(lambda c, g, o=optimizer: (step(o, c, g), None), carry, (noise, hit))
            ends[name] = carry
        return ends

    return run


def compare(found, expected, **tolerance):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["element", "row", "tensor", "group", "auto"])
def test_passes_take_the_same_steps(name):
    def make(use):
        if name == "auto":
            return {key: auto_gradagrad(0.5, gamma0=1e-2, fused=use, **options) for key, options in AUTO.items()}
        return {key: gradagrad(0.3, granularity=name, fused=use, **options) for key, options in GRADAGRAD.items()}

    params = parameters(jnp.float64)
    run = jax.jit(stepper(make(True)))
    assert "gradagrad_pass_float64" in run.lower(params).as_text()
    compare(run(params), jax.jit(stepper(make(False)))(params), rtol=1e-12, atol=1e-12)


MAKERS = {
    "element": lambda **more: gradagrad(0.3, momentum=0.9, **more),
    "group": lambda **more: gradagrad(optax.linear_schedule(0.3, 0.1, 5), granularity="group", **more),
    "auto": lambda **more: auto_gradagrad(gamma0=1e-2, averaging="polynomial", **more),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@makers
@pytest.mark.usefixtures("double")
def test_derivatives_and_batches_are_those_of_ordinary_operations(make):
    """Of two steps, for a start that is shifted: its slope, and many starts at once."""

    def end(optimizer, shift):
        params = jnp.linspace(-1.0, 2.0, 200) + shift
        state = optimizer.init(params)
        for _ in range(2):
            updates, state = optimizer.update(0.6 * (params - 1.0) ** 3, state, params)
            params = params + updates
        return jnp.sum(params**2)

    def both(use, at):
        optimizer = make(fused=use)
        slope = jax.grad(lambda a: end(optimizer, a))(at[0])
        return slope, jax.vmap(lambda a: end(optimizer, a))(at)

    at = jnp.array([0.3, 0.7])
    compare(*(jax.jit(both, static_argnums=0)(use, at) for use in (True, False)), rtol=1e-12)


@makers
def test_donated_state_is_updated_in_place(make):
    """Nothing of an array's size is kept between: neither an update nor a copy of state."""
    optimizer = make(fused=True)
    params = {k: jnp.ones((256, 256)) for k in "ab"}

    def step(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    compiled = jax.jit(step, donate_argnums=(0, 1)).lower(params, optimizer.init(params), params).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * 256 * 256 // 8


def uses_passes(optimizer, params):
    text = jax.jit(optimizer.update).lower(params, optimizer.init(params), params).as_text()
    return "gradagrad_pass" in text


def test_by_itself_it_uses_them_for_large_arrays_on_a_single_device(monkeypatch):
    large, small = jnp.ones(fused.LARGE), jnp.ones(fused.LARGE - 1)
    assert not uses_passes(gradagrad(), large)  # there are eight
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert uses_passes(gradagrad(), large)
    assert not uses_passes(gradagrad(), small)
    assert not uses_passes(gradagrad(fused=False), large)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not uses_passes(gradagrad(), large)


UNFIT = {
    "bf16 state": (lambda: gradagrad(state_dtype=jnp.bfloat16, fused=True), jnp.ones((4, 100))),
    "bf16 gradients": (lambda: gradagrad(fused=True), jnp.ones((4, 100), jnp.bfloat16)),
    "complex": (lambda: auto_gradagrad(fused=True), jnp.ones((4, 100), jnp.complex64)),
    "projection": (lambda: gradagrad(projection=lambda x, a: x, fused=True), jnp.ones((4, 100))),
    "lazy rows": (lambda: gradagrad(granularity="row", lazy=True, fused=True), jnp.ones((4, 100))),
    "narrow rows": (lambda: gradagrad(granularity="row", fused=True), jnp.ones((100, 4))),
    "rows of one": (lambda: gradagrad(granularity="row", fused=True), jnp.ones(400)),
    "nothing": (lambda: gradagrad(fused=True), jnp.ones((0, 100))),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_passes_do_not_know_takes_ordinary_operations(name):
    make, params = UNFIT[name]
    optimizer = make()
    assert not uses_passes(optimizer, params)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert jnp.all(jnp.isfinite(updates))


def test_shard_map_and_meshes_take_ordinary_operations():
    mesh = jax.make_mesh((8,), ("devices",), axis_types=(jax.sharding.AxisType.Explicit,))
    optimizer, params = gradagrad(fused=True), jnp.linspace(-1.0, 2.0, 800)
    assert uses_passes(optimizer, params)
    with jax.set_mesh(mesh):
        params = jax.device_put(params, P("devices"))
        assert not uses_passes(optimizer, params)
        step = jax.shard_map(
            lambda p: optimizer.update(p, optimizer.init(p))[0], in_specs=P("devices"), out_specs=P("devices")
        )
        assert "gradagrad_pass" not in jax.jit(step).lower(params).as_text()


def test_without_the_library_it_says_so_and_does_without(monkeypatch):
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    fused.missing.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"fused must be None or False where .* got True\. .*--no-build-isolation"):
            gradagrad(fused=True)
        assert not uses_passes(gradagrad(), jnp.ones(fused.LARGE))
    finally:
        fused.missing.cache_clear()


def test_fused_is_checked():
    with pytest.raises(TypeError, match="fused must be None, True or False, got 1"):
        gradagrad(fused=1)
