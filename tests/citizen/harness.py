"""The cases (optimizer x input x implementation) and the small problems the tests share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.testing import assert_close
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

from gradagrad.checks import arguments

from .info import AUTOGRADAGRAD, GRADAGRAD, is_offered, rounds_its_state

ADAGRAD: OptimizerInfo = next(info for info in optim_db if info.optim_cls is torch.optim.Adagrad)
INFOS: tuple[OptimizerInfo, ...] = (ADAGRAD, GRADAGRAD, AUTOGRADAGRAD)
LABELS = {ADAGRAD: "torch_Adagrad", GRADAGRAD: "GradaGrad", AUTOGRADAGRAD: "AutoGradaGrad"}

# lr = 1 on small random tensors is what these tests do on purpose; the warning has tests of its own elsewhere.
quiet = pytest.mark.filterwarnings("ignore::gradagrad.LargeFirstStepWarning")


@dataclass(frozen=True)
class Case:
    """One optimizer with one set of arguments."""

    info: OptimizerInfo
    given: dict[str, Any]

    def kwargs(self, **changes: Any) -> dict[str, Any]:
        """Fresh on every call, since schedulers write into a tensor lr."""
        fresh = {name: value.clone() if torch.is_tensor(value) else value for name, value in self.given.items()}
        return fresh | changes

    def make(self, params: Any, **changes: Any) -> Optimizer:
        return self.info.optim_cls(params, **self.kwargs(**changes))  # pyright: ignore[reportCallIssue]

    @property
    def shared(self) -> dict[str, Any]:
        """The arguments that no param group may have for itself."""
        table = arguments.AUTOGRADAGRAD
        return {
            name: value
            for name, value in self.kwargs().items()
            if name in (*table.numeric, *table.flags) and name not in table.free and self.info is AUTOGRADAGRAD
        }

    @property
    def maximize(self) -> bool:
        return self.kwargs().get("maximize", False)


Filter = Callable[[OptimizerInfo, dict[str, Any]], bool]
IMPLEMENTATIONS = ("foreach", "differentiable", "fused")

# Loop, foreach, differentiable and fused are compared on every input in test_implementations.py; what does not depend
# on the numbers is then tried with these alone.
FEW = (
    "default",
    "Tensor lr",
    "nonzero weight_decay",
    "group, momentum",
    "box, momentum",
    "lazy row, momentum",
    "Tensor lr, capturable",
)


def cases(
    *, skip: Sequence[str] = (), only: Filter = lambda info, kwargs: True, few: bool = False
) -> pytest.MarkDecorator:
    """Parametrise a test: every optimizer and input with the plain loop, a few inputs with each implementation.

    skip names implementations the test is not for, only keeps the inputs it makes sense for, few takes a few inputs
    with the loop too. (torch's own helper leaves foreach out on a CPU; here it stays in.)
    """
    found = []
    for info in INFOS:
        for given in info.optim_inputs_func(device="cpu"):
            for flag in (None, *(name for name in IMPLEMENTATIONS if name not in skip and has(info, name))):
                off = {name: False for name in ("foreach", "fused") if has(info, name)}
                kwargs = {**off, **given.kwargs, **({} if flag is None else {flag: True})}
                if (few or flag is not None) and given.desc not in FEW:
                    continue
                if is_offered(kwargs) and only(info, kwargs):
                    label = "-".join([LABELS[info], given.desc.replace(" ", "_"), flag or "loop"])
                    found.append(pytest.param(Case(info, kwargs), id=label))
    return pytest.mark.parametrize("case", found)


def loop_cases(*, only: Filter = lambda info, kwargs: True) -> pytest.MarkDecorator:
    """As cases, the plain loop alone."""
    return cases(skip=IMPLEMENTATIONS, only=only)


def implementation_cases(flag: str, *, only: Filter = lambda info, kwargs: True) -> pytest.MarkDecorator:
    """As loop_cases, for the optimizers and inputs with which this implementation may be switched on."""
    return loop_cases(
        only=lambda info, kwargs: has(info, flag) and is_offered({**kwargs, flag: True}) and only(info, kwargs)
    )


def groups_are_apart(info: OptimizerInfo, kwargs: dict[str, Any]) -> bool:
    """Whether a param group steps as it would alone: not where all of them find one learning rate together, nor where
    stochastic rounding draws its bits by a parameter's place."""
    return info is not AUTOGRADAGRAD and not rounds_its_state(kwargs)


def has(info: OptimizerInfo, flag: str) -> bool:
    return flag in info.supported_impls and (flag != "fused" or "cpu" in info.supports_fused_on)


class Affine:
    """The sum of (W x + b)²: torch's problem for 'does it go the right way'."""

    def __init__(self, *, contiguous: bool = True, dtype: torch.dtype = torch.float32) -> None:
        if contiguous:
            weight, bias = torch.randn(10, 5, dtype=dtype), torch.randn(10, dtype=dtype)
        else:
            weight, bias = torch.randn(10, 5, 2, dtype=dtype)[..., 0], torch.randn(10, 2, dtype=dtype)[..., 0]
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.point = torch.randn(5, dtype=dtype)

    @property
    def params(self) -> list[Parameter]:
        return [self.weight, self.bias]

    def copy(self) -> "Affine":
        other = Affine.__new__(Affine)
        other.weight, other.bias = Parameter(self.weight.detach().clone()), Parameter(self.bias.detach().clone())
        other.point = self.point
        return other

    def loss(self) -> Tensor:
        return (self.weight.mv(self.point) + self.bias).pow(2).sum()

    def closure(self, optimizer: Optimizer) -> Callable[[], Any]:
        def evaluate() -> Tensor:
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        return evaluate

    def train(self, optimizer: Optimizer, steps: int, schedulers: Iterable[Any] = ()) -> None:
        for _ in range(steps):
            loss: Any = optimizer.step(self.closure(optimizer))
            advance(schedulers, loss.detach())


def advance(schedulers: Iterable[Any], loss: Any) -> None:
    for scheduler in schedulers:
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(loss)
        else:
            scheduler.step()


def assert_moved_the_right_way(before: float, after: float, case: Case) -> None:
    if case.maximize:
        assert after > before
    else:
        assert after < before


def give_gradients(params: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
    """Set copies, so that two optimizers can be fed the same numbers."""
    for param, grad in zip(params, grads, strict=True):
        param.grad = None if grad is None else grad.clone()


def random_gradients(params: Sequence[Tensor]) -> list[Tensor]:
    return [torch.randn_like(param) for param in params]


def step_alike(*runs: tuple[Sequence[Tensor], Optimizer]) -> None:
    """One step of each optimizer, by the same random gradients."""
    grads = random_gradients(runs[0][0])
    for params, optimizer in runs:
        give_gradients(params, grads)
        optimizer.step()


def named(params: Iterable[Tensor]) -> list[tuple[str, Tensor]]:
    return [(f"name{position}", param) for position, param in enumerate(params)]


def floats_in(state: dict[str, Any]) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if torch.is_tensor(value) and value.is_floating_point()}


def assert_same_state(first: Optimizer, second: Optimizer, **tolerance: Any) -> None:
    """Every parameter's state agrees: same keys, same values."""
    left, right = first.state_dict()["state"], second.state_dict()["state"]
    assert left.keys() == right.keys()
    for index in left:
        assert left[index].keys() == right[index].keys()
        for key in left[index]:
            assert_close(left[index][key], right[index][key], equal_nan=True, check_dtype=key != "step", **tolerance)


def assert_identical(first: Any, second: Any) -> None:
    """Bit for bit, through nested dicts and lists."""
    assert type(first) is type(second)
    if torch.is_tensor(first):
        assert first.dtype == second.dtype
        assert torch.equal(first, second)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_identical(first[key], second[key])
    elif isinstance(first, (list, tuple)):
        assert len(first) == len(second)
        for left, right in zip(first, second, strict=True):
            assert_identical(left, right)
    else:
        assert first == second
