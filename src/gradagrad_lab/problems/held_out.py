"""Ten small problems on which nothing about AutoGradaGrad was chosen. Sizes and steps were set with tuned SGD, AdaGrad
and Adam alone, so that the loss falls clearly and noise keeps it above zero, before AutoGradaGrad ran on any.

Everything random (start, rows of a mini-batch, noise) follows from the seed, so all optimizers see the same.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import torch
from sklearn import datasets, preprocessing
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.problems.blocks import BatchNorm1d, Transformer, at_each_place
from gradagrad_lab.problems.training import RowOrder, Supervised, Task, TrainingProblem, layers, linear, squared

PATCH, CONTEXT, WORDS, GROUP = 16, 32, 4096, 50
MEASURED = 2000  # rows measured at once, which batch norm and the contrast of views notice


def problem(
    name: str,
    describe: str,
    steps: int,
    batch: int,
    rows: Callable[[], tuple[Tensor, Tensor]],
    build: Callable[[], nn.Module],
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy,
) -> TrainingProblem:
    """A model and the rows it is trained on; none is held out. ``loss(model(inputs), targets)`` is that of a batch."""

    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        order = RowOrder(seed, len(rows()[1]), steps, batch)
        return Supervised(build(), loss, rows(), None, order, at_once=MEASURED)

    return TrainingProblem(name, name, "net", steps, batch, make, describe)


@functools.cache
def _counts() -> tuple[Tensor, Tensor]:
    """Counts whose logarithm depends on 30 correlated numbers of very different size."""
    random = torch.Generator().manual_seed(101)
    mixing = torch.randn(30, 30, generator=random) * torch.logspace(0, -1, 30)
    features = torch.randn(4000, 30, generator=random) @ mixing / 5.0
    scores = features @ torch.randn(30, generator=random)
    return features, torch.poisson((0.5 + 0.7 * scores / scores.std()).exp(), generator=random)


def _deviance(scores: Tensor, counts: Tensor) -> Tensor:
    return (scores.exp().squeeze(-1) - counts * scores.squeeze(-1) + torch.xlogy(counts, counts) - counts).mean()


@functools.cache
def _diabetes() -> tuple[Tensor, Tensor]:
    """scikit-learn's patients: ten measurements, their squares and products; how the disease went on."""
    measured, outcomes = (torch.tensor(part) for part in datasets.load_diabetes(return_X_y=True))
    wide = preprocessing.PolynomialFeatures(2, include_bias=False).fit_transform(measured.mul(20.0).numpy())
    features, targets = torch.tensor(wide).float(), outcomes.float()
    return (features - features.mean(0)) / features.std(0), (targets - targets.mean()) / targets.std()


def _quantile(predictions: Tensor, targets: Tensor) -> Tensor:
    """Least where four fifths of the targets lie below; not smooth."""
    missed = targets - predictions.squeeze(-1)
    return torch.maximum(0.8 * missed, -0.2 * missed).mean()


@functools.cache
def _squares() -> tuple[Tensor, Tensor]:
    """Coloured squares of scikit-learn's two photographs, and which of the twelve parts of them each comes from."""
    squares, places = list[Tensor](), list[Tensor]()
    for number, picture in enumerate(datasets.load_sample_images().images):
        cut = (torch.tensor(picture).float() / 128.0 - 1.0).unfold(0, PATCH, 8).unfold(1, PATCH, 8)
        down, right = (torch.arange(count) * parts // count for count, parts in zip(cut.shape, (2, 3), strict=False))
        squares.append(cut.flatten(0, 1))
        places.append((6 * number + 3 * down.unsqueeze(1) + right).flatten())
    return torch.cat(squares), torch.cat(places)


@functools.cache
def _patches() -> tuple[Tensor, Tensor]:
    """The same squares as sixteen words of 4 × 4 pixels."""
    squares, places = _squares()
    return functional.unfold(squares, 4, stride=4).transpose(1, 2), places


@functools.cache
def _holes() -> tuple[Tensor, Tensor]:
    """The same squares without their middle, and the middle."""
    squares, _ = _squares()
    middle = torch.zeros(PATCH, PATCH, dtype=torch.bool)
    middle[4:12, 4:12] = True
    return squares[:, :, ~middle].flatten(1), squares[:, :, middle].flatten(1)


@functools.cache
def _henon() -> tuple[Tensor, Tensor]:
    """Hénon's chaotic map, observed with noise: the next observation is to be told at every place."""
    random = torch.Generator().manual_seed(103)
    now, before = 0.2 * torch.rand(2, 4000, generator=random)
    seen: list[Tensor] = []
    for _ in range(50):
        now, before = 1.0 - 1.4 * now.square() + 0.3 * before, now
        seen.append(now)
    noisy = torch.stack(seen[20:], dim=1) + 0.1 * torch.randn(4000, 30, generator=random)
    return noisy[:, :-1].unsqueeze(2), noisy[:, 1:]


class _Two(nn.Module):
    """Two layers, and what is done between them."""

    def __init__(self, first: nn.Module, between: Callable[..., Tensor], last: nn.Module) -> None:
        super().__init__()
        self.first, self.between, self.last = first, between, last

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.between(self.first(rows)))


