"""Layouts the kernel takes as they are, results that do not depend on threads, and refusals before any write."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

from gradagrad import GradaGrad
from gradagrad.granularity import GRANULARITIES
from gradagrad.steps import fused
from tests.fused.reference import assert_same, copies_of, draw_gradients, loop_step, make, needs_kernel, twin

pytestmark = needs_kernel


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_number_of_threads_changes_nothing(granularity, state_dtype: torch.dtype):
    results = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        batch = make([(70_001,), (3,), (400, 130), (3, 50_000)], granularity, state_dtype=state_dtype, beta=0.9)
        for _ in range(3):
            draw_gradients(batch)
            assert fused.step(batch, copies_of(batch)) is None
        results.append(batch)
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def _layouts() -> dict[str, Tensor]:
    torch.manual_seed(2)
    return {
        "channels_last": torch.randn(4, 3, 5, 6).to(memory_format=torch.channels_last),
        "channels_last_3d": torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
        "transposed": torch.randn(7, 9).t(),
        "permuted": torch.randn(3, 4, 5).permute(1, 2, 0),
        "slice of a larger one": torch.randn(10, 8)[2:7],
        "size one": torch.randn(4, 1, 3).as_strided((4, 1, 3), (3, 99, 1)),
    }


@pytest.mark.parametrize("layout", _layouts())
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_layouts(layout: str, granularity):
    parameter = _layouts()[layout].double().as_strided(_layouts()[layout].shape, _layouts()[layout].stride())
    ours, theirs = parameter.clone(), parameter.clone()
    assert ours.stride() == parameter.stride() or layout == "size one"
    optimizers = [GradaGrad([ours], 0.1, granularity=granularity, fused=None)]
    optimizers.append(GradaGrad([theirs], 0.1, granularity=granularity, fused=False))
    outermost = ours.dim() < 2 or ours.stride(0) * ours.shape[0] == ours.numel()
    for _ in range(3):
        gradient = torch.randn_like(ours)
        ours.grad, theirs.grad = gradient, gradient.clone()
        if granularity == "row" and not outermost:
            optimizers[0].param_groups[0]["fused"] = True
            with pytest.raises(RuntimeError, match="first dimension of parameter 0"):
                optimizers[0].step()
            return
        optimizers[0].param_groups[0]["fused"] = True
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_complex_parameters_are_stepped_as_real_pairs():
    torch.manual_seed(3)
    ours = torch.randn(6, 5, dtype=torch.complex64)
    theirs = ours.clone()
    for parameter, use in ((ours, True), (theirs, False)):
        torch.manual_seed(4)
        optimizer = GradaGrad([parameter], 0.1, granularity="row", fused=use)
        for _ in range(4):
            parameter.grad = torch.randn_like(parameter)
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def _unfit() -> dict[str, tuple[str, dict[str, object]]]:
    f32, f64 = torch.float32, torch.float64
    everything = ("params", "grads", "momenta", "growths", "accumulators")
    return {
        "integers": ("float64, bfloat16 or float16", {n: torch.ones(6).int() for n in ("params", "grads")}),
        "gradient dtype": ("must have the parameter's dtype", {"grads": torch.ones(6, dtype=f64)}),
        "state dtype": ("the state of parameter 1", {"momenta": torch.ones(6, dtype=f64)}),
        "slot dtype": ("the state of parameter 1", {"growths": torch.ones(6, dtype=f64)}),
        "gradient shape": ("the gradient of parameter 1", {"grads": torch.ones(5)}),
        "momentum shape": ("does not fit its shape", {"momenta": torch.ones(5)}),
        "accumulator shape": ("does not fit its shape", {"accumulators": torch.ones(5)}),
        "gradient strides": ("same strides", {"grads": torch.ones(12)[::2]}),
        "growth strides": ("same strides", {"growths": torch.ones(12)[::2]}),
        "parameter with gaps": ("without gaps", {"params": torch.ones(12)[::2]}),
        "gaps": ("without gaps", {n: torch.ones(12)[::2] for n in everything}),
        "expanded": ("same strides", {"grads": torch.ones(1).expand(6)}),
        "device": ("on the CPU", {"grads": torch.ones(6, device="meta")}),
        "sparse": ("must be dense", {"grads": torch.ones(6).to_sparse()}),
        "step dtype": ("step counter", {"steps": torch.zeros((), dtype=f64)}),
        "step shape": ("step counter", {"steps": torch.zeros(2, dtype=f32)}),
    }  # fmt: skip


@pytest.mark.parametrize("case", _unfit())
def test_what_does_not_fit_is_refused_before_any_write(case: str):
    message, changes = _unfit()[case]
    batch = make([(8,), (6,), (3,)])
    draw_gradients(batch)
    for name, tensor in changes.items():
        getattr(batch, name)[1] = tensor
    before = twin(batch)
    reason = fused.step(batch)
    assert reason is not None
    assert message in reason
    assert_same(batch, before)


@pytest.mark.parametrize(("first", "second"), [("params", "momenta"), ("params", "grads"), ("growths", "accumulators")])
def test_overlapping_tensors_are_refused_before_any_write(first: str, second: str):
    batch = make([(8,), (6,)])
    draw_gradients(batch)
    memory = torch.ones(9)
    getattr(batch, first)[1] = memory[:6]
    getattr(batch, second)[1] = memory[3:]
    before = twin(batch)
    assert "shares memory" in str(fused.step(batch))
    assert_same(batch, before)
    getattr(batch, second)[1] = torch.ones(6)
    assert fused.step(batch) is None
    getattr(batch, second)[1] = memory[3:]
    assert "shares memory" in str(fused.step(batch))  # also right after a list that passed


def test_the_same_parameter_twice_is_refused():
    batch = make([(8,)])
    draw_gradients(batch)
    twice = batch.select([0, 0])
    assert "shares memory" in str(fused.step(twice))


def test_fused_true_says_why_it_cannot_and_changes_nothing():
    good, bad = torch.ones(4), torch.ones(8)[::2]
    optimizer = GradaGrad([{"params": [good]}, {"params": [bad]}], 0.1, fused=True)
    good.grad, bad.grad = torch.ones(4), torch.ones(8)[::2]
    with pytest.raises(
        RuntimeError, match=r"fused=True is impossible here: parameter 0 .*shape \(4,\).*Pass fused=None"
    ):
        optimizer.step()
    assert torch.equal(good, torch.ones(4))
    optimizer.param_groups[1]["fused"] = None
    optimizer.step()
    assert (good < 1).all()
    assert (bad < 1).all()


def test_fused_none_steps_what_does_not_fit_by_torch_operations():
    torch.manual_seed(5)
    strided = torch.randn(12)[::2]
    ours, theirs = strided.clone(), strided
    for parameter, use in ((ours, True), (theirs, None)):
        optimizer = GradaGrad([parameter], 0.1, fused=use)
        parameter.grad = torch.ones(6)
        for _ in range(3):
            optimizer.step()
    torch.testing.assert_close(ours, theirs)


def test_a_backward_through_a_stepped_parameter_is_noticed():
    parameter = torch.ones(3, requires_grad=True)
    optimizer = GradaGrad([parameter], 0.1, fused=True)
    loss = parameter.square().sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_python_and_kernel_agree_on_random_cases():
    """A small random search over shapes, layouts and options; a failure prints its seed."""
    for seed in range(40):
        torch.manual_seed(seed)
        pick = lambda *choices: choices[int(torch.randint(len(choices), ()))]  # noqa: E731
        shapes = [tuple(int(n) for n in torch.randint(1, 12, (int(torch.randint(0, 4, ())),))) for _ in range(3)]
        granularity = pick(*GRANULARITIES)
        options = {"beta": pick(0.0, 0.5, 0.9), "rho": pick(0.0, 1.0, 2.0, 50.0), "lazy": pick(True, False)}
        options |= pick({}, {"gamma_max": 0.3}, {"growth_limit": 1.05}, {"grad_bound": 3.0}, {"weight_decay": 0.1})
        ours = make(shapes, granularity, torch.float64, **options)
        theirs = twin(ours)
        for _ in range(5):
            draw_gradients(ours, zeros=pick(True, False))
            theirs.grads = ours.grads
            assert fused.step(ours, copies_of(ours)) is None, seed
            loop_step(theirs)
        try:
            assert_same(ours, theirs, rtol=1e-8, atol=1e-10)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {shapes}, {granularity}, {options}") from error


def test_lists_that_the_kernel_keeps_follow_every_change():
    """Many tensors are handed over once; exchanged, moved or loaded ones must be seen nevertheless."""
    torch.manual_seed(6)
    ours = [torch.randn(5) for _ in range(20)]
    theirs = [p.clone() for p in ours]
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
    kept.state[ours[6]]["growth"].set_(kept.state[ours[6]]["growth"].clone())  # pyright: ignore[reportArgumentType]
    step()
    kept.load_state_dict(kept.state_dict())
    step()
    ours[7].grad = None  # another list altogether
    theirs[7].grad = None
    kept.step()
    plain.step()
    step()


def test_kept_lists_are_let_go_with_the_optimizer():
    parameters = [torch.ones(3) for _ in range(20)]
    for p in parameters:
        p.grad = torch.ones(3)
    optimizer = GradaGrad(parameters, 0.1, fused=True)
    optimizer.step()
    optimizer.step()
    momentum = weakref.ref(optimizer.state[parameters[0]]["momentum"])
    del optimizer
    gc.collect()
    assert momentum() is None  # a tensor that C++ still holds would live on
