"""A complex number is a pair of reals and takes the same path as its real view."""

from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close
from torch.testing._internal.common_optimizers import OptimizerInfo

from .harness import Case, cases, quiet
from .info import treats_coordinates_alike
from .test_rosenbrock import rosenbrock

pytestmark = quiet

NOT_COMPLEX = ("differentiable", "fused")  # torch's own exclusions: fused kernels take real numbers only


def coordinates_alike(info: OptimizerInfo, kwargs: dict[str, Any]) -> bool:
    return treats_coordinates_alike(kwargs)


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


@cases(skip=NOT_COMPLEX, only=coordinates_alike)
def test_complex_2d(case: Case) -> None:
    whole = torch.randn(2, dtype=torch.complex64, requires_grad=True)
    real, imaginary = (part.detach().clone().requires_grad_() for part in (whole.real, whole.imag))
    optimizer, parts_optimizer = case.make([whole]), case.make([real, imaginary])
    for _ in range(3):
        optimizer.zero_grad()
        parts_optimizer.zero_grad()
        rosenbrock(whole).abs().backward()
        # The slope comes from the same point, so that only the optimizers are compared.
        assert whole.grad is not None
        real.grad, imaginary.grad = whole.grad.real.clone(), whole.grad.imag.clone()
        optimizer.step()
        parts_optimizer.step()
        assert_close(torch.view_as_real(whole), torch.stack([real, imaginary], dim=-1))
