"""AutoGradaGrad's OptimizerInfo, as `info.GRADAGRAD`; few inputs, because its rule has its own tests."""

from typing import Any

import torch
from torch.testing._internal.common_optimizers import ErrorOptimizerInput, OptimizerInfo, OptimizerInput

from gradagrad import AutoGradaGrad

from .info import GRADAGRAD, inputs_of, refused_inputs

INPUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "Tensor lr": {"lr": 0.5},
    "nonzero weight_decay": {"weight_decay": 0.1, "decoupled_weight_decay": False, "gamma0": 1e-2},
    "maximize": {"maximize": True, "weight_decay": 0.1, "guard": False},
    "cap, more momentum": {"eps": 1e-3, "gamma_max": 1.0, "gamma0": 1e-2, "momentum": 0.9},
    "Tensor lr, capturable": {"lr": 0.5, "capturable": True},
    "bfloat16 state": {"state_dtype": torch.bfloat16, "stochastic_rounding": True},
}


def error_inputs(device: Any, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
    """As GradaGrad's, and groups that differ."""
    found = refused_inputs(device, dtype)
    groups = [{"params": [torch.ones(2)], "gamma0": 1e-3}, {"params": [torch.ones(2)], "gamma0": 1e-4}]
    given = OptimizerInput(params=groups, kwargs={}, desc="groups that differ")  # pyright: ignore[reportArgumentType]
    regex = r"gamma0 must be 0\.001 as in the other param groups, got 0\.0001.*give it an lr"
    found.append(ErrorOptimizerInput(given, error_type=ValueError, error_regex=regex))  # pyright: ignore[reportArgumentType]
    return found


AUTOGRADAGRAD = OptimizerInfo(
    AutoGradaGrad,  # pyright: ignore[reportArgumentType]
    optim_inputs_func=inputs_of(INPUTS),
    optim_error_inputs_func=error_inputs,
    scheduler_inputs=GRADAGRAD.scheduler_inputs,
    supported_impls=GRADAGRAD.supported_impls,
    not_og_supported_flags=GRADAGRAD.not_og_supported_flags,
    supports_fused_on=GRADAGRAD.supports_fused_on,
    supports_sparse=True,
    has_capturable_arg=True,
    metadata_for_sparse=({"lr": 1.0, "weight_decay": 0}, GRADAGRAD.metadata_for_sparse[1]),
)
