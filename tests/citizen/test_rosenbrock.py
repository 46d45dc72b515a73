"""Rosenbrock's valley, with sparse, dense and complex gradients, which must give the same path."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.testing import assert_close
from torch.testing._internal.common_optimizers import OptimizerInfo

from .harness import Case, advance, cases, loop_cases, quiet
from .info import AUTOGRADAGRAD, rounds_its_state, takes_sparse_gradients

pytestmark = quiet

SOLUTION = torch.tensor([1.0, 1.0])
START = (1.5, 2.5)  # above the valley, so that 80 steps suffice to come closer (torch: (1.5, 1.5) and 1800)
STEPS = 80


def rosenbrock(point: Tensor) -> Tensor:
    x, y = point
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def slope(point: Tensor, coordinate: int) -> float:
    x, y = point.tolist()
    return 200 * (y - x**2) if coordinate else -400 * x * (y - x**2) - 2 * (1 - x)


def one_coordinate(point: Tensor, coordinate: int, *, sparse: bool) -> Tensor:
    """The gradient with one entry; the sparse one is uncoalesced (two parts that add up), to be nasty."""
    value = slope(point, coordinate)
    if not sparse:
        grad = torch.zeros_like(point)
        grad[coordinate] = value
        return grad
    parts = torch.tensor([value / 4, value - value / 4], dtype=point.dtype)
    return torch.sparse_coo_tensor(torch.full((1, 2), coordinate), parts, (2,))


def takes_sparse(info: OptimizerInfo, kwargs: dict[str, Any]) -> bool:
    return info.supports_sparse and takes_sparse_gradients(kwargs)


def starts(case: Case, dtype: torch.dtype) -> list[Parameter]:
    """With foreach a list of two dtypes, so that the list is split."""
    params = [Parameter(torch.tensor(START, dtype=dtype))]
    if case.kwargs().get("foreach", False):
        params.append(Parameter(torch.tensor(START, dtype=torch.float64)))
    return params


def descend(params: Sequence[Parameter], optimizer: Optimizer, coordinate: int, *, sparse: bool) -> None:
    for param in params:
        param.grad = one_coordinate(param, coordinate, sparse=sparse)
    optimizer.step()


def check_arrival(case: Case, params: Sequence[Parameter]) -> None:
    start = torch.tensor(START)
    for param in params:
        if case.maximize:
            assert rosenbrock(param.detach()) >= rosenbrock(start)
        else:
            assert param.detach().float().dist(SOLUTION) <= start.dist(SOLUTION)


def rosenbrock_sparse(case: Case, constructors: Sequence[Any]) -> None:
    tuned = case.info.metadata_for_sparse[0]
    # Uphill the points soon exceed 1e8, and float32 keeps no five digits of their differences. Idle rows of
    # AutoGradaGrad catch up in one multiplication, and the valley magnifies that rounding too.
    is_auto = case.info is AUTOGRADAGRAD
    dtype = torch.float64 if case.maximize or is_auto else torch.float32
    tolerance = 1e-11 if is_auto else 5e-6
    params, twins = starts(case, dtype), starts(case, dtype)
    optimizer, dense = case.make(params, **tuned), case.make(twins, **tuned)
    ours = [constructor(optimizer) for constructor in constructors]
    theirs = [constructor(dense) for constructor in constructors]
    for step in range(STEPS):
        descend(params, optimizer, 1 - step % 2, sparse=True)
        optimizer.state_dict()  # Idle rows of AutoGradaGrad catch up, since the slope is that of the present point.
        descend(twins, dense, 1 - step % 2, sparse=False)
        advance(ours, rosenbrock(params[0].detach()))
        advance(theirs, rosenbrock(twins[0].detach()))
        # Two parts that add up differ from the whole by rounding, and the valley magnifies it.
        assert_close(params, twins, atol=tolerance, rtol=tolerance)
        if is_auto and rounds_its_state(case.kwargs()):
            # State in bf16 is rounded once for an idle row, and by a dense gradient at every step.
            dense.load_state_dict(optimizer.state_dict())
    check_arrival(case, params)


@cases(skip=("differentiable", "fused"), only=takes_sparse)
def test_rosenbrock_sparse(case: Case) -> None:
    rosenbrock_sparse(case, ())


@cases(skip=("differentiable", "fused"), only=takes_sparse, few=True)
def test_rosenbrock_sparse_with_lrsched(case: Case) -> None:
    rosenbrock_sparse(case, case.info.metadata_for_sparse[1])


@loop_cases()
def test_rosenbrock_dense(case: Case) -> None:
    tuned, constructors = case.info.metadata_for_sparse
    params = starts(case, torch.float64)
    optimizer = case.make(params, **tuned)
    schedulers = [constructor(optimizer) for constructor in constructors]
    for _ in range(STEPS):
        params[0].grad = torch.tensor([slope(params[0], 0), slope(params[0], 1)], dtype=torch.float64)
        optimizer.step()
        advance(schedulers, rosenbrock(params[0].detach()))
    check_arrival(case, params)


NOT_COMPLEX = ("differentiable", "fused")  # torch's own exclusions: fused kernels take real numbers only


def as_real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


@cases(skip=NOT_COMPLEX)
def test_complex(case: Case) -> None:
    # The last one is real on purpose: both kinds in one list.
    params = [torch.randn(10, 5, dtype=torch.complex64), torch.randn(10, dtype=torch.complex64), torch.randn(10, 5)]
    reals = [as_real(param).clone() for param in params]
    optimizer, real_optimizer = case.make(params), case.make(reals)
    for _ in range(5):
        for param, real in zip(params, reals, strict=True):
            param.grad = torch.randn_like(param)
            real.grad = as_real(param.grad).clone()
        optimizer.step()
        real_optimizer.step()
        assert_close([as_real(param) for param in params], reals)
