"""Held-out problems for AutoGradaGrad's present rule, of kinds that no earlier set has. Sizes and steps were set with
tuned Adam alone, so that the loss falls clearly, before AutoGradaGrad ran on any. Since then one has served a choice.

All randomness of the rows is drawn once, so a measure has no noise.
"""

import functools
import zlib
from pydoc_data.topics import topics

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data import bundled
from gradagrad_lab.problems.development import problem
from gradagrad_lab.problems.training import layers, linear, squared

LENGTH, BITS, POINTS, MODES, CENTRES, VOCABULARY, CLASSES = 20, 16, 16, 5, 24, 2048, 10


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@functools.cache
def _wine() -> tuple[Tensor, Tensor]:
    """Thirteen measurements of wines in their own units, and the grower."""
    features, growers = datasets.load_wine(return_X_y=True)
    return torch.tensor(features / features.max(0)).float(), torch.tensor(growers)


@functools.cache
def _outliers() -> tuple[Tensor, Tensor]:
    """A linear function of forty numbers of very different size, under Cauchy noise."""
    features = torch.randn(3000, 40, generator=_random(401)) * torch.logspace(0, -2, 40)
    noise = torch.randn(2, 3000, generator=_random(402))
    return features, features @ torch.linspace(-5, 20, 40) + 0.3 * noise[0] / noise[1]


def _cauchy(predictions: Tensor, targets: Tensor) -> Tensor:
    return (predictions.squeeze(-1) - targets).square().log1p().mean()


@functools.cache
def _marked() -> tuple[Tensor, Tensor]:
    """Sequences of numbers of which two are marked; their sum is to be told."""
    random = _random(403)
    numbers = torch.rand(5000, LENGTH, generator=random)
    places = torch.rand(5000, LENGTH, generator=random).topk(2).indices
    marks = torch.zeros(5000, LENGTH).scatter_(1, places, 1.0)
    return torch.stack([numbers, marks], dim=2), (numbers * marks).sum(1)


class _Reader(nn.Module):
    """A GRU that answers after the last place."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.last = nn.GRU(2, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.recurrent(rows)[0][:, -1])


@functools.cache
def _parity() -> tuple[Tensor, Tensor]:
    """Random bits; whether three of them have an odd sum. A tenth of the answers is random."""
    bits = torch.randint(2, (6000, BITS + 1), generator=_random(404)) * 2 - 1
    odd = bits[:, 0] * bits[:, 5] * bits[:, 9] > 0
    return bits[:, :BITS].float(), torch.where(torch.arange(6000) % 10 == 0, bits[:, BITS] > 0, odd).long()


@functools.cache
def _taught() -> tuple[Tensor, Tensor]:
    """The softened answers of a wide random net."""
    rows = torch.randn(5000, 24, generator=_random(405))
    hidden = functional.relu(rows @ torch.randn(24, 200, generator=_random(406)) / 24**0.5)
    return rows, (2.0 * hidden @ torch.randn(200, 8, generator=_random(407)) / 14.0).softmax(dim=1)


def _soft(scores: Tensor, likely: Tensor) -> Tensor:
    """The Kullback-Leibler distance from the teacher."""
    return functional.kl_div(scores.log_softmax(dim=1), likely, reduction="batchmean")


@functools.cache
def _orbits() -> tuple[Tensor, Tensor]:
    """Where foxes and hares start, and their numbers at forty later times."""
    now = start = 0.5 + 1.5 * torch.rand(2000, 2, generator=_random(408))
    seen: list[Tensor] = []
    for step in range(400):
        speed = torch.stack([now[:, 0] * (1 - now[:, 1]), now[:, 1] * (now[:, 0] - 1)], dim=1)
        now = now + 0.01 * speed
        seen += [now] * (step % 10 == 9)
    return start, torch.stack(seen, dim=1)


class _Flow(nn.Module):
    """A net gives the speed, and Euler's steps follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.speed = layers((2, 32, 2), nn.SiLU)

    def forward(self, now: Tensor) -> Tensor:
        seen: list[Tensor] = []
        for _ in range(40):
            now = now + 0.1 * self.speed(now)
            seen.append(now)
        return torch.stack(seen, dim=1)


@functools.cache
def _sets() -> tuple[Tensor, Tensor]:
    """Sets of points in the plane; how far the two outermost are from each other."""
    points = torch.randn(4000, POINTS, 2, generator=_random(409))
    return points, torch.cdist(points, points).amax((1, 2)) - 3.5


class _SetNet(nn.Module):
    """Each point is coded alone, and the largest codes say the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.answer = layers((2, 48, 48), nn.GELU), layers((48, 48, 1), nn.GELU)
        self.norm = nn.LayerNorm(48)

    def forward(self, points: Tensor) -> Tensor:
        return self.answer(self.norm(self.code(points).amax(1)))


@functools.cache
def _digits() -> tuple[Tensor, Tensor]:
    loaded = bundled.load("digits")
    return torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets)


@functools.cache
def _pixels() -> tuple[Tensor, Tensor]:
    pixels = (_digits()[0] + 1.0) / 2.0
    return pixels, pixels


def _grouped() -> nn.Module:
    stages = ((1, 12), (12, 24), (24, 24))
    own = [(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU()) for a, b in stages]
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *(layer for stage in own for layer in stage),
                         nn.AvgPool2d(4), nn.Flatten(), nn.Linear(24 * 4, CLASSES))  # fmt: skip


class _Angles(nn.Module):
    """A class is the direction that a code is nearest to; the sharpness is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.directions = layers((64, 64, 16)), nn.Parameter(torch.randn(CLASSES, 16))
        self.sharpness = nn.Parameter(torch.tensor(1.0))

    def forward(self, rows: Tensor) -> Tensor:
        normal = functional.normalize(self.directions, dim=1)
        return self.sharpness.exp() * functional.normalize(self.code(rows), dim=1) @ normal.T


