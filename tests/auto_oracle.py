"""AutoGradaGrad, number by number in plain Python floats, as its definition reads: nothing scaled, nothing derived.

Each element has three points (y, the fast iterate z, the average x̄), where the rule keeps y and z − y. The mean of
squares a and the displacement d are kept as they are defined, where the rule keeps a·k(k+1)/2 and d/c. From step
2²¹ on no square weighs more than those before it: the mean a forgets at the fixed rate 2⁻²⁰, and the a of an element
that is idle stays, where before every step thinned it.
"""

from collections.abc import Sequence
from math import exp, log, sqrt

LONG = 2**21 - 1
"""The largest weight of a square."""


class Tensor:
    """One tensor's elements, its γ and the mean square of its agreement."""

    def __init__(self, y: Sequence[float], gamma0: float, lr: float) -> None:
        n = len(y)
        self.y, self.z, self.mean = list(y), list(y), list(y)
        self.a, self.d = [0.0] * n, [0.0] * n
        self.squares = [0.0] * n
        """Σ i·g_i², of the gradients as the guard let them pass."""
        self.gamma, self.v, self.lr, self.agreement = gamma0, 0.0, lr, 0.0
        self.limit, self.size = float("inf"), 0.0
        self.moved: list[tuple[float, float, float]] = []
        """y, the direction of z and the gradient of each element that has one, in this step."""


