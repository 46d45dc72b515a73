"""Every option of both classes on the kernels, one at a time and all at once, for everyone who may share a decision.

Blocks of one element give the plainest step's numbers bit for bit; larger ones add up in another order.
"""

import inspect
from typing import Any

import pytest
import torch

from gpu.interpreted.batches import SHAPES
from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad.projections import Box, NonNegative
from gradagrad.triton.backend import TRITON

SMALL = ((5, 7),)
BFLOAT16 = {"state_dtype": torch.bfloat16}
COMMON: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "weight_decay": {"weight_decay": 0.25, "decoupled_weight_decay": False},
    "decoupled_weight_decay": {"weight_decay": 0.25, "decoupled_weight_decay": True},
    "eps": {"eps": 0.125},
    "maximize": {"maximize": True},
    "capturable": {"capturable": True},
    "state_dtype": BFLOAT16,
    "stochastic_rounding": {"dtype": torch.bfloat16, "stochastic_rounding": True, **BFLOAT16},
    "params, bf16": {"dtype": torch.bfloat16},
    "params, fp16": {"dtype": torch.float16},
}
GRADAGRAD: dict[str, dict[str, Any]] = {
    **COMMON,
    "lr": {"lr": torch.tensor(0.0625)},
    "rho": {"rho": 10.0},
    "lr_decay": {"lr_decay": 0.5},
    "initial_accumulator_value": {"initial_accumulator_value": 0.125},
    "grad_bound": {"grad_bound": 2.0},
    "gamma_max": {"gamma_max": 0.11},
    "growth_limit": {"growth_limit": 1.01},
    "projection, a box": {"projection": Box(-0.8, 0.8)},
    "projection, not negative": {"projection": NonNegative()},
    "lazy": {"lazy": True, "momentum": 0.5},
}
MOST = {
    "rho": 4.0,
    "momentum": 0.9,
    "gamma_max": 0.125,
    "growth_limit": 1.25,
    "grad_bound": 2.0,
    "initial_accumulator_value": 0.125,
    "eps": 1e-3,
    "lr_decay": 0.125,
    "maximize": True,
}
# What cannot go together goes into two.
GRADAGRAD["everything, lazy"] = {**MOST, "lazy": True, "weight_decay": 0.25, "decoupled_weight_decay": True}
GRADAGRAD["everything, in a box"] = {**MOST, "weight_decay": 0.125, "projection": Box(-0.8, 0.8), **BFLOAT16}
AUTO: dict[str, dict[str, Any]] = {
    **COMMON,
    "lr": {"lr": torch.tensor(0.5)},
    "gamma0": {"gamma0": 0.125},
    "guard": {"guard": False},
    "gamma_max": {"gamma_max": 0.011},
    "averaging": {"averaging": "polynomial"},
}
AUTO["everything"] = {
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 0.125,
    "eps": 1e-8,
    "gamma_max": 0.02,
    "averaging": "polynomial",
    **BFLOAT16,
}
CASES: list[tuple[str, str]] = [
    *((scope, name) for scope in ("element", "row", "tensor", "group") for name in GRADAGRAD),
    *(("auto", name) for name in AUTO),
    ("auto by group", "everything"),
]


@pytest.mark.parametrize(("table", "optimizer"), [(GRADAGRAD, GradaGrad), (AUTO, AutoGradaGrad)])
def test_no_argument_is_left_out(table: Any, optimizer: Any) -> None:
    """Who steps, by what and with whom is said by the cases; autograd cannot follow a kernel, which refuses."""
    elsewhere = {"self", "foreach", "fused", "differentiable", "granularity", "scope"}
    assert {name.split(",")[0] for name in table} - {"everything"} == {
        name for name in inspect.signature(optimizer.__init__).parameters if name not in elsewhere
    }


def _trained(scope: str, options: dict[str, Any], *, fused: bool) -> tuple[list[torch.Tensor], Any]:
    options = {"dtype": torch.float32 if scope == "element" else torch.float64, "lr": 0.1, **options}
    dtype, shapes = options.pop("dtype"), options.pop("shapes", SMALL)
    generator = torch.Generator().manual_seed(0)
    params = [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes
    ]
    if scope.startswith("auto"):
        options = {"gamma0": 0.01, "scope": "group" if "group" in scope else "all", **options, "lr": options["lr"] * 10}
        optimizer: Any = AutoGradaGrad(params, fused=fused, foreach=False, **options)
    else:
        optimizer = GradaGrad(params, granularity=scope, fused=fused, foreach=False, **options)  # pyright: ignore[reportArgumentType]
    for _ in range(2):
        for p in params:
            g = p.detach().double() - 1.0 + 0.5 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
            mask = torch.rand(p.shape, generator=generator) > 0.1
            if p.dim() > 1:
                mask[::3] = False
            p.grad = (g * mask).to(dtype)
        optimizer.step()
    return [p.detach() for p in params], [optimizer.state[p] for p in params]


@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
@pytest.mark.parametrize(("scope", "name"), CASES)
def test_option(scope: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict((AUTO if scope.startswith("auto") else GRADAGRAD)[name])
    if name.startswith("everything"):
        options["shapes"] = SHAPES  # tails, little ones, nothing
    launches: list[str] = []
    launch = TRITON.launcher
    monkeypatch.setattr(
        TRITON, "launcher", lambda plan, name, *rest: launches.append(name) or launch(plan, name, *rest)
    )
    expected = _trained(scope, options, fused=False)
    assert not launches
    got = _trained(scope, options, fused=True)
    assert set(launches) <= {"step", "measure", "move", "write_shared"}
    assert launches
    close = 0.0 if scope == "element" else 2.0**-7 if "dtype" in options else 1e-11
    torch.testing.assert_close(got, expected, rtol=close, atol=close)
    if name != "capturable" and not name.startswith("everything"):  # the option does something
        plain = _trained(scope, {key: options[key] for key in ("dtype",) if name == "stochastic_rounding"}, fused=False)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(expected, plain, rtol=0.0, atol=0.0)
