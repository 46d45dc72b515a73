"""The ways of stepping, small problems, and comparisons that several files here share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from auto_oracle import SharedGrowth
from torch import Tensor
from torch.nn import Parameter

from gradagrad import AutoGradaGrad
from gradagrad.auto.rule import Shared


def kernel_steps() -> bool:
    """Whether the compiled kernel has shared growth: the one switch for everything fused here."""
    parameter = Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    try:
        AutoGradaGrad([parameter], fused=True).step()
    except RuntimeError:
        return False
    return True


# Each held to the same numbers.
DRIVERS: dict[str, dict[str, Any]] = {"loop": {"fused": False, "foreach": False}, "foreach": {"foreach": True}}
if kernel_steps():
    DRIVERS["fused"] = {"fused": True}

# Every path of the rule, by name.
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "uniform": {"weighting": "uniform"},
    "method": {"certainty": 0.0, "momentum": 0.0},  # METHOD.md's rule, without what we added
    "no momentum": {"momentum": 0.0},
    "certified soon": {"certainty": 1.0, "strictness": 1.5},
    "never certified": {"certainty": 1e6, "gamma0": 5e-3},
    "from far below": {"gamma0": 1e-9},
    "strict": {"strictness": 1.5, "gamma0": 1e-3},
    "lenient": {"strictness": 6.0, "overshoot": 2.0},
    "endless start": {"overshoot": float("inf"), "weighting": "uniform"},
    "slow": {"growth_limit": 1.05, "gamma0": 1e-2},
    "large": {"gamma0": 0.8, "growth_limit": 1.1},
    "fixed": {"growth_limit": 1.0, "gamma0": 0.1},
}


def parameters(dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Parameter]:
    """A matrix, a vector, a scalar and an empty tensor."""
    generator = torch.Generator().manual_seed(seed)
    shapes: list[tuple[int, ...]] = [(4, 3), (5,), (), (0, 2)]
    return [Parameter(torch.randn(s, generator=generator, dtype=torch.float64).to(dtype)) for s in shapes]


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


def coo(indices: Any, values: Tensor, shape: Sequence[int]) -> Tensor:
    """A sparse tensor whose indices have been checked, as torch otherwise warns."""
    return torch.sparse_coo_tensor(indices, values, tuple(shape), check_invariants=True)


def every_parameter(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


def shared(optimizer: AutoGradaGrad) -> Shared:
    """The shared numbers, after checking that they are one tensor."""
    found = [state["shared"] for state in optimizer.state.values()]
    assert all(numbers is found[0] for numbers in found)
    assert found[0].dtype == torch.float64
    return Shared(*found[0].tolist())


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


class Oracle:
    """`SharedGrowth` beside an optimizer: fed the same gradients, compared number by number."""

    def __init__(self, optimizer: AutoGradaGrad) -> None:
        self._optimizer = optimizer
        group = optimizer.param_groups[0]
        lr = [[g["lr"]] * p.numel() for g in optimizer.param_groups for p in g["params"]]
        self.own = SharedGrowth(
            self._flat(every_parameter(optimizer)),
            gamma0=group["gamma0"],
            c=group["strictness"],
            tau=group["overshoot"],
            zeta=group["certainty"],
            beta=group["momentum"],
            r_max=group["growth_limit"] ** 2 - 1.0,
            linear=group["weighting"] == "linear",
            lr=list(chain.from_iterable(lr)),
        )

    @staticmethod
    def _flat(tensors: Sequence[Tensor]) -> list[float]:
        return list(chain.from_iterable(t.detach().flatten().tolist() for t in tensors))

    def step(self) -> None:
        """One step of both; a missing gradient is zero to the oracle."""
        params = every_parameter(self._optimizer)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
        grads = [g.to_dense() if g.is_sparse else g for g in grads]
        self.own.step(self._flat(grads))
        self._optimizer.step()

    def compare(self, rtol: float = 1e-10, atol: float = 1e-13) -> None:
        """Everything the optimizer keeps."""
        own, numbers = self.own, shared(self._optimizer)
        for name, actual, expected in (
            ("gamma", numbers.gamma, own.gamma),
            ("reference", numbers.reference, own.R_hat),
            ("E", numbers.agreement, own.E),
            ("F", numbers.agreement_noise, own.F),
            ("E-", numbers.disagreement, own.E_minus),
            ("F-", numbers.disagreement_noise, own.F_minus),
            ("A", numbers.certificate, own.A),
            ("D", numbers.certificate_noise, own.D),
        ):
            # E and E⁻ are differences of large numbers that may come out near zero.
            size = 1e-3 * own.R_hat if name.startswith("E") else float(name == "A")  # signs are of size 1
            assert abs(actual - expected) <= rtol * (abs(expected) + size) + atol, (name, actual, expected, own.k)
        assert (numbers.step, numbers.starting, numbers.growth_steps) == (own.k, own.start_up, own.growth_steps)
        assert numbers.certified == own.certified
        with self._optimizer.averaged():
            means = self._flat(every_parameter(self._optimizer))
        tensors = {
            "x": (self._flat(every_parameter(self._optimizer)), own.x),
            "mean": (means, own.mean),
            "B": (self._state("accumulator"), own.B),
            "h": (self._state("momentum"), own.h),
        }
        for name, (actual, expected) in tensors.items():
            torch.testing.assert_close(
                torch.tensor(actual), torch.tensor(expected), rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
            )

    def _state(self, key: str) -> list[float]:
        """By element; zero where a parameter has no state yet."""
        every = ((p, self._optimizer.state.get(p)) for p in every_parameter(self._optimizer))
        return self._flat([state[key] if state else torch.zeros_like(p) for p, state in every])