class AutoOracle:
    """log γ of every tensor is one more parameter, trained by AdaGrad."""

    def __init__(
        self,
        tensors: Sequence[Sequence[float]],
        *,
        gamma0: float,
        beta: float = 0.6,
        decay: float = 0.0,
        guard: bool = True,
        lr: Sequence[float] = (),
        gamma_max: float = float("inf"),
    ) -> None:
        rates = lr or [1.0] * len(tensors)
        self.tensors = [Tensor(y, gamma0, rate) for y, rate in zip(tensors, rates, strict=True)]
        self.k, self.common, self.v, self.weights, self.fallen = 0, gamma0, 0.0, 0.0, 1.0
        self.beta, self.decay, self.guard, self.gamma_max = beta, decay, guard, gamma_max
        self.largest_lr, self.measured, self.limited, self.trend, self.slope = 0.0, 0, 0.0, 0.0, 0.0

    def step(self, gradients: Sequence[Sequence[float] | None], schedule: float = 1.0) -> None:
        """One step; None is a tensor without a gradient. ``schedule`` is what a scheduler makes of every lr."""
        if not any(any(gradient) for gradient in gradients if gradient is not None):
            return  # A step in which every gradient is zero changes nothing.
        self.largest_lr = max([self.largest_lr, *(tensor.lr * schedule for tensor in self.tensors)])
        weight = (self.k + 1) ** 6 * self.common**2
        self.weights += weight
        share = weight / self.weights
        self.k += 1
        self.fallen = min(1.0, sqrt(self.k * weight / (7.0 * self.weights)))
        present = [tensor for tensor, gradient in zip(self.tensors, gradients, strict=True) if gradient is not None]
        for tensor, gradient in zip(self.tensors, gradients, strict=True):
            tensor.agreement, tensor.moved = 0.0, []
            lr = tensor.lr * schedule / self.largest_lr
            for i in range(len(tensor.y)):
                self._move(tensor, i, gradient[i] if gradient is not None else 0.0, share, lr)
            tensor.d = [d * (1.0 - 0.5 / (self.k + 1)) for d in tensor.d]
        self._learn(present)

    def _move(self, tensor: Tensor, i: int, g: float, share: float, lr: float) -> None:
        k, r, weight = self.k, max(2.0 / (self.k + 1), 2.0**-20), min(self.k, LONG)
        if g != 0.0:
            if self.guard and tensor.squares[i] > 0.0 and weight * g * g > tensor.squares[i]:
                g = sqrt(tensor.squares[i] / weight) * (1.0 if g > 0.0 else -1.0)
            tensor.squares[i] *= 1.0 if k <= LONG else 1.0 - r
            tensor.squares[i] += weight * g * g
        if g != 0.0 or k <= LONG:
            tensor.a[i] = tensor.squares[i] / (weight * (weight + 1.0) / 2.0)
        before, judged = tensor.y[i], tensor.y[i] + 0.3 * (tensor.mean[i] - tensor.y[i])
        direction = 0.0
        if g != 0.0:
            root = sqrt(tensor.a[i])
            direction = g / root + self.decay * before
            tensor.agreement += direction * root * tensor.d[i]
            tensor.z[i] -= lr * tensor.gamma * direction
        tensor.mean[i] += share * (tensor.z[i] - tensor.mean[i])
        tensor.y[i] = (1.0 - self.beta) * tensor.z[i] + self.beta * tensor.mean[i]
        if g != 0.0:
            now = tensor.y[i] + 0.3 * (tensor.mean[i] - tensor.y[i])
            tensor.d[i] += (judged - now) / (sqrt(tensor.gamma) * self.fallen)
            tensor.moved.append((tensor.y[i], direction, direction * sqrt(tensor.a[i])))

    def _learn(self, tensors: Sequence[Tensor]) -> None:
        k, r = self.k, max(2.0 / (self.k + 1), 2.0**-20)
        total = sum(len(tensor.y) for tensor in tensors)
        mean = sum(len(tensor.y) * log(tensor.gamma) for tensor in tensors) / max(total, 1)
        self.common = exp(mean)
        above = sum(len(tensor.y) for tensor in tensors if tensor.gamma > tensor.limit) / max(total, 1)
        self.limited += (above - self.limited) / min(k, 1000)
        is_due = k - self.measured + 0.5 > min(k / 8, 15)
        agreements = [sqrt(tensor.gamma) * self.fallen * tensor.agreement for tensor in tensors]
        P = sum(own * self.common / tensor.gamma for own, tensor in zip(agreements, tensors, strict=True))
        self.v += (P * P - self.v) * r
        if is_due:
            self.slope = sum(direction * g for tensor in tensors for _, direction, g in tensor.moved)
        S = self.common * self.slope
        self.trend += (max(min(2.0 * P / S, 1.0), -1.0) - self.trend) / 100 if S > 0.0 else -self.trend / 100
        largest = max(1.0 / sqrt(k), 0.1)
        common_vote = _clipped(P / sqrt(k * self.v), largest) if self.v > 0.0 else 0.0
        for own, tensor in zip(agreements, tensors, strict=True):
            tensor.v += (own * own - tensor.v) * r
            vote = _clipped(own / sqrt(k * tensor.v), largest) if tensor.v > 0.0 else 0.0
            pulled = exp((mean - log(tensor.gamma)) * 0.5 / (k + 1))
            gamma = tensor.gamma * (1.0 + 0.5 * (vote + common_vote)) * pulled
            is_first = tensor.moved and tensor.limit == float("inf")
            if tensor.moved and (is_due or is_first):
                tensor.size, tensor.limit = _limit(tensor.moved, tensor.size)
            if is_first:
                gamma = 0.03 * tensor.limit
            elif gamma > tensor.limit:
                held = max(min(2.0 - 4.0 * self.trend, 1.0), 0.0)
                gamma = exp(log(gamma) - 0.2 * held * (log(gamma) - log(tensor.limit)))
            tensor.gamma = min(gamma, self.gamma_max)
        self.measured = k if is_due else self.measured


def _limit(moved: Sequence[tuple[float, ...]], before: float) -> tuple[float, float]:
    """A tensor's size, and γ above which a step would move it by more than 6 % of that."""
    size, pace = (sqrt(sum(row[i] ** 2 for row in moved) / len(moved)) for i in (0, 1))
    size = max(size, 0.9 * before)
    return size, 0.06 * max(size, 0.03) / max(min(pace, 1.0), 0.3)


def _clipped(vote: float, largest: float) -> float:
    return max(min(0.85 * vote, largest), -largest)
