"""Slots of rows, tensors, groups, and all parameters: the kernels give the rule's numbers, sums in another order."""

from typing import Any

import pytest
import torch

from engine.interpreted.batches import assert_same, batch_of, both
from engine.interpreted.test_element import EVERYTHING
from gradagrad.rules import auto

SCOPES = ("row", "tensor", "group")
CLOSE = {torch.float32: 2e-5, torch.float64: 1e-11}
AUTO: dict[str, dict[str, Any]] = {
    "plain": {"guard": False},
    "everything": {"weight_decay": 0.1, "gamma_max": 0.02, "eps": 1e-8, "guard": True, "averaging": True, "lr": 0.5},
}


@pytest.mark.parametrize(("scope", "dtype"), [*((scope, torch.float32) for scope in SCOPES), ("row", torch.float64)])
def test_momentum(scope, dtype):
    assert_same(*both(batch_of(scope, dtype=dtype, lr=0.1, beta=0.9, rho=10.0)), rtol=CLOSE[dtype])


@pytest.mark.parametrize("scope", SCOPES)
def test_everything(scope):
    options = {"coupled_decay": 0.01, "maximize": True}
    assert_same(*both(batch_of(scope, dtype=torch.float64, options=options, **EVERYTHING)), rtol=CLOSE[torch.float64])


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("name", AUTO)
def test_auto(name, dtype):
    batch = batch_of("all", rule=auto.RULE, dtype=dtype, gamma0=1e-2, **AUTO[name])
    assert_same(*both(batch, steps=4), rtol=CLOSE[dtype])
