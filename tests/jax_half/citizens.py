"""The optimizers that each Optax test runs through, and the small problem that they solve."""

# Optax types states and updates as any tree of arrays.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false
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
    "auto": lambda **more: auto_gradagrad(gamma0=1e-2, averaging="polynomial", **more),
    "auto_decay": lambda **more: auto_gradagrad(gamma0=1e-2, guard=False, weight_decay=1e-3, **more),
    "auto_coupled": lambda **more: auto_gradagrad(gamma0=1e-2, decoupled_weight_decay=False, weight_decay=1e-3, **more),
}
every = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
few = pytest.mark.parametrize(
    "make", [OPTIMIZERS[k] for k in ("momentum", "group", "auto")], ids=["momentum", "group", "auto"]
)


def parameters(dtype=jnp.float32):
    generator = np.random.default_rng(0)
    return {
        "layer": {"kernel": jnp.asarray(generator.standard_normal((3, 4)), dtype), "bias": jnp.zeros(4, dtype)},
        "scale": jnp.asarray(1.5, dtype),
    }


def loss(params):
    x = params["layer"]["kernel"]
    return (
        jnp.sum(jnp.abs(x - 1.0) ** 2)
        + jnp.sum(jnp.abs(params["layer"]["bias"] + 2.0) ** 2)
        + jnp.abs(params["scale"]) ** 2
    )


def gradients(params):
    return jax.tree.map(jnp.conj, jax.grad(lambda p: loss(p).real)(params))


def train(optimizer, params, steps, state=None):
    """A compiled loop of steps."""
    state = optimizer.init(params) if state is None else state

    def step(carry, _):
        params, state = carry
        updates, state = optimizer.update(gradients(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=steps)[0])((params, state))


def same(a, b, **tolerance):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x, np.complex128), np.asarray(y, np.complex128), **tolerance)
