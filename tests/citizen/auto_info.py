"""AutoGradaGrad's OptimizerInfo, as `info.GRADAGRAD`; few inputs, since its rule has tests of its own."""

import math
from typing import Any

import torch
from auto.cases import kernel_steps
from torch.nn import Parameter
from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    get_error_inputs_for_all_optims,
)

from gradagrad import AutoGradaGrad

from .info import GRADAGRAD, sparse_gradient

INPUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "Tensor lr": {"lr": 0.5},
    "nonzero weight_decay": {"weight_decay": 0.1, "decoupled_weight_decay": False, "gamma0": 1e-2},
    "maximize": {"maximize": True, "weight_decay": 0.1, "guard": False},
    "average, cap, no momentum": {
        "averaging": "polynomial",
        "eps": 1e-3,
        "gamma_max": 1.0,
        "gamma0": 1e-2,
        "momentum": 0.0,
    },
    "Tensor lr, capturable": {"lr": 0.5, "capturable": True},
    "bfloat16 state": {"state_dtype": torch.bfloat16, "stochastic_rounding": True, "scope": "group"},
}

# Arguments, error class, and a pattern that holds the argument's name, its rule and the value given.
REFUSED: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"lr": -0.5}, ValueError, r"lr must be .*-0\.5"),
    ({"lr": "fast"}, TypeError, r"lr must be .*'fast'"),
    ({"gamma0": 0.0}, ValueError, r"gamma0 must be .*> 0.*0\.0"),
    ({"gamma0": math.nan}, ValueError, r"gamma0 must be .*nan"),
    ({"momentum": 1.0}, ValueError, r"momentum must be .*1\.0"),
    ({"momentum": -0.5}, ValueError, r"momentum must be .*-0\.5"),
    ({"gamma_max": 0.0}, ValueError, r"gamma_max must be .*> 0.*0\.0"),
    ({"gamma_max": 1e-6}, ValueError, r"gamma_max must be at least gamma0.*1e-06"),
    ({"guard": 1}, TypeError, r"guard must be True or False.*1"),
    ({"scope": "tensor"}, ValueError, r"scope must be 'all' or 'group'.*'tensor'"),
    ({"averaging": "ema"}, ValueError, r"averaging must be 'polynomial' or None.*'ema'"),
    ({"averaging": []}, ValueError, r"averaging must be 'polynomial' or None.*\[\]"),
    ({"weight_decay": -0.5}, ValueError, r"weight_decay must be .*-0\.5"),
    ({"eps": -1e-3}, ValueError, r"eps must be .*-0\.001"),
    ({"maximize": 1}, TypeError, r"maximize must be True or False.*1"),
    ({"decoupled_weight_decay": None}, TypeError, r"decoupled_weight_decay must be True or False.*None"),
    ({"state_dtype": torch.float16}, ValueError, r"state_dtype must be .*float16"),
    (
        {"foreach": True, "differentiable": True},
        ValueError,
        r"foreach must be None or False with differentiable=True, got True",
    ),
    ({"fused": True, "foreach": True}, ValueError, r"fused must be None or False with foreach=True, got True"),
    (
        {"differentiable": True, "state_dtype": torch.bfloat16},
        ValueError,
        r"differentiable must be False .*state_dtype",
    ),
)


def inputs(device: Any, dtype: torch.dtype | None = None) -> list[OptimizerInput]:
    """Fresh on every call, as schedulers write into a tensor lr."""
    found = []
    for desc, given in INPUTS.items():
        kwargs = dict(given)
        if desc.startswith("Tensor lr"):
            kwargs["lr"] = torch.tensor(given["lr"], device=device)
        found.append(OptimizerInput(params=None, kwargs=kwargs, desc=desc))  # pyright: ignore[reportArgumentType]
    return found


def error_inputs(device: Any, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
    """torch's list for every optimizer, then ours."""
    found = list(get_error_inputs_for_all_optims(device, dtype))
    for kwargs, error_type, regex in REFUSED:
        given = OptimizerInput(params=[Parameter(torch.ones(2))], kwargs=dict(kwargs), desc=str(kwargs))
        found.append(ErrorOptimizerInput(given, error_type=error_type, error_regex=regex))  # pyright: ignore[reportArgumentType]
    groups = [{"params": [torch.ones(2)], "gamma0": 1e-3}, {"params": [torch.ones(2)], "gamma0": 1e-4}]
    given = OptimizerInput(params=groups, kwargs={}, desc="groups that differ")  # pyright: ignore[reportArgumentType]
    regex = r"gamma0 must be 0\.001 as in the other param groups, got 0\.0001.*give it an lr"
    found.append(ErrorOptimizerInput(given, error_type=ValueError, error_regex=regex))  # pyright: ignore[reportArgumentType]
    for kwargs, regex in (
        ({"weight_decay": 0.5, "decoupled_weight_decay": False}, r"weight_decay.*sparse.*decoupled_weight_decay"),
        ({"differentiable": True}, r"differentiable=True needs dense gradients"),
    ):
        given = OptimizerInput(params=[sparse_gradient(3, 2)], kwargs=kwargs, desc=f"sparse gradient, {kwargs}")
        found.append(
            ErrorOptimizerInput(
                given, error_on=OptimizerErrorEnum.STEP_ERROR, error_type=RuntimeError, error_regex=regex
            )
        )
    return found


_IS_FUSED = kernel_steps()

AUTOGRADAGRAD = OptimizerInfo(
    AutoGradaGrad,  # pyright: ignore[reportArgumentType]
    optim_inputs_func=inputs,
    optim_error_inputs_func=error_inputs,
    scheduler_inputs=GRADAGRAD.scheduler_inputs,
    supported_impls=("foreach", "differentiable", "fused") if _IS_FUSED else ("foreach", "differentiable"),
    not_og_supported_flags=GRADAGRAD.not_og_supported_flags,
    supports_fused_on=("cpu",) if _IS_FUSED else (),
    supports_sparse=True,
    has_capturable_arg=True,
    metadata_for_sparse=({"lr": 1.0, "weight_decay": 0}, GRADAGRAD.metadata_for_sparse[1]),
)
