"""The examples train."""

import sys
from pathlib import Path

import pytest

from gradagrad.optax import auto_gradagrad, gradagrad

sys.path.insert(0, str(Path(__file__).parents[2]))


def test_flax_nnx():
    from examples import flax_nnx

    assert flax_nnx.train(gradagrad(0.01), 60)[2] < 0.4
    model, optimizer, loss = flax_nnx.train(auto_gradagrad(averaging="polynomial"), 60)
    assert loss < 0.4
    assert flax_nnx.averaged(model, optimizer)(flax_nnx.jnp.ones((2, 4))).shape == (2,)


@pytest.mark.parametrize("name", ["flax_linen", "equinox_mlp"])
def test_the_others(name, capsys):
    from importlib import import_module

    assert import_module(f"examples.{name}").main(60) < 0.4
    assert capsys.readouterr().out
