"""Text problems, on a text in every Python installation: the names of Unicode 3.2's characters.

CPython carries a frozen copy of that database (`unicodedata.ucd_3_2_0`), and Unicode never changes a character's name,
so the text is the same for every version of Python (its hash is checked by a test).
"""

import functools
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.problems.blocks import Transformer, at_each_place
from gradagrad_lab.problems.training import LOSS, Rows, Task, TrainingProblem, supervised

CONTEXT, WIDTH, HEADS, BLOCKS = 32, 32, 2, 2
_FIRST, _BEHIND = 0x20, 0x3400  # the ideographs that follow have numbers for names
_MEASURED = 256  # windows over which the final losses are measured

VECTOR, NEIGHBOURS, NEGATIVES, RAREST = 16, 2, 5, 5


@functools.cache
def names() -> tuple[str, ...]:
    """8,876 names such as LATIN SMALL LETTER A WITH GRAVE, in the order of their characters."""
    database = unicodedata.ucd_3_2_0
    return tuple(name for name in (database.name(chr(code), "") for code in range(_FIRST, _BEHIND)) if name)


def _parts() -> tuple[list[str], list[str]]:
    """The names to train on, and every tenth of a fixed shuffle held out."""
    order = np.random.default_rng(7).permutation(len(names()))
    shuffled = [names()[place] for place in order]
    return [name for place, name in enumerate(shuffled) if place % 10], shuffled[::10]


@functools.cache
def _letters() -> tuple[Tensor, Tensor, int]:
    alphabet = {letter: number for number, letter in enumerate(sorted({*"\n", *"".join(names())}))}
    train, held_out = (torch.tensor([alphabet[letter] for letter in "\n".join(part)]) for part in _parts())
    return train, held_out, len(alphabet)


class _CharacterModel(Task):
    """Windows at random places of the text. Final losses are taken over fixed windows spread evenly over a part."""

    def __init__(self, seed: int, steps: int, batch: int) -> None:
        self._train, self._held_out, letters = _letters()
        first = nn.Embedding(letters, WIDTH)
        self.model = Transformer(first, CONTEXT, WIDTH, letters, HEADS, blocks=BLOCKS, causal=True)
        self.parameters = list(self.model.parameters())
        random = torch.Generator().manual_seed(1_000_003 * seed + 29)
        self._places = torch.randint(len(self._train) - CONTEXT - 1, (steps, batch), generator=random)

    def _loss(self, text: Tensor, places: Tensor) -> Tensor:
        window = text[places.unsqueeze(1) + torch.arange(CONTEXT + 1)]
        return at_each_place(self.model(window[:, :-1]), window[:, 1:])

    def loss_on(self, step: int) -> Tensor:
        return self._loss(self._train, self._places[step])

    @torch.no_grad()
    def _measured(self, text: Tensor) -> float:
        return float(self._loss(text, torch.linspace(0, len(text) - CONTEXT - 2, _MEASURED).long()))

    def full_train_loss(self) -> float:
        return self._measured(self._train)

    def held_out(self) -> dict[str, float]:
        return {LOSS: self._measured(self._held_out)}


@functools.cache
def _pairs() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor]:
    """(word, neighbour) pairs of both parts, and how often each word is drawn as a negative: count^¾, as word2vec."""
    train, held_out = _parts()
    counts = Counter(word for name in train for word in name.split())
    kept = {word: number for number, word in enumerate(sorted(w for w, count in counts.items() if count >= RAREST))}
    weights = torch.tensor([float(counts[word]) ** 0.75 for word in kept])
    found = [
        torch.tensor([pair for name in part for pair in _neighbours([kept[w] for w in name.split() if w in kept])])
        for part in (train, held_out)
    ]
    (train_words, train_near), (held_words, held_near) = (part.unbind(dim=1) for part in found)
    return (train_words, train_near), (held_words, held_near), weights


def _neighbours(words: list[int]) -> list[tuple[int, int]]:
    return [
        (word, words[other])
        for place, word in enumerate(words)
        for other in range(max(0, place - NEIGHBOURS), min(len(words), place + NEIGHBOURS + 1))
        if other != place
    ]


class _SkipGram(nn.Module):
    """word2vec's start: small random vectors for words, zeros for contexts."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, VECTOR, _weight=(torch.rand(words, VECTOR) - 0.5) / VECTOR)
        self.contexts = nn.Embedding(words, VECTOR, _weight=torch.zeros(words, VECTOR))

    def forward(self, words: Tensor, candidates: Tensor) -> Tensor:
        """The score of every candidate, the true neighbour first: (rows, 1 + negatives)."""
        return torch.einsum("rv,rcv->rc", self.words(words), self.contexts(candidates))


def _negative_sampling(scores: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum") / len(targets)


@functools.cache
def _candidates(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """Words, their candidates and which of these is right. Negatives are drawn once for each pair, so that the training
    loss is a fixed function."""
    train, held_out, weights = _pairs()
    random = torch.Generator().manual_seed(31)
    parts = [
        (words, torch.cat([near.unsqueeze(1), _drawn(weights, len(words), random)], dim=1), _first_is_right(len(words)))
        for words, near in (train, held_out)
    ]
    return parts[0], parts[1]


def _drawn(weights: Tensor, rows: int, random: torch.Generator) -> Tensor:
    return torch.multinomial(weights, rows * NEGATIVES, replacement=True, generator=random).view(rows, NEGATIVES)


def _first_is_right(rows: int) -> Tensor:
    return functional.one_hot(torch.zeros(rows, dtype=torch.int64), 1 + NEGATIVES).float()


characters = TrainingProblem(
    *("characters", "character transformer", "net", 600, 16),
    lambda seed, steps, batch, _: _CharacterModel(seed, steps, batch),
    f"{BLOCKS} blocks of width {WIDTH}, context {CONTEXT}, on the names of Unicode's characters",
)
skipgram = TrainingProblem(
    *("skipgram", "skip-gram word vectors", "embeddings", 1500, 128),
    supervised(_candidates, lambda _: _SkipGram(len(_pairs()[2])), _negative_sampling),
    f"negative sampling, {VECTOR} numbers a word, on the words of Unicode's character names",
)
