"""AutoGradaGrad trains a Flax (linen) network through `TrainState`. Run: python examples/flax_linen.py"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.training.train_state import TrainState

from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params


class Network(nn.Module):
    """Two layers."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """One number for each row."""
        return nn.Dense(1)(nn.relu(nn.Dense(32)(x)))[:, 0]


@jax.jit
def train_step(state: TrainState, x: jax.Array, y: jax.Array) -> TrainState:
    """One step; linen's parameters are plain trees, which is all that Optax asks for."""
    grads = jax.grad(lambda params: jnp.mean((state.apply_fn(params, x) - y) ** 2))(state.params)
    return state.apply_gradients(grads=grads)


def main(steps: int = 300) -> float:
    """Prints the losses at the last point and at the average, and returns the latter."""
    x = jax.random.normal(jax.random.key(0), (256, 4))
    y = jnp.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    model = Network()
    state = TrainState.create(
        apply_fn=model.apply, params=model.init(jax.random.key(1), x), tx=auto_gradagrad(averaging="polynomial")
    )
    for _ in range(steps):
        state = train_step(state, x, y)
    average = auto_gradagrad_eval_params(state.opt_state, state.params)
    last, averaged = (float(jnp.mean((state.apply_fn(p, x) - y) ** 2)) for p in (state.params, average))
    print(f"last point  {last:.4f}\naverage     {averaged:.4f}")
    return averaged


if __name__ == "__main__":
    main()
