"""Speed of `gradagrad.optax` beside Optax's Adam and AdaGrad: compiled, with donation, interleaved in one run.

    python -m benchmarks.jax_speed [--elements 25000000] [--arrays 161] [--rounds 15]

A step is what a training loop compiles: the update and its addition to the parameters, with donated buffers. Times are
the least of all rounds. Processor time of all threads says more than the clock when others use the machine. XLA's flags
matter:

    XLA_FLAGS=--xla_cpu_copy_insertion_use_region_analysis=true python -m benchmarks.jax_speed
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import optax

from gradagrad.optax import auto_gradagrad, gradagrad

CONTENDERS: dict[str, Callable[[], optax.GradientTransformation]] = {
    "optax.adam": lambda: optax.adam(1e-3),
    "optax.adagrad": lambda: optax.adagrad(1e-3),
    "gradagrad": lambda: gradagrad(1e-3),
    "gradagrad momentum=0.9": lambda: gradagrad(1e-3, momentum=0.9),
    "gradagrad row": lambda: gradagrad(1e-3, granularity="row"),
    "gradagrad group": lambda: gradagrad(1e-3, granularity="group"),
    "auto_gradagrad": auto_gradagrad,
    "auto_gradagrad guard=False": lambda: auto_gradagrad(guard=False),
}


def arrays(elements: int, count: int, seed: int) -> list[jax.Array]:
    """Random arrays of equal size with about ``elements`` elements in all."""
    shape = (max(1, elements // count // 256), 256)
    return [jax.random.normal(key, shape) * 0.01 for key in jax.random.split(jax.random.key(seed), count)]


class Run:
    """One optimizer that steps its own parameters."""

    def __init__(self, optimizer: optax.GradientTransformation, params: list[jax.Array]) -> None:
        def step(params: Any, state: Any, grads: Any) -> Any:
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        self.carry = (params, optimizer.init(params))
        self.compiled = jax.jit(step, donate_argnums=(0, 1)).lower(*self.carry, params).compile()
        self.clock = self.processor = float("inf")

    def step(self, grads: list[jax.Array]) -> None:
        """Times one step."""
        clock, processor = time.perf_counter(), time.process_time()
        self.carry = jax.block_until_ready(self.compiled(*self.carry, grads))
        self.clock = min(self.clock, time.perf_counter() - clock)
        self.processor = min(self.processor, time.process_time() - processor)


def main() -> None:
    """Prints milliseconds and ratios to the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--arrays", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"jax {jax.__version__}, optax {optax.__version__}, {jax.devices()[0].device_kind}")
    runs = {name: Run(make(), arrays(given.elements, given.arrays, 0)) for name, make in CONTENDERS.items()}
    gradients = [arrays(given.elements, given.arrays, seed) for seed in (1, 2)]
    for turn in range(given.rounds):
        for run in runs.values():
            run.step(gradients[turn % 2])
    base = runs["optax.adam"]
    print(f"{given.elements:,} elements in {given.arrays} arrays{'clock':>16}{'processor':>23}")
    for name, run in runs.items():
        clock = f"{run.clock * 1e3:8.1f} ms{run.clock / base.clock:7.2f} ×"
        print(f"  {name:<32}{clock}{run.processor * 1e3:11.1f} ms{run.processor / base.processor:7.2f} ×")


if __name__ == "__main__":
    main()
