"""The examples train."""

import sys
from pathlib import Path

from gradagrad.optax import auto_gradagrad, gradagrad

sys.path.insert(0, str(Path(__file__).parents[2]))


def test_flax_nnx():
    from examples import flax_nnx

    assert flax_nnx.train(gradagrad(0.01), 60)[2] < 0.4
    model, optimizer, loss = flax_nnx.train(auto_gradagrad(), 60)
    assert loss < 0.4
    assert flax_nnx.averaged(model, optimizer)(flax_nnx.jnp.ones((2, 4))).shape == (2,)


def test_equinox_mlp(capsys):
    from examples import equinox_mlp

    assert equinox_mlp.main(60) < 0.4
    assert capsys.readouterr().out
