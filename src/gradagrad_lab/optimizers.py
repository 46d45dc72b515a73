"""Optimizers by name: how to make one, which options it takes and on which grid it is tuned. They know no problem."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from gradagrad_lab.errors import USAGE, UserError

GRID = tuple(2.0**power for power in range(-12, 7))
# Far beyond any sensible learning rate: where the automatic extension of a grid gives up.
GRID_LIMITS = (2.0**-30, 2.0**20)


@dataclass(frozen=True)
class Entry:
    """One optimizer of the lab.

    ``stackable``: runs may share one instance through param groups (peers keep scalars per instance and may not).
    ``fixed`` are arguments that only make it faster here; they are no options of the method.
    ``step_size`` maps (group, state) to the learning rate of every coordinate, None where it has no plain meaning.
    """

    name: str
    title: str
    module: str
    attribute: str
    package: str
    stackable: bool = False
    tuned: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    step_size: Callable[[dict[str, Any], dict[str, Any]], Tensor | float] | None = None

    def factory(self) -> Callable[..., Optimizer]:
        try:
            return getattr(importlib.import_module(self.module), self.attribute)
        except ImportError as error:
            raise UserError(
                f"The optimizer {self.name!r} needs the package {self.package}; install it with "
                f"`pip install {self.package}`.",
                USAGE,
            ) from error


def _gradagrad_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    return group["lr"] * state["growth"] / (state["accumulator"].sqrt() + group["eps"])


def _adagrad_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    return group["lr"] / (state["sum"].sqrt() + group["eps"])


def _adam_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    first, second = group["betas"]
    step = float(state["step"])
    root = (state["exp_avg_sq"] / (1 - second**step)).sqrt()
    return group["lr"] / (1 - first**step) / (root + group["eps"])


def _constant_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    return float(group["lr"])


_ENTRIES = (
    Entry(
        "gradagrad", "GradaGrad", "gradagrad", "GradaGrad", "gradagrad", stackable=True, step_size=_gradagrad_step_size
    ),
    Entry(
        "adagrad",
        "AdaGrad",
        "torch.optim",
        "Adagrad",
        "torch",
        stackable=True,
        tuned=True,
        fixed={"fused": True},
        step_size=_adagrad_step_size,
    ),
    Entry(
        "adam",
        "Adam",
        "torch.optim",
        "Adam",
        "torch",
        stackable=True,
        tuned=True,
        fixed={"fused": True},
        step_size=_adam_step_size,
    ),
    # Plain SGD is one in-place addition per group: the fused path only adds overhead.
    Entry(
        "sgd",
        "SGD",
        "torch.optim",
        "SGD",
        "torch",
        stackable=True,
        tuned=True,
        fixed={"foreach": False},
        step_size=_constant_step_size,
    ),
    Entry("autogradagrad", "AutoGradaGrad", "gradagrad", "AutoGradaGrad", "gradagrad"),
    Entry("dadapt_adam", "D-Adaptation Adam", "dadaptation", "DAdaptAdam", "dadaptation", defaults={"lr": 1.0}),
    Entry("prodigy", "Prodigy", "prodigyopt", "Prodigy", "prodigyopt", defaults={"lr": 1.0}),
    Entry("dog", "DoG", "dog", "DoG", "dog-optimizer"),
    Entry("cocob", "COCOB", "parameterfree", "COCOB", "parameterfree"),
    Entry("schedulefree", "Schedule-Free AdamW", "schedulefree", "AdamWScheduleFree", "schedulefree"),
)
OPTIMIZERS: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
BASELINES = ("adam", "sgd", "adagrad")
PEERS = ("dadapt_adam", "prodigy", "dog", "cocob", "schedulefree")


def entry_of(name: str) -> Entry:
    """The optimizer of this name, or an error that lists all names."""
    if name not in OPTIMIZERS:
        raise UserError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {name!r}.", USAGE)
    return OPTIMIZERS[name]


def check_options(name: str, options: dict[str, Any]) -> None:
    """Refuse an option the optimizer does not have, or a value it refuses, before anything is trained."""
    entry = entry_of(name)
    factory = entry.factory()
    accepted = [key for key in inspect.signature(factory).parameters if key not in ("params", "self")]
    for key in options:
        if key not in accepted:
            raise UserError(f"{entry.title} has no option {key!r}; it takes {', '.join(accepted)}.", USAGE)
    try:
        factory([Parameter(torch.zeros(2))], **{**entry.defaults, **options})
    except (ValueError, TypeError) as error:
        text = str(error)
        raise UserError(text if text.endswith(".") else text + ".", USAGE) from error


def make(name: str, points: Tensor, lanes: Sequence[dict[str, Any]]) -> tuple[Optimizer, list[Parameter]]:
    """The optimizer of a stack: one param group per lane, whose parameter is that lane's slice of ``points``.

    The parameters share the memory of ``points`` (lanes, seeds, rows, columns).
    """
    entry = entry_of(name)
    if not entry.stackable and points.shape[0] * points.shape[1] != 1:
        raise ValueError(f"{entry.title} keeps one scalar per optimizer and cannot be stacked")
    parameters: list[Parameter] = []
    groups: list[dict[str, Any]] = []
    for lane, options in zip(points, lanes, strict=True):
        own, shape = _stacked(name, dict(options), lane)
        parameters.append(Parameter(lane.view(shape)))
        groups.append({"params": [parameters[-1]], **own})
    optimizer = entry.factory()(groups, **entry.defaults, **entry.fixed)
    if hasattr(optimizer, "train"):  # Schedule-Free refuses to step before it is told that this is training
        optimizer.train()  # pyright: ignore[reportAttributeAccessIssue]
    return optimizer, parameters


def _stacked(name: str, options: dict[str, Any], lane: Tensor) -> tuple[dict[str, Any], tuple[int, ...]]:
    """A lane's options and the shape of its parameter, chosen so that runs never share a step size.

    Sharing within a run ("group", "tensor") becomes sharing within a row when every run is one row; a run's own rows
    ("row") stay rows when the rows of all runs lie below one another.
    """
    seeds, rows, columns = lane.shape
    if name != "gradagrad" or seeds == 1:
        return options, ((seeds, rows * columns) if seeds > 1 else (rows, columns))
    granularity = options.get("granularity", "element")
    if granularity == "row":
        return options, (seeds * rows, columns)
    if granularity in ("group", "tensor"):
        options["granularity"] = "row"
    return options, (seeds, rows * columns)


def median_step_sizes(name: str, optimizer: Optimizer, seeds: int) -> Tensor | None:
    """The median learning rate over a run's coordinates, (lanes, seeds); None where the method has none to show."""
    measure = entry_of(name).step_size
    if measure is None:
        return None
    lanes: list[Tensor] = []
    for group in optimizer.param_groups:
        parameter = group["params"][0]
        size = torch.as_tensor(measure(group, optimizer.state[parameter]), dtype=torch.float32)
        lanes.append(size.reshape(seeds, -1).median(dim=1).values if size.numel() >= seeds else size.expand(seeds))
    return torch.stack(lanes)


