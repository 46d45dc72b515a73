"""The examples of the page and in their files train."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

from gradagrad.optax import auto_gradagrad, gradagrad

sys.path.insert(0, str(Path(__file__).parents[2]))


def test_flax_nnx():
    from examples import flax_nnx

    assert flax_nnx.train(gradagrad(0.01), 60)[2] < 0.4
    model, optimizer, loss = flax_nnx.train(auto_gradagrad(), 60)
    assert loss < 0.4
    assert flax_nnx.averaged(model, optimizer)(flax_nnx.jnp.ones((2, 4))).shape == (2,)


def test_equinox_as_the_page_shows_it():
    from examples.flax_nnx import data

    x, y = data()
    found = {"jax": jax, "model": eqx.nn.MLP(4, 1, 32, 2, key=jax.random.key(1))}
    found["loss_of"] = lambda model, x, y: jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)
    page = (Path(__file__).parents[2] / "docs/jax.md").read_text("utf-8")
    exec(page.partition("### Equinox")[2].split("```")[1].removeprefix("python"), found)
    model, state = found["model"], found["state"]
    for _ in range(60):
        model, state = found["step"](model, state, x, y)
    assert found["loss_of"](model, x, y) < 0.4
