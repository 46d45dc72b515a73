"""The experiments `gradagrad reproduce` knows: every module of `gradagrad_lab.figures` that has a ``STUDY``.

They are found by reading the files, so that asking for help does not import torch and matplotlib.
"""

from __future__ import annotations

import ast
import functools
import importlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gradagrad_lab.context import Context
from gradagrad_lab.errors import USAGE, UserError
from gradagrad_lab.results import Section

ALL = "all"


@dataclass(frozen=True)
class Experiment:
    """A figure's module, and what its ``Study(name=…, order=…, shows=…)`` says."""

    module: str
    name: str
    order: int
    shows: str


@functools.cache
def experiments() -> dict[str, Experiment]:
    """By name, in the order of the report."""
    modules = [file for file in (files("gradagrad_lab") / "figures").iterdir() if file.name.endswith(".py")]
    found = [
        Experiment(f"gradagrad_lab.figures.{file.name[:-3]}", **_declared(text))
        for file in modules
        if "STUDY = Study(" in (text := file.read_text(encoding="utf-8"))
    ]
    return {one.name: one for one in sorted(found, key=lambda one: one.order)}


def _declared(text: str) -> dict[str, Any]:
    for node in ast.parse(text).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.targets[0]) == "STUDY"
        ):
            given = {word.arg: word.value for word in node.value.keywords}
            return {key: ast.literal_eval(given[key]) for key in ("name", "order", "shows")}
    raise ValueError("STUDY must be assigned at the top level of its module")


def chosen(name: str) -> list[str]:
    """The experiments a name stands for."""
    known = experiments()
    if name == ALL:
        return list(known)
    if name not in known:
        raise UserError(f"experiment must be one of {', '.join(known)} or {ALL}, got {name!r}.", USAGE)
    return [name]


def run(name: str, context: Context) -> Section:
    """Train what is missing and hand over what the report shows."""
    from gradagrad_lab.study import conduct

    module: Any = importlib.import_module(experiments()[name].module)
    return conduct(module, context)
