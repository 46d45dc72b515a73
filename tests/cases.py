"""Configurations, small problems and comparisons that many test files share."""

import io
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import torch
from auto_oracle import LONG, AutoOracle
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.kernel.load import kernel_status
from gradagrad.projections import Box

Params = list[torch.nn.Parameter]


class Ball:
    """A user's projection that couples coordinates: onto the Euclidean ball, exact where the metric is one number."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def __call__(self, point: Tensor, metric: Tensor) -> Tensor:
        return point * (self.radius / point.norm().clamp(min=self.radius))

    def __repr__(self) -> str:
        return f"Ball({self.radius})"


GRANULARITIES = ("element", "row", "tensor", "group")
KINDS = (*GRANULARITIES, "auto")
ROWS = 12  # of tables with sparse gradients

# The ways of stepping, each held to the same numbers.
DRIVERS: dict[str, dict[str, Any]] = {"loop": {"fused": False, "foreach": False}, "foreach": {"foreach": True}}
if kernel_status().loaded:
    DRIVERS["fused"] = {"fused": True}

# Every path of GradaGrad's rule, by name.
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
    "travelled": {"gamma_max": "travelled", "rho": 10.0},
    "travelled_box": {"gamma_max": "travelled", "rho": 10.0, "momentum": 0.5, "projection": Box(-0.5, 0.5)},
    "limit": {"growth_limit": 1.1},
    "start": {"initial_accumulator_value": 0.3},
    "eps": {"eps": 0.1, "momentum": 0.5},
    "box": {"projection": Box(-0.5, 0.5)},
    "box_momentum": {"projection": Box(-0.5, 0.5), "momentum": 0.9, "gamma_max": 0.5},
    "box_far_below": {"projection": Box(-0.5, 0.5), "momentum": 0.5, "grad_bound": 1e-30},
    "everything": {
        "rho": 4.0, "momentum": 0.9, "grad_bound": 2.0, "gamma_max": 0.7, "growth_limit": 1.2,
        "initial_accumulator_value": 0.1, "projection": Box(-0.8, 0.8), "eps": 1e-3,
    },
}  # fmt: skip
# Every path of AutoGradaGrad's rule.
AUTO_OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "no guard": {"guard": False},
    "little average": {"momentum": 0.1},
    "from far below": {"gamma0": 1e-9},
    "from above": {"gamma0": 3.0},
    "capped": {"gamma_max": 1e-2},
    "decay": {"weight_decay": 0.1, "gamma0": 1e-2},
    "slow group": {"lr": 0.25, "guard": False},
}


def make(kind: str, params: Any, **options: Any) -> Any:
    """GradaGrad with this granularity, or AutoGradaGrad."""
    if kind == "auto":
        return AutoGradaGrad(params, **options)
    return GradaGrad(params, **{"lr": 0.1, "granularity": kind, **options})


def parameters(dtype: torch.dtype = torch.float64, seed: int = 0) -> Params:
    """A matrix, a vector, a scalar and an empty tensor."""
    generator = torch.Generator().manual_seed(seed)
    shapes: list[tuple[int, ...]] = [(4, 3), (5,), (), (0, 2)]
    return [torch.nn.Parameter(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype)) for s in shapes]


def noisy_gradients(params: Sequence[Tensor], k: int, noise: float = 0.3) -> list[Tensor]:
    """Sets and returns the gradients of a shifted quadratic with different curvatures, plus seeded noise."""
    generator = torch.Generator().manual_seed(1000 + k)
    found: list[Tensor] = []
    for p in params:
        real = torch.view_as_real(p.detach()) if p.is_complex() else p.detach()
        curvature = torch.rand(real.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64) + 0.1
        shift = torch.randn(real.shape, generator=generator, dtype=torch.float64) * noise
        g = ((real.to(torch.float64) - 1.0) * curvature + shift).to(real.dtype)
        p.grad = torch.view_as_complex(g) if p.is_complex() else g
        found.append(p.grad)
    return found


def train(
    optimizer: torch.optim.Optimizer,
    steps: int,
    start: int = 0,
    noise: float = 0.3,
    step: Callable[[], Any] | None = None,
) -> list[Tensor]:
    """Steps through `noisy_gradients` (by a compiled step, if it is given); returns copies of the parameters."""
    params = every_parameter(optimizer)
    for k in range(start, start + steps):
        noisy_gradients(params, k, noise)
        (step or optimizer.step)()
    return [p.detach().clone() for p in params]


def every_parameter(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


def assert_same(a: Any, b: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compares parameters and state entry by entry; exact by default."""
    for optimizer in (a, b):
        if isinstance(optimizer, AutoGradaGrad) and any(optimizer.state.values()):
            shared(optimizer)
    for p, q in zip_longest(every_parameter(a), every_parameter(b)):
        torch.testing.assert_close(p, q, rtol=rtol, atol=atol, equal_nan=True)
        assert a.state[p].keys() == b.state[q].keys()
        for key, value in a.state[p].items():
            torch.testing.assert_close(
                value, b.state[q][key], rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, key=key: f"{key}: {text}"
            )


