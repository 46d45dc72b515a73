"""AutoGradaGrad beside the torch class, and in float32 over many steps."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradagrad import AutoGradaGrad
from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params

from .cases import run_jax, run_torch
from .citizens import parameters, same, step_of, train

OPTIONS = {
    "plain": {},
    "gamma0": {"gamma0": 1e-2, "momentum": 0.3},
    "coupled": {"weight_decay": 0.1, "decoupled_weight_decay": False},
    "decoupled": {"weight_decay": 0.1},
    "unguarded": {"guard": False},
    "cap": {"gamma_max": 0.05, "eps": 0.01},
    "uphill": {"maximize": True},
}


@pytest.mark.usefixtures("double")
def test_torch_and_jax_take_the_same_steps():
    """In a closed loop: each step's gradient depends on all steps before it."""
    signs = {name: -1.0 if name == "uphill" else 1.0 for name in OPTIONS}
    optimizers = {name: auto_gradagrad(0.5, **options) for name, options in OPTIONS.items()}
    (params, states), found = run_jax(optimizers, 500, signs)
    for name, options in OPTIONS.items():
        averages = auto_gradagrad_eval_params(states[name], params[name])
        found[name] |= {f"{key}/average": average for key, average in averages.items()}
        gammas = {float(gamma) for key, gamma in states[name].gamma.items() if key != "nothing"}
        assert len(gammas) == 3  # Each array has found its own.
        assert np.abs(averages["vector"] - params[name]["vector"]).max() > 1e-3
        for key, expected in run_torch(partial(AutoGradaGrad, lr=0.5, **options), 500, signs[name]).items():
            np.testing.assert_allclose(found[name][key], expected, rtol=1e-12, atol=1e-12, err_msg=f"{name}, {key}")


@pytest.mark.usefixtures("double")
def test_only_ratios_of_the_learning_rate_matter():
    """Over time, that is: each counts relative to the largest so far, so that a warm-up does nothing."""
    params = parameters(jnp.float64)
    expected, _ = train(auto_gradagrad(), params, 50)
    for rate in (0.25, lambda count: 0.25, lambda count: 0.01 * (1.0 + count)):
        same(train(auto_gradagrad(rate), params, 50)[0], expected, rtol=1e-12, atol=1e-12)
    falling = [train(auto_gradagrad(lambda count, s=s: s / (1.0 + count)), params, 50)[0] for s in (1.0, 8.0)]
    same(*falling, rtol=1e-12, atol=1e-12)
    assert np.abs(falling[0]["layer"]["kernel"] - expected["layer"]["kernel"]).max() > 1e-3


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}], ids=str)
def test_a_step_in_which_every_gradient_is_zero_changes_nothing(options):
    params, optimizer = parameters(), auto_gradagrad(gamma0=1e-2, **options)
    still = jax.jit(step_of(optimizer, partial(jax.tree.map, jnp.zeros_like)))
    for here in ((params, optimizer.init(params)), train(optimizer, params, 5)):
        same(still(*here), here, rtol=0, atol=0)


def noisy_least_squares(double, clock=0.0, gamma0=1e-4, lr=1.0, elements=4096):
    """The loss at the average, and the numbers of the state after 30 and after 600 steps from ``clock`` on."""
    with jax.enable_x64(double):
        generator, dtype = np.random.default_rng(0), jnp.float64 if double else jnp.float32
        target = jnp.asarray(generator.standard_normal(elements), dtype)
        table = jnp.asarray(generator.standard_normal(2 * elements) * 0.1, dtype)
        scale = jnp.asarray(np.geomspace(1e-2, 1.0, elements), dtype)
        optimizer = auto_gradagrad(lr, gamma0=gamma0)

        def step(carry, k):
            params, state = carry
            offset = ((k.astype(jnp.uint32) * jnp.uint32(2654435761)) % jnp.uint32(elements)).astype(jnp.int32)
            noise = jax.lax.dynamic_slice(table, (offset,), (elements,))
            slope = scale * (jnp.concatenate(params) - target) + noise
            updates, state = optimizer.update((slope[:1000], slope[1000:]), state, params)
            params = jax.tree.map(jnp.add, params, updates)
            mean = jnp.concatenate(auto_gradagrad_eval_params(state, params))
            numbers = [a for a in jax.tree.leaves(state) if a.ndim == 0]
            return (params, state), [jnp.sum(scale * (mean - target) ** 2), *numbers]

        params = (jnp.zeros(1000, dtype), jnp.zeros(elements - 1000, dtype))
        state = optimizer.init(params)
        state = state._replace(clock=state.clock + clock)
        newest = optimizer.update((params[0] + 1.0, params[1]), state, params)[1].weight_total
        state = state._replace(weight_total=newest * clock / 7.0)
        found = jax.jit(lambda c: jax.lax.scan(step, c, jnp.arange(600))[1])((params, state))
        return [np.asarray(values)[[29, 599]] for values in found]


@pytest.mark.parametrize(
    "start", [{}, {"clock": 1e5}, {"clock": 1.5e7}, {"gamma0": 1e-12}, {"lr": 1e-10, "clock": 1e6}], ids=str
)
def test_float32_follows_double(start):
    """Without double precision all numbers are float32: the sum of weights neither overflows nor vanishes."""
    double, single = noisy_least_squares(True, **start), noisy_least_squares(False, **start)
    assert double[0][1] < 0.9 * double[0][0]
    for exact, found in zip(double, single, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-3)
