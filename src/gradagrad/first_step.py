"""The guard for the commonest mistake: a first step larger than the model, as with lr = 1 on a neural net."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from gradagrad import distributed
from gradagrad.steps.bundle import Bundle, Measurement, adapt_group

# (bundle, parameter) pairs of a group, and the copies of its shared slot if it has one.
Proposals = tuple[Sequence[tuple[Bundle, Tensor]], Sequence[tuple[Tensor, Tensor]] | None]


class LargeFirstStepWarning(UserWarning):
    """The first step moves some non-zero parameter tensor by more than its own norm."""


def check(groups: Sequence[Proposals]) -> None:
    """Computes the first step without taking it and warns once if it is larger than a tensor it starts from.

    It reads numbers back to the host, which no later step does. All ranks come to the same result and all warn, since
    whoever turns warnings into errors must see all ranks raise, or the others wait for ever.
    """
    summed = [b for proposals, copies in groups for b, _ in proposals if b.axes or copies is not None]
    measured = iter(Measurement(summed).pairs())
    squares: list[Tensor] = []
    axes: list[distributed.Axes] = []
    for proposals, copies in groups:
        shared = None
        if copies is not None:
            shared = adapt_group([bundle for bundle, _ in proposals], [next(measured) for _ in proposals], copies)
        for bundle, parameter in proposals:
            before, after = shared or (
                (bundle.growth, bundle.alpha),
                bundle.adapt(next(measured) if bundle.axes else bundle.measure()),
            )
            moved = (bundle.move(before, after)[0] - bundle.x).norm()
            own = torch.linalg.vector_norm(distributed.local(parameter.detach()), dtype=_wide(parameter))
            squares += [moved.double().square(), own.double().square()]
            axes += [distributed.axes(parameter)] * 2
    sums = torch.stack([s.cpu() for s in distributed.Addition(squares, axes).result()]).reshape(-1, 2)
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
            stacklevel=5,  # past step and the two wrappers torch puts around it
        )


def _wide(parameter: Tensor) -> torch.dtype | None:
    return torch.float32 if parameter.dtype in (torch.bfloat16, torch.float16) else None
