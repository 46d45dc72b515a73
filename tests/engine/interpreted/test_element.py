"""Slots of one element: the kernels give the rule's numbers bit for bit."""

from typing import Any

import pytest
import torch

from engine.interpreted.batches import assert_same, batch_of, both
from gradagrad.projections import Box

EVERYTHING: dict[str, Any] = {
    "lr": 0.1,
    "rho": 4.0,
    "beta": 0.9,
    "weight_decay": 0.25,
    "gamma_max": 0.125,
    "growth_limit": 1.25,
    "grad_bound": 2.0,
    "initial_accumulator_value": 0.125,
    "eps": 1e-3,
    "lazy": True,
    "project": Box(-0.8, 0.8),
}
CASES: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.1},
    "momentum": {"lr": 0.1, "beta": 0.9, "rho": 10.0},
    "everything": EVERYTHING,
    "everything without momentum": EVERYTHING | {"beta": 0.0},
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float32) for name in CASES), ("plain", torch.bfloat16), ("everything", torch.bfloat16)],
)
def test_bit_for_bit(name, dtype):
    options = {"coupled_decay": 0.01, "maximize": True} if name.startswith("everything") else {}
    assert_same(*both(batch_of("element", dtype=dtype, options=options, **CASES[name])))
