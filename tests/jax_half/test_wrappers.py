"""The transformations inside Optax's own wrappers."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params, gradagrad

from .citizens import OPTIMIZERS, elementwise, few, gradients, parameters, same, train


@few
def test_inject_hyperparams(make):
    """Every float becomes traced, and nothing changes; a schedule changes what it names."""
    plain = {"momentum": gradagrad, "group": gradagrad, "auto": auto_gradagrad}
    name = next(k for k, v in OPTIMIZERS.items() if v is make)
    options = {"momentum": {"momentum": 0.9, "rho": 10.0}, "group": {"granularity": "group"}, "auto": {"gamma0": 1e-2}}
    rate = 1.0 if name == "auto" else 0.3
    injected = optax.inject_hyperparams(plain[name])(rate, **options[name])
    expected = train(plain[name](rate, **options[name]), parameters(), 5)[0]
    same(train(injected, parameters(), 5)[0], expected, rtol=1e-5, atol=1e-6)
    scheduled = optax.inject_hyperparams(plain[name])(optax.constant_schedule(0.0), **options[name])
    same(train(scheduled, parameters(), 5)[0], parameters(), rtol=0, atol=0)
    lazy = optax.inject_hyperparams(gradagrad)(0.3, lazy=True)
    same(train(lazy, parameters(), 5)[0], train(gradagrad(0.3, lazy=True), parameters(), 5)[0], rtol=1e-5)
    assert {*inspect.signature(plain[name]).parameters} >= {"learning_rate", "mask"}


@few
def test_wrappers(make):
    """chain, masked, partition, MultiSteps, apply_if_finite, named_chain, conditionally_transform."""
    params = parameters()
    alone = train(make(), params, 4)[0]
    same(train(optax.chain(optax.clip_by_global_norm(1e9), make()), params, 4)[0], alone, rtol=1e-5, atol=1e-6)
    same(train(optax.apply_if_finite(make(), 3), params, 4)[0], alone, rtol=1e-5, atol=1e-6)
    every_second = optax.MultiSteps(make(), 2)
    assert not jnp.allclose(train(every_second, params, 4)[0]["scale"], params["scale"])
    same(train(every_second, params, 1)[0], params, rtol=0, atol=0)

    def twice(grads, state):  # the mean of two equal gradients is either of them
        _, state = every_second.update(grads, state, params)
        return every_second.update(grads, state, params)[0]

    once = jax.jit(make().update)(gradients(params), make().init(params), params)[0]
    same(jax.jit(twice)(gradients(params), every_second.init(params)), once, rtol=1e-5, atol=1e-6)
    only_kernel = {"layer": {"kernel": True, "bias": False}, "scale": False}
    masked = train(optax.masked(make(), only_kernel), params, 4)[0]
    assert not jnp.allclose(masked["layer"]["kernel"], params["layer"]["kernel"])
    labels = {"layer": "ours", "scale": "theirs"}
    parts = optax.partition({"ours": make(), "theirs": optax.sgd(0.0)}, labels)
    after, _ = train(parts, params, 4)
    assert float(after["scale"]) == float(params["scale"])
    assert not jnp.allclose(after["layer"]["bias"], params["layer"]["bias"])


@few
def test_tree_map_params_finds_what_is_shaped_as_parameters(make):
    optimizer, params = make(), parameters()
    state = optimizer.init(params)
    marked = optax.tree_map_params(optimizer, lambda a: a + 7.0, state)
    for old, new in zip(jax.tree.leaves(elementwise(state)), jax.tree.leaves(elementwise(marked)), strict=True):
        np.testing.assert_array_equal(new, old + 7.0)
    assert int(marked.count) == 0


def test_the_average_is_found_inside_wrappers():
    params = parameters()
    plain = auto_gradagrad()
    end, state = train(plain, params, 20)
    expected = auto_gradagrad_eval_params(state, end)
    assert float(jnp.abs(expected["scale"] - end["scale"])) > 1e-6
    chained = optax.chain(optax.identity(), optax.apply_if_finite(plain, 2))
    end, state = train(chained, params, 20)
    same(auto_gradagrad_eval_params(state, end), expected, rtol=1e-5, atol=1e-6)
    parts = optax.partition({"ours": plain, "theirs": optax.sgd(0.1)}, {"layer": "ours", "scale": "theirs"})
    end, state = train(parts, params, 20)
    averaged = auto_gradagrad_eval_params(state, end)
    assert float(averaged["scale"]) == float(end["scale"])
    assert not jnp.allclose(averaged["layer"]["kernel"], end["layer"]["kernel"], atol=1e-7)
    with pytest.raises(ValueError, match="state must be one of auto_gradagrad"):
        auto_gradagrad_eval_params(gradagrad().init(params), params)
