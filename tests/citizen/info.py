"""The OptimizerInfo of both optimizers: the arguments they are tested with, and those they must reject.

As in torch's own table, inputs hold no implementation flag (foreach, differentiable, fused): tests add those.
"""

from collections.abc import Callable
from typing import Any

import torch
from cases import Ball
from torch import Tensor
from torch.nn import Parameter
from torch.optim.lr_scheduler import ExponentialLR, LinearLR, ReduceLROnPlateau, StepLR
from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    get_error_inputs_for_all_optims,
)

from gradagrad import AutoGradaGrad, GradaGrad, projections
from gradagrad.kernel.load import kernel_status


def fused_is_loaded() -> bool:
    """The one switch: where the kernel is not loaded, fused inputs leave every test."""
    return kernel_status().loaded


def users_own(point: Tensor, metric: Tensor) -> Tensor:
    """A projection of one's own, onto the box [-1.5, 1.5]; a named function, so that the optimizer can be pickled."""
    return point.clamp(-1.5, 1.5)


INPUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "non-default lr": {"lr": 0.1},
    "Tensor lr": {"lr": 0.125},
    "rho zero": {"lr": 0.1, "rho": 0.0},
    "rho ten": {"lr": 0.01, "rho": 10.0},
    "momentum": {"lr": 0.1, "momentum": 0.5},
    "row": {"lr": 0.1, "granularity": "row"},
    "tensor": {"lr": 0.1, "granularity": "tensor"},
    "group": {"lr": 0.1, "granularity": "group"},
    "row, momentum": {"lr": 0.1, "granularity": "row", "momentum": 0.9},
    "tensor, momentum": {"lr": 0.1, "granularity": "tensor", "momentum": 0.9},
    "group, momentum": {"lr": 0.1, "granularity": "group", "momentum": 0.9},
    "nonzero weight_decay": {"lr": 0.1, "weight_decay": 0.1},
    "decoupled weight_decay": {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    "maximize": {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
    "maximize, decoupled, group": {
        "lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True, "granularity": "group",
    },
    "initial_accumulator_value": {"lr": 0.1, "initial_accumulator_value": 0.1, "weight_decay": 0.1},
    "lr_decay": {"lr": 0.1, "lr_decay": 0.5, "weight_decay": 0.1},
    "large eps": {"lr": 0.1, "eps": 1e-3},
    "grad_bound": {"lr": 0.1, "grad_bound": 200.0},  # true for Rosenbrock too
    "gamma_max, growth_limit": {"lr": 0.1, "gamma_max": 0.4, "growth_limit": 1.1},
    "gamma_max, travelled": {"lr": 0.1, "gamma_max": "travelled"},
    "box, momentum": {"lr": 0.1, "projection": projections.Box(-1.5, 1.5), "momentum": 0.5},
    "box, group": {"lr": 0.1, "projection": projections.Box(-1.5, 1.5), "granularity": "group"},
    "ball": {"lr": 0.1, "projection": Ball(3.0), "momentum": 0.5},
    "user's projection": {"lr": 0.1, "projection": users_own, "granularity": "row"},
    "lazy": {"lr": 0.1, "lazy": True},
    "lazy row, momentum": {"lr": 0.1, "lazy": True, "granularity": "row", "momentum": 0.5},
    "lazy tensor": {"lr": 0.1, "lazy": True, "granularity": "tensor"},
    "capturable": {"lr": 0.1, "capturable": True},
    "capturable, group, weight_decay": {"lr": 0.1, "capturable": True, "granularity": "group", "weight_decay": 0.1},
    "Tensor lr, capturable": {"lr": 0.125, "capturable": True, "momentum": 0.5},
    "bfloat16 state": {"lr": 0.1, "state_dtype": torch.bfloat16, "momentum": 0.5, "stochastic_rounding": True},
}  # fmt: skip


def inputs_of(table: dict[str, dict[str, Any]]) -> Callable[..., list[OptimizerInput]]:
    """Makes torch's function of inputs, which are fresh on every call, as schedulers write into a tensor lr."""

    def inputs(device: Any, dtype: torch.dtype | None = None) -> list[OptimizerInput]:
        found = []
        for desc, given in table.items():
            kwargs = dict(given)
            if desc.startswith("Tensor lr"):
                kwargs["lr"] = torch.tensor(given["lr"], device=device)
            found.append(OptimizerInput(params=None, kwargs=kwargs, desc=desc))  # pyright: ignore[reportArgumentType]
        return found

    return inputs


# Arguments, error class, and a pattern that holds the argument's name, its rule and the value given. The tables of
# tests/test_arguments.py have the rest.
REFUSED: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"lr": -0.5}, ValueError, r"lr must be .*-0\.5"),
    ({"lr": "fast"}, TypeError, r"lr must be .*'fast'"),
    ({"state_dtype": torch.float16}, ValueError, r"state_dtype must be .*float16"),
    ({"fused": True, "foreach": True}, ValueError, r"fused must be None or False with foreach=True, got True"),
    ({"fused": True, "differentiable": True}, ValueError, r"fused must be None or False with differentiable=True, got"),
)


def refused_inputs(device: Any, dtype: torch.dtype, table: tuple[Any, ...] = REFUSED) -> list[ErrorOptimizerInput]:
    """torch's list for every optimizer, then ours."""
    found = list(get_error_inputs_for_all_optims(device, dtype))
    for kwargs, error_type, regex in table:
        given = OptimizerInput(params=[Parameter(torch.ones(2))], kwargs=dict(kwargs), desc=str(kwargs))
        found.append(ErrorOptimizerInput(given, error_type=error_type, error_regex=regex))  # pyright: ignore[reportArgumentType]
    return found


