"""torch and JAX reject the same arguments with the same messages, except for the name of lr."""

import inspect

import jax
import jax.numpy as jnp
import pytest
import torch
from test_arguments import BAD_AUTO, BAD_TYPES, BAD_VALUES

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.optax import auto_gradagrad, gradagrad

MORE = [
    {"eps": 10**400},
    {"lazy": "yes"},
    {"maximize": None},
    {"projection": abs, "weight_decay": 0.1, "decoupled_weight_decay": True},
]
MORE_AUTO = [{"gamma0": 1j}, {"weight_decay": -1.0}]
DIFFERENT = {"lr", "projection"}  # by name or by remedy; a cap below lr names it


def taken(of_jax, table):
    """Those of the torch class's refused arguments that JAX takes too."""
    names = {*inspect.signature(of_jax).parameters} - DIFFERENT
    return [options for options, *_ in table if names >= options.keys() and options != {"gamma_max": 0.5}]


HALVES = [(o, GradaGrad, gradagrad) for o in taken(gradagrad, [*BAD_VALUES, *BAD_TYPES]) + MORE]
HALVES += [(o, AutoGradaGrad, auto_gradagrad) for o in taken(auto_gradagrad, BAD_AUTO) + MORE_AUTO]


@pytest.mark.parametrize(("options", "of_torch", "of_jax"), HALVES, ids=lambda a: getattr(a, "__name__", str(a)))
def test_both_halves_say_the_same(options, of_torch, of_jax):
    with pytest.raises((TypeError, ValueError)) as expected:
        of_torch([torch.nn.Parameter(torch.ones(2))], **options)
    with pytest.raises(type(expected.value)) as found:
        of_jax(**options)
    assert str(found.value) == str(expected.value)


OWN = [
    ({"learning_rate": -1.0}, ValueError, r"learning_rate must be a finite number >= 0 \(or a schedule\), got -1\.0\."),
    ({"learning_rate": jnp.array(-1.0)}, ValueError, "learning_rate must be"),
    ({"learning_rate": jnp.ones(2)}, ValueError, r"learning_rate must be .* Pass a 0-d array\."),
    ({"learning_rate": jnp.array(1j)}, TypeError, "learning_rate must be .* hyperparam_dtype"),
    ({"learning_rate": jnp.array(True)}, TypeError, "learning_rate must be"),
    ({"gamma_max": 0.5}, ValueError, r"gamma_max must be at least learning_rate = 1\.0, got 0\.5"),
    ({"projection": 3}, TypeError, r"projection must be None or a callable .* jnp\.clip"),
]


@pytest.mark.parametrize(("options", "error", "message"), OWN, ids=[str(o) for o, *_ in OWN])
def test_what_only_jax_takes(options, error, message):
    with pytest.raises(error, match=message):
        gradagrad(**options)


def test_a_traced_number_is_believed():
    jax.jit(lambda lr, beta: gradagrad(lr, momentum=beta).init(jnp.ones(2)))(0.1, 0.5)
