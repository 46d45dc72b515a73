"""The table of inputs itself, and what a constructor must reject."""

import inspect
import warnings
from typing import Any

import pytest
import torch
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.testing._internal.common_optimizers import ErrorOptimizerInput, OptimizerErrorEnum, OptimizerInfo

from .harness import IMPLEMENTATIONS, INFOS, LABELS, Case, cases, quiet

pytestmark = quiet


def errors() -> list[Any]:
    return [
        pytest.param(info, error, id=f"{LABELS[info]}-{error.optimizer_error_input.desc}".replace(" ", "_"))
        for info in INFOS
        for error in info.optim_error_inputs_func(device="cpu", dtype=torch.float32)  # pyright: ignore[reportOptionalCall]
    ]


@pytest.mark.parametrize("info", INFOS, ids=LABELS.values())
def test_optim_infos_do_not_specify_global_cliquey_kwargs(info: OptimizerInfo) -> None:
    for given in info.optim_inputs_func(device="cpu"):
        assert not set(IMPLEMENTATIONS) & set(given.kwargs)


@pytest.mark.parametrize("info", INFOS[1:], ids=[*LABELS.values()][1:])
def test_every_argument_is_tried(info: OptimizerInfo) -> None:
    arguments = set(inspect.signature(info.optim_cls.__init__).parameters) - {"self", "params", *IMPLEMENTATIONS}
    assert arguments == {name for given in info.optim_inputs_func(device="cpu") for name in given.kwargs}


@pytest.mark.parametrize(("info", "error"), errors())
def test_errors(info: OptimizerInfo, error: ErrorOptimizerInput) -> None:
    given = error.optimizer_error_input

    def construct() -> Optimizer:
        return info.optim_cls(given.params, **given.kwargs)  # pyright: ignore[reportCallIssue]

    action = construct
    if error.error_on == OptimizerErrorEnum.STEP_ERROR:
        action = construct().step
    if issubclass(error.error_type, Warning):
        with pytest.warns(error.error_type, match=error.error_regex):
            action()
    else:
        with pytest.raises(error.error_type, match=error.error_regex):
            action()


@cases(few=True)
def test_duplicate_params_are_refused(case: Case) -> None:
    param = Parameter(torch.randn(2, 3))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        case.make([param, param])
    with pytest.raises(ValueError, match="more than one parameter group"):
        case.make([{"params": [param]}, {"params": [param]}])
    optimizer = case.make([param])
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [param]})


@cases(few=True)
def test_empty_parameter_list_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="empty parameter list"):
        case.make([])


@cases(few=True)
def test_tensor_that_is_not_a_leaf_is_refused(case: Case) -> None:
    leaf = torch.randn(3, requires_grad=True)
    if case.kwargs().get("differentiable", False):
        case.make([leaf * 2])
    else:
        with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
            case.make([leaf * 2])


@cases(few=True)
def test_optimizer_can_be_printed(case: Case) -> None:
    optimizer = case.make([Parameter(torch.randn(2, 3)), Parameter(torch.randn(2))])
    text = repr(optimizer)
    assert text.startswith(case.info.optim_cls.__name__)  # pyright: ignore[reportAttributeAccessIssue]
    for name in case.kwargs():
        assert name in text


@cases(few=True)
def test_construction_is_silent(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.make([Parameter(torch.randn(2, 3))])
