"""Parameters split over eight devices take the same steps as on one device: sharded arrays, and shard_map."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from gradagrad.optax import auto_gradagrad, gradagrad

from .citizens import elementwise, same, step_of, train

OPTIMIZERS = {
    "element": lambda **more: gradagrad(0.3, momentum=0.5, **more),
    "row": lambda **more: gradagrad(0.3, granularity="row", lazy=True, **more),
    "tensor": lambda **more: gradagrad(0.3, granularity="tensor", **more),
    "group": lambda **more: gradagrad(0.3, granularity="group", **more),
    "auto": lambda **more: auto_gradagrad(gamma0=1e-2, **more),
}
# Rows of "wide" are cut along their length, "long" is cut into rows, "whole" is the same on every device.
SPECS = {"wide": P(None, "devices"), "long": P("devices"), "whole": P()}


def parameters():
    generator = np.random.default_rng(0)
    shapes = {"wide": (3, 16), "long": (16, 2), "whole": (5,)}
    return {k: jnp.asarray(generator.standard_normal(s), jnp.float32) for k, s in shapes.items()}


def gradients(params):
    return jax.tree.map(lambda p: 2.0 * (p - 1.0) * (p > 0.0), params)  # zero here and there


def follows_a_single_device(step, params, state, make):
    """Returns the parameters after four steps."""
    step = jax.jit(step)
    for _ in range(4):
        params, state = step(params, state)
    same((params, state), train(make(), parameters(), 4, gradients), rtol=2e-5, atol=1e-6)
    return params


@pytest.fixture(scope="module")
def mesh():
    assert len(jax.devices()) == 8
    return jax.make_mesh((8,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sharded_arrays(name, mesh):
    optimizer = OPTIMIZERS[name]()
    params = {k: jax.device_put(v, NamedSharding(mesh, SPECS[k])) for k, v in parameters().items()}
    state = optimizer.init(params)
    assert all(elementwise(state)[k].sharding.is_equivalent_to(p.sharding, p.ndim) for k, p in params.items())
    params = follows_a_single_device(step_of(optimizer, gradients), params, state, OPTIMIZERS[name])
    assert all(p.sharding.spec == SPECS[k] for k, p in params.items())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_shard_map(name, mesh):
    """With "row", what counts is where the rest of a row is."""
    axes = {"wide": "devices", "long": None if name == "row" else "devices", "whole": None}
    optimizer = OPTIMIZERS[name](axis_name=axes)
    params = parameters()
    state = optimizer.init(params)

    def spec_of(path, leaf):
        key = path[-1].key if hasattr(path[-1], "key") else None
        block = key == "wide" and leaf.shape[1:] == (1,)  # one for each of its rows
        return P() if leaf.ndim == 0 or block else SPECS[key]

    specs = jax.tree_util.tree_map_with_path(spec_of, (params, state))
    step = jax.shard_map(step_of(optimizer, gradients), mesh=mesh, in_specs=specs, out_specs=specs)
    follows_a_single_device(step, params, state, OPTIMIZERS[name])


def test_rounding_draws_other_bits_on_every_device(mesh):
    """Equal numbers on eight devices, rounded to bf16: parts differ, since each draws for itself."""
    optimizer = gradagrad(0.3, momentum=0.5, state_dtype=jnp.bfloat16, axis_name="devices")
    params = jnp.ones(8 * 64)
    state = optimizer.init(params)
    specs = (P("devices"), jax.tree.map(lambda a: P("devices") if a.ndim else P(), state))
    step = jax.shard_map(lambda p, s: optimizer.update(p * 1.001, s)[1], mesh=mesh, in_specs=specs, out_specs=specs[1])
    parts = np.asarray(jax.jit(step)(params, state).momentum.astype(jnp.float32)).reshape(8, 64)
    assert len({tuple(part) for part in parts}) == 8


def test_a_wrong_axis_name_is_named():
    params = parameters()
    for wrong in ({"wide": "devices"}, {"wide": 3, "long": None, "whole": None}, 5):
        optimizer = gradagrad(axis_name=wrong)
        with pytest.raises(ValueError, match="axis_name must be a name, a tuple of names, or a tree of these"):
            optimizer.update(params, optimizer.init(params), params)
