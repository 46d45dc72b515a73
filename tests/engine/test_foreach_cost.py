"""What a step by lists of torch operations costs: operations and bytes per parameter, which may only fall.

160 float32 tensors. Counters on the host are not counted. torch's own Adam has 7 operations and 76 bytes.
"""

import pytest

from benchmarks.gpu_model import OURS, foreach

# Operations that are dispatched, and bytes that they read and write for each parameter.
CEILINGS = {
    "element": (23, 252),
    "element, β = 0.9": (39, 404.1),
    "row, β = 0.9": (199, 116),
    "tensor, β = 0.9": (45, 145),
    "group": (29, 93),
    "group, β = 0.9": (40, 113),
    "AutoGradaGrad": (79, 293),
    "AutoGradaGrad, no guard": (63, 253),
    "AutoGradaGrad, averaged": (85, 341),
}


@pytest.mark.parametrize("name", CEILINGS)
def test_no_more_than(name):
    cost = foreach(OURS[name])
    operations, size = CEILINGS[name]
    assert cost.operations <= operations
    assert cost.size <= size
