"""What users combine with an optimizer: autocast, accumulation, compiled and averaged models, torch.func."""

import pytest
import torch
from cases import KINDS, assert_same, make
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.func import functional_call, grad
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

pytestmark = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


def net(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def loss_of(model, k: int, rows: slice = slice(None), dtype: torch.dtype = torch.float64) -> Tensor:
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(k), dtype=torch.float64).to(dtype)[rows]
    return (model(x) - x.sum(1, keepdim=True).sin()).square().mean()


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def trained(kind: str, backward, steps: int = 60):
    model = net()
    optimizer = make(kind, model.parameters())
    for k in range(steps):
        optimizer.zero_grad()
        backward(model, k)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("kind", KINDS)
def test_accumulated_half_batches_and_torch_func_are_as_good_as_any(kind):
    def halves(model, k):
        for half in (slice(0, 8), slice(8, 16)):
            (loss_of(model, k, half) / 2).backward()

    def functional(model, k):
        values = {name: p.detach() for name, p in model.named_parameters()}
        found = grad(lambda own: loss_of(lambda x: functional_call(model, own, (x,)), k))(values)
        for name, p in model.named_parameters():
            p.grad = found[name]

    plain = trained(kind, lambda model, k: loss_of(model, k).backward())
    for backward in (halves, functional):
        assert_same(trained(kind, backward), plain, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", ["element", "auto"])
def test_autocast_trains_in_bf16_with_float32_state(kind):
    model = net(torch.float32)
    optimizer = make(kind, model.parameters(), **({} if kind == "auto" else {"lr": 0.01}))
    before = loss_of(model, 999, dtype=torch.float32).item()
    for k in range(150):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, k, dtype=torch.float32)
        loss.backward()
        optimizer.step()
    assert loss_of(model, 999, dtype=torch.float32).item() < 0.95 * before
    key = "displacement" if kind == "auto" else "momentum"
    assert all(state[key].dtype == torch.float32 for state in optimizer.state.values())


def test_averaged_models_hold_the_mean_and_the_moving_average_of_the_iterates():
    model = net()
    optimizer, iterates = make("element", model.parameters()), []
    mean, moving = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
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


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # set off inside dynamo
@pytest.mark.parametrize("kind", ["element", "group", "auto"])
def test_a_compiled_model_and_step_are_two_graphs(kind):
    torch._dynamo.reset()
    counter = CompileCounter()
    models = net(), net()
    (eager, reference), (traced, optimizer) = (
        (model, make(kind, model.parameters(), lr=torch.tensor(1e-3))) for model in models
    )
    model, step = torch.compile(traced, backend=counter), torch.compile(optimizer.step, backend=counter)
    for k in range(8):
        for which, take, rates in ((eager, reference.step, reference), (model, step, optimizer)):
            rates.zero_grad()
            loss_of(which, k).backward()
            take()
            rates.param_groups[0]["lr"].mul_(0.9)
    torch.testing.assert_close(flat(traced), flat(eager), rtol=1e-7, atol=1e-9)  # lr is float32
    assert counter.frame_count == 2
    torch._dynamo.reset()
