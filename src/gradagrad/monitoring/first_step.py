"""The guard for the commonest mistake: a first step larger than the model, as with lr = 1 on a neural net."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradagrad import sharding
from gradagrad.torch_ops.steps import TorchSteps, added_up, decide
from gradagrad.torch_ops.view import View
from gradagrad.torch_ops.views import views

if TYPE_CHECKING:
    from gradagrad.engine.step import Part

_ONE_BY_ONE = TorchSteps(together=False)


class LargeFirstStepWarning(UserWarning):
    """The first step moves some non-zero parameter tensor by more than its own norm."""


def check(parts: Sequence[Part]) -> None:
    """Computes the first step without taking it and warns once if it is larger than a tensor it starts from.

    It reads numbers back to the host, which no later step does. All ranks come to the same result and all warn, since
    whoever turns warnings into errors must see all ranks raise, or the others wait for ever.
    """
    if any(parameter.is_meta for part in parts for parameter in part.batch.params):
        return  # which have no numbers
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return  # nothing may be read back
    squares: list[Tensor] = []
    axes: list[sharding.Axes] = []
    for view, x, moved in _proposals(parts):
        owners = view.batch.owners or view.batch.params
        squares += [(moved - x).norm().double().square(), x.norm().double().square()]
        axes += [sharding.axes(owners[view.i])] * 2  # pyright: ignore[reportAttributeAccessIssue]
    sums = torch.stack([s.cpu() for s in sharding.Addition(squares, axes).result()]).reshape(-1, 2)
    moved, own = sums.sqrt().unbind(1)
    # NaN and infinite gradients are the caller's to find; zero tensors (biases, convex starts) are fine.
    values = torch.where(own > 0, moved / own, 0.0).nan_to_num(0.0, posinf=0.0).tolist()
    large = [value for value in values if value > 1.0]
    if large:
        warnings.warn(
            f"the first step moves {len(large)} of {len(values)} parameter tensors by more than their own norm "
            f"(the worst by {max(large):.3g} times). lr is too large for this model, and GradaGrad only raises it: "
            'use about lr=0.01 (neural nets with granularity="element") or smaller. To silence this: '
            'warnings.filterwarnings("ignore", category=gradagrad.LargeFirstStepWarning).',
            LargeFirstStepWarning,
            stacklevel=6,  # past step and the two wrappers torch puts around it
        )


def _proposals(parts: Sequence[Part]) -> list[tuple[View, Tensor, Tensor]]:
    """Each view with where its parameter is and where the step would take it, lr not yet decayed."""
    from gradagrad.engine.step import Message  # which imports this module's users

    batches = [_checking_values(part) for part in parts]
    measured = Message([(_ONE_BY_ONE.measure(b), part.axes) for b, part in zip(batches, parts, strict=True)]).result()
    shared: dict[int, list[Tensor]] = {}
    for batch, sums in zip(batches, measured, strict=True):
        if batch.is_shared and sums is not None:
            shared.setdefault(id(next(iter(batch.shared.values()))), []).append(sums[0])
    result: list[tuple[View, Tensor, Tensor]] = []
    for batch, sums in zip(batches, measured, strict=True):
        found = list(views(batch, together=False))
        if batch.is_shared:
            totals = shared.get(id(next(iter(batch.shared.values()))))
            _, factors = decide(batch, added_up(totals, batch) if totals else None)
            news = [v.move([a.to(v.device) if isinstance(a, Tensor) else a for a in factors])[0] for v in found]
        else:
            news = [v.step(tuple(own.unbind()))[0] for v, own in zip(found, sums, strict=True)]
        result += [(view, view.values["x"], new["x"]) for view, new in zip(found, news, strict=True)]
    return result


def _checking_values(part: Part):
    """The part's batch, the values of its projection checked too, which reads them back."""
    settings = part.batch.settings
    project = getattr(settings, "project", None)
    if project is not None:
        settings = settings._replace(project=project.checking_values())
    return replace(part.batch, settings=settings, lr_decay=0.0)
