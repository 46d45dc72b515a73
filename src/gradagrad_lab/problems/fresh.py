"""Problems on which no setting was chosen: sorting by attention, a large word model, photographs to clean."""

import functools
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.problems import keel
from gradagrad_lab.problems.blocks import BatchNorm2d, Transformer, at_each_place
from gradagrad_lab.problems.training import RowOrder, Rows, Supervised, TrainingProblem, split, supervised

DIGITS, LENGTH = 10, 6
WORDS, FOLLOWERS, SENTENCES, LONG, BEFORE, VECTOR = 2400, 40, 500, 200, 4, 200
PATCH, NOISE = 8, 0.2


@functools.cache
def _to_sort(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    rows = torch.randint(DIGITS, (5000, LENGTH), generator=torch.Generator().manual_seed(41))
    return split((rows, rows.sort(dim=1).values))


@functools.cache
def _sentences() -> tuple[Rows, Rows]:
    """Four words and the next, of a made-up language: words are as unequally frequent as in English (1/rank), and
    mostly one of the `FOLLOWERS` of the word before or of the word before that, the first ones more often."""
    random = np.random.default_rng(47)
    often, likely = (1 / np.arange(1, count + 1) for count in (WORDS, FOLLOWERS))
    often, likely = often / often.sum(), likely / likely.sum()
    followers = random.choice(WORDS, (2, WORDS, FOLLOWERS), p=often)
    spoken = np.empty((SENTENCES, LONG + 2), dtype=np.int64)
    spoken[:, :2] = random.choice(WORDS, (SENTENCES, 2), p=often)
    for place in range(2, LONG + 2):
        rank, free = random.choice(FOLLOWERS, SENTENCES, p=likely), random.choice(WORDS, SENTENCES, p=often)
        led = [followers[back, spoken[:, place - 1 - back], rank] for back in (0, 1)]
        way = random.choice(3, SENTENCES, p=(0.6, 0.3, 0.1))
        spoken[:, place] = np.choose(way, [*led, free])
    windows = torch.from_numpy(spoken).unfold(1, BEFORE + 1, 1).flatten(0, 1)
    return split((windows[:, :-1], windows[:, -1]))


class _NextWord(nn.Module):
    """Bengio's model: the vectors of the words before, a hidden layer with a layer norm, a score for every word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, VECTOR)
        self.hidden, self.norm = nn.Linear(BEFORE * VECTOR, VECTOR), nn.LayerNorm(VECTOR)
        self.last = nn.Linear(VECTOR, WORDS)

    def forward(self, before: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.hidden(self.words(before).flatten(1)))))


class _Words(Supervised):
    """Final losses over an evenly spaced part of the rows; all rows would take longer than training."""

    def __init__(self, seed: int, steps: int, batch: int) -> None:
        train, held_out = _sentences()
        order = RowOrder(seed, len(train[-1]), steps, batch)
        super().__init__(_NextWord(), functional.cross_entropy, train, held_out, order)
        self._few, self._few_held_out = (tuple(part[::12] for part in rows) for rows in (train, held_out))

    def full_train_loss(self) -> float:
        return self._mean(self._few, self._loss)

    def held_out(self) -> dict[str, float]:
        return {"loss": self._mean(self._few_held_out, self._loss)}


@functools.cache
def _patches(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """Squares of scikit-learn's two photographs in grey, of mean 0, with noise and without."""
    random = torch.Generator().manual_seed(43)
    found: list[Tensor] = []
    for picture in datasets.load_sample_images().images:
        grey = torch.tensor(picture).float().mean(dim=2) / 255
        squares = grey.unfold(0, PATCH, PATCH).unfold(1, PATCH, PATCH).reshape(-1, 1, PATCH, PATCH)
        found.append(squares - squares.mean(dim=(2, 3), keepdim=True))
    clean = torch.cat(found)
    return split((clean + NOISE * torch.randn(clean.shape, generator=random), clean))


def _cleaner(width: int = 8) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
    )


sorting = TrainingProblem(
    *("sorting", "transformer that sorts", "net", 400, 32),
    supervised(_to_sort, lambda _: Transformer(nn.Embedding(DIGITS, 24), LENGTH, 24, DIGITS, heads=2), at_each_place),
    f"two blocks of attention of width 24 sort {LENGTH} digits",
)
words = TrainingProblem(
    *("words", "next word, 1.1M parameters", "embeddings", 200, 32),
    lambda seed, steps, batch, _: _Words(seed, steps, batch),
    f"the next of {WORDS:,} words of a made-up language after {BEFORE}: vectors of {VECTOR}, a layer norm",
)
photographs = TrainingProblem(
    *("photographs", "convolutions that clean photographs", "net", 300, 32),
    supervised(_patches, lambda _: _cleaner(), functional.mse_loss),
    f"three convolutions with batch normalisation take noise out of {PATCH} × {PATCH} squares of photographs",
)
SECOND_HELD_OUT: tuple[TrainingProblem, ...] = (
    keel.satimage,
    keel.twonorm,
    keel.phoneme,
    keel.ring,
    keel.splice,
    keel.marketing,
    photographs,
    sorting,
    keel.libras,
    words,
)
"""Made for the second version of AutoGradaGrad; sizes and steps were set before it was run on any of them."""