@functools.cache
def _signals() -> tuple[Tensor, Tensor]:
    """Sines, squares, saws and triangles of any length and phase under noise; the kind is to be named."""
    random = torch.Generator().manual_seed(107)
    kinds = torch.randint(4, (6000,), generator=random)
    length, phase = torch.rand(2, 6000, 1, generator=random)
    turns = (torch.arange(64) * (0.03 + 0.07 * length) + phase) % 1.0
    saw = 2.0 * turns - 1.0
    waves = torch.stack([(2.0 * torch.pi * turns).sin(), saw.sign(), saw, 2.0 * saw.abs() - 1.0])
    clean = waves[kinds, torch.arange(6000)]
    return (clean / clean.std(1, keepdim=True) + 0.5 * torch.randn(6000, 64, generator=random)).unsqueeze(1), kinds


def _normalised() -> nn.Module:
    sizes = ((1, 16), (16, 32), (32, 32))
    stages = [(nn.Conv1d(a, b, 5, stride=2, padding=2), BatchNorm1d(b), nn.ReLU()) for a, b in sizes]
    return nn.Sequential(*(layer for stage in stages for layer in stage), nn.Flatten(), nn.Linear(32 * 8, 4))


@functools.cache
def _bags() -> tuple[Tensor, Tensor]:
    """Five words in a row of Python's help, as numbers, and the topic that they are about."""
    rows: list[Tensor] = []
    for text in topics.values():
        words = [zlib.crc32(word.encode()) % WORDS for word in text.lower().split()]
        rows.append(torch.tensor(words).unfold(0, 5, 5))
    return torch.cat(rows), torch.repeat_interleave(torch.tensor([len(part) for part in rows]))


@functools.cache
def _text() -> tuple[Tensor, Tensor]:
    """Every sixth piece of Python's help: the next letter is to be named at every place."""
    text = " ".join(topics.values()).encode("ascii", "replace")
    pieces = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unfold(0, CONTEXT + 1, 6 * CONTEXT)
    return pieces[:, :-1], pieces[:, 1:]


@functools.cache
def _views() -> tuple[Tensor, Tensor]:
    """Two views of four hidden numbers among twelve of their own, through a random net."""
    random = torch.Generator().manual_seed(109)
    shared, own = torch.randn(4000, 1, 4, generator=random), torch.randn(4000, 2, 12, generator=random)
    hidden = torch.cat([2.0 * shared.expand(-1, 2, -1), own], dim=2) @ torch.randn(16, 48, generator=random) / 4.0
    return hidden.tanh() @ torch.randn(48, 32, generator=random) / 4.0, torch.zeros(4000)


def _contrast(coded: Tensor, _: Tensor) -> Tensor:
    """Which of `GROUP` second views belongs to a first one."""
    first, second = functional.normalize(coded, dim=-1).unflatten(0, (-1, GROUP)).unbind(2)
    scores = 10.0 * first @ second.transpose(1, 2)
    return functional.cross_entropy(scores.flatten(0, 1), torch.arange(GROUP).repeat(len(scores)))


@functools.cache
def _friedman() -> tuple[Tensor, Tensor]:
    """Friedman's function of five numbers among fifteen idle ones, with noise."""
    features, targets = datasets.make_friedman1(5000, 20, noise=2.0, random_state=113)
    return torch.tensor(2.0 * features - 1.0).float(), torch.tensor((targets - 14.4) / 5.0).float()


