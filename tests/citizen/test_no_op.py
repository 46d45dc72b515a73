"""Steps that must do nothing, and things a step must not touch."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.common_optimizers import OptimizerInfo

from .harness import Case, assert_identical, cases, floats_in, quiet, random_gradients, step_alike
from .info import rounds_its_state

pytestmark = quiet


def without_weight_decay(info: OptimizerInfo, kwargs: dict[str, object]) -> bool:
    return kwargs.get("weight_decay", 0.0) == 0.0


@cases()
def test_step_is_noop_when_params_have_no_grad(case: Case) -> None:
    params = [torch.randn(2, 3) for _ in range(2)]
    start = [param.clone() for param in params]
    loss: Any = torch.tensor([1.0])
    assert case.make(params).step(lambda: loss) is loss
    assert_identical(params, start)


@cases()
def test_parameter_that_first_gets_a_gradient_late(case: Case) -> None:
    """It joins when its gradient does, with a step count of its own, and may go without one again."""
    early, late = torch.randn(3), torch.randn(2, 2)
    start = late.clone()
    optimizer = case.make([early, late])
    for _ in range(2):
        step_alike(([early], optimizer))
    assert_identical(late, start)
    step_alike(([early, late], optimizer))
    moved = late.clone()
    assert not torch.equal(moved, start)
    late.grad = None
    optimizer.step()
    assert_identical(late, moved)
    assert optimizer.state[early]["step"].item() == 4
    assert optimizer.state[late]["step"].item() == 1


@cases(only=without_weight_decay)
def test_step_is_noop_for_zero_grads(case: Case) -> None:
    """From the first step on; afterwards the parameter is as free to move as before."""
    param = torch.rand(5, 1)
    start = param.clone()
    optimizer = case.make([param])
    for _ in range(3):
        param.grad = torch.zeros_like(param)
        optimizer.step()
        assert_identical(param.detach(), start)
    for value in floats_in(optimizer.state[param]).values():
        assert torch.isfinite(value).all()
    param.grad = torch.ones_like(param)
    optimizer.step()
    assert torch.isfinite(param).all()
    assert (param != start).all()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0)], ids=str)
@cases(only=lambda info, kwargs: not rounds_its_state(kwargs))
def test_step_is_noop_for_empty_params(case: Case, shape: tuple[int, ...]) -> None:
    """Also beside a parameter that is not empty, which moves as if alone."""
    empty, full = torch.empty(shape), torch.randn(3, 2)
    twin = full.clone()
    optimizer, alone = case.make([empty, full]), case.make([twin])
    for _ in range(2):
        empty.grad = torch.empty(shape)
        full.grad = torch.randn_like(full)
        twin.grad = full.grad.clone()
        optimizer.step()
        alone.step()
    assert empty.shape == shape
    torch.testing.assert_close(full, twin)


def memory(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor._version


@cases()
def test_grads_are_never_inplaced_into(case: Case) -> None:
    params = [torch.randn(4, 3), torch.randn(3, 2, 2)[..., 0], torch.randn(())]
    if case.kwargs().get("fused", False):
        params = [param.contiguous() for param in params]
    optimizer = case.make(params)
    for _ in range(3):
        grads = random_gradients(params)
        kept = [grad.clone() for grad in grads]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        before = [memory(grad) for grad in grads]
        optimizer.step()
        assert [memory(grad) for grad in grads] == before
        assert_identical(grads, kept)
        assert all(param.grad is grad for param, grad in zip(params, grads, strict=True))


@cases()
def test_state_never_shares_memory_with_the_gradient(case: Case) -> None:
    """A state that aliased .grad would be overwritten by the next backward."""
    param = torch.randn(4, 3)
    param.grad = torch.randn(4, 3)
    optimizer = case.make([param])
    optimizer.step()
    kept = {key: value.clone() for key, value in optimizer.state[param].items()}
    param.grad.fill_(7.0)
    assert_identical(dict(optimizer.state[param]), kept)
    assert param.data_ptr() not in [value.data_ptr() for value in optimizer.state[param].values()]


@cases(skip=("differentiable",))
def test_step_keeps_parameter_identity(case: Case) -> None:
    """In place: same storage, dtype, layout and requires_grad; nothing recorded for autograd."""
    param = torch.nn.Parameter(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
    pointer, stride = param.data_ptr(), param.stride()
    param.grad = torch.randn_like(param)  # strided alike, as autograd makes it
    case.make([param]).step()
    assert (param.data_ptr(), param.stride(), param.requires_grad) == (pointer, stride, True)
    assert param.is_leaf
    assert param.grad_fn is None
