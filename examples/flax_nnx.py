"""GradaGrad and AutoGradaGrad train a Flax (nnx) network. Run: python examples/flax_nnx.py"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params, gradagrad


class Network(nnx.Module):
    """Two layers."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(4, 32, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """One number for each row."""
        return self.out(nnx.relu(self.hidden(x)))[:, 0]


def data() -> tuple[jax.Array, jax.Array]:
    """A smooth function of four inputs."""
    x = jax.random.normal(jax.random.key(0), (256, 4))
    return x, jnp.sin(x[:, 0]) + x[:, 1] * x[:, 2]


def loss_of(model: Network, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error."""
    return jnp.mean((model(x) - y) ** 2)


@nnx.jit
def train_step(model: Network, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> None:
    """Takes one step. nnx updates the model in place."""
    optimizer.update(model, nnx.grad(loss_of)(model, x, y))


def train(transformation: optax.GradientTransformation, steps: int = 300) -> tuple[Network, nnx.Optimizer, float]:
    """The trained model, its optimizer, and the loss at the end."""
    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, transformation, wrt=nnx.Param)
    for _ in range(steps):
        train_step(model, optimizer, *data())
    return model, optimizer, float(loss_of(model, *data()))


def averaged(model: Network, optimizer: nnx.Optimizer) -> Network:
    """A copy of the model at the average of the iterates."""
    graph, params, others = nnx.split(model, nnx.Param, ...)
    state = nnx.as_pure(optimizer.opt_state)  # plain arrays instead of nnx variables
    return nnx.merge(graph, auto_gradagrad_eval_params(state, nnx.as_pure(params)), others)


def main() -> None:
    """Prints the losses."""
    print(f"GradaGrad      {train(gradagrad(0.01))[2]:.4f}")
    model, optimizer, loss = train(auto_gradagrad())
    print(f"AutoGradaGrad  {loss:.4f}")
    print(f"  averaged     {float(loss_of(averaged(model, optimizer), *data())):.4f}")


if __name__ == "__main__":
    main()
