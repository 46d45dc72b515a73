"""What any Optax optimizer must be able to do: one table of optimizers, one list of demands that each of them meets."""

# Optax types states and updates as any tree of arrays.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gradagrad.optax import auto_gradagrad, auto_gradagrad_eval_params, gradagrad, leaf, scale_by_gradagrad

OPTIMIZERS: dict[str, Any] = {
    "element": lambda **more: gradagrad(0.3, **more),
    "momentum": lambda **more: gradagrad(0.3, momentum=0.9, rho=10.0, **more),
    "row": lambda **more: gradagrad(0.3, granularity="row", **more),
    "tensor": lambda **more: gradagrad(0.3, granularity="tensor", **more),
    "group": lambda **more: gradagrad(0.3, granularity="group", **more),
    "decay": lambda **more: gradagrad(0.3, weight_decay=1e-3, decoupled_weight_decay=True, **more),
    "options": lambda **more: gradagrad(0.3, grad_bound=5.0, gamma_max=2.0, growth_limit=1.5, lazy=True, **more),
    "auto": lambda **more: auto_gradagrad(gamma0=1e-2, averaging="polynomial", **more),
    "auto_decay": lambda **more: auto_gradagrad(gamma0=1e-2, guard=False, weight_decay=1e-3, **more),
    "auto_coupled": lambda **more: auto_gradagrad(gamma0=1e-2, decoupled_weight_decay=False, weight_decay=1e-3, **more),
}
every = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
few = pytest.mark.parametrize(
    "make", [OPTIMIZERS[k] for k in ("momentum", "group", "auto")], ids=["momentum", "group", "auto"]
)


def parameters(dtype=jnp.float32):
    generator = np.random.default_rng(0)
    return {
        "layer": {"kernel": jnp.asarray(generator.standard_normal((3, 4)), dtype), "bias": jnp.zeros(4, dtype)},
        "scale": jnp.asarray(1.5, dtype),
    }


def loss(params):
    x = params["layer"]["kernel"]
    return (
        jnp.sum(jnp.abs(x - 1.0) ** 2)
        + jnp.sum(jnp.abs(params["layer"]["bias"] + 2.0) ** 2)
        + jnp.abs(params["scale"]) ** 2
    )


def gradients(params):
    return jax.tree.map(jnp.conj, jax.grad(lambda p: loss(p).real)(params))


def train(optimizer, params, steps, state=None):
    """A compiled loop of steps."""
    state = optimizer.init(params) if state is None else state

    def step(carry, _):
        params, state = carry
        updates, state = optimizer.update(gradients(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.jit(lambda carry: jax.lax.scan(step, carry, None, length=steps)[0])((params, state))


def same(a, b, **tolerance):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x, np.complex128), np.asarray(y, np.complex128), **tolerance)


PRECISIONS = {
    (name, dtype): (make, dtype)
    for name, make in OPTIMIZERS.items()
    for dtype in ("float32", "bfloat16", "complex64")
    if dtype == "float32" or name in ("momentum", "group", "auto")
}


@pytest.mark.parametrize(("make", "dtype"), PRECISIONS.values(), ids=map("-".join, PRECISIONS))
def test_it_solves_a_parabola_in_every_precision(make, dtype):
    start = parameters(jnp.dtype(dtype))
    params, state = train(make(), start, 300)
    assert float(loss(params).real) < 0.05 * float(loss(start).real)
    assert all(p.dtype == dtype for p in jax.tree.leaves(params))
    assert all(s.dtype in (jnp.float32, jnp.int32) for s in jax.tree.leaves(state))  # never less than float32


