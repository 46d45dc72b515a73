"""The only list of optimizers: how to make one, which options it takes, how it is compared. They ignore problems.

A rival that is compared at its defaults is one `Entry` with ``peer``: the held-out problems and the evidence
then train it.
"""

import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

import gradagrad
from gradagrad.rules.gradagrad import limit_of_growth
from gradagrad_lab.errors import USAGE, UserError, unknown

LEARNING_RATE, GROWTH = "learning rate", "growth"
Watch = Callable[[dict[str, Any], dict[str, Any]], "Tensor | float"]


@dataclass(frozen=True)
class Entry:
    """One optimizer of the lab.

    ``stackable``: runs may share one instance through param groups (peers keep scalars per instance and may not).
    ``peer``: compared at its defaults; ``evidence``: in whole trainings too. ``averages``: it is evaluated at an
    average of its own. ``lr`` is the documented rate, and ``varied`` names the argument that takes it. ``fixed``:
    arguments that only make it faster. ``cosine``: its rate falls to 0 along a cosine. ``warmup``: the share of the
    steps in which its rate rises. ``clip``: the largest norm of all gradients. ``tables``: torch's optimizer of tables
    with sparse gradients, where it takes none itself; "rows": row by row, at ten times the rate. ``watched``: what is
    recorded: by name, a function of (group, state) for every coordinate, or None to ask `gradagrad.learning_rates`.
    """

    name: str
    title: str
    module: str
    attribute: str
    package: str
    stackable: bool = False
    tuned: bool = False
    peer: bool = False
    evidence: bool = False
    averages: bool = False
    lr: float = 1.0
    varied: str = "lr"
    cosine: bool = False
    warmup: float = 0.0
    clip: float = 0.0
    tables: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    watched: dict[str, Watch | None] = field(default_factory=dict)

    def build(self, parameters: Any, steps: int = 0, **options: Any) -> Any:
        """The optimizer at its defaults here, but for the options. ``steps``: how many a cosine or a warm-up is for."""
        warmup = {"warmup_steps": round(self.warmup * steps)} if self.warmup and not self.cosine else {}
        optimizer: Any = self.factory()(parameters, **{**self.defaults, **warmup, **options})
        if self.cosine:
            fall(optimizer, steps, self.warmup)
        if self.clip:
            optimizer.register_step_pre_hook(lambda *_: _clip(optimizer, self.clip))
        if hasattr(optimizer, "train"):  # Schedule-Free refuses to step before train() is called
            optimizer.train()
        return optimizer

    @property
    def sparse(self) -> bool:
        """Whether it trains tables with sparse gradients. The parameter-free peers do not."""
        return self.package in ("torch", "gradagrad")

    def factory(self) -> Callable[..., Optimizer]:
        try:
            return getattr(importlib.import_module(self.module), self.attribute)
        except ImportError as error:
            raise UserError(
                f"The optimizer {self.name!r} needs the package {self.package}; install it with "
                f"`pip install {self.package}`.",
                USAGE,
            ) from error


def fall(optimizer: Optimizer, steps: int, warmup: float = 0.0) -> None:
    """Lets the rate rise in a line for a share of the steps, and then fall to 0 along a cosine."""
    rising = round(warmup * steps)
    falling = max(1, steps - rising)

    def share(step: int) -> float:
        return (step + 1) / rising if step < rising else 0.5 * (1 + math.cos(math.pi * (step - rising) / falling))

    schedule = LambdaLR(optimizer, share)
    optimizer.register_step_post_hook(lambda *_: schedule.step())


def _clip(optimizer: Optimizer, most: float) -> None:
    torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], most)


def _gradagrad_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    return group["lr"] * state["growth"] / (state["accumulator"].sqrt() + group["eps"])


def _adagrad_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    return group["lr"] / (state["sum"].sqrt() + group["eps"])


def _adam_step_size(group: dict[str, Any], state: dict[str, Any]) -> Tensor | float:
    first, second = group["betas"]
    step = float(state["step"])
    return group["lr"] / (1 - first**step) / ((state["exp_avg_sq"] / (1 - second**step)).sqrt() + group["eps"])


def _torch(name: str, title: str, attribute: str, step_size: Watch, **fixed: bool) -> Entry:
    """A baseline: tuned, and many runs in one instance."""
    watched: dict[str, Watch | None] = {LEARNING_RATE: step_size}
    return Entry(name, title, "torch.optim", attribute, "torch", True, True, fixed=fixed, watched=watched)


def _peer(name: str, title: str, module: str, attribute: str, package: str = "", **more: Any) -> Entry:
    return Entry(name, title, module, attribute, package or module, peer=True, **more)


