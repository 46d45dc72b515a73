"""What a step by lists of torch operations costs: operations and bytes per parameter, which may only fall.

160 float32 tensors. Counters on the host are not counted. torch's own Adam has 7 operations and 76 bytes.
"""

import pytest

from benchmarks.gpu_model import OURS, foreach

# Operations that are dispatched, and bytes that they read and write for each parameter.
CEILINGS = {
    "element": (24, 260.0),
    "element, β = 0.9": (40, 412.1),
    "row, β = 0.9": (201, 203.5),
    "tensor, β = 0.9": (47, 272.4),
    "group": (30, 148.1),
    "group, β = 0.9": (41, 168.1),
    "AutoGradaGrad": (80, 336.1),
    "AutoGradaGrad, no guard": (63, 252.1),
    "AutoGradaGrad, averaged": (86, 384.1),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_no_more_than(name):
    cost = foreach(OURS[name])
    operations, size = CEILINGS[name]
    assert cost.operations <= operations
    assert cost.size <= size