@contextmanager
def evaluation_point(optimizer: Optimizer) -> Iterator[None]:
    """The point to evaluate: Schedule-Free holds it only between its ``eval()`` and ``train()``, AutoGradaGrad within
    ``averaged()``; for others it is where they stand."""
    averaged = getattr(optimizer, "averaged", None)
    if averaged is not None:
        with averaged():
            yield
        return
    switch = getattr(optimizer, "eval", None)
    if switch is None:
        yield
        return
    switch()
    yield
    optimizer.train()  # pyright: ignore[reportAttributeAccessIssue]


def extended(grid: Sequence[float], best: float, by: int = 3) -> list[float]:
    """Further learning rates to try where the best lies at an end of the grid; none where it lies inside."""
    low, high = min(grid), max(grid)
    if best == low and low > GRID_LIMITS[0]:
        return [low * 2.0**-power for power in range(by, 0, -1)]
    if best == high and high < GRID_LIMITS[1]:
        return [high * 2.0**power for power in range(1, by + 1)]
    return []


def power_of_two(value: float) -> str:
    """2^-3 for 0.125; other numbers as they are."""
    if value <= 0:
        return f"{value:g}"
    exponent = math.log2(value)
    return f"2^{int(exponent)}" if exponent == int(exponent) else f"{value:g}"
