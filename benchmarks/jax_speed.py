"""Speed of `gradagrad.optax` beside Optax's Adam, in turn in one run: ``python -m benchmarks.jax_speed [ELEMENTS]``.

A step is what a training loop compiles: the update and its addition to the parameters, with donated buffers. Processor
time of all threads says more than the clock when others use the machine. XLA's flags matter:

    XLA_FLAGS=--xla_cpu_copy_insertion_use_region_analysis=true python -m benchmarks.jax_speed
"""

import sys
import time
from typing import Any

import jax
import optax

from gradagrad.optax import auto_gradagrad, gradagrad

CONTENDERS: dict[str, optax.GradientTransformation] = {
    "optax.adam": optax.adam(1e-3),
    "gradagrad": gradagrad(1e-3),
    "gradagrad momentum=0.9": gradagrad(1e-3, momentum=0.9),
    "gradagrad row": gradagrad(1e-3, granularity="row"),
    "gradagrad group": gradagrad(1e-3, granularity="group"),
    "auto_gradagrad": auto_gradagrad(),
    "auto_gradagrad guard=False": auto_gradagrad(guard=False),
}
ROUNDS = 15


def main(elements: int = 25_000_000) -> None:
    """Prints milliseconds and ratios to the first; the least of all rounds."""
    print(f"jax {jax.__version__}, optax {optax.__version__}, {jax.devices()[0].device_kind}, {elements:,} elements")
    start, *gradients = (jax.random.normal(jax.random.key(seed), (elements // 256, 256)) * 0.01 for seed in range(3))
    steps: dict[str, Any] = {}
    carried: dict[str, Any] = {}
    for name, optimizer in CONTENDERS.items():

        def step(params: Any, state: Any, grads: Any, update: Any = optimizer.update) -> Any:
            updates, state = update(grads, state, params)
            return optax.apply_updates(params, updates), state

        carried[name] = start.copy(), optimizer.init(start)
        steps[name] = jax.jit(step, donate_argnums=(0, 1)).lower(*carried[name], start).compile()
    least = {name: (float("inf"), float("inf")) for name in steps}
    for turn in range(ROUNDS):
        for name, compiled in steps.items():
            before = time.perf_counter(), time.process_time()
            carried[name] = jax.block_until_ready(compiled(*carried[name], gradients[turn % 2]))
            spent = time.perf_counter() - before[0], time.process_time() - before[1]
            least[name] = min(least[name][0], spent[0]), min(least[name][1], spent[1])
    base = least["optax.adam"]
    for name, (clock, processor) in least.items():
        times = f"{clock * 1e3:8.1f} ms{clock / base[0]:7.2f} ×{processor * 1e3:11.1f} ms{processor / base[1]:7.2f} ×"
        print(f"  {name:<32}{times}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
