"""Both methods as pure functions, to read and to copy. They need nothing but torch.

The optimizers take the same steps, with less memory, faster and with more options. State is None before the first step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

GradaGradState = tuple[Tensor, Tensor, Tensor]


def gradagrad(
    x: Tensor, g: Tensor, state: GradaGradState | None = None, *, lr: float = 1.0, rho: float = 2.0, beta: float = 0.0
) -> tuple[Tensor, GradaGradState]:
    """One step of the paper's Algorithm 2. The state is m, γ and α of every element."""
    m, gamma, alpha = state or (torch.zeros_like(x), torch.full_like(x, lr), torch.zeros_like(x))
    v = g * g - rho * g * m
    grows = v < 0  # The gradient agrees with the last step, so γ grows; otherwise α does.
    growth = torch.minimum((1 - v / alpha).sqrt(), rho * m / g)  # Lemma 4 limits it.
    new_gamma = torch.where(grows, gamma * growth, gamma)
    new_alpha = torch.where(grows, alpha, alpha + v)
    old_rate, rate = gamma / alpha.sqrt(), new_gamma / new_alpha.sqrt()  # 1/A_k and 1/A_{k+1}
    new_m = (1 - beta) * g + torch.where(m == 0, 0.0, beta * m * old_rate / rate)
    new_x = torch.where(new_alpha > 0, x - rate * new_m, x)
    return new_x, (new_m, new_gamma, new_alpha)


@dataclass(frozen=True)
class AutoTensor:
    """What AutoGradaGrad keeps of one tensor. Its parameters are y; evaluate at ``mean``."""

    z: Tensor
    """The fast iterate."""
    mean: Tensor
    """The weighted mean of all z."""
    squares: Tensor
    """Σ k·g²."""
    displacement: Tensor
    """How far gradients have moved the point that votes are about."""
    gamma: float
    agreement_square: float = 0.0
    limit: float = math.inf
    size: float = 0.0


@dataclass(frozen=True)
class AutoState:
    """What AutoGradaGrad keeps between steps."""

    tensors: Sequence[AutoTensor]
    common_gamma: float
    step: int = 0
    weights: float = 0.0
    agreement_square: float = 0.0
    measured: int = 0
    """The step in which limits were last measured."""
    slope: float = 0.0
    """What a step takes off the loss to first order, divided by γ, when it was last measured."""
    trend: float = 0.0
    """How strongly gradients agree, from −1 to 1, a mean over 100 steps."""


def auto_gradagrad(
    ys: Sequence[Tensor],
    gradients: Sequence[Tensor],
    state: AutoState | None = None,
    *,
    gamma0: float = 1e-4,
    beta: float = 0.6,
) -> tuple[list[Tensor], AutoState]:
    """One step of AutoGradaGrad for all tensors of a model, as in the first two million steps."""
    if state is None:
        zeros = [torch.zeros_like(y) for y in ys]
        own = [AutoTensor(y, y, zero, zero, gamma0) for y, zero in zip(ys, zeros, strict=True)]
        state = AutoState(own, common_gamma=gamma0)
    if not any(g.any() for g in gradients):
        return list(ys), state
    k = state.step + 1
    weight = k**6 * state.common_gamma**2
    weights = state.weights + weight
    fallen = min(1.0, math.sqrt(k * weight / (7 * weights)))  # γ now against its root mean square so far
    due = k - state.measured + 0.5 > min(k / 8, 15)
    new_ys, tensors, agreements, slope = list[Tensor](), list[AutoTensor](), list[float](), 0.0
    for y, raw, t in zip(ys, gradients, state.tensors, strict=True):
        # 1. Move: an Adam-like step of z, the average of z, and y between them.
        bound = torch.where(t.squares > 0, (t.squares / k).sqrt(), math.inf)
        g = raw.clamp(-bound, bound)  # No gradient counts more than all earlier ones together.
        squares = t.squares + k * g * g
        direction = torch.where(g == 0, 0.0, g / (squares * 2 / (k * (k + 1))).sqrt())
        z = t.z - t.gamma * direction
        mean = t.mean + weight / weights * (z - t.mean)
        new_y = (1 - beta) * z + beta * mean
        # 2. Compare the gradient with how far earlier ones have moved q, a point between y and the average.
        unit = math.sqrt(t.gamma) * fallen
        agreements.append(unit * float((g * t.displacement).sum()))
        moved = torch.where(g == 0, 0.0, 0.7 * (y - new_y) + 0.3 * (t.mean - mean)) / unit
        displacement = (t.displacement + moved) * (1 - 0.5 / (k + 1))
        # 3. Limit γ to steps of 6 % of the tensor's size.
        slope += float((g * direction).sum())
        limit, size, touched = t.limit, t.size, g != 0
        if (due or limit == math.inf) and touched.any():
            rms, pace = (float(values[touched].square().mean().sqrt()) for values in (new_y, direction))
            size = max(rms, 0.9 * size)  # It falls slowly, so a tensor may cross 0.
            limit = 0.06 * max(size, 0.03) / max(min(pace, 1.0), 0.3)
        new_ys.append(new_y)
        tensors.append(AutoTensor(z, mean, squares, displacement, t.gamma, t.agreement_square, limit, size))
    # 4. Learn: one step of AdaGrad for every log γ, by the tensor's own vote and a common one.
    elements = sum(y.numel() for y in ys)
    log_mean = sum(y.numel() * math.log(t.gamma) for y, t in zip(ys, tensors, strict=True)) / elements
    common = sum(own * math.exp(log_mean) / t.gamma for own, t in zip(agreements, tensors, strict=True))
    common_vote, common_square = _vote(common, state.agreement_square, k)
    slope = slope if due else state.slope
    promised = math.exp(log_mean) * slope
    agrees = max(-1.0, min(1.0, 2 * common / promised)) if promised else 0.0
    trend = state.trend + (agrees - state.trend) / 100
    held = max(0.0, min(1.0, 2 - 4 * trend))  # While gradients agree strongly, as in linear models, limits let go.
    for place, (own, t) in enumerate(zip(agreements, tensors, strict=True)):
        vote, square = _vote(own, t.agreement_square, k)
        log_gamma = math.log(t.gamma * (1 + (vote + common_vote) / 2))
        log_gamma += (log_mean - math.log(t.gamma)) * 0.5 / (k + 1)
        if state.tensors[place].limit == math.inf > t.limit:  # Its first gradient has measured the limit.
            log_gamma = math.log(0.03 * t.limit)
        log_gamma -= 0.2 * held * max(0.0, log_gamma - math.log(t.limit))
        tensors[place] = replace(t, gamma=math.exp(log_gamma), agreement_square=square)
    measured = k if due else state.measured
    return new_ys, AutoState(tensors, math.exp(log_mean), k, weights, common_square, measured, slope, trend)


def _vote(agreement: float, square: float, k: int) -> tuple[float, float]:
    """AdaGrad's step of log γ, a tenth at most later on, and the new mean square of the agreement."""
    square += (agreement * agreement - square) * 2 / (k + 1)
    largest = max(0.1, 1 / math.sqrt(k))
    return max(-largest, min(largest, 0.85 * agreement / math.sqrt(k * square))) if square else 0.0, square
