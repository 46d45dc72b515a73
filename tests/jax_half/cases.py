"""One problem and one table of options for torch and JAX, in numpy."""

from functools import partial
from typing import Any

import cases
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

from gradagrad import AutoGradaGrad

SHAPES: dict[str, tuple[int, ...]] = {"matrix": (4, 3), "vector": (5,), "number": (), "nothing": (0, 2)}

# By name: the arguments that both halves take under the same name.
_NAMES = ("plain", "rho10", "bound", "cap", "travelled", "travelled_box", "limit", "start", "eps", "box", "everything")
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {k: v for k, v in cases.OPTIONS[name].items() if k != "momentum"} for name in _NAMES},
    "coupled": {"weight_decay": 0.1},
    "decoupled": {"weight_decay": 0.1, "decoupled_weight_decay": True},
    "far decay": {"weight_decay": 0.1, "decoupled_weight_decay": True, "gamma_max": "travelled", "rho": 10.0},
    "lazy": {"lazy": True},
    "uphill": {"maximize": True},
}


def for_jax(options: dict[str, Any]) -> dict[str, Any]:
    return {k: partial(_clip, v.lower, v.upper) if k == "projection" else v for k, v in options.items()}


def _clip(lower: float, upper: float, point: Any, metric: Any) -> Any:
    return jnp.clip(point, lower, upper)


def starts(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: generator.standard_normal(shape) for name, shape in SHAPES.items()}


def noises(steps: int, seed: int = 1, size: float = 0.3) -> dict[str, np.ndarray]:
    """For each parameter and step what is added to its gradient, and in "…/hit" whether there is a gradient at all."""
    generator = np.random.default_rng(seed)
    result: dict[str, np.ndarray] = {}
    for name, shape in SHAPES.items():
        result[name] = generator.standard_normal((steps, *shape)) * size
        result[f"{name}/hit"] = (generator.random((steps, *shape)) < 0.8).astype(np.float64)
    return result


def gradient(x: Any, noise: Any, hit: Any, sign: float) -> Any:
    """Of a shifted quadratic, with noise, and sometimes exactly zero."""
    return ((x - 1.0) * 0.6 * sign + noise) * hit


def run_jax(optimizers: dict[str, Any], steps: int, signs: dict[str, float], dtype: Any = jnp.float64) -> Any:
    """Each optimizer's parameters after every step, all in one compiled scan."""
    params = {name: {k: jnp.asarray(v, dtype) for k, v in starts().items()} for name in optimizers}
    states = {name: optimizer.init(params[name]) for name, optimizer in optimizers.items()}

    def step(carry: Any, noise: Any) -> Any:
        params, states = dict(carry[0]), dict(carry[1])
        for name, optimizer in optimizers.items():
            grads = {
                k: gradient(x, noise[k].astype(dtype), noise[f"{k}/hit"].astype(dtype), signs[name])
                for k, x in params[name].items()
            }
            updates, states[name] = optimizer.update(grads, states[name], params[name])
            params[name] = optax.apply_updates(params[name], updates)
        return (params, states), params

    return jax.jit(lambda p, s, n: jax.lax.scan(step, (p, s), n))(params, states, noises(steps))


def run_torch(optimizer_of: Any, steps: int, sign: float) -> dict[str, np.ndarray]:
    """The parameters after every step, and in "…/average" the average after the last one, if there is one."""
    params = {k: torch.nn.Parameter(torch.tensor(v, dtype=torch.float64)) for k, v in starts().items()}
    optimizer = optimizer_of(params.values())
    noise = {k: torch.tensor(v) for k, v in noises(steps).items()}
    trace: dict[str, list[np.ndarray]] = {k: [] for k in params}
    for i in range(steps):
        for k, p in params.items():
            p.grad = gradient(p.detach(), noise[k][i], noise[f"{k}/hit"][i], sign)
        optimizer.step()
        for k, p in params.items():
            trace[k].append(p.detach().numpy().copy())
    result = {k: np.stack(v) for k, v in trace.items()}
    if isinstance(optimizer, AutoGradaGrad):
        with optimizer.averaged():
            result |= {f"{k}/average": p.detach().numpy().copy() for k, p in params.items()}
    return result
