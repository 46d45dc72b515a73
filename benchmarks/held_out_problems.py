"""Nine small problems on which nothing about AutoGradaGrad was chosen. Sizes and steps were set before it ran on any.

Everything random (start, rows of a mini-batch, noise) follows from the seed, so all optimizers see the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.problems.blocks import LSTM, Attention, BatchNorm1d
from gradagrad_lab.problems.keel import _measured
from gradagrad_lab.problems.training import RowOrder, layers, linear

PATCH, WORDS, PAIRS, LENGTH, COPIED = 16, 5000, 40_000, 20, 8


@dataclass(frozen=True)
class Problem:
    """A model and the rows it is trained on; ``loss(model(inputs), targets)`` is the loss of a mini-batch."""

    name: str
    describe: str
    steps: int
    batch: int
    rows: Callable[[], tuple[Tensor, Tensor]]
    build: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy

    def start(self, seed: int) -> tuple[nn.Module, RowOrder]:
        """The model at its start, and the rows of every mini-batch."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build(), RowOrder(seed, len(self.rows()[1]), self.steps, self.batch)


@functools.cache
def _spam() -> tuple[Tensor, Tensor]:
    """Mails as counts of words; every fifth label is wrong."""
    (features, targets), _ = _measured("spambase", None)
    flipped = torch.rand(len(targets), generator=torch.Generator().manual_seed(61)) < 0.2
    return features, torch.where(flipped, 1 - targets, targets)


@functools.cache
def _heavy_tails() -> tuple[Tensor, Tensor]:
    """A linear function of 100 correlated numbers, with noise that has no fourth moment."""
    random = torch.Generator().manual_seed(67)
    mixing = torch.randn(100, 100, generator=random) * torch.logspace(0, -1.5, 100)
    features = torch.randn(4000, 100, generator=random) @ mixing / 10.0
    weights, normal = torch.randn(100, generator=random), torch.randn(4000, generator=random)
    spread = (torch.randn(4000, 3, generator=random).square().mean(1)).sqrt()
    return features, features @ weights + normal / spread


@functools.cache
def _turned() -> tuple[Tensor, Tensor]:
    """Squares of scikit-learn's two photographs, each turned by a multiple of 90 degrees, which is to be named."""
    random = torch.Generator().manual_seed(71)
    squares: list[Tensor] = []
    for picture in datasets.load_sample_images().images:
        grey = torch.tensor(picture).float().mean(dim=2) / 128.0 - 1.0
        squares.append(grey.unfold(0, PATCH, 12).unfold(1, PATCH, 12).reshape(-1, PATCH, PATCH))
    every = torch.cat(squares)
    turns = torch.randint(4, (len(every),), generator=random)
    turned = torch.stack([torch.rot90(square, int(turn)) for square, turn in zip(every, turns, strict=True)])
    return turned.unsqueeze(1), turns


class _Patches(nn.Module):
    """A ViT: squares of 4 × 4 pixels as words, two blocks of attention, their mean."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.cut = nn.Conv2d(1, width, 4, stride=4)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        self.blocks = nn.Sequential(*(Attention(width, heads=4) for _ in range(2)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        words = self.cut(pictures).flatten(2).transpose(1, 2) + self.places
        return self.last(self.norm(self.blocks(words)).mean(1))


def _convolutions() -> nn.Module:
    stages: list[nn.Module] = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 32)):
        stages += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.GroupNorm(4, outputs), nn.ReLU()]
    return nn.Sequential(*stages, nn.Flatten(), nn.Linear(32 * 4, 4))


@functools.cache
def _to_add() -> tuple[Tensor, Tensor]:
    """Sequences of numbers, two of which are marked and must be added."""
    random = torch.Generator().manual_seed(73)
    numbers, marks = torch.rand(4000, LENGTH, generator=random), torch.zeros(4000, LENGTH)
    marked = torch.rand(4000, LENGTH, generator=random).topk(2, dim=1).indices
    marks.scatter_(1, marked, 1.0)
    return torch.stack([numbers, marks], dim=2), (numbers * marks).sum(1)


def _squared(predictions: Tensor, targets: Tensor) -> Tensor:
    return (predictions.squeeze(-1) - targets).square().mean()


def _textures() -> tuple[Tensor, Tensor]:
    (features, targets), _ = _measured("texture", None)
    return features, targets


class _Residual(nn.Module):
    """Two hidden layers of 512 beside a shortcut, and no normalisation: 1.1 million parameters with its ends."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(40, 512), nn.Linear(512, 11)
        self.blocks = nn.ModuleList([layers((512, 512, 512)) for _ in range(2)])

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.first(rows)
        for block in self.blocks:
            hidden = hidden + block(hidden.relu())
        return self.last(hidden)


