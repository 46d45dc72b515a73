"""Who takes part, under which settings. All are the real optimizers, made from `gradagrad_lab.optimizers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from torch.nn import Parameter
from torch.optim import Optimizer

from gradagrad_lab.optimizers import entry_of
from gradagrad_lab.problems.training import Kind

Role = Literal["tuned", "peer", "gradagrad", "ours"]
DEFAULT_GAMMA0 = 1e-5
# The sweep of γ₀; "flat" is asked for between these two.
SWEEP = tuple(float(f"1e{power}") for power in range(-10, 1))
QUICK_SWEEP = (1e-8, DEFAULT_GAMMA0, 1e-2)
FLAT_FROM, FLAT_TO = 1e-8, 1e-2


@dataclass(frozen=True)
class Method:
    """One line of the tables: an optimizer, its options and whether the averaged iterate is judged.

    ``by_kind`` are options that its documentation gives for a kind of problem.
    """

    key: str
    title: str
    optimizer: str
    role: Role
    averaged: bool = False
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    by_kind: dict[Kind, dict[str, Any]] = field(default_factory=dict, hash=False)

    def options_for(self, kind: Kind) -> dict[str, Any]:
        return {**self.options, **self.by_kind.get(kind, {})}


_MOMENTUM = {"momentum": 0.9}
TUNED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sgd": ("SGD, momentum 0.9", "sgd", _MOMENTUM),
    "adagrad": ("AdaGrad", "adagrad", {}),
    "adam": ("Adam", "adam", {}),
}
_PEERS = {
    "prodigy": "Prodigy",
    "dadapt_adam": "D-Adaptation Adam",
    "dog": "DoG",
    "cocob": "COCOB",
}
_ELEMENT: dict[Kind, dict[str, Any]] = {"net": {"lr": 0.01}, "embeddings": {"lr": 0.01, "lazy": True}}
_SCALAR: dict[Kind, dict[str, Any]] = {"net": {"lr": 1e-4, "rho": 100.0}, "embeddings": {"lr": 1e-4, "rho": 100.0}}

OURS = Method("ours", "AutoGradaGrad", "autogradagrad", "ours", averaged=True)
METHODS: tuple[Method, ...] = (
    *(Method(key, f"{title}, tuned", name, "tuned", options=extra) for key, (title, name, extra) in TUNED.items()),
    *(
        Method(f"{key}-averaged", f"{title}, tuned, averaged", name, "tuned", averaged=True, options=extra)
        for key, (title, name, extra) in TUNED.items()
    ),
    OURS,
    Method("ours-last", "AutoGradaGrad, last iterate", "autogradagrad", "ours"),
    Method("ours-gradient", "AutoGradaGrad, no momentum", "autogradagrad", "ours", True, {"momentum": 0.0}),
    Method(
        "ours-bare",
        "AutoGradaGrad, no momentum, no certificate",
        "autogradagrad",
        "ours",
        True,
        {"momentum": 0.0, "certainty": 0.0},
    ),
    *(Method(name, title, name, "peer") for name, title in _PEERS.items()),
    Method("schedulefree", "Schedule-Free AdamW", "schedulefree", "peer"),
    *(Method(f"{name}-averaged", f"{title}, averaged", name, "peer", averaged=True) for name, title in _PEERS.items()),
    Method("element", "GradaGrad element, as documented", "gradagrad", "gradagrad", by_kind=_ELEMENT),
    Method(
        "group", "GradaGrad group, as documented", "gradagrad", "gradagrad", False, {"granularity": "group"}, _SCALAR
    ),
    Method("element-one", "GradaGrad element, lr = 1 everywhere", "gradagrad", "gradagrad"),
    Method(
        "group-one", "GradaGrad group, lr = 1 everywhere", "gradagrad", "gradagrad", False, {"granularity": "group"}
    ),
)
BY_KEY: dict[str, Method] = {method.key: method for method in METHODS}


def build(optimizer: str, options: dict[str, Any], parameters: list[Parameter]) -> Optimizer:
    """The optimizer itself."""
    entry = entry_of(optimizer)
    return entry.factory()(parameters, **{**entry.defaults, **entry.fixed, **options})
