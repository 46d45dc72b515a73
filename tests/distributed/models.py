"""A small model with every kind of parameter, its data, and the comparison of a sharded run with a whole one."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gradagrad import AutoGradaGrad, GradaGrad

GRANULARITIES = ("element", "row", "tensor", "group")

# Small steps on an easy problem, so that rounding is not amplified, with growth in every granularity.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 1e-3},
    "momentum": {"lr": 1e-3, "momentum": 0.9, "rho": 4.0, "weight_decay": 0.01},
    "bounded": {"lr": 1e-3, "grad_bound": 2.0, "gamma_max": 1.0, "growth_limit": 1.5, "lr_decay": 1e-3},
}


class Net(nn.Module):
    """Sizes that two and four ranks cannot share evenly: 5 rows, a bias of 1 entry, a scalar."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5, dtype=dtype)
        self.second = nn.Linear(5, 1, dtype=dtype)
        self.scale = nn.Parameter(torch.tensor([1.5], dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x))) * self.scale


def batch(k: int, rows: int = 16, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """The k-th batch: noisy values of a fixed function."""
    generator = torch.Generator().manual_seed(100 + k)
    x = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    return x.to(dtype), (x.sum(dim=1, keepdim=True).sin() + noise).to(dtype)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, *, start: int = 0, share: slice) -> None:
    """Mean squared error on this rank's share of each batch; the ranks' gradients are averaged by the wrapper."""
    for k in range(start, start + steps):
        x, y = batch(k)
        optimizer.zero_grad()
        (model(x[share]) - y[share]).square().mean().backward()
        optimizer.step()


def share(rank: int, size: int, rows: int = 16) -> slice:
    return slice(rank * rows // size, (rank + 1) * rows // size)


def whole(tensor: Tensor) -> Tensor:
    """A copy of the whole tensor, gathered from its shards."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def gathered(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Every parameter and every state tensor by name, whole."""
    optimizer.state_dict()  # what other ranks tell of the last step has arrived then
    result = {name: whole(p) for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        result |= {f"{name}.{key}": whole(value) for key, value in optimizer.state[p].items()}
    return result


def assert_equal(actual: dict[str, Tensor], expected: dict[str, Tensor], *, rtol: float = 1e-9) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value, rtol=rtol, atol=rtol * 1e-2, msg=lambda text, name=name: f"{name}: {text}"
        )


def optimizer_of(model: nn.Module, kind: str, setting: str = "plain", **more: Any) -> Any:
    if kind == "auto":
        return AutoGradaGrad(model.parameters(), **more)
    settings: dict[str, Any] = {"granularity": kind, **SETTINGS[setting], **more}
    return GradaGrad(model.parameters(), **settings)


def shown(model: nn.Module, optimizer: Any) -> dict[str, Tensor]:
    """The averages, whole, as the model holds them while it is evaluated; nothing without averages."""
    if not isinstance(optimizer, AutoGradaGrad):
        return {}
    with optimizer.averaged():
        return {f"average of {name}": whole(p) for name, p in model.named_parameters()}


@cache
def reference(kind: str, setting: str = "plain", steps: int = 100) -> dict[str, Tensor]:
    """Everything after the same training in one process."""
    torch.manual_seed(3)
    model = Net()
    optimizer = optimizer_of(model, kind, setting, fused=False)
    train(model, optimizer, steps, share=slice(None))
    assert_growth(optimizer)
    return shown(model, optimizer) | gathered(model, optimizer)


def assert_growth(optimizer: Any) -> None:
    """Without growth the comparison would be of AdaGrad."""
    key, start = ("gamma", 1e-3) if isinstance(optimizer, AutoGradaGrad) else ("growth", 1.0)
    growths = [state[key] for state in optimizer.state.values()]
    assert max(float(whole(g).max()) for g in growths if g.numel()) > start
