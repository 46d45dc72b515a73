"""The optimizer classes on the kernels: the engine's parts, param groups that share γ, sparse tables, state dicts."""

from typing import Any

import pytest
import torch
from torch import nn

from gpu.interpreted.batches import SIZES
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.triton import check
from gradagrad.triton.backend import TRITON, TritonBackend

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}


def _model() -> Any:
    torch.manual_seed(0)
    return nn.ModuleDict({"table": nn.Embedding(12, 5, sparse=True), "last": nn.Linear(5, 3)}).double()


def _trained(make, steps: int, *, dense: bool, fused: bool):
    model = _model()
    if dense:
        model["table"].sparse = False
    optimizer = make(model, fused=fused, foreach=False)
    for k in range(steps):
        optimizer.zero_grad()
        words = torch.randint(0, 12, (4,), generator=torch.Generator().manual_seed(k))
        (model["last"](model["table"](words)) - 1.0).square().mean().backward()
        optimizer.step()
    return model, optimizer


MAKERS: dict[str, Any] = {
    "element": lambda m, **way: GradaGrad(m.parameters(), lr=0.1, **way),
    "element, lazy": lambda m, **way: GradaGrad(m.parameters(), lr=0.1, momentum=0.9, lazy=True, **way),
    "row, a tensor for lr": lambda m, **way: GradaGrad(m.parameters(), torch.tensor(0.1), granularity="row", **way),
    "group": lambda m, **way: GradaGrad(m.parameters(), 0.1, rho=10.0, granularity="group", lr_decay=0.1, **way),
    "auto, two groups": lambda m, **way: AutoGradaGrad(
        [{"params": m["table"].parameters()}, {"params": m["last"].parameters(), "lr": 0.5, "weight_decay": 0.1}],
        gamma0=1e-2,
        averaging="polynomial",
        **way,
    ),
}


@pytest.mark.parametrize(("name", "dense"), [*((name, False) for name in MAKERS), ("auto, two groups", True)])
def test_fused_steps_are_the_plainest_ones(name, dense, monkeypatch):
    expected, other = _trained(MAKERS[name], 3, dense=dense, fused=False)
    launches: list[str] = []
    plain = TRITON.launcher
    monkeypatch.setattr(TRITON, "launcher", lambda plan, name, *rest: launches.append(name) or plain(plan, name, *rest))
    model, optimizer = _trained(MAKERS[name], 3, dense=dense, fused=True)
    assert launches
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), **CLOSE)
    torch.testing.assert_close(optimizer.state_dict()["state"], other.state_dict()["state"], **CLOSE)


@pytest.mark.parametrize("name", check.KINDS)
def test_the_self_check_for_users_agrees(name):
    """What ``python -m gradagrad gpu`` does on a GPU, on the CPU."""
    line, good = check.self_check(
        name, torch.device("cpu"), shapes=((5, 110),), steps=2, backend=TritonBackend(sizes=SIZES)
    )
    assert good, line
    assert "element" not in name or line.endswith("bit for bit |")
