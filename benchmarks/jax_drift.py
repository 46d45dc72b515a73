"""Do float32 sums that all parameters share drift? AutoGradaGrad in a closed loop, beside the same loop in double.

    python -m benchmarks.jax_drift [--elements 1000000] [--steps 20000]

Badly scaled least squares with noise. JAX has no double unless it is asked for, so that in float32 the numbers that all
share (γ, the clock, the guard's total, the scale of the way) are float32 too. Printed is by how much they and the loss
differ from those of a run in double; "passes" are the compiled ones (`fused`), "XLA" sums as XLA does.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradagrad.optax import auto_gradagrad

RUNS = {"double": (True, None), "float32, XLA": (False, False), "float32, passes": (False, None)}
SHARED = ("gamma", "way_scale", "agreement_square", "square_total")


def run(steps: list[int], elements: int, *, double: bool, fused: bool | None) -> list[dict[str, float]]:
    """The shared numbers and the loss after each of these numbers of steps."""
    with jax.enable_x64(double):
        generator = np.random.default_rng(0)
        dtype = jnp.float64 if double else jnp.float32
        target = jnp.asarray(generator.standard_normal(elements), dtype)
        table = jnp.asarray(generator.standard_normal(2 * elements) * 0.1, dtype)
        scale = jnp.asarray(np.geomspace(1e-2, 1.0, elements), dtype)
        optimizer = auto_gradagrad(fused=fused)

        def step(k: Any, carry: Any) -> Any:
            x, state = carry
            offset = ((k.astype(jnp.uint32) * jnp.uint32(2654435761)) % jnp.uint32(elements)).astype(jnp.int32)
            noise = jax.lax.dynamic_slice(table, (offset,), (elements,))
            updates, state = optimizer.update(scale * (x - target) + noise, state, x)
            return optax.apply_updates(x, updates), state

        x = jnp.zeros(elements, dtype)
        carry, found = (x, optimizer.init(x)), []
        go = jax.jit(lambda begin, end, carry: jax.lax.fori_loop(begin, end, step, carry), donate_argnums=2)
        for begin, end in zip([0, *steps], steps, strict=False):
            carry = go(jnp.int32(begin), jnp.int32(end), carry)
            numbers = {key: float(getattr(carry[1], key)) for key in SHARED}
            found.append(numbers | {"loss": float(jnp.sum(scale * (carry[0] - target) ** 2))})
        return found


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20_000)
    arguments = parser.parse_args()
    steps = sorted({max(1, arguments.steps // part) for part in (100, 10, 1)})
    results = {
        name: run(steps, arguments.elements, double=double, fused=fused) for name, (double, fused) in RUNS.items()
    }
    print(f"{arguments.elements:,} elements; relative to double, and double itself in the last line")
    print(f"{'':<26}" + "".join(f"{key:>18}" for key in (*SHARED, "loss")))
    for i, count in enumerate(steps):
        for name in [*list(results)[1:], "double"]:
            values = results[name][i]
            exact = results["double"][i]
            shown = [
                f"{value:18.6g}" if name == "double" else f"{value / exact[key] - 1:18.1e}"
                for key, value in values.items()
            ]
            print(f"{count:>7} {name:<18}" + "".join(shown))


if __name__ == "__main__":
    main()
