"""Writes tests/data/checkpoints_0_1.pt: what version 0.1 saved, and where it went from there.

Run it with the sources of that version: PYTHONPATH=<checkout of bcbc4db>/src python tools/make_old_checkpoints.py FILE
"""

import sys
import warnings
from typing import Any

import torch

from gradagrad import AutoGradaGrad, GradaGrad

CASES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "element": (GradaGrad, {"lr": 0.05}, False),
    "momentum": (GradaGrad, {"lr": 0.05, "momentum": 0.9, "lr_decay": 0.1}, False),
    "row": (GradaGrad, {"lr": 0.05, "granularity": "row"}, False),
    "tensor": (GradaGrad, {"lr": 0.05, "granularity": "tensor", "rho": 10.0}, False),
    "group": (GradaGrad, {"lr": 0.05, "granularity": "group"}, False),
    "bf16 state": (GradaGrad, {"lr": 0.05, "state_dtype": torch.bfloat16}, False),
    "sparse": (GradaGrad, {"lr": 0.05}, True),
    "sparse lazy": (GradaGrad, {"lr": 0.05, "lazy": True, "momentum": 0.5}, True),
    "auto": (AutoGradaGrad, {}, False),
}


def gradient(k: int, shape: tuple[int, ...], *, sparse: bool) -> torch.Tensor:
    """The k-th gradient: seeded noise around a drift, or some rows of one."""
    generator = torch.Generator().manual_seed(k)
    dense = torch.randn(shape, generator=generator, dtype=torch.float64) * 0.3 + 0.5
    if not sparse:
        return dense
    rows = torch.tensor([[k % shape[0], (k + 2) % shape[0]]])
    return torch.sparse_coo_tensor(rows, dense[rows[0]], shape, check_invariants=True)


def advance(optimizer: torch.optim.Optimizer, start: int, steps: int, *, sparse: bool) -> None:
    """Steps through gradients that depend on the step alone."""
    for k in range(start, start + steps):
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = gradient(k, tuple(parameter.shape), sparse=sparse)
        optimizer.step()


def start() -> list[torch.nn.Parameter]:
    """Where every case begins."""
    return [torch.nn.Parameter(torch.linspace(-1.0, 1.0, n, dtype=torch.float64).reshape(-1, 2)) for n in (10, 6)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    result: dict[str, Any] = {}
    for name, (cls, options, sparse) in CASES.items():
        params = start()
        optimizer = cls(params, fused=False, **options)
        advance(optimizer, 0, 6, sparse=sparse)
        saved = optimizer.state_dict()
        before = [p.detach().clone() for p in params]
        saved = torch.utils._pytree.tree_map(lambda a: a.clone() if isinstance(a, torch.Tensor) else a, saved)
        advance(optimizer, 6, 4, sparse=sparse)
        result[name] = {"saved": saved, "before": before, "after": [p.detach().clone() for p in params]}
    torch.save(result, sys.argv[1])
