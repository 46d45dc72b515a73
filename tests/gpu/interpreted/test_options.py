"""Tensors and numbers that differ in precision, layout, alignment, place of counters and lr, or sparsity."""

from functools import partial
from typing import Any

import pytest
import test_faithful
import test_faithful_auto
import torch
from cases import DRIVERS

from gpu.interpreted.batches import SIZES, assert_same, batch_of, both
from gradagrad.torch_ops.steps import TorchStep
from gradagrad.triton import launch
from gradagrad.triton.backend import TritonBackend, TritonStep

CLOSE = {torch.float32: 2e-5, torch.float64: 1e-11}
"""Where sums are added in another order."""


@pytest.mark.parametrize("scope", ["element", "tensor", "group", "auto"])
def test_nan_infinity_and_denormals_stay_where_they_arise(scope):
    settings: dict[str, Any] = {"gamma0": 1e-2} if scope == "auto" else {"lr": 0.1, "beta": 0.9}
    batch = batch_of(scope, shapes=((3, 7), (4,)), **settings)
    batch.params[0].view(-1)[:4] = torch.tensor([float("nan"), float("inf"), 1e-40, 3e38])
    mine, other = both(batch)
    assert_same(mine, other, rtol=0.0 if scope == "element" else CLOSE[torch.float32])
    assert mine.params[0][0, 0].isnan()
    assert mine.params[1].isfinite().all() == (scope != "group")  # in a group all share γ
    assert scope != "auto" or all(value.isfinite() for value in (*mine.shared.values(), *mine.state["gamma"]))
    batch = batch_of(scope, shapes=((3, 7), (4,)), **settings)
    batch.params[0].view(-1)[3] = 1e25  # its square overflows in float32
    assert_same(*both(batch), rtol=0.0 if scope == "element" else CLOSE[torch.float32])


@pytest.mark.parametrize("scope", ["element", "tensor", "group", "auto"])
def test_layouts_and_alignment(scope):
    """The tensors are channels_last, transposed, or misaligned, and one gradient has another layout."""
    settings: dict[str, Any] = {"gamma0": 1e-2} if scope == "auto" else {"lr": 0.1, "beta": 0.9}
    batch = batch_of(scope, shapes=((2, 3, 4, 5), (20, 30), (600,)), **settings)
    close = 0.0 if scope == "element" else CLOSE[torch.float32]
    memory = torch.zeros(601)

    def relaid(tensors):
        if tensors[0].numel() < 120:  # blocks
            return tensors
        return [tensors[0].contiguous(memory_format=torch.channels_last), tensors[1].t(), tensors[2]]

    batch.params = relaid(batch.params)
    batch.state = {key: relaid(values) for key, values in batch.state.items()}
    memory[1:] = batch.params[2]
    batch.params[2] = memory[1:]
    mine, other = both(batch, steps=2)
    assert mine.params[0].is_contiguous(memory_format=torch.channels_last)
    assert mine.params[2].data_ptr() % 16 != 0
    assert_same(mine, other, rtol=close)
    mine.grads[1] = torch.randn(*reversed(mine.grads[1].shape)).t()
    other.grads[1] = mine.grads[1].clone()
    TritonStep(TritonBackend(sizes=SIZES), mine).take()
    TorchStep(other).take()
    assert_same(mine, other, rtol=close)


@pytest.mark.parametrize("counter", ["device", "argument"])
def test_numbers_in_memory(counter, monkeypatch):
    """lr is a tensor, the kernel reads counters or gets them as arguments, and counters differ between tensors."""
    common_spec = launch.common_spec
    monkeypatch.setattr(launch, "common_spec", lambda batch: common_spec(batch)._replace(counter=counter))
    settings: dict[str, Any] = {"lr": torch.tensor(0.125), "beta": 0.5}
    batch = batch_of("group", dtype=torch.float64, **settings)
    assert_same(*both(batch), rtol=CLOSE[torch.float64])
    batch = batch_of("element", shapes=((5,), (6,)), state=torch.bfloat16, lr=0.125)
    batch.steps[1] += 7
    assert_same(*both(batch))


@pytest.mark.parametrize(
    "check",
    [
        *(partial(test_faithful.test_element_is_algorithm_2, name, 0.3) for name in ("rho10", "heavy", "travelled")),
        *(partial(test_faithful.test_shared_blocks_are_algorithm_1, "rho10", scope) for scope in ("tensor", "group")),
        lambda driver: test_faithful_auto.test_the_oracle_in_double_precision(driver, "decay", 0.3),
    ],
)
@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
def test_steps_are_those_of_the_listings(check, launches, monkeypatch):
    """The tests of the other backends, with few steps, because the interpreter is slow."""
    run = test_faithful_auto.run
    monkeypatch.setitem(DRIVERS, "Triton", {"fused": True})
    monkeypatch.setattr(test_faithful, "STEPS", 6)
    monkeypatch.setattr(test_faithful_auto, "run", lambda oracle, params, _, noise: run(oracle, params, 4, noise))
    check("Triton")
    assert launches
