"""The experiments `gradagrad reproduce` knows: a new one is a line here and a module with ``run(context)``."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from gradagrad_lab.context import Context
from gradagrad_lab.errors import USAGE, UserError
from gradagrad_lab.results import Section

# name → (module, what it shows), in the order of the report. Modules are imported only when they are run.
EXPERIMENTS: dict[str, tuple[str, str]] = {
    "figure1": ("gradagrad_lab.figures.figure1", "the naive learning rate, which explodes, against the reparametrised"),
    "figure2": ("gradagrad_lab.figures.figure2", "|x| from good and bad initial learning rates"),
    "figure3": ("gradagrad_lab.figures.figure3", "logistic regression on six sets against tuned baselines"),
    "figure4": ("gradagrad_lab.figures.figure4", "DLRM with embedding tables: what ρ does to a bad γ₀"),
    "bound": ("gradagrad_lab.figures.bound", "Theorem 2: measured suboptimality against the bound"),
    "suite": ("gradagrad_lab.figures.suite", "AutoGradaGrad untuned beside tuned optimizers and parameter-free peers"),
}
ALL = "all"


def chosen(name: str) -> list[str]:
    """The experiments a name stands for."""
    if name == ALL:
        return list(EXPERIMENTS)
    if name not in EXPERIMENTS:
        raise UserError(f"experiment must be one of {', '.join(EXPERIMENTS)} or {ALL}, got {name!r}.", USAGE)
    return [name]


def runner(name: str) -> Callable[[Context], Section]:
    """The function that runs an experiment."""
    return importlib.import_module(EXPERIMENTS[name][0]).run
