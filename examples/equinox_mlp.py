"""GradaGrad trains an Equinox network without weight decay on its biases. Run: python examples/equinox_mlp.py"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from gradagrad.optax import gradagrad


def loss_of(model: eqx.nn.MLP, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error."""
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


def main(steps: int = 300) -> float:
    """Prints the loss before and after training, and returns the latter."""
    x = jax.random.normal(jax.random.key(0), (256, 4))
    y = jnp.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    model = eqx.nn.MLP(4, 1, 32, 2, key=jax.random.key(1))
    optimizer = gradagrad(
        optax.linear_schedule(0.02, 0.002, steps),
        weight_decay=1e-2,
        decoupled_weight_decay=True,
        mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params),
    )
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model: eqx.nn.MLP, state: Any) -> tuple[eqx.nn.MLP, Any]:
        grads = eqx.filter_grad(loss_of)(model, x, y)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    print(f"before  {float(loss_of(model, x, y)):.4f}")
    for _ in range(steps):
        model, state = step(model, state)
    loss = float(loss_of(model, x, y))
    print(f"after   {loss:.4f}")
    return loss


if __name__ == "__main__":
    main()
