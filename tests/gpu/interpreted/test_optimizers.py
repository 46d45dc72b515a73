"""The optimizer classes on the kernels: param groups that share γ, sparse tables, state dicts, the paper's text."""

import copy
import random
from functools import partial
from typing import Any

import oracle
import pytest
import torch
from auto_oracle import AutoOracle
from torch import nn

from gpu.interpreted.batches import SIZES
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.engine import step as engine
from gradagrad.engine.step import look_on_device
from gradagrad.triton import backend, check
from gradagrad.triton.backend import TritonBackend

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}


def _trained(make, steps: int, *, dense: bool, fused: bool):
    torch.manual_seed(0)
    model: Any = nn.ModuleDict({"table": nn.Embedding(12, 5, sparse=not dense), "last": nn.Linear(5, 3)}).double()
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
        **way,
    ),
}


@pytest.mark.parametrize(("name", "dense"), [*((name, False) for name in MAKERS), ("auto, two groups", True)])
def test_fused_steps_equal_those_of_torch(name, dense, launches):
    expected, other = _trained(MAKERS[name], 3, dense=dense, fused=False)
    assert not launches
    model, optimizer = _trained(MAKERS[name], 3, dense=dense, fused=True)
    assert launches
    torch.testing.assert_close(model.state_dict(), expected.state_dict(), **CLOSE)
    torch.testing.assert_close(optimizer.state_dict()["state"], other.state_dict()["state"], **CLOSE)


@pytest.mark.parametrize("options", [{}, {"state_dtype": torch.bfloat16}, {"capturable": True}], ids=str)
@pytest.mark.parametrize("steps", [0, 2])
def test_a_step_in_which_every_gradient_is_zero_changes_nothing(options, steps, launches, monkeypatch):
    """As on a GPU, where only the device knows."""
    monkeypatch.setattr(engine, "look", look_on_device)
    params = [nn.Parameter(torch.linspace(-1.0, 2.0, 7)), nn.Parameter(torch.ones(3, 2))]
    optimizer = AutoGradaGrad([{"params": [p]} for p in params], fused=True, gamma0=1e-2, **options)
    before: list[torch.Tensor] = []
    for k in range(steps + 1):
        before = copy.deepcopy([*params, *(a for p in params for a in optimizer.state[p].values())])
        for p in params:
            p.grad = torch.sin(p.detach() + k) if k < steps else torch.zeros_like(p)
        optimizer.step()
    after = [*params, *(a for p in params for a in optimizer.state[p].values())]
    assert launches
    # Before the first step there is no state to compare with.
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=steps > 0))


@pytest.mark.parametrize("name", check.KINDS)
def test_the_self_check_for_users_agrees(name):
    """This runs on the CPU what ``python -m gradagrad gpu`` runs on a GPU."""
    assert check.refusal(name, torch.device("cpu"), TritonBackend(sizes=SIZES)) == ""


def test_the_self_check_names_a_kernel_that_differs(monkeypatch):
    monkeypatch.setattr(backend, "tolerance", lambda _: -1.0)
    with pytest.warns(RuntimeWarning, match="steps without Triton from now on"):
        reason = check.refusal("AutoGradaGrad", torch.device("cpu"), TritonBackend(sizes=SIZES))
    assert reason.startswith("its kernel disagrees with torch on cpu")


# Against the literal transcriptions of the paper's algorithms and of AutoGradaGrad's definition, in double.

START = [0.4 * i - 0.7 for i in range(5)]


def _gradient(k: int, x: list[float]) -> list[float]:
    """The gradient of a noisy quadratic."""
    noise = random.Random(k)
    return [0.6 * (v - 1.0) + 0.2 * noise.gauss(0.0, 1.0) for v in x]


def _run(make, steps: int) -> torch.Tensor:
    parameter = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = make([parameter])
    for k in range(steps):
        parameter.grad = torch.tensor(_gradient(k, parameter.tolist()), dtype=torch.float64)
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (partial(oracle.algorithm_2, beta=0.0), {"lr": 0.05, "rho": 10.0}),
        (partial(oracle.algorithm_2, beta=0.9), {"lr": 0.05, "rho": 10.0, "momentum": 0.9}),
        (
            partial(oracle.algorithm_1, r=lambda g, last: min(oracle.lemma_r(4.0)(g, last), 3.0)),
            {"lr": 0.01, "rho": 4.0, "granularity": "group"},
        ),
    ],
)
def test_steps_are_those_of_the_paper(algorithm, options):
    paper = algorithm(_gradient, START, 8, gamma_0=options["lr"], rho=options["rho"], eps=1e-10)
    ours = _run(lambda p: GradaGrad(p, fused=True, **options), 8)
    assert paper.gamma[-1] != paper.gamma[0]
    torch.testing.assert_close(ours.tolist(), paper.x[8], **CLOSE)


def test_auto_is_its_definition():
    definition = AutoOracle([START], gamma0=1e-2, decay=0.1)
    for k in range(8):
        definition.step([_gradient(k, definition.tensors[0].y)])
    ours = _run(lambda p: AutoGradaGrad(p, gamma0=1e-2, weight_decay=0.1, fused=True), 8)
    torch.testing.assert_close(ours.tolist(), definition.tensors[0].y, **CLOSE)