def error_inputs(device: Any, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
    """The errors of the constructor, then the errors of a fused step."""
    found = refused_inputs(device, dtype)
    if not fused_is_loaded():
        return found
    gapped, dense = Parameter(torch.ones(4)[::2]), Parameter(torch.ones(2))
    gapped.grad, dense.grad = torch.ones(4)[::2], torch.ones_like(dense)
    ball = {"projection": Ball(3.0)}
    for param, options, regex in ((gapped, {}, "without gaps"), (dense, ball, "Box.*Ball")):
        given = OptimizerInput(params=[param], kwargs={"fused": True, **options}, desc=f"fused, {regex}")
        step: dict[str, Any] = {"error_on": OptimizerErrorEnum.STEP_ERROR, "error_type": RuntimeError}
        found.append(ErrorOptimizerInput(given, **step, error_regex=f"fused=True is impossible.*{regex}"))
    return found


def takes_sparse_gradients(kwargs: dict[str, Any]) -> bool:
    """What is refused with sparse gradients: momentum on the paper's clock and coupled weight decay; a
    projection would move rows without a gradient."""
    if kwargs.get("momentum", 0.0) != 0.0 and not kwargs.get("lazy", False):
        return False
    return kwargs.get("projection") is None


def is_offered(kwargs: dict[str, Any]) -> bool:
    """False for the pairs of an input and an implementation that are refused, as `error_inputs` checks: autograd
    does not follow rounding; the kernel knows no projection but boxes and no accelerator's graph."""
    projection = kwargs.get("projection")
    if kwargs.get("differentiable", False):
        return not rounds_its_state(kwargs)
    if kwargs.get("fused", False):
        return isinstance(projection, projections.Box | None) and not kwargs.get("capturable", False)
    return True


def rounds_its_state(kwargs: dict[str, Any]) -> bool:
    """Stochastic rounding draws its bits by a parameter's place among all, so another place means other bits."""
    return kwargs.get("state_dtype") == torch.bfloat16


FUSED_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def kernel_takes(kwargs: dict[str, Any], param: Tensor) -> bool:
    """Parameters that fused=True accepts: no gaps in memory, and whole rows where rows matter."""
    if param.dtype not in FUSED_DTYPES:
        return False
    if param.untyped_storage().nbytes() != param.numel() * param.element_size():
        return False
    by_rows = kwargs.get("granularity") == "row" or kwargs.get("lazy", False)
    return not by_rows or param.dim() == 0 or param.stride(0) == max(param.stride())


GRADAGRAD = OptimizerInfo(
    GradaGrad,  # pyright: ignore[reportArgumentType]
    optim_inputs_func=inputs_of(INPUTS),
    optim_error_inputs_func=error_inputs,
    scheduler_inputs=(  # pyright: ignore[reportArgumentType]
        [lambda opt: StepLR(opt, gamma=0.9, step_size=10), lambda opt: ReduceLROnPlateau(opt)],
        [lambda opt: LinearLR(opt, start_factor=0.4, total_iters=4), lambda opt: ExponentialLR(opt, gamma=0.9)],
    ),
    supported_impls=("foreach", "differentiable", "fused") if fused_is_loaded() else ("foreach", "differentiable"),
    not_og_supported_flags=("foreach", "differentiable", "fused", "maximize", "capturable"),
    supports_fused_on=("cpu",) if fused_is_loaded() else (),
    supports_sparse=True,
    has_capturable_arg=True,
    metadata_for_sparse=(
        {"lr": 0.1, "weight_decay": 0, "lr_decay": 0},
        [lambda opt: StepLR(opt, gamma=1 - 1e-5, step_size=500), lambda opt: ReduceLROnPlateau(opt, threshold=1e-4)],
    ),
)


# Few inputs, because the rule has its own tests.
AUTO_INPUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "Tensor lr": {"lr": 0.5},
    "nonzero weight_decay": {"weight_decay": 0.1, "decoupled_weight_decay": False, "gamma0": 1e-2},
    "maximize": {"maximize": True, "weight_decay": 0.1, "guard": False},
    "cap, more momentum": {"eps": 1e-3, "gamma_max": 1.0, "gamma0": 1e-2, "momentum": 0.9},
    "Tensor lr, capturable": {"lr": 0.5, "capturable": True},
    "bfloat16 state": {"state_dtype": torch.bfloat16, "stochastic_rounding": True},
}


def auto_error_inputs(device: Any, dtype: torch.dtype) -> list[ErrorOptimizerInput]:
    """As GradaGrad's, and groups that differ."""
    found = refused_inputs(device, dtype)
    groups = [{"params": [torch.ones(2)], "gamma0": 1e-3}, {"params": [torch.ones(2)], "gamma0": 1e-4}]
    given = OptimizerInput(params=groups, kwargs={}, desc="groups that differ")  # pyright: ignore[reportArgumentType]
    regex = r"gamma0 must be 0\.001 as in the other param groups, got 0\.0001.*give it an lr"
    found.append(ErrorOptimizerInput(given, error_type=ValueError, error_regex=regex))  # pyright: ignore[reportArgumentType]
    return found


AUTOGRADAGRAD = OptimizerInfo(
    AutoGradaGrad,  # pyright: ignore[reportArgumentType]
    optim_inputs_func=inputs_of(AUTO_INPUTS),
    optim_error_inputs_func=auto_error_inputs,
    scheduler_inputs=GRADAGRAD.scheduler_inputs,
    supported_impls=GRADAGRAD.supported_impls,
    not_og_supported_flags=GRADAGRAD.not_og_supported_flags,
    supports_fused_on=GRADAGRAD.supports_fused_on,
    supports_sparse=True,
    has_capturable_arg=True,
    metadata_for_sparse=({"lr": 1.0, "weight_decay": 0}, GRADAGRAD.metadata_for_sparse[1]),
)
