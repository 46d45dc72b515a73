"""The cost of a step over tensors laid end to end: operations and bytes per parameter, which must not rise.

160 float32 tensors. Counters on the host are not counted. torch's own Adam has 7 operations and 76 bytes.
"""

from typing import Any

import pytest
import torch
from torch.nn import Parameter

from benchmarks.gpu_model import OURS, foreach
from gradagrad.torch_ops import views
from tests.cases import make, noisy_gradients

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


CUT: dict[str, dict[str, Any]] = {
    "element": {"momentum": 0.9, "weight_decay": 0.1},
    "element, bf16": {"state_dtype": torch.bfloat16, "stochastic_rounding": True},
    "row": {"lr_decay": 0.1, "gamma_max": "travelled"},
    "row, lazy": {"lazy": True},
    "tensor": {"maximize": True},
    "group": {"momentum": 0.5},
    "auto": {},
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("kind", CUT)
def test_a_cpu_takes_runs_and_pieces_that_fit_its_cache(
    kind: str, foreach: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[list[Parameter]] = []
    sizes: list[int] = []
    step = views.View.step
    monkeypatch.setattr(views.View, "step", lambda v, *args: sizes.append(v.values["x"].numel()) or step(v, *args))
    for cached in (views.CACHED, 8):
        sizes.clear()
        monkeypatch.setattr(views, "CACHED", cached)
        params = [Parameter(torch.ones(s, dtype=torch.float64)) for s in ((3, 2), (5,), (), (20,), (2, 9), (4, 3, 3))]
        params.append(Parameter(torch.ones(3, 4, dtype=torch.complex128).t()))
        optimizer = make(kind.partition(",")[0], params, foreach=foreach, fused=False, **CUT[kind])
        for k in range(1, 7):
            noisy_gradients(params, k)
            optimizer.step()
        ends.append(params)
    assert max(sizes) < 16
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-12)
