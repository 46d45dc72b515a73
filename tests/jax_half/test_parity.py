"""In double precision both halves take the same steps, and so does the paper's listing."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import algorithm_1, algorithm_2, lemma_r

from gradagrad import GradaGrad
from gradagrad.optax import gradagrad, scale_by_gradagrad

from .cases import OPTIONS, for_jax, for_torch, run_jax, run_torch

pytestmark = [pytest.mark.usefixtures("double"), pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")]
STEPS = 500


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
def test_torch_and_jax_take_the_same_steps(granularity, momentum):
    common = {"granularity": granularity, "momentum": momentum}
    signs = {name: -1.0 if name == "uphill" else 1.0 for name in OPTIONS}
    optimizers = {name: gradagrad(0.3, **common, **for_jax(options)) for name, options in OPTIONS.items()}
    (_, states), found = run_jax(optimizers, STEPS, signs)
    assert all(int(state.count) == STEPS for state in states.values())
    for name, options in OPTIONS.items():
        given = {"lr": 0.3, **common, **for_torch(options)}
        for key, expected in run_torch(partial(GradaGrad, **given), STEPS, signs[name]).items():
            assert expected.size == 0 or np.abs(expected[-1] - expected[0]).max() > 1e-3, name
            np.testing.assert_allclose(found[name][key], expected, rtol=1e-12, atol=1e-12, err_msg=f"{name}, {key}")


# By name: our arguments and the listing's.
LISTING = {
    "plain": ({}, {}),
    "rho10": ({"rho": 10.0}, {"rho": 10.0}),
    "bound": ({"grad_bound": 3.0}, {"G": 3.0}),
    "cap": ({"gamma_max": 0.5}, {"D": 0.5}),
    "limit": ({"growth_limit": math.sqrt(1.2)}, {"r": 0.2}),
    "start": ({"initial_accumulator_value": 0.3}, {"alpha_0": 0.3}),
    "eps": ({"eps": 0.1}, {"eps": 0.1}),
    "box": (
        {"projection": lambda z, a: jnp.clip(z, -0.5, 0.5)},
        {"proj": lambda z, a: [min(max(v, -0.5), 0.5) for v in z]},
    ),
}


def closed_loop(size):
    """(the gradient at a step, the start, the noise)."""
    noise = np.random.default_rng(3).standard_normal((STEPS, size)) * 0.3
    return lambda k, x: [0.6 * (x[i] - 1.0) + noise[k][i] for i in range(size)], np.linspace(-1.0, 2.0, size), noise


@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
def test_the_listing(granularity):
    """Algorithm 2 has a step size for each coordinate; whoever shares one does the same with a single coordinate."""
    size = 6 if granularity == "element" else 1
    gradient, start, noise = closed_loop(size)
    common = {"granularity": granularity, "eps": 0.0, "growth_limit": math.inf}
    runs = {
        (name, momentum): (
            gradagrad(0.3, momentum=momentum, **{**common, **ours}),
            algorithm_2(gradient, list(start), STEPS, gamma_0=0.3, beta=momentum, **listing),
        )
        for name, (ours, listing) in LISTING.items()
        for momentum in (0.0, 0.9)
    }
    found = follow({key: optimizer for key, (optimizer, _) in runs.items()}, start, noise)
    for key, (_, trace) in runs.items():
        np.testing.assert_allclose(found[key], trace.x[1:], rtol=1e-12, atol=1e-12, err_msg=str(key))


def test_the_scalar_listing():
    """Algorithm 1 shares one step size among all coordinates."""
    gradient, start, noise = closed_loop(6)
    lemma = lemma_r(10.0)
    trace = algorithm_1(gradient, list(start), STEPS, gamma_0=0.3, rho=10.0, r=lambda g, last: min(lemma(g, last), 3.0))
    shared = {scope: gradagrad(0.3, rho=10.0, granularity=scope, eps=0.0) for scope in ("tensor", "group")}
    for found in follow(shared, start, noise).values():
        np.testing.assert_allclose(found, trace.x[1:], rtol=1e-12, atol=1e-12)


def follow(optimizers, start, noise):
    """Each optimizer's points, all in one compiled scan."""

    def step(carry, shift):
        new = {}
        for key, (x, state) in carry.items():
            update, state = optimizers[key].update(0.6 * (x - 1.0) + shift, state, x)
            new[key] = (x + update, state)
        return new, {key: x for key, (x, _) in new.items()}

    x = jnp.asarray(start)
    begin = {key: (x, optimizer.init(x)) for key, optimizer in optimizers.items()}
    return jax.jit(lambda begin: jax.lax.scan(step, begin, jnp.asarray(noise)))(begin)[1]


def test_the_direction_alone_is_scaled_by_whoever_follows():
    import optax

    optimizers = {
        "whole": gradagrad(0.3, momentum=0.5),
        "chain": optax.chain(scale_by_gradagrad(momentum=0.5), optax.scale_by_learning_rate(0.3)),
    }
    _, found = run_jax(optimizers, 50, dict.fromkeys(optimizers, 1.0))
    for key, expected in found["whole"].items():
        np.testing.assert_allclose(found["chain"][key], expected, rtol=1e-14, atol=1e-14)


def test_all_means_group_here():
    optimizers = {scope: gradagrad(0.3, rho=10.0, granularity=scope) for scope in ("group", "all")}
    _, found = run_jax(optimizers, 5, dict.fromkeys(optimizers, 1.0))
    for key, expected in found["group"].items():
        np.testing.assert_array_equal(found["all"][key], expected)
