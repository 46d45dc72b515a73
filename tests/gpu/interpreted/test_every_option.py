"""Every option of both classes on the kernels, one at a time and all at once, for every granularity.

Blocks of one element give the same bits as torch; larger blocks add up in another order.
"""

import inspect
from functools import partial
from typing import Any

import pytest
import torch

from gpu.interpreted.batches import SHAPES, trained
from gradagrad import AutoGradaGrad, GradaGrad

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
    "initial_accumulator_value": {"initial_accumulator_value": 0.125},
    "grad_bound": {"grad_bound": 2.0},
    "gamma_max": {"gamma_max": 0.11},
    "gamma_max, travelled": {"gamma_max": "travelled", "rho": 10.0, **BFLOAT16},
    "growth_limit": {"growth_limit": 1.01},
    "lazy": {"lazy": True, "momentum": 0.5},
}
MOST = {"rho": 4.0, "momentum": 0.9, "gamma_max": 0.125, "growth_limit": 1.25, "grad_bound": 2.0, "maximize": True}
MOST |= {"initial_accumulator_value": 0.125, "eps": 1e-3}
# Decay is decoupled or coupled, so there are two.
GRADAGRAD["everything, decoupled"] = {**MOST, "weight_decay": 0.25, "decoupled_weight_decay": True}
GRADAGRAD["everything, coupled"] = {**MOST, "weight_decay": 0.125, **BFLOAT16}
AUTO: dict[str, dict[str, Any]] = {
    **COMMON,
    "lr": {"lr": torch.tensor(0.5)},
    "gamma0": {"gamma0": 0.125},
    "guard": {"guard": False},
    "gamma_max": {"gamma0": 0.001, "gamma_max": 0.0011},
}
AUTO["everything"] = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.125, "eps": 1e-8, "gamma_max": 0.02, **BFLOAT16}
AUTO["groups"] = {"groups": True, "dtype": torch.float64, "shapes": ((12, 5), (5, 3))}
COMBINED = ("everything", "groups")
CASES: list[tuple[str, str]] = [
    *(
        (scope, name)
        for scope in ("element", "tensor", "group")
        for name in GRADAGRAD
        if scope == "element" or name != "lazy"
    ),
    *(("auto", name) for name in AUTO),
]


@pytest.mark.parametrize(("table", "optimizer"), [(GRADAGRAD, GradaGrad), (AUTO, AutoGradaGrad)])
def test_no_argument_is_left_out(table: Any, optimizer: Any) -> None:
    """The cases choose backend and granularity; the kernels refuse three options."""
    elsewhere = {"self", "foreach", "fused", "differentiable", "granularity", "lr_decay", "projection"}
    assert {name.split(",")[0] for name in table} - {*COMBINED} == {
        name for name in inspect.signature(optimizer.__init__).parameters if name not in elsewhere
    }


def _trained(scope: str, options: dict[str, Any], *, fused: bool) -> Any:
    options = {"dtype": torch.float32 if scope == "element" else torch.float64, "lr": 0.1, **options}
    dtype, shapes = options.pop("dtype"), options.pop("shapes", SMALL)
    make: Any = partial(GradaGrad, granularity=scope)
    if scope == "auto":
        groups = options.pop("groups", False)
        options = {"gamma0": 0.01, **options, "lr": options["lr"] * 10}
        make = _in_groups if groups else AutoGradaGrad
    return trained(partial(make, fused=fused, foreach=False, **options), shapes, dtype)


def _in_groups(params: Any, **options: Any) -> AutoGradaGrad:
    return AutoGradaGrad([{"params": params[:1]}, {"params": params[1:], "lr": 0.5, "weight_decay": 0.1}], **options)


@pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")
@pytest.mark.parametrize(("scope", "name"), CASES)
def test_option(scope: str, name: str, launches: list[str]) -> None:
    options = dict((AUTO if scope == "auto" else GRADAGRAD)[name])
    if name.startswith("everything"):
        options["shapes"] = SHAPES
    expected = _trained(scope, options, fused=False)
    assert not launches
    got = _trained(scope, options, fused=True)
    assert set(launches) <= {"step", "measure", "move", "complete", "write_shared"}
    assert launches
    half = options.get("dtype", torch.float64) != torch.float64
    close = 0.0 if scope == "element" else 2.0**-7 if half else 1e-11
    torch.testing.assert_close(got, expected, rtol=close, atol=close)
    if name != "capturable" and not name.startswith(COMBINED):  # the option does something
        plain = _trained(scope, {key: options[key] for key in ("dtype",) if name == "stochastic_rounding"}, fused=False)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(expected, plain, rtol=0.0, atol=0.0)
