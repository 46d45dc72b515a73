"""Are an installed gradagrad's steps for JAX in order, where there is no torch? Run by release_check.py.

    python smoke_jax.py passes|plain

"passes": the wheel holds the compiled passes and JAX calls them; "plain": it does not, says why, and XLA does it all.
Steps by default, which take what there is, are compared with those of XLA alone, in float64.
"""

import importlib.util
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

import gradagrad.optax as ours  # noqa: E402
from gradagrad.optax import fused as passes  # noqa: E402

WEIGHTS = {"table": jnp.linspace(-1.0, 1.0, 2 * passes.LARGE).reshape(-1, 128), "bias": jnp.zeros(128)}
METHODS = {
    "element": lambda fused: ours.gradagrad(0.01, fused=fused),
    "row, momentum": lambda fused: ours.gradagrad(0.01, momentum=0.9, granularity="row", fused=fused),
    "auto": lambda fused: ours.auto_gradagrad(fused=fused),
}


def trained(optimizer):
    """The weights after a few compiled steps."""

    @jax.jit
    def step(weights, state):
        slope = jax.grad(lambda w: jnp.sum(jnp.cos(3.0 * w["table"]) * (1.0 + w["bias"])))(weights)
        updates, state = optimizer.update(slope, state, weights)
        return optax.apply_updates(weights, updates), state

    weights, state = WEIGHTS, optimizer.init(WEIGHTS)
    for _ in range(4):
        weights, state = step(weights, state)
    return weights


def main(expected: str) -> None:
    """Raises on the first thing that is not as it should be."""
    assert Path(sys.prefix) in Path(ours.__file__).parents, f"not the installed one: {ours.__file__}"
    assert importlib.util.find_spec("torch") is None, "torch is there, so that this shows too little"
    reason = passes.missing()
    assert (reason is None) == (expected == "passes"), reason
    for name, make in METHODS.items():
        for a, b in zip(jax.tree.leaves(trained(make(None))), jax.tree.leaves(trained(make(False))), strict=True):
            assert jnp.isfinite(a).all(), name
            assert jnp.allclose(a, b, rtol=1e-11, atol=1e-13), name
    assert reason is None or "--no-build-isolation" in reason, reason
    what = "with compiled passes" if reason is None else "without compiled passes"
    print(f"Python {sys.version.split()[0]}, jax {jax.__version__}, no torch, {what}: in order")


if __name__ == "__main__":
    main(sys.argv[1])
