"""The kernel's arithmetic is the rule's: bit for bit where every element is its own slot."""

import math

import pytest
import torch

from gradagrad.granularity import GRANULARITIES
from gradagrad.steps import fused
from tests.fused import reference
from tests.fused.reference import OPTIONS, assert_same, copies_of, draw_gradients, loop_step, make, needs_kernel, twin

pytestmark = needs_kernel

SHAPES = [(7,), (3, 5), (1,), (), (33, 17), (2, 3, 4, 5), (0,), (257,)]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_elements_equal_the_rule_bit_for_bit(name: str, dtype: torch.dtype):
    torch.manual_seed(1)
    ours = make(SHAPES, "element", dtype, **OPTIONS[name])
    theirs = twin(ours)
    for _ in range(12):
        draw_gradients(ours, zeros=True)
        theirs.grads = ours.grads
        assert fused.step(ours) is None
        loop_step(theirs, exact=dtype != torch.float64)
    if "lr_decay" in OPTIONS[name] and dtype != torch.float64:
        # Python decays the learning rate in float32, the kernel in float64.
        assert_same(ours, theirs, rtol=1e-4 if dtype == torch.float32 else 2e-2, atol=1e-5)
    elif dtype == torch.float64:
        assert_same(ours, theirs, rtol=1e-11, atol=1e-13)
    else:
        assert_same(ours, theirs)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("granularity", ["row", "tensor", "group"])
def test_shared_step_sizes_equal_the_rule(name: str, granularity):
    torch.manual_seed(2)
    ours = make([*SHAPES, (40_001,), (2, 20_000)], granularity, torch.float64, **OPTIONS[name])
    theirs = twin(ours)
    for _ in range(6):
        draw_gradients(ours, zeros=OPTIONS[name].get("lazy", False))
        theirs.grads = ours.grads
        assert fused.step(ours, copies_of(ours)) is None
        loop_step(theirs)
    # Projected momentum is a difference of almost equal numbers over a small step size.
    projected = "project" in OPTIONS[name]
    assert_same(ours, theirs, rtol=1e-7 if projected else 1e-10, atol=1e-8 if projected else 1e-12)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_low_precision_with_shared_step_sizes(granularity, dtype: torch.dtype):
    torch.manual_seed(3)
    ours = make([(64, 33), (20_000,)], granularity, dtype, beta=0.9, weight_decay=0.1)
    theirs = twin(ours)
    for _ in range(8):
        draw_gradients(ours)
        theirs.grads = ours.grads
        assert fused.step(ours, copies_of(ours)) is None
        loop_step(theirs)
    assert_same(
        ours, theirs, rtol=1e-4 if dtype == torch.float32 else 2e-2, atol=1e-5 if dtype == torch.float32 else 2e-2
    )


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_sizes_around_vector_widths_and_blocks(beta: float, state_dtype: torch.dtype):
    torch.manual_seed(4)
    sizes = [*range(1, 36), 63, 64, 65, 127, 128, 129, 143, 144, 145, 255, 256, 257, 511, 513, 16_383, 16_384, 16_385]
    ours = make([(n,) for n in sizes], state_dtype=state_dtype, beta=beta)
    theirs = twin(ours)
    for _ in range(3):
        draw_gradients(ours)
        theirs.grads = ours.grads
        assert fused.step(ours) is None
        loop_step(theirs, exact=True)
    assert_same(ours, theirs)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_thousand_steps_on_a_convex_problem(granularity):
    torch.manual_seed(5)
    ours = make([(20,), (4, 5)], granularity, torch.float64, beta=0.5, lr=0.01)
    theirs = twin(ours)
    curvatures = [torch.rand(p.shape, dtype=torch.float64) + 0.1 for p in ours.params]
    noise = torch.Generator().manual_seed(6)
    for _ in range(1_000):
        draws = [torch.randn(p.shape, generator=noise, dtype=torch.float64) * 0.1 for p in ours.params]
        for batch in (ours, theirs):
            batch.grads = [a * p + d for a, p, d in zip(curvatures, batch.params, draws, strict=True)]
        assert fused.step(ours, copies_of(ours)) is None
        loop_step(theirs)
    assert_same(ours, theirs, rtol=1e-6, atol=1e-8)
    assert all((p.abs() < 0.5).all() for p in ours.params)


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["plain", "momentum", "capped", "limited", "bounded", "lazy", "box, momentum"])
def test_nan_and_infinity_stay_where_the_rule_leaves_them(name: str, state_dtype: torch.dtype):
    torch.manual_seed(7)
    ours = make([(300,)], state_dtype=state_dtype, **OPTIONS[name])
    theirs = twin(ours)
    draw_gradients(ours)
    theirs.grads = ours.grads
    assert fused.step(ours) is None
    loop_step(theirs, exact=True)
    draw_gradients(ours)
    theirs.grads = ours.grads
    bad = [math.nan, math.inf, -math.inf, 0.0, 1e-30, 1e30, 1e-45]
    for i, value in enumerate(bad):
        ours.grads[0][i] = value
        for batch in (ours, theirs):
            batch.momenta[0][20 + i] = value
            batch.growths[0][40 + i] = abs(value) if value and not math.isinf(value) else 1.0  # never infinite
            batch.accumulators[0][60 + i] = 1.0 if math.isinf(value) else abs(value)  # never infinite
            batch.params[0][80 + i] = value
    for batch in (ours, theirs):
        batch.growths[0][batch.growths[0] == 0] = 1.0  # nor zero, as bf16 makes of the smallest
    for _ in range(2):
        assert fused.step(ours) is None
        loop_step(theirs, exact=True)
    assert_same(ours, theirs)
    assert torch.isfinite(ours.params[0][100:]).all()


@pytest.mark.parametrize("granularity", ["tensor", "group"])
@pytest.mark.parametrize("name", ["plain", "momentum", "lazy", "box, momentum"])
def test_measuring_and_applying_in_two_calls_is_the_same_step(granularity, name: str):
    torch.manual_seed(8)
    whole = make([(5, 4), (40_000,), (0,), ()], granularity, **OPTIONS[name])
    halves = twin(whole)
    for _ in range(3):
        draw_gradients(whole, zeros=True)
        halves.grads = whole.grads
        assert fused.step(whole, copies_of(whole)) is None
        before = twin(halves)
        sums = fused.measure(halves, copies_of(halves))
        assert_same(halves, before)  # measuring changes nothing
        assert isinstance(sums, torch.Tensor)
        assert fused.apply(halves, sums, copies_of(halves)) is None
    assert_same(halves, whole, rtol=1e-6, atol=1e-7)
    assert reference.tensors(halves)["steps"][0] == 3
