"""One table of configurations that several test files run through."""

import io
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gradagrad import GradaGrad
from gradagrad.kernel.load import kernel_status
from gradagrad.projections import Box


class Ball:
    """A user's projection that couples coordinates: onto the Euclidean ball, exact where the metric is one number."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        return point * (self.radius / point.norm().clamp(min=self.radius))

    def __repr__(self) -> str:
        return f"Ball({self.radius})"


GRANULARITIES = ("element", "row", "tensor", "group")
ROWS = 12  # of tables with sparse gradients

# The ways of stepping, each held to the same numbers.
DRIVERS: dict[str, dict[str, Any]] = {"loop": {"fused": False, "foreach": False}, "foreach": {"foreach": True}}
if kernel_status().loaded:
    DRIVERS["fused"] = {"fused": True}

# Every path of the rule, by name.
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rho1": {"rho": 1.0},
    "rho10": {"rho": 10.0},
    "momentum": {"momentum": 0.5},
    "heavy": {"momentum": 0.9, "rho": 10.0},
    "bound": {"grad_bound": 3.0},
    "bound_momentum": {"grad_bound": 3.0, "momentum": 0.9},
    "cap": {"gamma_max": 0.5},
    "cap_momentum": {"gamma_max": 0.5, "momentum": 0.5},
    "limit": {"growth_limit": 1.1},
    "start": {"initial_accumulator_value": 0.3},
    "eps": {"eps": 0.1, "momentum": 0.5},
    "box": {"projection": Box(-0.5, 0.5)},
    "box_momentum": {"projection": Box(-0.5, 0.5), "momentum": 0.9, "gamma_max": 0.5},
    "box_far_below": {"projection": Box(-0.5, 0.5), "momentum": 0.5, "grad_bound": 1e-30},
    "everything": {
        "rho": 4.0,
        "momentum": 0.9,
        "grad_bound": 2.0,
        "gamma_max": 0.7,
        "growth_limit": 1.2,
        "initial_accumulator_value": 0.1,
        "projection": Box(-0.8, 0.8),
        "eps": 1e-3,
    },
}


def parameters(dtype: torch.dtype = torch.float64, seed: int = 0) -> list[torch.nn.Parameter]:
    """A matrix, a vector, a scalar and an empty tensor."""
    generator = torch.Generator().manual_seed(seed)
    shapes: list[tuple[int, ...]] = [(4, 3), (5,), (), (0, 2)]
    return [torch.nn.Parameter(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype)) for s in shapes]


def noisy_gradients(params: list[torch.nn.Parameter], k: int, noise: float = 0.3) -> None:
    """Sets each .grad to that of a shifted quadratic at the parameter, plus seeded noise."""
    generator = torch.Generator().manual_seed(1000 + k)
    for p in params:
        shift = torch.randn(p.shape, generator=generator, dtype=torch.float64) * noise
        p.grad = (2.0 * (p.detach().to(torch.float64) - 1.0) * 0.3 + shift).to(p.dtype)


def train(
    optimizer: torch.optim.Optimizer, params: list[torch.nn.Parameter], steps: int, start: int = 0
) -> list[Tensor]:
    """Steps through `noisy_gradients` and returns copies of the parameters."""
    for k in range(start, start + steps):
        noisy_gradients(params, k)
        optimizer.step()
    return [p.detach().clone() for p in params]


def assert_same_state(a: GradaGrad, b: GradaGrad, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compares parameters and state entry by entry; exact by default."""
    for p, q in itertools.zip_longest(_params(a), _params(b)):
        torch.testing.assert_close(p, q, rtol=rtol, atol=atol, equal_nan=True)
        assert a.state[p].keys() == b.state[q].keys()
        for key, value in a.state[p].items():
            torch.testing.assert_close(value, b.state[q][key], rtol=rtol, atol=atol, equal_nan=True)


def _params(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def through_a_file(value: Any, *, weights_only: bool = True) -> Any:
    """Saves the value and loads it again."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def coo(indices: Any, values: Tensor, shape: Sequence[int]) -> Tensor:
    """A sparse tensor whose indices have been checked, as torch otherwise warns."""
    return torch.sparse_coo_tensor(indices, values, tuple(shape), check_invariants=True)


def row_gradient(k: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    """Touches some rows, a few of them twice (uncoalesced), one row with exact zeros, one entry with an exact zero."""
    generator = torch.Generator().manual_seed(k)
    rows = torch.randint(ROWS, (1, 6), generator=generator)
    values = torch.randn((6, *shape[1:]), generator=generator, dtype=dtype) + 0.5
    values[0] = 0.0
    values.reshape(len(values), -1)[1, 0] = 0.0
    return coo(rows, values, shape)


class Largest(TorchDispatchMode):
    """The largest tensor that any operation makes or goes through as a whole."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name.startswith("aten::index_put") or not isinstance(result, Tensor) or result.is_sparse:
            return result  # index_put writes as much as it is given
        if func._schema.is_mutable or result._base is None:
            self.largest = max(self.largest, result.numel())
        return result
