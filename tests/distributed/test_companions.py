"""What users combine with an optimizer: mixed precision, accumulation, clipping, compilation, averaging, torch.func."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.func import functional_call, grad
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gradagrad import GradaGrad

from . import models
from .models import Net


def loss_of(
    model: Callable[[Tensor], Tensor], k: int, rows: slice = slice(None), dtype: torch.dtype = torch.float64
) -> Tensor:
    x, y = models.batch(k, dtype=dtype)
    return (model(x[rows]) - y[rows]).square().mean()


def net(dtype: torch.dtype = torch.float64, **options: Any) -> tuple[Net, GradaGrad]:
    torch.manual_seed(3)
    model = Net(dtype)
    options.setdefault("lr", 1e-3)
    return model, GradaGrad(model.parameters(), **options)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("fused", [None, False], ids=["kernel", "plain"])
def test_grad_scaler_changes_nothing_while_its_scale_moves(fused: bool | None):
    """Powers of two scale float32 exactly, so not even the last bit may differ; a step with an infinity is skipped."""
    plain, optimizer = net(torch.float32, fused=fused)
    for k in range(20):
        optimizer.zero_grad()
        loss_of(plain, k, dtype=torch.float32).backward()
        optimizer.step()

    scaled, optimizer = net(torch.float32, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    scales = set()
    for k in range(20):
        if k == 10:  # an overflow between two steps
            optimizer.zero_grad()
            (loss_of(scaled, k, dtype=torch.float32) * float("inf")).backward()
            before = {key: value.clone() for key, value in optimizer.state[scaled.scale].items()}
            scaler.step(optimizer)
            scaler.update()
            for key, value in optimizer.state[scaled.scale].items():
                assert torch.equal(value, before[key])
        optimizer.zero_grad()
        scaler.scale(loss_of(scaled, k, dtype=torch.float32)).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.add(scaler.get_scale())
    assert len(scales) > 4
    assert torch.equal(flat(scaled), flat(plain))


def test_autocast_trains_in_bf16_with_float32_state():
    model, optimizer = net(torch.float32, lr=0.01)
    x, y = models.batch(999, rows=400, dtype=torch.float32)
    before = (model(x) - y).square().mean().item()
    for k in range(150):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, k, dtype=torch.float32)
        loss.backward()
        optimizer.step()
    assert (model(x) - y).square().mean().item() < 0.95 * before
    assert all(s["momentum"].dtype == torch.float32 for s in optimizer.state.values())


@pytest.mark.parametrize("granularity", models.GRANULARITIES)
def test_accumulated_half_batches_are_the_whole_batch(granularity: str):
    model, optimizer = net(granularity=granularity)
    for k in range(100):
        optimizer.zero_grad()
        for half in (slice(0, 8), slice(8, 16)):
            (loss_of(model, k, half) / 2).backward()
        optimizer.step()
    expected, *_ = models.reference(granularity, "plain")
    models.assert_equal(models.gathered(model, optimizer), expected)


@pytest.mark.parametrize(("granularity", "rho"), [("element", 2.0), ("group", 2.0), ("group", 10.0)])
def test_clipping_does_not_make_the_learning_rate_run_away(granularity: str, rho: float):
    """Clipping makes all gradients equally long but cannot make them agree, and only agreement raises γ.

    Gradients here have norms of about 1. From a γ far too small, runs with and without clipping raise it to about the
    same size and train equally well. (Prodigy's issue 13 is the runaway.)
    """
    results: dict[float, tuple[float, float]] = {}
    x, y = models.batch(999, rows=400)
    for clip in (float("inf"), 1.0, 1e-2, 1e-3):
        model, optimizer = net(granularity=granularity, rho=rho, lr=1e-4)
        before = (model(x) - y).square().mean().item()
        for k in range(400):
            optimizer.zero_grad()
            loss_of(model, k % 40).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        largest = max(float(s["growth"].max()) for s in optimizer.state.values()) * 1e-4
        results[clip] = largest, (model(x) - y).square().mean().item() / before
    (free, improvement), *clipped = results.values()
    for gamma, clipped_improvement in clipped:
        assert 1e-3 < gamma < 3.0 * free, results
        assert clipped_improvement < 1.05 * improvement < 1.0, results
    # Where every gradient is clipped, the size it is clipped to does not matter.
    assert results[1e-2] == pytest.approx(results[1e-3], rel=1e-3)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # set off inside dynamo
@pytest.mark.parametrize("granularity", ["element", "group"])
def test_compiled_model_and_step_train_as_eager_ones(granularity: str):
    """A graph for the model and one for the step, and no more when a schedule moves the learning rate."""
    torch._dynamo.reset()
    eager, reference = net(granularity=granularity, lr=torch.tensor(1e-3))
    traced, optimizer = net(granularity=granularity, lr=torch.tensor(1e-3))
    counter = CompileCounter()
    model = torch.compile(traced, backend=counter)
    step = torch.compile(optimizer.step, backend=counter)
    for k in range(8):
        for which, take, rates in ((eager, reference.step, reference), (model, step, optimizer)):
            rates.zero_grad()
            loss_of(which, k).backward()
            take()
            rates.param_groups[0]["lr"].mul_(0.9)
    torch.testing.assert_close(flat(traced), flat(eager), rtol=1e-7, atol=1e-9)  # lr is float32
    assert counter.frame_count == 2
    torch._dynamo.reset()


def test_averaged_models_hold_the_mean_and_the_moving_average_of_the_iterates():
    """AveragedModel with its default weights is the average of the theorem; no switch of the optimizer is involved."""
    model, optimizer = net()
    mean, moving = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    iterates: list[Tensor] = []
    for k in range(30):
        optimizer.zero_grad()
        loss_of(model, k).backward()
        optimizer.step()
        mean.update_parameters(model)
        moving.update_parameters(model)
        iterates.append(flat(model))
    torch.testing.assert_close(flat(mean.module), torch.stack(iterates).mean(0), rtol=1e-12, atol=1e-14)
    expected = iterates[0]
    for iterate in iterates[1:]:
        expected = 0.9 * expected + 0.1 * iterate
    torch.testing.assert_close(flat(moving.module), expected, rtol=1e-12, atol=1e-14)


def test_gradients_of_torch_func_are_as_good_as_any():
    model, optimizer = net()
    for k in range(100):
        values = {name: p.detach() for name, p in model.named_parameters()}
        gradients = grad(lambda v, k=k: loss_of(lambda x: functional_call(model, v, (x,)), k))(values)
        for name, p in model.named_parameters():
            p.grad = gradients[name]
        optimizer.step()
    expected, *_ = models.reference("element", "plain")
    models.assert_equal(models.gathered(model, optimizer), expected)