@functools.cache
def _pairs() -> tuple[Tensor, Tensor]:
    """Words and their neighbours, as unequally frequent as in English, and whether the pair is a real one."""
    random = torch.Generator().manual_seed(79)
    often = 1.0 / torch.arange(1, WORDS + 1)
    words = torch.multinomial(often, PAIRS, replacement=True, generator=random)
    near = torch.randint(-20, 21, (PAIRS,), generator=random)
    apart = torch.multinomial(often, PAIRS, replacement=True, generator=random)
    real = torch.rand(PAIRS, generator=random) < 0.5
    neighbours = torch.where(real, (words * 7 + near) % WORDS, apart)
    return torch.stack([words, neighbours], dim=1), real.float()


class _Neighbours(nn.Module):
    """Two tables of vectors whose products say whether words are neighbours; their gradients are sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.others = (nn.Embedding(WORDS, 16, sparse=True) for _ in range(2))
        for table in (self.words, self.others):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, pairs: Tensor) -> Tensor:
        return (self.words(pairs[:, 0]) * self.others(pairs[:, 1])).sum(1)


@functools.cache
def _to_copy() -> tuple[Tensor, Tensor]:
    """Letters, a sign, and the same letters backwards: the next letter is to be named."""
    letters = torch.randint(1, 12, (6000, COPIED), generator=torch.Generator().manual_seed(83))
    whole = torch.cat([letters, torch.zeros(6000, 1, dtype=torch.long), letters.flip(1)], dim=1)
    return whole[:, :-1], whole[:, 1:]


class _Copier(nn.Module):
    """A GPT of two causal blocks."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(12, width), nn.Parameter(0.02 * torch.randn(2 * COPIED, width))
        self.blocks = nn.Sequential(*(Attention(width, heads=4, causal=True) for _ in range(2)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 12)

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.norm(self.blocks(self.letters(rows) + self.places)))


def _second_half(scores: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(scores[:, COPIED:].flatten(0, 1), targets[:, COPIED:].flatten())


PROBLEMS = (
    Problem("spam", "logistic regression, every fifth label wrong; convex", 600, 8, _spam, lambda: linear(57, 2)),
    Problem("heavy-tails", "least squares with heavy-tailed noise; convex", 600, 8, _heavy_tails,
            lambda: linear(100, 1), _squared),
    Problem("turned-vit", "a ViT names how photographs are turned", 400, 32, _turned, _Patches),
    Problem("turned-cnn", "convolutions with group norm, the same task", 400, 32, _turned, _convolutions),
    Problem("adding-lstm", "an LSTM adds the two marked numbers of a sequence", 500, 32, _to_add,
            lambda: nn.Sequential(LSTM(2, 32), nn.Linear(32, 1)), _squared),
    Problem("textures-batchnorm", "two hidden layers with batch norm", 400, 64, _textures,
            lambda: nn.Sequential(nn.Linear(40, 64), BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), BatchNorm1d(64),
                                  nn.ReLU(), nn.Linear(64, 11))),
    Problem("textures-residual", "1.1 million parameters without normalisation", 300, 64, _textures, _Residual),
    Problem("neighbours", "two embedding tables with sparse gradients", 1200, 128, _pairs, _Neighbours,
            functional.binary_cross_entropy_with_logits),
    Problem("copying-gpt", "a GPT repeats letters backwards", 500, 16, _to_copy, _Copier, _second_half),
)  # fmt: skip
