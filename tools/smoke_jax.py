"""Are an installed gradagrad's steps for JAX in order, where there is no torch? Run by release_check.py.

    python smoke_jax.py

Compiled steps are compared with steps that are not compiled, in float64.
"""

import importlib.util
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

import gradagrad.optax as ours  # noqa: E402

WEIGHTS = {"table": jnp.linspace(-1.0, 1.0, 1 << 16).reshape(-1, 128), "bias": jnp.zeros(128)}
METHODS = {
    "element": ours.gradagrad(0.01),
    "row, momentum": ours.gradagrad(0.01, momentum=0.9, granularity="row"),
    "auto": ours.auto_gradagrad(),
}


def trained(optimizer, compiled):
    """The weights after a few steps."""

    def step(weights, state):
        slope = jax.grad(lambda w: jnp.sum(jnp.cos(3.0 * w["table"]) * (1.0 + w["bias"])))(weights)
        updates, state = optimizer.update(slope, state, weights)
        return optax.apply_updates(weights, updates), state

    weights, state = WEIGHTS, optimizer.init(WEIGHTS)
    step = jax.jit(step) if compiled else step
    for _ in range(4):
        weights, state = step(weights, state)
    return weights


def main() -> None:
    """Raises on the first thing that is not as it should be."""
    assert Path(sys.prefix) in Path(ours.__file__).parents, f"not the installed one: {ours.__file__}"
    assert importlib.util.find_spec("torch") is None, "torch is there, so that this shows too little"
    for name, optimizer in METHODS.items():
        ends = (jax.tree.leaves(trained(optimizer, compiled)) for compiled in (True, False))
        for a, b in zip(*ends, strict=True):
            assert jnp.isfinite(a).all(), name
            assert jnp.allclose(a, b, rtol=1e-11, atol=1e-13), name
    print(f"Python {sys.version.split()[0]}, jax {jax.__version__}, no torch: in order")


if __name__ == "__main__":
    main()
