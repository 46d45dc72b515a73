"""The kernel's arithmetic is the rules': bit for bit where every element is its own block."""

import pytest
import torch

from gradagrad.kernel.backend import KERNEL
from gradagrad.rules.scope import SCOPES, SINGLE
from gradagrad.torch_ops.steps import learn
from tests.engine.kernel_batches import (
    AUTO,
    GRADAGRAD,
    assert_same,
    draw_gradients,
    make,
    needs_kernel,
    step_both,
    take,
    torch_step,
    twin,
)  # fmt: skip

pytestmark = needs_kernel
FORMATS = [
    (torch.float32, torch.float32),
    (torch.float64, torch.float64),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.bfloat16, torch.bfloat16),
    (torch.float16, torch.bfloat16),
    (torch.float64, torch.bfloat16),
]
EDGES = [(n,) for n in (0, 1, 15, 16, 17, 127, 128, 129, 513, 1030)]


@pytest.mark.parametrize("name", GRADAGRAD)
@pytest.mark.parametrize(("dtype", "state_dtype"), FORMATS, ids=str)
def test_elements_equal_the_rule_bit_for_bit(name: str, dtype: torch.dtype, state_dtype: torch.dtype):
    """Random numbers that round bf16 state included."""
    ours = make([(5, 61), (), *EDGES], dtype=dtype, state_dtype=state_dtype, **GRADAGRAD[name])
    theirs = twin(ours)
    for step in range(4):
        step_both(ours, theirs, zeros=True)
        assert_same(ours, theirs, about=f"step {step}")


@pytest.mark.parametrize("name", GRADAGRAD)
@pytest.mark.parametrize("scope", ["row", *SINGLE])
def test_shared_step_sizes_equal_the_rule(name: str, scope: str):
    """Sums are taken in another order, so that in float64 they agree to its last digits."""
    shapes = [(7, 33), (130,), (), (3, 700), (2, 17_000), (0, 4)]
    ours = make(shapes, scope, torch.float64, **GRADAGRAD[name])
    theirs = twin(ours)
    for step in range(5):
        step_both(ours, theirs, zeros=step % 2 == 1)
        assert_same(ours, theirs, 1e-11, 1e-12, f"step {step}")


@pytest.mark.parametrize("name", AUTO)
def test_auto_equals_the_rule(name: str):
    ours = make([(7, 33), (130,), (), (2, 17_000), (0,)], "auto", torch.float64, **AUTO[name])
    theirs = twin(ours)
    for step in range(6):
        step_both(ours, theirs, zeros=step % 2 == 1)
        assert_same(ours, theirs, 1e-11, 1e-13, f"step {step}")


@pytest.mark.parametrize("scope", ["tensor", "all", "auto"])
@pytest.mark.parametrize(("dtype", "state_dtype"), FORMATS, ids=str)
def test_formats_with_shared_step_sizes(scope: str, dtype: torch.dtype, state_dtype: torch.dtype):
    """One step from the same start: what is rounded at random is rounded alike, but for sums that differ in a last
    digit."""
    ours = make([(40, 50), (700,)], scope, dtype, state_dtype, stochastic_rounding=True, beta=0.9)
    theirs = twin(ours)
    step_both(ours, theirs)
    assert_same(ours, theirs, 1e-5, 1e-6)


SPECIAL = [float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 1e-44, 0.0, -0.0, 1e20, 1e-20]


@pytest.mark.parametrize("name", ["plain", "momentum", "limited", "bounded", "lazy", "coupled", "box, momentum"])
@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_numbers_at_the_ends_of_the_range_are_the_rule_s(name: str, state_dtype: torch.dtype):
    ours = make([(10, 10)], state_dtype=state_dtype, **GRADAGRAD[name])
    theirs = twin(ours)
    for _ in range(3):
        draw_gradients(ours)
        ours.grads[0].fill_diagonal_(1.0).copy_(torch.tensor(SPECIAL) * ours.grads[0].sign())
        ours.params[0][3] = ours.params[0][3] * 1e30
        theirs.grads, theirs.params[0][3] = [g.clone() for g in ours.grads], ours.params[0][3]
        take(KERNEL, ours)
        torch_step(theirs)
        assert_same(ours, theirs)