@every
def test_it_follows_the_valley_of_rosenbrock(make):
    def height(x):
        return (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2

    optimizer, start = make(), jnp.array([-1.0, 1.0])

    def step(carry, _):
        x, state = carry
        updates, state = optimizer.update(jax.grad(height)(x), state, x)
        return (optax.apply_updates(x, updates), state), None

    end, _ = jax.jit(lambda c: jax.lax.scan(step, c, None, length=3000)[0])((start, optimizer.init(start)))
    assert float(height(end)) < 0.1 * float(height(start))


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
    params = parameters()
    state = optimizer.init(params)
    compiled = []

    @jax.jit
    def step(params, state):
        compiled.append(1)
        updates, state = optimizer.update(gradients(params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(4):
        params, state = step(params, state)
    assert len(compiled) == 1


@few
def test_compiled_and_not_agree(make):
    optimizer, params = make(), parameters()
    state = optimizer.init(params)
    for _ in range(3):
        updates, state = optimizer.update(gradients(params), state, params)
        params = optax.apply_updates(params, updates)
    same((params, state), train(optimizer, parameters(), 3), rtol=1e-4, atol=1e-5)


@every
def test_results_worked_out_one_by_one_are_those_of_all_at_once(make, double, monkeypatch):
    expected = train(make(), parameters(jnp.float64), 3)
    monkeypatch.setattr(leaf, "LARGE", 1)
    same(train(make(), parameters(jnp.float64), 3), expected, rtol=1e-12, atol=1e-13)


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


@few
def test_many_at_once_by_vmap_are_each_as_alone(make):
    optimizer = make()
    runs = jax.vmap(lambda bias: train(optimizer, {**parameters(), "scale": bias}, 3)[0])(jnp.array([0.5, 2.0]))
    alone = train(optimizer, {**parameters(), "scale": jnp.array(2.0)}, 3)[0]
    same(jax.tree.map(lambda a: a[1], runs), alone, rtol=1e-5, atol=1e-6)


def test_vmap_over_learning_rates():
    def run(lr):
        return train(gradagrad(lr), parameters(), 3)[0]

    many = jax.vmap(run)(jnp.array([0.1, 0.3]))
    same(jax.tree.map(lambda a: a[1], many), run(0.3), rtol=1e-5, atol=1e-6)


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
def test_inject_hyperparams(make):
    """Every float becomes traced, and nothing changes; a schedule changes what it names."""
    plain = {"momentum": gradagrad, "group": gradagrad, "auto": auto_gradagrad}
    name = next(k for k, v in OPTIMIZERS.items() if v is make)
    options = {
        "momentum": {"momentum": 0.9, "rho": 10.0},
        "group": {"granularity": "group"},
        "auto": {"gamma0": 1e-2, "averaging": "polynomial"},
    }
    rate = 1.0 if name == "auto" else 0.3
    static = ("state_dtype",)
    injected = optax.inject_hyperparams(plain[name], static_args=static)(rate, **options[name])
    same(
        train(injected, parameters(), 5)[0],
        train(plain[name](rate, **options[name]), parameters(), 5)[0],
        rtol=1e-5,
        atol=1e-6,
    )
    scheduled = optax.inject_hyperparams(plain[name], static_args=static)(optax.constant_schedule(0.0), **options[name])
    same(train(scheduled, parameters(), 5)[0], parameters(), rtol=0, atol=0)
    assert {*inspect.signature(plain[name]).parameters} >= {"learning_rate", "mask", "axis_name"}


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
    for old, new in zip(jax.tree.leaves(state.momentum), jax.tree.leaves(marked.momentum), strict=True):
        np.testing.assert_array_equal(new, old + 7.0)
    assert int(marked.count) == 0


@few
def test_donated_buffers(make):
    optimizer = make()

    def step(params, state):
        updates, state = optimizer.update(gradients(params), state, params)
        return optax.apply_updates(params, updates), state

    params = parameters()
    donating = jax.jit(step, donate_argnums=(0, 1))
    carry = donating(params, optimizer.init(params))
    carry = donating(*carry)
    same(carry, train(optimizer, parameters(), 2), rtol=1e-4, atol=1e-5)


@few
def test_params_are_asked_for_only_where_they_matter(make):
    params = parameters()
    if make is OPTIMIZERS["auto"]:
        optimizer = make()
        with pytest.raises(ValueError, match=r"params must be the parameters .* got None\. Call update"):
            optimizer.update(gradients(params), optimizer.init(params))
        return
    updates, _ = make().update(gradients(params), make().init(params))
    assert jax.tree.structure(updates) == jax.tree.structure(params)
    for needy in (make(weight_decay=0.1), make(projection=lambda z, a: z)):
        with pytest.raises(ValueError, match="params must be"):
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
    "auto": (auto_gradagrad(gamma0=1e-9, momentum=0.0), [1e-9, 1e-9]),
    "auto_decay": (auto_gradagrad(gamma0=1e-9, momentum=0.0, weight_decay=1.0), [4e-9, 1e-9 + 1e-5]),
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


def test_the_average_is_found_inside_wrappers():
    params = parameters()
    plain = auto_gradagrad(averaging="polynomial")
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
    for wrong in (gradagrad().init(params), auto_gradagrad().init(params)):
        with pytest.raises(ValueError, match="state must be one that holds an average"):
            auto_gradagrad_eval_params(wrong, params)


@every
def test_a_nan_spoils_its_element_and_what_shares_its_step(make):
    params, optimizer = parameters(), make()
    state = optimizer.init(params)
    for k in range(3):
        grads = gradients(params)
        if k == 1:
            grads["layer"]["bias"] = grads["layer"]["bias"].at[0].set(jnp.nan)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    assert not jnp.isfinite(params["layer"]["bias"][0])
    if make is not OPTIMIZERS["group"]:
        assert jnp.isfinite(params["scale"])


@few
def test_bf16_state_trains_alike(make):
    params, state = train(make(state_dtype=jnp.bfloat16), parameters(), 300)
    assert float(loss(params)) < 0.05 * float(loss(parameters()))
    assert all(a.dtype == jnp.bfloat16 for a in jax.tree.leaves(state.momentum))


def test_parameters_rounded_at_random_do_not_stand_still():
    """Steps of 1e-3 from 100 in bf16, whose neighbours are ½ apart: to the nearest, nothing would ever move."""
    start = jnp.full(4096, 100.0, jnp.bfloat16)
    grads = jnp.ones(4096, jnp.bfloat16)
    for stochastic, moved in ((False, 0.0), (True, 0.1)):
        optimizer = gradagrad(1.0, rho=0.0, initial_accumulator_value=1e6, stochastic_rounding=stochastic)

        def step(carry, _, optimizer=optimizer):
            params, state = carry
            updates, state = optimizer.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        (end, _), _ = jax.jit(lambda c, step=step: jax.lax.scan(step, c, None, length=100))(
            (start, optimizer.init(start))
        )
        assert end.dtype == jnp.bfloat16
        np.testing.assert_allclose(100.0 - jnp.mean(end.astype(jnp.float32)), moved, atol=0.03)


def test_orbax_round_trip_bit_for_bit(tmp_path):
    import orbax.checkpoint as ocp

    for name in ("momentum", "row", "auto"):
        make = OPTIMIZERS[name]
        optimizer = make(state_dtype=jnp.bfloat16) if name == "momentum" else make()
        params, state = train(optimizer, parameters(), 3)
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / name, state)
            checkpointer.wait_until_finished()
            restored = checkpointer.restore(tmp_path / name, jax.eval_shape(optimizer.init, params))
        same(restored, state, rtol=0, atol=0)