@functools.cache
def _pairs() -> tuple[Tensor, Tensor]:
    """Neighbouring words of Python's help, as numbers, beside five random words each."""
    words = torch.tensor([zlib.crc32(word.encode()) % VOCABULARY for word in " ".join(topics.values()).lower().split()])
    chosen = words[torch.randint(len(words), (len(words) - 1, 5), generator=_random(410))]
    pairs = torch.cat([words[:-1, None], words[1:, None], chosen], dim=1)[::3]
    return pairs, torch.zeros(len(pairs))


class _WordVectors(nn.Module):
    """Scores of the true neighbour and of five others, from two tables with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Embedding(VOCABULARY, 24, sparse=True, _weight=0.1 * torch.randn(VOCABULARY, 24))
        self.near = nn.Embedding(VOCABULARY, 24, sparse=True, _weight=torch.zeros(VOCABULARY, 24))

    def forward(self, rows: Tensor) -> Tensor:
        return (self.near(rows[:, 1:]) @ self.own(rows[:, 0]).unsqueeze(2)).squeeze(2)


def _sampled(scores: Tensor, _: Tensor) -> Tensor:
    return (functional.softplus(-scores[:, 0]) + functional.softplus(scores[:, 1:]).sum(1)).mean()


@functools.cache
def _rings() -> tuple[Tensor, Tensor]:
    """Points of a spiral under noise beside the strength of the noise; the noise is to be told."""
    random = _random(411)
    turn = 3.0 * torch.pi * torch.rand(6000, 1, generator=random).sqrt()
    clean = torch.cat([turn.cos(), turn.sin()], dim=1) * turn / 6.0
    strength, noise = 0.05 + torch.rand(6000, 1, generator=random), torch.randn(6000, 2, generator=random)
    return torch.cat([clean + strength * noise, strength], dim=1), noise


@functools.cache
def _folded() -> tuple[Tensor, Tensor]:
    """A curve that is not a function: several answers belong to one number."""
    targets = torch.rand(5000, generator=_random(412))
    noise = 0.05 * torch.randn(5000, generator=_random(413))
    return (targets + 0.3 * (2.0 * torch.pi * targets).sin() + noise).unsqueeze(1), targets


def _density(found: Tensor, targets: Tensor) -> Tensor:
    """The negative log-likelihood under a mixture of normal distributions, above that of a very sharp one."""
    weights, means, logs = found.unflatten(1, (3, MODES)).unbind(1)
    each = -0.5 * ((targets.unsqueeze(1) - means) / logs.exp()).square() - logs
    return 3.0 - (weights.log_softmax(dim=1) + each).logsumexp(dim=1).mean()


@functools.cache
def _surface() -> tuple[Tensor, Tensor]:
    """A surface with ridges over a square, under noise."""
    places = 2.0 * torch.rand(4000, 2, generator=_random(414)) - 1.0
    heights = (4.0 * places[:, 0]).sin() * (3.0 * places[:, 1]).cos() + places.prod(1)
    return places, heights + 0.1 * torch.randn(4000, generator=_random(415))


class _Bells(nn.Module):
    """A sum of bells whose centres, widths and heights are learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.centres, self.widths = nn.Parameter(2 * torch.rand(CENTRES, 2) - 1), nn.Parameter(torch.zeros(CENTRES))
        self.last = linear(CENTRES, 1)

    def forward(self, places: Tensor) -> Tensor:
        away = (places.unsqueeze(1) - self.centres).square().sum(2)
        return self.last((-away * self.widths.exp()).exp())


CHOSEN = ("wine-hinge",)
"""Problems that a constant was chosen on after their first look."""
HELD_OUT = (
    problem("wine-hinge", "three classes with hinges; convex, not smooth", 200, 16, _wine, lambda: linear(13, 3),
            functional.multi_margin_loss),
    problem("cauchy", "a linear function under outliers", 1500, 4, _outliers, lambda: linear(40, 1), _cauchy),
    problem("marked-gru", "a GRU adds the two marked numbers of a sequence", 600, 32, _marked, _Reader, squared),
    problem("parity", "a net finds which three bits matter", 2500, 32, _parity, lambda: layers((BITS, 64, 64, 2))),
    problem("teacher", "a small net imitates a wide one", 800, 32, _taught, lambda: layers((24, 48, 8), nn.Hardswish),
            _soft),
    problem("orbits", "a net's speeds are followed for forty steps", 250, 32, _orbits, _Flow, functional.mse_loss),
    problem("sets", "a net measures sets of points", 800, 32, _sets, _SetNet, squared),
    problem("group-norm", "convolutions with group normalisation", 120, 32, _digits, _grouped),
    problem("angles", "classes are directions", 80, 64, _digits, _Angles),
    problem("word-vectors", "word vectors against random words, sparse gradients", 2000, 64, _pairs, _WordVectors,
            _sampled),
    problem("deep-coder", "six sigmoid layers squeeze digits into four numbers", 2000, 32, _pixels,
            lambda: layers((64, 32, 16, 4, 16, 32, 64), nn.Sigmoid), functional.binary_cross_entropy_with_logits),
    problem("spiral-scores", "a net tells the noise in points of a spiral", 1200, 64, _rings,
            lambda: layers((3, 64, 64, 2), nn.SiLU), functional.mse_loss),
    problem("mixture", "a net gives several normal distributions", 600, 32, _folded,
            lambda: layers((1, 32, 3 * MODES), nn.Tanh), _density),
    problem("bells", "bells are placed on a surface", 1000, 16, _surface, _Bells, squared),
)  # fmt: skip