_OURS = ("gradagrad", "GradaGrad", "gradagrad")
_PLUS = ("prodigy_schedulefree", "Prodigy + Schedule-Free", "prodigyplus")
_ONE_GROUP = {"split_groups": False}  # It would print that one param group cannot be split, and do the same.
_AVERAGES: dict[str, Any] = {"averages": True, "evidence": True}
_ENTRIES = (
    Entry(
        *("gradagrad", "GradaGrad", *_OURS, True),
        lr=1e-2,
        tables="rows",
        watched={LEARNING_RATE: _gradagrad_step_size, GROWTH: lambda _, state: state["growth"]},
    ),
    replace(_torch("adagrad", "AdaGrad", "Adagrad", _adagrad_step_size, fused=True), lr=1e-2),
    _torch("adam", "Adam", "Adam", _adam_step_size, fused=True),
    # Plain SGD is one in-place addition per group: the fused path only adds overhead.
    _torch("sgd", "SGD", "SGD", lambda group, _: float(group["lr"]), foreach=False),
    # AdaGrad with one step size for the whole model (ρ = 0), to compare the scalar variant with.
    Entry(
        *("adagrad_norm", "AdaGrad-norm", *_OURS, True, True),
        defaults={"rho": 0.0, "granularity": "group"},
        watched={LEARNING_RATE: _gradagrad_step_size},
    ),
    Entry("autogradagrad", "AutoGradaGrad", "gradagrad", "AutoGradaGrad", "gradagrad", watched={LEARNING_RATE: None}),
    _peer("prodigy", "Prodigy", "prodigyopt", "Prodigy", evidence=True, defaults={"lr": 1.0}),
    _peer("dadapt_adam", "D-Adaptation Adam", "dadaptation", "DAdaptAdam", defaults={"lr": 1.0}),
    # Its authors' own wrapper around Adam, at their defaults.
    _peer("mechanic", "Mechanic (Adam)", "gradagrad_lab.peers", "mechanic", "mechanic-pytorch", defaults={"lr": 1.0}),
    _peer("dog", "DoG", "dog", "DoG", "dog-optimizer"),
    _peer("cocob", "COCOB", "parameterfree", "COCOB"),
    _peer("schedulefree", "Schedule-Free AdamW", "schedulefree", "AdamWScheduleFree", lr=2.5e-3, **_AVERAGES),
    _peer("radam_schedulefree", "Schedule-Free RAdam", "schedulefree", "RAdamScheduleFree", lr=2.5e-3, **_AVERAGES),
    _peer(*_PLUS, "ProdigyPlusScheduleFree", "prodigy-plus-schedule-free", defaults=_ONE_GROUP, **_AVERAGES),
    Entry("adamw", "AdamW", "torch.optim", "AdamW", "torch", lr=1e-3, tables="SparseAdam"),
)
OPTIMIZERS: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
BASELINES = ("adam", "sgd", "adagrad")
_SGD = Entry("sgd momentum", "SGD", "torch.optim", "SGD", "torch", lr=1e-3, tables="SGD", defaults={"momentum": 0.9})
_ADAMW, _PRODIGY, _FREE = (OPTIMIZERS[name] for name in ("adamw", "prodigy", "schedulefree"))
_AS_ADVISED = {"lr": 1.0, "use_bias_correction": True, "safeguard_warmup": True}
_USUAL: dict[str, Any] = {"cosine": True, "warmup": 0.1, "clip": 1.0}
_AUTO, _LAZY = OPTIMIZERS["autogradagrad"], {"lazy": True}
VARIANTS: tuple[Entry, ...] = (
    _SGD,
    replace(_SGD, name="sgd momentum cosine", title="SGD, cosine", cosine=True),
    replace(_ADAMW, name="adamw cosine", title="AdamW, cosine", cosine=True),
    replace(_ADAMW, name="adamw usual", title="AdamW, warm-up, cosine, clipping", **_USUAL),
    replace(_PRODIGY, name="prodigy advised", title="Prodigy, as advised", cosine=True, defaults=_AS_ADVISED),
    replace(_FREE, name="schedulefree warm-up", title="Schedule-Free AdamW, warm-up", warmup=0.1),
    replace(_AUTO, name="autogradagrad gamma0", title="AutoGradaGrad, γ₀", varied="gamma0", lr=1e-4),
    replace(OPTIMIZERS["gradagrad"], name="gradagrad lazy", title="GradaGrad by element", tables="", defaults=_LAZY),
)
"""Other ways to run some of them, in the evidence and the held-out tables only."""
PEERS = tuple(entry.name for entry in _ENTRIES if entry.peer)


@functools.cache
def rule_of(name: str) -> str:
    """The version of an optimizer's rule, so that records of another rule are not used. It is a digest of the steps of
    our optimizers, and the version of the package for others."""
    if name == "autogradagrad":
        return _digest([gradagrad.AutoGradaGrad], goals=(0.0, 30.0), steps=150)
    if name in ("gradagrad", "adagrad_norm"):
        kinds: list[dict[str, Any]] = [{"granularity": kind} for kind in ("element", "row", "tensor", "group", "all")]
        kinds += [{"momentum": 0.9}, {"momentum": 0.9, "granularity": "group"}, {"gamma_max": 0.02, "grad_bound": 1.0}]
        return _digest([functools.partial(gradagrad.GradaGrad, lr=0.01, **options) for options in kinds])
    package = entry_of(name).package
    return f"{package} {importlib.metadata.version(package)}"