@functools.cache
def _noise(size: int) -> tuple[Tensor, Tensor]:
    """Noise that is zero in the mean over all rows."""
    rows = torch.randn(10_000, size, generator=torch.Generator().manual_seed(127))
    return rows - rows.mean(0), torch.zeros(10_000)


class _Quadratic(nn.Module):
    """½ Σ h·x² with noise in the gradient, which the loss over all rows does not have."""

    def __init__(self, size: int, condition: float, noise: float) -> None:
        super().__init__()
        self.x, self.noise = nn.Parameter(torch.randn(size)), noise
        self.h = condition ** -torch.linspace(0, 1, size)

    def forward(self, rows: Tensor) -> Tensor:
        return (self.h * self.x.square()).sum() / 2.0 + self.noise * rows @ (self.h.sqrt() * self.x)


@functools.cache
def _matrix(rank: int, noise: float) -> tuple[Tensor, Tensor]:
    """The places and entries of a 300 × 200 matrix."""
    random = torch.Generator().manual_seed(131)
    factors = torch.randn(300, rank, generator=random), torch.randn(200, rank, generator=random)
    entries = factors[0] @ factors[1].T / rank**0.5 + noise * torch.randn(300, 200, generator=random)
    return torch.cartesian_prod(torch.arange(300), 300 + torch.arange(200)), entries.flatten()


def _factors() -> nn.Module:
    table = nn.Embedding(500, 8, _weight=0.1 * torch.randn(500, 8))
    return _Two(table, lambda pair: pair.prod(1).sum(1), nn.Identity())


HELD_OUT = (
    problem("counts", "Poisson regression; convex", 800, 8, _counts, lambda: linear(30, 1), _deviance),
    problem("diabetes", "regression on a quantile; convex, not smooth", 1000, 8, _diabetes,
            lambda: linear(65, 1), _quantile),
    problem("places-vit", "a ViT names the part of a photograph", 400, 32, _patches,
            lambda: Transformer(nn.Linear(48, 32), 16, 32, 12, heads=4, pooled=True)),
    problem("holes-wide", "1.2 million parameters fill holes in photographs", 400, 32, _holes,
            lambda: layers((576, 768, 768, 192)), functional.mse_loss),
    problem("henon-rnn", "a recurrent net follows a chaotic map", 500, 32, _henon,
            lambda: _Two(nn.RNN(1, 32, batch_first=True), lambda told: told[0], nn.Linear(32, 1)), squared),
    problem("signals-batchnorm", "convolutions with batch norm name kinds of signal", 500, 32, _signals, _normalised),
    problem("topics-bag", "a table with sparse gradients names what words are about", 600, 64, _bags,
            lambda: _Two(nn.Embedding(WORDS, 32, sparse=True), lambda bag: bag.mean(1), nn.Linear(32, len(topics)))),
    problem("help-gpt", "a GPT writes Python's help", 400, 16, _text,
            lambda: Transformer(nn.Embedding(128, 48), CONTEXT, 48, 128, heads=4, causal=True), at_each_place),
    problem("views-contrast", "a net finds what two views share", 600, GROUP, _views,
            lambda: layers((32, 64, 16)), _contrast),
    problem("friedman", "four hidden layers with tanh, noise in the targets", 800, 32, _friedman,
            lambda: layers((20, 40, 40, 40, 40, 1), nn.Tanh), squared),
)  # fmt: skip

DEVELOPMENT = (
    problem("quadratic", "100 numbers, condition 1,000, noise", 1000, 1, lambda: _noise(100),
            lambda: _Quadratic(100, 1e3, 1.0), lambda losses, _: losses.mean()),
    problem("quadratic-small", "20 numbers, condition 10, much noise", 2000, 1, lambda: _noise(20),
            lambda: _Quadratic(20, 10.0, 3.0), lambda losses, _: losses.mean()),
    problem("factors", "a matrix of rank 8 with noise, by embeddings", 2000, 64, lambda: _matrix(8, 0.5), _factors,
            functional.mse_loss),
    problem("factors-exact", "a matrix of rank 4 with little noise", 3000, 64, lambda: _matrix(4, 0.1), _factors,
            functional.mse_loss),
)  # fmt: skip
"""Some of those that AutoGradaGrad's constants were chosen on: where they had to give way to what suits nets."""
