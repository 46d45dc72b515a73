"""The cost of a step over tensors laid end to end: operations and bytes per parameter, which must not rise.

160 float32 tensors. Counters on the host are not counted. torch's own Adam has 7 operations and 76 bytes.
"""

import pytest

from benchmarks.gpu_model import OURS, foreach

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