def _digest(makes: Sequence[Callable[..., Any]], goals: Sequence[float] = (0.0,), steps: int = 40) -> str:
    """A digest of what optimizers do on the way to near and far goals, with noise, zeros and an outlier: a rule that is
    only written in another way has the same."""
    found: list[float] = []
    for make, goal in itertools.product(makes, goals):
        random = torch.Generator().manual_seed(0)
        tensors = [Parameter(torch.ones(size, dtype=torch.float64)) for size in (1, 5)]
        optimizer = make(tensors, foreach=False, fused=False)
        for step in range(steps):
            for tensor in tensors:
                noise = torch.randn(tensor.shape, generator=random, dtype=torch.float64)
                tensor.grad = (tensor.detach() - goal + noise * (1000 if step == 20 else 1)) * (noise > -1)
            optimizer.step()
        found += torch.cat((*tensors,)).tolist()
        if hasattr(optimizer, "averaged"):
            with optimizer.averaged():
                found += torch.cat((*tensors,)).tolist()
    return hashlib.sha256(" ".join(f"{value:.4g}" for value in found).encode()).hexdigest()[:12]


def entry_of(name: str) -> Entry:
    """The optimizer of this name, or an error that lists all names."""
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raises for an option that the optimizer does not have, or a value that it rejects, before anything is trained."""
    entry = entry_of(name)
    factory = entry.factory()
    accepted = [key for key in inspect.signature(factory).parameters if key not in ("params", "self")]
    for key in options:
        if key not in accepted:
            raise unknown(f"an option of {entry.title}", key, accepted)
    try:
        factory([Parameter(torch.zeros(2))], **{**entry.defaults, **options})
    except (ValueError, TypeError) as error:
        text = str(error)
        raise UserError(text if text.endswith(".") else text + ".", USAGE) from error


def make(
    name: str, points: Tensor, lanes: Sequence[dict[str, Any]], steps: int = 0
) -> tuple[Optimizer, list[Parameter]]:
    """The optimizer of a stack: one param group per lane, whose parameter is that lane's slice of ``points``.

    ``steps``: how many a cosine is for. The parameters share the memory of ``points`` (lanes, seeds, rows, columns).
    """
    entry = entry_of(name)
    if not entry.stackable and points.shape[0] * points.shape[1] != 1:
        raise ValueError(f"{entry.title} keeps one scalar per optimizer and cannot be stacked")
    parameters: list[Parameter] = []
    groups: list[dict[str, Any]] = []
    for lane, options in zip(points, lanes, strict=True):
        own, shape = _stacked({**entry.defaults, **options} if entry.attribute == "GradaGrad" else options, lane)
        parameters.append(Parameter(lane.view(shape)))
        groups.append({"params": [parameters[-1]], **own})
    return entry.build(groups, steps, **entry.fixed), parameters


def _stacked(options: dict[str, Any], lane: Tensor) -> tuple[dict[str, Any], tuple[int, ...]]:
    """A lane's options and the shape of its parameter, chosen so that runs never share a step size.

    Sharing within a run ("group", "tensor") becomes sharing within a row when every run is one row; a run's own rows
    ("row") stay rows when the rows of all runs lie below one another.
    """
    seeds, rows, columns = lane.shape
    granularity = options.get("granularity", "element")
    if granularity == "element" or seeds == 1:
        return options, ((seeds, rows * columns) if seeds > 1 else (rows, columns))
    if granularity == "row":
        return options, (seeds * rows, columns)
    limit = limit_of_growth(options.get("growth_limit"), granularity)
    return {**options, "granularity": "row", "growth_limit": limit}, (seeds, rows * columns)


def watch(name: str, optimizer: Optimizer, seeds: int) -> dict[str, Tensor]:
    """The record of an optimizer: medians over each run's coordinates, each of shape (lanes, seeds)."""
    measured: dict[str, Tensor] = {}
    for what, measure in entry_of(name).watched.items():
        lanes: list[Tensor] = []
        if measure is None:
            rate = gradagrad.learning_rates(optimizer).get("gradagrad/group0/step_size_median", math.nan)
            measured[what] = torch.tensor([[rate]])
            continue
        for group in optimizer.param_groups:
            values = torch.as_tensor(measure(group, optimizer.state[group["params"][0]]), dtype=torch.float32)
            own = values.reshape(seeds, -1).median(dim=1).values if values.numel() >= seeds else values.expand(seeds)
            lanes.append(own.clone())
        measured[what] = torch.stack(lanes)
    return measured


@contextmanager
def evaluation_point(optimizer: Optimizer) -> Iterator[None]:
    """Puts the iterate to evaluate into the parameters. For Schedule-Free this is the point between ``eval()`` and
    ``train()``; other optimizers are evaluated at their parameters."""
    switch = None if hasattr(optimizer, "averaged") else getattr(optimizer, "eval", None)
    if switch is not None:
        switch()
    yield
    if switch is not None:
        optimizer.train()  # pyright: ignore[reportAttributeAccessIssue]


def power_of_two(value: float) -> str:
    """2^-3 for 0.125; other numbers as they are."""
    if value <= 0:
        return f"{value:g}"
    exponent = math.log2(value)
    return f"2^{int(exponent)}" if exponent == int(exponent) else f"{value:g}"
