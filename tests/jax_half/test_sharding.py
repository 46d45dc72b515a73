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
    """Parts of arrays are stepped where each element has its own step size, and refused elsewhere."""
    optimizer, params = OPTIMIZERS[name](), parameters()
    state = optimizer.init(params)

    def spec_of(path, leaf):
        key = path[-1].key if hasattr(path[-1], "key") else None
        return P() if leaf.ndim == 0 or 1 in leaf.shape else SPECS[key]

    specs = jax.tree_util.tree_map_with_path(spec_of, (params, state))
    step = jax.shard_map(step_of(optimizer, gradients), mesh=mesh, in_specs=specs, out_specs=specs)
    if name == "element":
        follows_a_single_device(step, params, state, OPTIMIZERS[name])
    else:
        with pytest.raises(ValueError, match=r"gradients must be whole .* got parts over the mapped axes"):
            step(params, state)
