"""State in bf16: the same numbers from kernel and Python, on resume, and no drift."""

import io

import pytest
import torch

from gradagrad import GradaGrad, rounding
from gradagrad.steps import fused
from tests.fused.reference import OPTIONS, assert_same, copies_of, draw_gradients, loop_step, make, needs_kernel, twin

BF16 = torch.bfloat16


@needs_kernel
@pytest.mark.parametrize("granularity", ["element", "row", "tensor", "group"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_kernel_and_python_round_alike(granularity, dtype: torch.dtype):
    torch.manual_seed(1)
    ours = make([(40, 7), (300,), ()], granularity, dtype, BF16, beta=0.9)
    theirs = twin(ours)
    for _ in range(10):
        draw_gradients(ours)
        theirs.grads = ours.grads
        assert fused.step(ours, copies_of(ours)) is None
        loop_step(theirs, exact=dtype != torch.float64)
    if granularity == "element":
        assert_same(ours, theirs, rtol=1e-12 if dtype == torch.float64 else 0.0)
    else:  # sums are rounded differently, which now and then rounds a momentum the other way
        assert_same(ours, theirs, rtol=0.05, atol=0.02)


@needs_kernel
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_elements_equal_the_rule_bit_for_bit(name: str, dtype: torch.dtype):
    """With and without options the kernel has loops of its own for this state; both round as Python does."""
    torch.manual_seed(1)
    ours = make([(7,), (33, 17), (), (0,), (1000,)], "element", dtype, BF16, **OPTIONS[name])
    theirs = twin(ours)
    for _ in range(8):
        draw_gradients(ours, zeros=True)
        theirs.grads = ours.grads
        assert fused.step(ours) is None
        loop_step(theirs, exact=True)
    if "lr_decay" not in OPTIONS[name]:
        assert_same(ours, theirs)
    else:  # Python decays the learning rate in float32, the kernel in float64
        for a, b in zip(ours.accumulators, theirs.accumulators, strict=True):
            assert torch.equal(a, b)


@needs_kernel
@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_no_nan_is_rounded_to_a_number(beta: float):
    """Not even one whose bits are all set, which a carry would turn into zero."""
    batch = make([(64,)], state_dtype=BF16, beta=beta)
    for bits in (-1, 0x7FFFFFFF):
        draw_gradients(batch)
        batch.grads[0][:40] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
        assert fused.step(batch) is None
        for state in (batch.momenta, batch.growths, batch.accumulators):
            assert state[0][:40].isnan().all()
            assert state[0][40:].isfinite().all()


@needs_kernel
def test_kernel_numbers_elements_by_their_place_in_memory():
    torch.manual_seed(2)
    ours = make([(6, 5)], state_dtype=BF16)
    for name in ("params", "momenta", "growths", "accumulators"):
        getattr(ours, name)[0] = getattr(ours, name)[0].t().contiguous().t()
    theirs = twin(ours)
    draw_gradients(ours)
    ours.grads[0] = ours.grads[0].t().contiguous().t()
    theirs.grads = ours.grads
    for _ in range(5):
        assert fused.step(ours) is None
        loop_step(theirs, exact=True)
    assert_same(ours, theirs)


@pytest.mark.parametrize("options", [{"fused": None}, {"fused": False}, {"foreach": True}], ids=str)
def test_resumes_bit_for_bit(options: dict[str, bool | None]):
    def model_and_optimizer() -> tuple[torch.nn.Module, GradaGrad]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        return model, GradaGrad(model.parameters(), 0.01, momentum=0.9, state_dtype=BF16, **options)  # pyright: ignore[reportArgumentType]

    def train(model: torch.nn.Module, optimizer: GradaGrad, steps: range) -> None:
        for step in steps:
            torch.manual_seed(step)
            optimizer.zero_grad()
            model(torch.randn(16, 9)).square().mean().backward()
            optimizer.step()

    model, optimizer = model_and_optimizer()
    train(model, optimizer, range(20))
    again, resumed = model_and_optimizer()
    train(again, resumed, range(8))
    file = io.BytesIO()
    torch.save({"model": again.state_dict(), "optimizer": resumed.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again, resumed = model_and_optimizer()
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    train(again, resumed, range(8, 20))
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
        for key in ("momentum", "growth", "accumulator"):
            assert optimizer.state[a][key].dtype == BF16
            assert torch.equal(optimizer.state[a][key], resumed.state[b][key])


def test_state_takes_six_bytes_per_parameter():
    parameter = torch.ones(1000)
    optimizer = GradaGrad([parameter], 0.1, state_dtype=BF16)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    sizes = {k: v.numel() * v.itemsize for k, v in optimizer.state[parameter].items()}
    assert sum(sizes.values()) == 6 * 1000 + 4  # and the step counter


def test_growth_and_accumulator_never_fall():
    torch.manual_seed(4)
    parameter = torch.randn(500)
    optimizer = GradaGrad([parameter], 0.01, state_dtype=BF16)
    before = None
    for _ in range(50):
        parameter.grad = torch.randn(500) + 0.5
        optimizer.step()
        now = {k: optimizer.state[parameter][k].clone() for k in ("growth", "accumulator")}
        if before is not None:
            assert all((now[k] >= before[k]).all() for k in now)
        before = now


def test_rounding_is_unbiased_and_keeps_what_is_exact():
    value = torch.tensor(1.0 + 3 / 1024)  # between 1 and 1 + 1/128
    like = torch.empty(100_000)
    bits = rounding.random_bits(like, torch.tensor(7.0), 2)
    for high in (False, True):
        result = rounding.stored(like.to(BF16), value.expand(100_000), bits, high=high)
        assert set(result.tolist()) == {1.0, 1.0 + 1 / 128}
        assert abs(result.float().mean() - value) < 2e-5  # five standard errors
    exact = torch.tensor([0.0, -0.0, 1.0, -3.5, float("inf"), -float("inf"), 2.0**127, 2.0**-126])
    kept = rounding.rounded(exact, torch.full((8,), 0xFFFF))
    assert torch.equal(kept.float(), exact)
    assert torch.equal(kept.signbit(), exact.signbit())
    assert rounding.rounded(torch.tensor([float("nan")]), torch.tensor([0xFFFF])).isnan().all()
    largest = torch.finfo(BF16).max
    assert rounding.rounded(torch.tensor([3.4e38, -3.4e38]), torch.full((2,), 0xFFFF)).tolist() == [largest, -largest]


def test_bits_of_an_element_and_its_neighbours_are_independent():
    """Elements n and n + 8 share a hash, but no rounding of an element may follow from another of it."""
    bits = rounding.random_bits(torch.empty(1 << 16), torch.tensor(5.0), 3)
    low, high = (bits & 0xFFFF).double() / 65536 - 0.5, (bits >> 16).double() / 65536 - 0.5
    assert (bits[:8] == (bits[8:16] >> 16) | ((bits[8:16] & 0xFFFF) << 16)).all()
    pairs = {"own halves": (low, high)}
    for distance in (1, 2, 7, 8, 9, 16):
        pairs |= {f"{n}, {distance} apart": (a[distance:], a[:-distance]) for n, a in (("low", low), ("high", high))}
    for name, (a, b) in pairs.items():
        assert abs(float((a * b).mean()) * 12) < 5 / 256, name  # a correlation of five standard errors


def test_bits_differ_between_elements_steps_and_parameters():
    like = torch.empty(1000)
    one = rounding.random_bits(like, torch.tensor(1.0), 0)
    assert one.unique().numel() == 1000
    for other in (rounding.random_bits(like, torch.tensor(2.0), 0), rounding.random_bits(like, torch.tensor(1.0), 1)):
        assert (one == other).sum() < 3
        ones = torch.stack([((one ^ other) >> b) & 1 for b in range(32)]).float().mean(1)
        assert ((ones - 0.5).abs() < 0.08).all()  # five standard deviations
