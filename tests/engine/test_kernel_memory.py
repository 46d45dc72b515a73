"""Layouts that the kernel supports directly, results that do not depend on threads, and errors before any write."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from gradagrad import GradaGrad
from gradagrad.kernel import load
from gradagrad.kernel.backend import KERNEL
from gradagrad.rules.scope import SCOPES
from tests.engine.kernel_batches import assert_same, draw_gradients, make, needs_kernel, step_both, take, twin

pytestmark = needs_kernel


@pytest.mark.parametrize("scope", [*SCOPES, "auto"])
@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_number_of_threads_changes_nothing(scope: str, state_dtype: torch.dtype):
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        shapes = [(70_001,), (3,), (400, 130), (3, 50_000)]
        batch = make(shapes, scope, state_dtype=state_dtype, beta=0.9)
        for _ in range(2):
            draw_gradients(batch)
            take(KERNEL, batch)
        results.append(batch)
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def _layouts() -> dict[str, Tensor]:
    return {
        "channels_last": torch.randn(4, 3, 5, 6).to(memory_format=torch.channels_last),
        "channels_last_3d": torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
        "transposed": torch.randn(7, 9).t(),
        "permuted": torch.randn(3, 4, 5).permute(1, 2, 0),
        "slice of a larger one": torch.randn(10, 8)[2:7],
        "misaligned": torch.randn(1001)[1:],
        "size one": torch.randn(4, 1, 3).as_strided((4, 1, 3), (3, 99, 1)),
    }


@pytest.mark.parametrize("layout", _layouts())
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_layouts(layout: str, scope: str, state_dtype: torch.dtype):
    """bf16 is rounded with bits that follow an element's place in memory."""
    batch = make([_layouts()[layout], (5,)], scope, state_dtype=state_dtype, beta=0.5)
    other = twin(batch)
    assert other.params[0].stride() == batch.params[0].stride() or layout in ("size one", "misaligned")
    draw_gradients(batch)
    outermost = batch.params[0].dim() < 2 or batch.params[0].stride(0) * len(batch.params[0]) == batch.params[0].numel()
    if scope == "row" and not outermost:
        assert "first dimension of parameter 0" in str(KERNEL.prepare(batch))
        return
    for _ in range(3):
        step_both(batch, other)
        assert_same(batch, other, 0.0 if scope == "element" else 1e-2, 0.0 if scope == "element" else 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_the_search_for_a_number_that_is_not_zero(dtype: torch.dtype):
    ops = load.ops()
    assert ops
    numbers = torch.full((3, 2000), -0.0, dtype=dtype)
    tail, columns = numbers[:, -1], numbers[:, 1::2]
    parts = {"whole": numbers, "turned": numbers.t(), "tail": tail, "columns": columns, "number": numbers[2, -1]}
    assert not any(ops.any_nonzero(part) for part in (*parts.values(), numbers[:0], tail[:0]))
    for number in (torch.nan, torch.finfo(dtype).smallest_normal / 4, -1.0):
        numbers[2, -1] = number
        assert all(map(ops.any_nonzero, parts.values())), number
        assert not ops.any_nonzero(numbers[:, ::2])
        assert not ops.any_nonzero(numbers[0, 0].expand(4, 4))


def _unfit() -> dict[str, tuple[str, dict[str, Tensor]]]:
    f64 = torch.float64
    everything = ("params", "grads", "momentum", "growth", "accumulator")
    return {
        "integers": ("float64, bfloat16 or float16", {n: torch.ones(6).int() for n in ("params", "grads")}),
        "gradient dtype": ("must have the parameter's dtype", {"grads": torch.ones(6, dtype=f64)}),
        "state dtype": ("the state of parameter 1", {"momentum": torch.ones(6, dtype=f64)}),
        "block dtype": ("the state of parameter 1", {"growth": torch.ones(6, dtype=f64)}),
        "half state": ("the state of parameter 1", {"growth": torch.ones(6, dtype=torch.float16)}),
        "gradient shape": ("the gradient of parameter 1", {"grads": torch.ones(5)}),
        "momentum shape": ("does not fit its shape", {"momentum": torch.ones(5)}),
        "accumulator shape": ("does not fit its shape", {"accumulator": torch.ones(5)}),
        "gradient strides": ("same strides", {"grads": torch.ones(12)[::2]}),
        "growth strides": ("same strides", {"growth": torch.ones(12)[::2]}),
        "parameter with gaps": ("without gaps", {"params": torch.ones(12)[::2]}),
        "gaps": ("without gaps", {n: torch.ones(12)[::2] for n in everything}),
        "expanded": ("same strides", {"grads": torch.ones(1).expand(6)}),
        "device": ("on the CPU", {"grads": torch.ones(6, device="meta")}),
        "sparse": ("must be dense", {"grads": torch.ones(6).to_sparse()}),
        "step dtype": ("step counter", {"steps": torch.zeros(())}),
        "step shape": ("step counter", {"steps": torch.zeros(2, dtype=torch.int64)}),
    }


def _put(batch: Any, name: str, i: int, tensor: Tensor) -> None:
    (batch.state[name] if name in batch.state else getattr(batch, name))[i] = tensor


@pytest.mark.parametrize("case", _unfit())
def test_what_does_not_fit_is_refused_before_any_write(case: str):
    message, changes = _unfit()[case]
    batch = make([(8,), (6,), (3,)])
    draw_gradients(batch)
    for name, tensor in changes.items():
        _put(batch, name, 1, tensor)
    before = twin(batch)
    assert message in str(KERNEL.prepare(batch))
    assert_same(batch, before)


def test_shared_numbers_must_be_doubles_and_lists_of_one_length():
    batch = make([(8,), (6,)], "auto")
    draw_gradients(batch)
    batch.shared["common_gamma"] = torch.ones(())
    assert "for shared numbers" in str(KERNEL.prepare(batch))
    batch = make([(8,), (6,)])
    draw_gradients(batch)
    batch.grads.pop()
    assert "differ in length" in str(KERNEL.prepare(batch))


def test_rules_and_scopes_that_the_kernel_lacks_are_refused():
    batch = make([(8,)], "element")
    draw_gradients(batch)
    batch.plan.settings = ("another", "rule")
    assert "not generated for the rule" in str(KERNEL.prepare(batch))
    for scope in ("row", "all"):
        batch = make([(8,)], "auto")
        draw_gradients(batch)
        batch.plan = replace(batch.plan, scope=scope)
        assert f'cannot take "{scope}"' in str(KERNEL.prepare(batch))


@pytest.mark.parametrize(("first", "second"), [("params", "momentum"), ("params", "grads"), ("growth", "accumulator")])
def test_overlapping_tensors_are_refused_before_any_write(first: str, second: str):
    batch = make([(8,), (6,)])
    draw_gradients(batch)
    memory = torch.ones(9)
    _put(batch, first, 1, memory[:6])
    _put(batch, second, 1, memory[3:])
    before = twin(batch)
    assert "shares memory" in str(KERNEL.prepare(batch))
    assert_same(batch, before)
    _put(batch, second, 1, torch.ones(6))
    assert not isinstance(KERNEL.prepare(batch), str)
    _put(batch, second, 1, memory[3:])
    assert "shares memory" in str(KERNEL.prepare(batch))  # also right after a list that passed
    assert "shares memory" in str(KERNEL.prepare(batch.select([0, 0])))


def test_a_prepared_step_that_is_not_taken_leaves_nothing_behind():
    batch = make([(8,)])
    draw_gradients(batch)
    before = twin(batch)
    steps = [KERNEL.prepare(batch) for _ in range(2)]
    assert not any(isinstance(step, str) for step in steps)
    gradient = weakref.ref(batch.grads[0])
    steps.clear()
    batch.grads = []
    gc.collect()
    assert gradient() is None  # a tensor that C++ still holds would live on
    assert_same(batch, before)


def test_a_backward_through_a_stepped_parameter_is_noticed():
    parameter = torch.ones(3, requires_grad=True)
    optimizer = GradaGrad([parameter], 0.1, fused=True)
    loss = parameter.square().sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_lists_that_the_kernel_keeps_follow_every_change():
    """State of many parameters is handed over once; exchanged, moved or loaded tensors must be seen nevertheless."""
    ours = [torch.nn.Parameter(torch.randn(5)) for _ in range(20)]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    kept, plain = GradaGrad(ours, 0.1, fused=True), GradaGrad(theirs, 0.1, fused=False)

    def step() -> None:
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn(5)
            q.grad = p.grad.clone()
        kept.step()
        plain.step()
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)

    for _ in range(3):
        step()
    kept.state[ours[3]]["momentum"] = kept.state[ours[3]]["momentum"].clone()  # exchanged
    step()
    ours[5].data = ours[5].data.clone()  # moved
    growth = kept.state[ours[6]]["growth"]
    growth.set_(growth.clone())  # pyright: ignore[reportArgumentType]
    step()
    kept.load_state_dict(kept.state_dict())
    step()
    torch.utils.swap_tensors(ours[2], torch.nn.Parameter(ours[2].detach().clone()))  # another memory, the same object
    step()
    for p in (ours[7], theirs[7]):
        p.grad = None  # another list altogether
    kept.step()
    plain.step()
    step()


def test_kept_lists_are_let_go_with_the_optimizer():
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(20)]
    for p in parameters:
        p.grad = torch.ones(3)
    optimizer = GradaGrad(parameters, 0.1, fused=True)
    optimizer.step()
    optimizer.step()
    momentum = weakref.ref(optimizer.state[parameters[0]]["momentum"])
    del optimizer
    gc.collect()
    assert momentum() is None
