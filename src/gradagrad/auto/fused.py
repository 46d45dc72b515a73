"""The compiled kernel's part of a step: the loops over elements of `rule.measure` and `rule.move`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from gradagrad.auto import rule
from gradagrad.auto.batch import Batch
from gradagrad.auto.numbers import Numbers
from gradagrad.steps.kept import Memory


class Plan(Protocol):
    """A batch that the kernel has looked at and can step."""

    def measure(self, before: Numbers, settings: rule.Settings) -> Tensor: ...
    def move(self, before: Numbers, after: Numbers, settings: rule.Settings) -> None: ...


def plan(batch: Batch, state: Mapping[Tensor, dict[str, Any]], memory: Memory, *, required: bool) -> Plan | None:
    """How the kernel steps this batch; None if it cannot, or an error if it must."""
    if required:
        raise RuntimeError("fused=True is impossible here: the kernel has no shared growth yet. Pass fused=None.")
    return None