@pytest.mark.parametrize(("bad", "guard"), [(float("nan"), True), (float("inf"), True), (float("inf"), False)])
def test_a_ruined_element_ruins_nothing_else(bad: float, guard: bool):
    """The guard limits an infinity as it does every outlier."""
    ours = make([(40,), (30,)], "auto", torch.float64, guard=guard)
    theirs = twin(ours)
    for step in range(4):
        draw_gradients(ours)
        if step == 1:
            ours.grads[0][7] = bad
        theirs.grads = [g.clone() for g in ours.grads]
        take(KERNEL, ours)
        torch_step(theirs)
    if not guard:  # The kernel always computes the decay, and 0·NaN is NaN.
        theirs.state["offset"][0][7] = float("nan")
    assert_same(ours, theirs, 1e-11, 1e-13)
    assert all(torch.isfinite(number) for number in (*ours.shared.values(), *ours.state["gamma"]))
    assert torch.isfinite(ours.params[0]).sum() == (40 if guard and bad == float("inf") else 39)


def test_large_doubles_become_the_largest_bf16_and_infinities_stay():
    ours = make([(4,)], dtype=torch.float64, state_dtype=torch.bfloat16, beta=0.0)
    ours.grads = [torch.tensor([1e300, -1e39, float("inf"), 2.0], dtype=torch.float64)]
    take(KERNEL, ours)
    largest = torch.finfo(torch.bfloat16).max
    assert ours.state["momentum"][0].tolist()[:3] == [largest, -largest, float("inf")]


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_no_nan_is_rounded_to_a_number(beta: float):
    """Not even one whose bits are all set, which a carry would turn into zero, or with only low ones, into infinity."""
    ours = make([(300,)], state_dtype=torch.bfloat16, beta=beta)
    patterns = torch.tensor([0x7FFFFFFF, -1, 0x7F800001, -8388607], dtype=torch.int32).view(torch.float32)
    ours.grads = [patterns.repeat(75)]
    take(KERNEL, ours)
    assert ours.state["momentum"][0].isnan().all()


@pytest.mark.parametrize("scope", [*SINGLE, "auto"])
def test_phase_by_phase_is_the_same_step(scope: str):
    whole = make([(100, 33), (40_000,), (5,)], scope, torch.float64, beta=0.9)
    phases = twin(whole)
    for _ in range(3):
        draw_gradients(whole)
        phases.grads = whole.grads
        take(KERNEL, whole)
        before = twin(phases)
        step = KERNEL.prepare(phases)
        assert not isinstance(step, str)
        sums = step.measure()
        assert (sums is None) == (scope == "auto")
        assert sums is None or sums.shape == (3 if scope == "tensor" else 1, 2)
        assert_same(phases, before)  # measuring writes nothing
        statistics = step.move(sums)
        assert all(torch.equal(a, b) for a, b in zip(phases.shared.values(), before.shared.values(), strict=True))
        if phases.plan.is_shared:
            step.write_shared(sums)
        if statistics is not None:
            assert torch.equal(phases.state["gamma"][0], before.state["gamma"][0])
            learn([phases], [statistics])
        assert (statistics is not None) == (scope == "auto")
        assert_same(phases, whole, 1e-13, 1e-14)


@pytest.mark.parametrize("scope", [*SCOPES, "auto"])
def test_a_long_run_stays_beside_the_rule(scope: str):
    ours = make([(20, 30), (50,)], scope, torch.float64, beta=0.5, **({} if scope == "auto" else {"lr_decay": 0.01}))
    theirs = twin(ours)
    target = [torch.randn_like(p) for p in ours.params]
    for _ in range(200):
        for batch in (ours, theirs):
            batch.grads = [p - t for p, t in zip(batch.params, target, strict=True)]
        take(KERNEL, ours)
        torch_step(theirs)
    for a, b in zip(ours.params, theirs.params, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