class Shared(NamedTuple):
    """The numbers that all parameters of AutoGradaGrad share."""

    clock: float
    displacement_scale: float
    weight_total: float
    common_gamma: float
    common_square: float
    measured: float
    trend: float
    slope: float
    limited: float
    largest_lr: float


def shared(optimizer: AutoGradaGrad) -> Shared:
    """The shared numbers, after checking that each is one tensor in double."""
    states = [state for state in optimizer.state.values() if state]
    for key in Shared._fields:
        assert all(state[key] is states[0][key] for state in states)
        assert states[0][key].dtype == torch.float64
    return Shared(*(states[0][key].item() for key in Shared._fields))


def gammas(optimizer: AutoGradaGrad) -> list[float]:
    """The γ of every parameter that has state."""
    return [state["gamma"].item() for state in optimizer.state.values() if state]


def averages_of(optimizer: AutoGradaGrad) -> list[Tensor]:
    """The values of the parameters inside `averaged`."""
    with optimizer.averaged():
        return [p.detach().clone() for p in every_parameter(optimizer)]


def _weights(k: int) -> float:
    """The total of the weights of k steps' squares: 1 + 2 + … + k, while they grow."""
    return min(k, LONG) * (min(k, LONG) + 1) / 2


class Oracle:
    """The literal form beside an optimizer: fed the same gradients, compared number by number."""

    def __init__(self, optimizer: AutoGradaGrad) -> None:
        self._optimizer = optimizer
        group = optimizer.param_groups[0]
        self.own = AutoOracle(
            [p.detach().flatten().tolist() for p in every_parameter(optimizer)],
            gamma0=group["gamma0"],
            beta=group["momentum"],
            decay=group["weight_decay"],
            guard=group["guard"],
            gamma_max=group["gamma_max"],
            lr=[float(g["lr"]) for g in optimizer.param_groups for _ in g["params"]],
        )

    def step(self, schedule: float = 1.0) -> None:
        """One step of both."""
        grads = [p.grad for p in every_parameter(self._optimizer)]
        self.own.step([None if g is None else g.to_dense().flatten().tolist() for g in grads], schedule)
        self._optimizer.step()

    def age(self, k: int) -> None:
        """Both go on as if this were step k: with the same means, which then stand for the sums of k steps."""
        more = _weights(k) / _weights(self.own.k)
        self.own.k = k
        for p, own in zip(every_parameter(self._optimizer), self.own.tensors, strict=True):
            self._optimizer.state[p]["accumulator"] *= more
            own.squares = [a * more for a in own.squares]
        self._optimizer.state[every_parameter(self._optimizer)[0]]["clock"].fill_(k)

    def compare(self, rtol: float = 1e-10, atol: float = 1e-12) -> None:
        """Everything the optimizer keeps, and the average."""
        own, optimizer = self.own, self._optimizer
        params = every_parameter(optimizer)
        numbers = shared(optimizer)
        assert numbers.clock == own.k
        found = [own.weights, own.common, own.v, own.measured, own.trend, own.slope, own.limited, own.largest_lr]
        close("shared", numbers[2:], found, rtol, 1e-15)
        optimizer.state_dict()  # Idle rows catch up.
        for p, average, tensor in zip(params, averages_of(optimizer), own.tensors, strict=True):
            close("mean", average.flatten().tolist(), tensor.mean, rtol, atol)
            close("y", p.detach().flatten().tolist(), tensor.y, rtol, atol)
            if not (state := optimizer.state.get(p)):
                continue
            limit = 0.0 if tensor.limit == float("inf") else tensor.limit
            found = [state[key].item() for key in ("gamma", "agreement_square", "limit", "size")]
            close("block", found, [tensor.gamma, tensor.v, limit, tensor.size], rtol, 0.0)
            close("a", (state["accumulator"] / _weights(max(own.k, 1))).flatten().tolist(), tensor.a, rtol, 1e-300)
            close("z", (p.detach() + state["offset"]).flatten().tolist(), tensor.z, rtol, atol)
            close("d", (state["displacement"] * numbers.displacement_scale).flatten().tolist(), tensor.d, rtol, atol)


def close(name: str, actual: Sequence[float], expected: Sequence[float], rtol: float, atol: float) -> None:
    actual, expected = (torch.tensor(list(a), dtype=torch.float64) for a in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}")


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
