"""The kernel of AutoGradaGrad, pinned to `gradagrad.auto.rule` as torch operations run it."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from gradagrad import AutoGradaGrad, kernel
from gradagrad.auto import bundles, fused, rule
from gradagrad.steps.kept import MANY, Memory

from . import cases
from .kernel_cases import (
    FORMATS,
    OPTIONS,
    STATE,
    assert_same,
    draw_gradients,
    make,
    needs_kernel,
    start,
    step_both,
    twin,
)

pytestmark = needs_kernel

# Around the widths of vectors, stretches (128) and pieces (512), with scalars and nothing at all.
SHAPES = [(n,) for n in (1, 7, 8, 9, 31, 33, 127, 128, 129, 511, 512, 513, 1037)] + [(), (0, 3), (3, 5, 7)]
SETTINGS = rule.Settings()


@pytest.mark.parametrize("averaging", [True, False], ids=["average", "none"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("formats", FORMATS)
def test_every_option(formats: str, options: str, averaging: bool) -> None:
    batch = make(SHAPES, *FORMATS[formats], averaging=averaging, **OPTIONS[options])
    other = twin(batch)
    numbers = start()
    for _ in range(5):
        draw_gradients(batch, other)
        numbers = step_both(batch, other, numbers, SETTINGS)
        assert_same(batch, other)


@pytest.mark.parametrize(("formats", "linear"), [*((formats, True) for formats in FORMATS), ("f32", False)])
def test_three_hundred_steps(formats: str, linear: bool) -> None:
    batch = make([(65,), (4, 9)], *FORMATS[formats])
    other = twin(batch)
    numbers, settings = start(1e-4), rule.Settings(linear=linear)
    for _ in range(300):
        draw_gradients(batch, other)
        numbers = step_both(batch, other, numbers, settings)
    assert_same(batch, other)
    assert numbers.values.gamma > 1e-3  # the sums had something to find
    assert numbers.values.step == 300
    assert batch.steps[0] == 300


def test_formats_mix_and_keep_their_own_precision() -> None:
    pieces = [make([(40,), (3, 3)], *formats) for formats in FORMATS.values()]
    batch = replace(pieces[0], **{n: [t for p in pieces for t in getattr(p, n)] for n in (*STATE, "streams")})
    batch.owners = batch.params
    other = twin(batch)
    numbers = start()
    for _ in range(4):
        draw_gradients(batch, other)
        numbers = step_both(batch, other, numbers, SETTINGS)
    assert_same(batch, other)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e30])
@pytest.mark.parametrize("formats", FORMATS)
def test_numbers_beyond_the_range(formats: str, bad: float) -> None:
    batch = make([(50,), (7,)], *FORMATS[formats])
    other = twin(batch)
    numbers = start()
    for k in range(6):
        draw_gradients(batch, other)
        for both in (batch, other):
            both.grads[0][3] = 0.0 if k % 2 else bad
        numbers = step_both(batch, other, numbers, SETTINGS)
        assert_same(batch, other)


@pytest.mark.parametrize("formats", ["f32", "bf16"])
def test_the_number_of_threads_changes_nothing(formats: str) -> None:
    results = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        batch = make([(70_001,), (3,), (400, 130), (3, 50_000)], *FORMATS[formats])
        every, numbers = [], start()
        for _ in range(3):
            draw_gradients(batch)
            plan, _ = fused.plan(batch, {}, Memory(), numbers, SETTINGS, required=True)
            assert plan is not None
            every.append(plan.sums)
            after = numbers.judged(plan.sums, SETTINGS)
            plan.move(numbers, after, SETTINGS)
            numbers = after
        results.append((batch, every))
    for batch, every in results[1:]:
        assert all(map(torch.equal, every, results[0][1]))
        assert_same(batch, results[0][0])


def _layouts() -> dict[str, Tensor]:
    torch.manual_seed(2)
    return {
        "channels_last": torch.randn(4, 3, 5, 6).to(memory_format=torch.channels_last),
        "transposed": torch.randn(7, 9).t(),
        "permuted": torch.randn(3, 4, 5).permute(1, 2, 0),
        "slice of a larger one": torch.randn(10, 8)[2:7],
        "size one": torch.randn(4, 1, 3).as_strided((4, 1, 3), (3, 99, 1)),
        "complex": torch.randn(6, 5, dtype=torch.complex64),
    }


@pytest.mark.parametrize("layout", _layouts())
def test_layouts(layout: str) -> None:
    ours, theirs = (Parameter(_layouts()[layout].clone()) for _ in range(2))
    a, b = AutoGradaGrad([ours], fused=True, gamma0=0.01), AutoGradaGrad([theirs], fused=False, gamma0=0.01)
    for _ in range(5):
        ours.grad = torch.randn_like(ours) + ours.detach()
        theirs.grad = ours.grad.clone()
        a.step()
        b.step()
    cases.assert_same(a, b, rtol=1e-5, atol=1e-6)


def _unfit() -> dict[str, tuple[str, dict[str, Tensor]]]:
    f64 = torch.float64
    state = ("momenta", "accumulators", "averages")
    return {
        "integers": ("must be float32, float64, bfloat16", {n: torch.ones(6).int() for n in ("params", "grads")}),
        "gradient dtype": ("must have the parameter's dtype", {"grads": torch.ones(6, dtype=f64)}),
        **{f"{n} dtype": ("the state of parameter 1", {n: torch.ones(6, dtype=f64)}) for n in state},
        **{f"{n} shape": ("does not fit its shape", {n: torch.ones(5)}) for n in state},
        **{f"{n} strides": ("same strides", {n: torch.ones(12)[::2]}) for n in state},
        "gradient shape": ("the gradient of parameter 1", {"grads": torch.ones(5)}),
        "expanded": ("same strides", {"grads": torch.ones(1).expand(6)}),
        "gaps": ("without gaps", {n: torch.ones(12)[::2] for n in ("params", "grads", *state)}),
        "device": ("on the CPU", {"grads": torch.ones(6, device="meta")}),
        "sparse": ("must be dense", {"grads": torch.ones(6).to_sparse()}),
        "step dtype": ("step counter", {"steps": torch.zeros((), dtype=f64)}),
    }


@pytest.mark.parametrize("case", _unfit())
def test_what_does_not_fit_is_refused_before_any_write(case: str) -> None:
    message, changes = _unfit()[case]
    batch = make([(8,), (6,), (3,)])
    draw_gradients(batch)
    for name, tensor in changes.items():
        getattr(batch, name)[1] = tensor
    before = twin(batch)
    with pytest.raises(RuntimeError, match=f"fused=True is impossible here: .*{message}"):
        fused.plan(batch, {}, Memory(), start(), SETTINGS, required=True)
    plan, rest = fused.plan(batch, {}, Memory(), start(), SETTINGS, required=False)
    assert plan is not None  # the other two
    assert rest is not None
    assert [p.shape for p in rest.params] == [batch.params[1].shape]
    assert_same(batch, before)


def test_lists_of_different_lengths_are_refused() -> None:
    batch = make([(8,), (6,)])
    draw_gradients(batch)
    batch.averages.pop()
    with pytest.raises(RuntimeError, match="differ in length"):
        fused.plan(batch, {}, Memory(), start(), SETTINGS, required=True)


@pytest.mark.parametrize("names", [("params", "params"), ("averages", "momenta"), ("grads", "accumulators")])
def test_shared_memory_is_refused(names: tuple[str, str]) -> None:
    batch = make([(8,), (6,)])
    draw_gradients(batch)
    getattr(batch, names[0])[1] = getattr(batch, names[1])[0][1:7]
    with pytest.raises(RuntimeError, match="shares memory"):
        fused.plan(batch, {}, Memory(), start(), SETTINGS, required=True)
    assert fused.plan(batch, {}, Memory(), start(), SETTINGS, required=False) == (None, batch)


def test_some_by_the_kernel_and_the_others_by_torch_operations() -> None:
    optimizers = []
    for use in (None, False):
        torch.manual_seed(3)
        params = [Parameter(torch.randn(5, 4, dtype=torch.float64)) for _ in range(3)]
        params[1] = Parameter(torch.randn(5, 8, dtype=torch.float64)[:, ::2])  # with gaps
        optimizers.append(AutoGradaGrad(params, fused=use, gamma0=1e-3))
        cases.train(optimizers[-1], 20)
    cases.assert_same(*optimizers, rtol=1e-10, atol=1e-12)


def test_a_step_that_was_given_up_leaves_nothing_behind() -> None:
    batch = make([(8,)])
    draw_gradients(batch)
    before = twin(batch)
    plan, _ = fused.plan(batch, {}, Memory(), start(), SETTINGS, required=True)
    assert plan is not None
    held = weakref.ref(batch.grads[0].untyped_storage())
    assert_same(batch, before)
    number, ops = plan._pending[0], plan._ops
    del plan
    batch.grads.clear()
    gc.collect()
    assert held() is None
    with pytest.raises(RuntimeError, match="taken or given up"):
        ops.auto_move_(number, [1.0, 1.0, 0.1, 1.0, 0.1, 0.0, 0.0, 0.0, 0.0], 0)
    assert_same(batch, before)


def test_autograd_notices_the_write() -> None:
    weight = Parameter(torch.ones(3))
    optimizer = AutoGradaGrad([weight], fused=True)
    weight.grad = torch.ones(3)
    loss = (weight * weight).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_many_tensors_are_handed_over_once_and_anew_when_exchanged() -> None:
    optimizers = [
        AutoGradaGrad([Parameter(torch.ones(3)) for _ in range(2 * MANY)], fused=use) for use in (True, False)
    ]
    for turn in range(6):
        for optimizer in optimizers:
            cases.train(optimizer, 1, start=turn)
            if turn == 2:  # other tensors under the same parameters
                optimizer.load_state_dict(optimizer.state_dict())
            if turn == 3:
                state = optimizer.state[cases.every_parameter(optimizer)[5]]
                state["average"] = state["average"].clone()
    cases.assert_same(*optimizers, rtol=1e-5, atol=1e-7)


def test_the_default_uses_the_kernel_and_false_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    plan, one_by_one = fused.plan, bundles.one_by_one
    monkeypatch.setattr(fused, "plan", lambda *a, **k: used.append("kernel") or plan(*a, **k))
    monkeypatch.setattr(bundles, "one_by_one", lambda b: used.append("loop") or one_by_one(b))
    for use, expected in ((None, {"kernel"}), (True, {"kernel"}), (False, {"loop"})):
        used.clear()
        cases.train(AutoGradaGrad([Parameter(torch.ones(3))], fused=use), 2)
        assert set(used) == expected


def test_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = kernel.KernelStatus(False, None, "it was not built.", "Build it.")
    monkeypatch.setattr(kernel, "kernel_status", lambda: missing)
    monkeypatch.setattr(kernel, "ops", lambda: None)
    kernel.warn_once.cache_clear()
    with pytest.warns(kernel.KernelMissingWarning, match=r"not built.*Build it.*fused=False"):
        cases.train(AutoGradaGrad([Parameter(torch.ones(3))]), 2)
    with pytest.raises(RuntimeError, match="fused=True is impossible here: it was not built"):
        cases.train(AutoGradaGrad([Parameter(torch.ones(3))], fused=True), 1)
    kernel.warn_once.cache_clear()
