"""The optimizers that each Optax test runs through, and the small problem that they solve."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gradagrad.optax import auto_gradagrad, gradagrad

OPTIMIZERS: dict[str, Any] = {
    "element": lambda **more: gradagrad(0.3, **more),
    "momentum": lambda **more: gradagrad(0.3, momentum=0.9, rho=10.0, **more),
    "row": lambda **more: gradagrad(0.3, granularity="row", **more),
    "tensor": lambda **more: gradagrad(0.3, granularity="tensor", **more),
    "group": lambda **more: gradagrad(0.3, granularity="group", **more),
    "decay": lambda **more: gradagrad(0.3, weight_decay=1e-3, decoupled_weight_decay=True, **more),
    "options": lambda **more: gradagrad(0.3, grad_bound=5.0, gamma_max=2.0, growth_limit=1.5, lazy=True, **more),
    "auto": lambda **more: auto_gradagrad(gamma0=1e-2, **more),
    "auto_decay": lambda **more: auto_gradagrad(gamma0=1e-2, guard=False, weight_decay=1e-3, **more),
    "auto_coupled": lambda **more: auto_gradagrad(gamma0=1e-2, decoupled_weight_decay=False, weight_decay=1e-3, **more),
}
every = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
FEW = {name: OPTIMIZERS[name] for name in ("momentum", "group", "auto")}
few = pytest.mark.parametrize("make", FEW.values(), ids=FEW)


def parameters(dtype=jnp.float32):
    generator = np.random.default_rng(0)
    return {
        "layer": {"kernel": jnp.asarray(generator.standard_normal((3, 4)), dtype), "bias": jnp.zeros(4, dtype)},
        "scale": jnp.asarray(1.5, dtype),
    }


def elementwise(state):
    """A tree of the state that is shaped as the parameters."""
    return state.offset if hasattr(state, "offset") else state.momentum


def loss(params):
    distances = (params["layer"]["kernel"] - 1.0, params["layer"]["bias"] + 2.0, params["scale"])
    return sum(jnp.sum(jnp.abs(distance) ** 2) for distance in distances)


def gradients(params):
    return jax.tree.map(jnp.conj, jax.grad(lambda p: loss(p).real)(params))


def step_of(optimizer, gradients=gradients):
    def step(params, state):
        updates, state = optimizer.update(gradients(params), state, params)
        return optax.apply_updates(params, updates), state

    return step


def train(optimizer, params, steps, gradients=gradients):
    """A compiled loop of steps."""
    step = step_of(optimizer, gradients)
    loop = jax.jit(lambda carry: jax.lax.scan(lambda carry, _: (step(*carry), None), carry, None, length=steps)[0])
    return loop((params, optimizer.init(params)))


def same(a, b, **tolerance):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x, np.complex128), np.asarray(y, np.complex128), **tolerance)
