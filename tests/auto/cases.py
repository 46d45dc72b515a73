"""The ways of stepping, small problems, and comparisons that several files here share."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from auto_oracle import LONG, AutoOracle
from cases import DRIVERS as DRIVERS
from cases import coo as coo
from cases import parameters as parameters
from cases import through_a_file as through_a_file
from torch import Tensor

from gradagrad import AutoGradaGrad

# Every path of the rule, by name.
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "no guard": {"guard": False},
    "little average": {"momentum": 0.1},
    "from far below": {"gamma0": 1e-9},
    "from above": {"gamma0": 3.0},
    "capped": {"gamma_max": 1e-2},
    "decay": {"weight_decay": 0.1, "gamma0": 1e-2},
    "slow group": {"lr": 0.25, "guard": False},
}


class Shared(NamedTuple):
    """The numbers that all parameters share."""

    clock: float
    displacement_scale: float
    weight_total: float
    common_gamma: float
    common_square: float
    measured: float
    limited: float
    largest_lr: float


def noisy_gradients(params: Sequence[Tensor], k: int, noise: float = 0.3) -> list[Tensor]:
    """Those of a shifted quadratic with different curvatures, plus seeded noise."""
    generator = torch.Generator().manual_seed(1000 + k)
    found: list[Tensor] = []
    for p in params:
        real = torch.view_as_real(p.detach()) if p.is_complex() else p.detach()
        curvature = torch.rand(real.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64) + 0.1
        shift = torch.randn(real.shape, generator=generator, dtype=torch.float64) * noise
        g = ((real.to(torch.float64) - 1.0) * curvature + shift).to(real.dtype)
        found.append(torch.view_as_complex(g) if p.is_complex() else g)
    return found


def train(optimizer: AutoGradaGrad, steps: int, start: int = 0, noise: float = 0.3) -> list[Tensor]:
    """Steps through `noisy_gradients`; returns copies of the parameters."""
    params = every_parameter(optimizer)
    for k in range(start, start + steps):
        for p, g in zip(params, noisy_gradients(params, k, noise), strict=True):
            p.grad = g
        optimizer.step()
    return [p.detach().clone() for p in params]


def every_parameter(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


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


def assert_same(a: AutoGradaGrad, b: AutoGradaGrad, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Parameters and state entry by entry; exact by default."""
    shared(a), shared(b)
    for p, q in zip(every_parameter(a), every_parameter(b), strict=True):
        torch.testing.assert_close(p, q, rtol=rtol, atol=atol, equal_nan=True)
        assert a.state[p].keys() == b.state[q].keys()
        for key, value in a.state[p].items():
            torch.testing.assert_close(
                value, b.state[q][key], rtol=rtol, atol=atol, equal_nan=True, msg=lambda text, key=key: f"{key}: {text}"
            )


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
        found = [own.weights, own.common, own.v, own.measured, own.limited, own.largest_lr]
        close("shared", numbers[2:], found, rtol, 1e-15)
        optimizer.state_dict()  # Idle rows catch up.
        with optimizer.averaged():
            averages = [p.detach().clone() for p in params]
        for p, average, tensor in zip(params, averages, own.tensors, strict=True):
            close("mean", average.flatten().tolist(), tensor.mean, rtol, atol)
            close("y", p.detach().flatten().tolist(), tensor.y, rtol, atol)
            if not (state := optimizer.state.get(p)):
                continue
            limit = 0.0 if tensor.limit == float("inf") else tensor.limit
            found = [state[key].item() for key in ("gamma", "agreement_square", "limit")]
            close("block", found, [tensor.gamma, tensor.v, limit], rtol, 0.0)
            close("a", (state["accumulator"] / _weights(max(own.k, 1))).flatten().tolist(), tensor.a, rtol, 1e-300)
            close("z", (p.detach() + state["offset"]).flatten().tolist(), tensor.z, rtol, atol)
            close("d", (state["displacement"] * numbers.displacement_scale).flatten().tolist(), tensor.d, rtol, atol)


def close(name: str, actual: Sequence[float], expected: Sequence[float], rtol: float, atol: float) -> None:
    actual, expected = (torch.tensor(list(a), dtype=torch.float64) for a in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, msg=lambda text: f"{name}: {text}")
