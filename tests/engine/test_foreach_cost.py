"""The cost of a step over tensors laid end to end: operations and bytes per parameter, which must not rise.

160 float32 tensors. Counters on the host are not counted. torch's own Adam has 7 operations and 76 bytes.
"""

import functools
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from benchmarks.gpu_model import OURS, foreach
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.torch_ops import views
from tests.cases import noisy_gradients

# Operations that are dispatched, and bytes that they read and write for each parameter.
CEILINGS = {
    "element": (35, 324.0),
    "element, β = 0.9": (47, 443.1),
    "row, β = 0.9": (57, 232.3),
    "tensor, β = 0.9": (60, 220.5),
    "group": (40, 144.1),
    "group, β = 0.9": (53, 172.1),
    "AutoGradaGrad": (296, 690.0),
    "AutoGradaGrad, no guard": (289, 612.0),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_no_more_than(name):
    cost = foreach(OURS[name])
    operations, size = CEILINGS[name]
    assert cost.operations <= operations
    assert cost.size <= size


@pytest.mark.parametrize("kind", ["element", "row", "tensor", "group", "auto"])
def test_tensors_that_exceed_the_cache_together_are_taken_in_runs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[list[Parameter]] = []
    for cached in (views.CACHED, 8):
        monkeypatch.setattr(views, "CACHED", cached)
        params = [Parameter(torch.ones(shape, dtype=torch.float64)) for shape in ((3, 2), (5,), (), (20,), (2, 2))]
        options: dict[str, Any] = {"foreach": True, "fused": False}
        make = AutoGradaGrad if kind == "auto" else functools.partial(GradaGrad, granularity=kind)
        optimizer = make(params, **options)
        for k in range(1, 7):
            noisy_gradients(params, k)
            optimizer.step()
        ends.append(params)
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-12)
