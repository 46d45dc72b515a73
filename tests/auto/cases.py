"""The ways of stepping, small problems, and comparisons that several files here share."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from auto_oracle import LONG, LearntLogGamma
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
    "no momentum": {"momentum": 0.0},
    "from far below": {"gamma0": 1e-9},
    "from above": {"gamma0": 3.0},
    "capped": {"gamma_max": 1e-2},
    "decay": {"weight_decay": 0.1, "gamma0": 1e-2},
    "slow group": {"lr": 0.25, "guard": False},
}


class Shared(NamedTuple):
    """The numbers that all parameters share."""

    clock: float
    gamma: float
    agreement_square: float
    displacement_scale: float


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
        lr = [[float(g["lr"])] * p.numel() for g in optimizer.param_groups for p in g["params"]]
        self.own = LearntLogGamma(
            self._flat(every_parameter(optimizer)),
            gamma0=group["gamma0"],
            beta=group["momentum"],
            decay=group["weight_decay"],
            guard=group["guard"],
            gamma_max=group["gamma_max"],
            lr=list(chain.from_iterable(lr)),
        )

    @staticmethod
    def _flat(tensors: Sequence[Tensor]) -> list[float]:
        return list(chain.from_iterable(t.detach().flatten().tolist() for t in tensors))

    def step(self, schedule: float = 1.0) -> None:
        """One step of both; a missing gradient is zero to the oracle."""
        params = every_parameter(self._optimizer)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
        grads = [g.to_dense() if g.is_sparse else g for g in grads]
        self.own.step(self._flat(grads), schedule)
        self._optimizer.step()

    def age(self, k: int) -> None:
        """Both go on as if this were step k: with the same means, which then stand for the sums of k steps."""
        more = _weights(k) / _weights(self.own.k)
        self.own.k, self.own.mass = k, self.own.mass * more
        for p in every_parameter(self._optimizer):
            self._optimizer.state[p]["accumulator"] *= more
        first = self._optimizer.state[every_parameter(self._optimizer)[0]]  # whose block numbers all share
        first["clock"].fill_(k)
        first["square_total"] *= more

    def compare(self, rtol: float = 1e-10, atol: float = 1e-13) -> None:
        """Everything the optimizer keeps."""
        own, numbers = self.own, shared(self._optimizer)
        assert numbers.clock == own.k
        for name, actual, expected in (("gamma", numbers.gamma, own.gamma), ("v", numbers.agreement_square, own.v)):
            assert abs(actual - expected) <= rtol * abs(expected) + 1e-300, (name, actual, expected, own.k)
        tensors = {
            "x": (self._flat(every_parameter(self._optimizer)), own.x),
            "a": ([b / _weights(max(own.k, 1)) for b in self._state("accumulator")], own.a),
            "h": (self._state("momentum"), own.h),
            "y": ([y * numbers.displacement_scale for y in self._state("displacement")], own.y),
        }
        if self._optimizer.param_groups[0]["averaging"] is not None:
            with self._optimizer.averaged():
                tensors["mean"] = (self._flat(every_parameter(self._optimizer)), own.mean)
        for name, (actual, expected) in tensors.items():
            torch.testing.assert_close(
                torch.tensor(actual), torch.tensor(expected), rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
            )

    def _state(self, key: str) -> list[float]:
        """By element; zero where a parameter has no state yet."""
        every = ((p, self._optimizer.state.get(p)) for p in every_parameter(self._optimizer))
        return self._flat([state[key] if state else torch.zeros_like(p) for p, state in every])
