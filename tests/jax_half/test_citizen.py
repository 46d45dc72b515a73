"""What any Optax optimizer must be able to do."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gradagrad.optax import auto_gradagrad, gradagrad, scale_by_gradagrad

from .citizens import FEW, OPTIMIZERS, elementwise, every, few, gradients, loss, parameters, same, step_of, train

PRECISIONS = {
    (name, dtype): (make, dtype)
    for name, make in OPTIMIZERS.items()
    for dtype in ("float32", "bfloat16", "complex64")
    if dtype == "float32" or name in FEW
}


@pytest.mark.parametrize(("make", "dtype"), PRECISIONS.values(), ids=map("-".join, PRECISIONS))
def test_it_solves_a_parabola_in_every_precision(make, dtype):
    start = parameters(jnp.dtype(dtype))
    params, state = train(make(), start, 300)
    assert float(loss(params).real) < 0.05 * float(loss(start).real)
    assert all(p.dtype == dtype for p in jax.tree.leaves(params))
    assert all(a.dtype == jnp.float32 for a in jax.tree.leaves(elementwise(state)))
    assert all(a.dtype in (jnp.float32, jnp.int32) for a in jax.tree.leaves(state))


def types(tree):
    return jax.tree.map(lambda a: (a.shape, a.dtype, a.weak_type), tree)


@every
def test_state_keeps_its_types_and_updates_those_of_gradients(make):
    params, optimizer = parameters(jnp.bfloat16), make()
    state = optimizer.init(params)
    updates, after = optimizer.update(gradients(params), state, params, value=1.0, unheard_of="ignored")
    assert types(state) == types(after)
    assert jax.tree.map(lambda a: a.dtype, updates) == jax.tree.map(lambda a: a.dtype, params)


@few
def test_one_compilation_serves_all_steps_of_a_schedule(make):
    optimizer = make()
    if make is not OPTIMIZERS["group"]:
        kind: Any = auto_gradagrad if make is OPTIMIZERS["auto"] else gradagrad
        optimizer = kind(optax.cosine_decay_schedule(0.3, 10))
    compiled = []
    step = jax.jit(step_of(optimizer, lambda params: compiled.append(1) or gradients(params)))
    carry = (parameters(), optimizer.init(parameters()))
    for _ in range(4):
        carry = step(*carry)
    assert len(compiled) == 1


@few
@pytest.mark.parametrize("kind", [lambda step: step, partial(jax.jit, donate_argnums=(0, 1))], ids=["eager", "donated"])
def test_steps_that_are_not_compiled_or_donate_their_buffers_agree(make, kind):
    optimizer, params = make(), parameters()
    step, carry = kind(step_of(optimizer)), (params, optimizer.init(params))
    for _ in range(3):
        carry = step(*carry)
    same(carry, train(optimizer, parameters(), 3), rtol=1e-4, atol=1e-5)


@every
def test_a_zero_gradient_at_the_start_moves_nothing(make):
    if make in (OPTIMIZERS["decay"], OPTIMIZERS["auto_coupled"]):
        return  # decay is a reason to move
    params, optimizer = parameters(), make()
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
    assert all(not jnp.any(u) for u in jax.tree.leaves(updates))


@every
def test_an_empty_tree(make):
    optimizer = make()
    for empty in ({}, (), {"a": {}}):
        updates, state = optimizer.update(empty, optimizer.init(empty), empty)
        assert updates == empty
        assert int(state.count) == 1


VARIED = {name: lambda a, make=make: train(make(), {**parameters(), "scale": a}, 3)[0] for name, make in FEW.items()}
VARIED["learning rate"] = lambda lr: train(gradagrad(lr), parameters(), 3)[0]


@pytest.mark.parametrize("run", VARIED.values(), ids=VARIED)
def test_many_at_once_by_vmap_are_each_as_alone(run):
    runs, alone = jax.vmap(run)(jnp.array([0.1, 0.3])), run(jnp.array(0.3))
    same(jax.tree.map(lambda a: a[1], runs), alone, rtol=1e-5, atol=1e-6)


@few
def test_a_derivative_through_steps_is_that_of_differences(make, double):
    def end(shift):
        start = jax.tree.map(lambda p: p.astype(jnp.float64) + shift, parameters(jnp.float64))
        params, _ = train(make(), start, 5)
        return loss(params)

    h = 1e-6
    slope = jax.grad(end)(jnp.asarray(0.3))
    np.testing.assert_allclose(slope, (end(0.3 + h) - end(0.3 - h)) / (2 * h), rtol=1e-4)


@few
def test_params_are_asked_for_only_where_they_matter(make):
    params, needing = parameters(), [make(weight_decay=0.1)]
    if make is OPTIMIZERS["auto"]:  # The limit of γ is a share of the parameters' size.
        needing.append(make())
    else:
        updates, _ = make().update(gradients(params), make().init(params))
        assert jax.tree.structure(updates) == jax.tree.structure(params)
        needing.append(make(projection=lambda z, a: z))
    for needy in needing:
        with pytest.raises(ValueError, match=r"params must be the parameters .* got None\. Call update"):
            needy.update(gradients(params), needy.init(params))


def test_weight_decay_is_masked():
    params = parameters()
    still = jax.tree.map(jnp.zeros_like, params)
    for mask in ({"layer": True, "scale": False}, lambda p: {"layer": {"kernel": True, "bias": False}, "scale": False}):
        optimizer = gradagrad(0.5, weight_decay=0.1, decoupled_weight_decay=True, mask=mask)
        updates, _ = optimizer.update(still, optimizer.init(params), params)
        np.testing.assert_allclose(updates["layer"]["kernel"], -0.05 * params["layer"]["kernel"], rtol=1e-6)
        assert float(updates["scale"]) == 0.0


TINY = {
    "plain": (gradagrad(1e-9), [1e-9, 1e-9]),
    "decay": (gradagrad(1e-9, weight_decay=1.0, decoupled_weight_decay=True), [4e-9, 1e-9 + 1e-5]),
}


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_step_keeps_its_bits(name):
    """Formed as new − old, the update of a float32 parameter of 3 would be a multiple of 2e-7."""
    optimizer, expected = TINY[name]
    params = jnp.array([3.0, 1e4])
    updates, _ = optimizer.update(jnp.array([1.0, 1.0]), optimizer.init(params), params)
    np.testing.assert_allclose(-updates, expected, rtol=1e-6)


def test_scale_by_gradagrad_is_a_direction_uphill():
    direction = scale_by_gradagrad()
    updates, _ = direction.update(jnp.array([2.0, -3.0]), direction.init(jnp.zeros(2)))
    np.testing.assert_allclose(updates, [1.0, -1.0], rtol=1e-6)


@every
def test_a_nan_ruins_its_element_and_what_shares_its_step(make):
    params, optimizer = parameters(), make()
    state = optimizer.init(params)
    for number in (1.0, jnp.nan, 1.0):
        grads = gradients(params)
        grads["layer"]["bias"] = grads["layer"]["bias"].at[0].multiply(number)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    assert not jnp.isfinite(params["layer"]["bias"][0])
    if make is not OPTIMIZERS["group"]:
        assert jnp.isfinite(params["scale"])


def test_orbax_round_trip_bit_for_bit(tmp_path):
    import orbax.checkpoint as ocp

    for name in ("momentum", "row", "auto"):
        optimizer = OPTIMIZERS[name]()
        params, state = train(optimizer, parameters(), 3)
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / name, state)
            checkpointer.wait_until_finished()
            restored = checkpointer.restore(tmp_path / name, jax.eval_shape(optimizer.init, params))
        same(restored, state, rtol=0, atol=0)


@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("sizes", [(1e38, 1e38, 1.0, -3e38, 1.0), (0.0, 1.0)], ids=["overflow", "zero first"])
def test_gradients_that_cannot_be_squared_or_are_zero_move_nothing_far(granularity, momentum, sizes):
    optimizer = gradagrad(1e-3, granularity=granularity, momentum=momentum, eps=0.0)
    params, state = {"a": jnp.ones((2, 2)), "b": jnp.ones(3)}, None
    for size in sizes:
        state = optimizer.init(params) if state is None else state
        updates, state = optimizer.update(jax.tree.map(lambda a, g=size: jnp.full_like(a, g), params), state, params)
        params = optax.apply_updates(params, updates)
    assert all(bool((abs(a - 1.0) < 0.02).all()) for a in jax.tree.leaves(params))
    assert all(bool(jnp.isfinite(a).all()) for a in jax.tree.leaves(state))
