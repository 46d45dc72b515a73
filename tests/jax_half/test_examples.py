"""The examples of the page and in their files train."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from gradagrad.optax import auto_gradagrad, gradagrad

sys.path.insert(0, str(Path(__file__).parents[2]))


def test_flax_nnx():
    from examples import flax_nnx

    assert flax_nnx.train(gradagrad(0.01), 60)[2] < 0.4
    model, optimizer, loss = flax_nnx.train(auto_gradagrad(), 60)
    assert loss < 0.4
    assert flax_nnx.averaged(model, optimizer)(flax_nnx.jnp.ones((2, 4))).shape == (2,)


def test_flax_as_the_page_shows_it():
    flax_nnx = pytest.importorskip("examples.flax_nnx", reason="flax is not installed", exc_type=ImportError)
    page = (Path(__file__).parents[2] / "docs/jax.md").read_text("utf-8")
    training, averaging = page.partition("### Flax")[2].split("```python\n")[1:3]
    found = {"model": flax_nnx.Network(flax_nnx.nnx.Rngs(0)), "loss_of": flax_nnx.loss_of}
    exec(training.partition("```")[0], found)
    for _ in range(60):
        found["train_step"](found["model"], found["optimizer"], *flax_nnx.data())
    exec(averaging.partition("```")[0], found)
    assert flax_nnx.loss_of(found["averaged"], *flax_nnx.data()) < 0.4
    assert not jnp.array_equal(found["averaged"].out.kernel[...], found["model"].out.kernel[...])


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
