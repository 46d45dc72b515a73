"""The contestants and their settings. All are the real optimizers, from the list in `gradagrad_lab.methods`."""

import inspect
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gradagrad import AutoGradaGrad
from gradagrad_lab.methods import OPTIMIZERS, PEERS
from gradagrad_lab.problems.training import Kind
from gradagrad_lab.study import Method

Side = Literal["tuned", "peer", "gradagrad", "ours"]
DEFAULT_GAMMA0: float = inspect.signature(AutoGradaGrad).parameters["gamma0"].default
# The sweep of γ₀; "flat" is asked for between these two.
SWEEP = tuple(sorted({1e-8, 1e-6, DEFAULT_GAMMA0, 1e-2, 1.0}))
QUICK_SWEEP = tuple(sorted({1e-6, DEFAULT_GAMMA0, 1e-2}))
FLAT_FROM, FLAT_TO = 1e-6, 1e-2


@dataclass(frozen=True)
class Contestant:
    """One line of the tables: an optimizer, its options and whether the averaged iterate is judged.

    ``by_kind`` are options that its documentation gives for a kind of problem. For a tuned one ``tuned`` names the
    baseline in `TUNED`.
    """

    key: str
    title: str
    optimizer: str
    side: Side
    averaged: bool = False
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    by_kind: dict[Kind, dict[str, Any]] = field(default_factory=dict, hash=False)
    tuned: str = ""

    def method(self, kind: Kind) -> Method:
        return Method.of(self.optimizer, **{**self.options, **self.by_kind.get(kind, {})})


def _both(one: Contestant) -> tuple[Contestant, Contestant]:
    """The same at its last iterate and at the average of its iterates: two readings of the same runs."""
    return one, replace(one, key=f"{one.key}-averaged", title=f"{one.title}, averaged", averaged=True)


TUNED: dict[str, tuple[str, Method]] = {
    "sgd": ("SGD, momentum 0.9", Method.of("sgd", momentum=0.9)),
    "adagrad": ("AdaGrad", Method.of("adagrad")),
    "adam": ("Adam", Method.of("adam")),
}
_ELEMENT: dict[Kind, dict[str, Any]] = {"net": {"lr": 0.01}, "embeddings": {"lr": 0.01, "lazy": True}}
_SCALAR: dict[Kind, dict[str, Any]] = {"net": {"lr": 1e-4, "rho": 100.0}, "embeddings": {"lr": 1e-4, "rho": 100.0}}
_GROUP = {"granularity": "group"}

_tuned = [
    _both(Contestant(key, f"{title}, tuned", method.optimizer, "tuned", options=dict(method.options), tuned=key))
    for key, (title, method) in TUNED.items()
]
_peers = [_both(Contestant(name, OPTIMIZERS[name].title, name, "peer")) for name in PEERS]
# At its parameters y and at its own average x̄.
OURS, OURS_AVERAGED = _both(Contestant("ours", "AutoGradaGrad", "autogradagrad", "ours"))
CONTESTANTS: tuple[Contestant, ...] = (
    *(plain for plain, _ in _tuned),
    *(averaged for _, averaged in _tuned),
    OURS,
    OURS_AVERAGED,
    *(plain for plain, _ in _peers),
    *(averaged for _, averaged in _peers if not OPTIMIZERS[averaged.optimizer].averages),
    *_both(Contestant("element", "GradaGrad element, as documented", "gradagrad", "gradagrad", by_kind=_ELEMENT)),
    *_both(Contestant("group", "GradaGrad group, as documented", "gradagrad", "gradagrad", False, _GROUP, _SCALAR)),
)
BY_KEY: dict[str, Contestant] = {one.key: one for one in CONTESTANTS}
