"""Guards against common accidents: a first step larger than the model, as with lr = 1 on a net, and NaN."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.engine.state import has_stepped
from gradagrad.projections import Checked
from gradagrad.torch_ops.ops import real_view

if TYPE_CHECKING:
    from gradagrad.engine.batch import Batch, Step
    from gradagrad.engine.optimizer import EngineOptimizer


class LargeFirstStepWarning(UserWarning):
    """The first step moves some non-zero parameter tensor by more than its own norm."""


class FirstStep:
    """Copies the parameters before the first step and warns after it if one has moved by more than its own norm.

    All ranks warn, because a rank that raised alone would leave the others waiting. TorchRec's tables are checked
    shard by shard, because ranks hold different ones.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        owners = [p for batch in batches for p in batch.owners or batch.params]
        self._axes = [sharding.axes(p) if sharding.is_sharded(p) else () for p in owners]
        self._rule = batches[0].plan.rule
        self._lrs = [batch.plan.settings.lr for batch in batches for _ in batch.params]
        pairs = [pair for batch in batches for pair in zip(batch.params, batch.grads, strict=True)]
        # The rows that a sparse gradient touches, or all.
        rows: list[Any] = [... if g.layout == torch.strided else g._indices()[0].unique() for _, g in pairs]
        self._params = [(p.detach(), own) for (p, _), own in zip(pairs, rows, strict=True)]
        self._before = [p[rows].clone() for p, rows in self._params]
        for batch in batches:
            settings = batch.plan.settings
            if (project := getattr(settings, "project", None)) is not None:
                checking = Checked(project.projection, values=True)
                batch.plan = replace(batch.plan, settings=settings._replace(project=checking))

    @classmethod
    def of(cls, steps: Sequence[Step]) -> FirstStep | None:
        """A copy of the parameters; None for meta tensors and in a captured graph, where numbers cannot be read."""
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return None
        batches = [step.batch for step in steps]
        return None if any(p.is_meta for batch in batches for p in batch.params) else cls(batches)

    def check(self) -> bool:
        """Warns once, with the remedy, and returns whether it did."""
        squares: list[Tensor] = []
        for (p, rows), old in zip(self._params, self._before, strict=True):
            squares += [(p[rows] - old).norm().double().square(), old.norm().double().square()]
        sums = sharding.add_over_ranks(squares, [axes for axes in self._axes for _ in range(2)])
        moved, own = torch.stack([s.cpu() for s in sums]).sqrt().view(-1, 2).unbind(1)
        # This guard ignores gradients that are not finite. Zero tensors (biases, convex starts) may move.
        ratios = torch.where(own > 0, moved / own, 0.0).nan_to_num(0.0, posinf=0.0)
        large = ratios[ratios > 1.0]
        if not len(large):
            return False
        remedy = "gamma0 is too large for this model: leave it out."
        fitting = min(0.9 * float(lr) / r for lr, r in zip(self._lrs, ratios.tolist(), strict=True) if r > 1.0)
        if not self._rule.learns:
            remedy = (
                "lr is too large for this model, and GradaGrad never lowers it: "
                f"use at most lr={min(0.01, fitting):.2g}, and a tenth of that for pretrained weights."
            )
        warnings.warn(
            f"the first step moves {len(large)} of {len(ratios)} parameter tensors by more than their own norm "
            f"(the worst by {float(large.max()):.3g} times it). {remedy} "
            'To silence this: warnings.filterwarnings("ignore", category=gradagrad.LargeFirstStepWarning).',
            LargeFirstStepWarning,
            stacklevel=6,  # past step and the two wrappers torch puts around it
        )
        return True


def last_is_nan(optimizer: EngineOptimizer) -> bool:
    """Whether the last number of the last parameter is not finite, as far as the host knows without waiting."""
    parameter = optimizer.param_groups[-1]["params"][-1]
    known = type(parameter) is torch.nn.Parameter and parameter.is_cpu and parameter.numel()
    return bool(known) and not cmath.isfinite(parameter.detach()[(-1,) * parameter.dim()].item())


def warn_of_nan(optimizer: EngineOptimizer) -> bool:
    """Warns of the first parameter on a CPU that is not finite, and returns whether it did."""
    places = ((group, i, p) for group in optimizer.param_groups for i, p in enumerate(group["params"]))
    for index, (group, place, parameter) in enumerate(places):
        if type(parameter) is not torch.nn.Parameter or not parameter.is_cpu or not has_stepped(optimizer, parameter):
            continue
        values = real_view(parameter.detach())
        if values.numel() and not bool(values.abs().max().isfinite()):
            name = f" ({group['param_names'][place]})" if "param_names" in group else ""
            warnings.warn(
                f"parameter {index}{name} is not finite after step {int(optimizer.state[parameter]['step'])}. A "
                "gradient was NaN or infinite, and no later one mends its elements: go back to an earlier checkpoint. "
                "The FAQ says how to find the cause (my loss is NaN).",
                stacklevel=5,
            )
            return True
    return False
