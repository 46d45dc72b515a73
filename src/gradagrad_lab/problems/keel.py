"""Problems on data sets of the KEEL repository: two convex ones, and nets with each kind of normalisation."""

import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data import keel
from gradagrad_lab.problems.blocks import LSTM, Attention, BatchNorm1d
from gradagrad_lab.problems.training import Kind, Rows, TrainingProblem, layers, linear, right_class, split, supervised

Loss = Callable[[Tensor, Tensor], Tensor]


def _classes(cells: list[str]) -> Tensor:
    known = {value: number for number, value in enumerate(sorted(set(cells)))}
    return torch.tensor([known[cell] for cell in cells])


@functools.cache
def _measured(name: str, data_dir: Path | None) -> tuple[Rows, Rows]:
    """Columns of numbers, each of mean 0 and variance 1."""
    rows = keel.table(name, data_dir)
    features = torch.tensor([[float(cell) for cell in row[:-1]] for row in rows])
    features = (features - features.mean(0)) / features.std(0).clamp_min(1e-6)
    return split((features, _classes([row[-1] for row in rows])))


@functools.cache
def _categories(name: str, data_dir: Path | None) -> tuple[Rows, Rows]:
    """Columns of categories, each numbered in the order of their names."""
    rows = keel.table(name, data_dir)
    columns = [_classes(list(column)) for column in zip(*rows, strict=True)]
    return split((torch.stack(columns[:-1], dim=1), columns[-1]))


def _problem(
    name: str,
    title: str,
    kind: Kind,
    steps: int,
    batch: int,
    describe: str,
    read: Callable[[str, Path | None], tuple[Rows, Rows]],
    build: Callable[[Rows], nn.Module],
    loss: Loss = functional.cross_entropy,
) -> TrainingProblem:
    source = name.split("-")[0]
    maker = supervised(lambda data_dir: read(source, data_dir), build, loss, right_class)
    return TrainingProblem(name, title, kind, steps, batch, maker, describe)


def _linear(train: Rows) -> nn.Module:
    return linear(train[0].shape[1], int(train[1].max()) + 1)


def _margin(scores: Tensor, targets: Tensor) -> Tensor:
    """The hinge loss of the difference of two classes' scores; not smooth."""
    return (1 - (2.0 * targets - 1) * (scores[:, 1] - scores[:, 0])).clamp_min(0).mean()


def _small(train: Rows) -> nn.Module:
    return layers((train[0].shape[1], 24, 24, 2), nn.Tanh)


def _normalised(train: Rows) -> nn.Module:
    return nn.Sequential(
        nn.Linear(train[0].shape[1], 64, bias=False),
        BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, 64, bias=False),
        BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, 2),
    )


class _Reader(nn.Module):
    """Two convolutions with batch normalisation over a sequence of letters, the mean over places, then classes."""

    def __init__(self, letters: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, 8)
        self.first, self.second = nn.Conv1d(8, width, 7, stride=2), nn.Conv1d(width, width, 5, stride=2)
        self.norms = nn.ModuleList(BatchNorm1d(width) for _ in range(2))
        self.last = nn.Linear(width * 12, classes)

    def forward(self, text: Tensor) -> Tensor:
        hidden = self.letters(text).transpose(1, 2)
        hidden = functional.relu(self.norms[0](self.first(hidden)))
        return self.last(functional.relu(self.norms[1](self.second(hidden))).flatten(1))


class _Answers(nn.Module):
    """One token per answer of a questionnaire; a block of attention between two layer norms."""

    offsets: Tensor

    def __init__(self, questions: int, answers: int, classes: int, width: int = 24) -> None:
        super().__init__()
        self.register_buffer("offsets", answers * torch.arange(questions), persistent=False)
        self.answers = nn.Embedding(questions * answers, width)
        self.attend, self.norm = Attention(width, heads=2), nn.LayerNorm(width)
        self.last = nn.Linear(width, classes)

    def forward(self, row: Tensor) -> Tensor:
        return self.last(self.norm(self.attend(self.answers(row + self.offsets)).mean(dim=1)))


class _Strokes(nn.Module):
    """An LSTM that reads the positions of a hand one by one, then names the gesture."""

    def __init__(self, classes: int, width: int = 24) -> None:
        super().__init__()
        self.recurrent, self.last = LSTM(10, width), nn.Linear(width, classes)

    def forward(self, points: Tensor) -> Tensor:
        return self.last(self.recurrent(points.view(-1, 9, 10)))


satimage = _problem(
    *("satimage", "soft-max on satimage", "convex", 1000, 32),
    *("soft-max regression on KEEL's satimage, 36 columns, 6 classes", _measured, _linear),
)
twonorm = _problem(
    *("twonorm-svm", "linear SVM on twonorm", "convex", 1000, 16),
    *("hinge loss, not smooth, on KEEL's twonorm", _measured, _linear, _margin),
)
phoneme = _problem(
    *("phoneme", "MLP on phoneme", "net", 1500, 32, "5-24-24-2, tanh, on KEEL's phoneme", _measured, _small)
)
ring = _problem(
    *("ring", "MLP with batch norm on ring", "net", 600, 64),
    *("20-64-64-2, ReLU, batch normalisation, on KEEL's ring", _measured, _normalised),
)
splice = _problem(
    *("splice", "convolutions on splice", "embeddings", 400, 32),
    *("letters as vectors, two convolutions of 16 channels with batch normalisation, on KEEL's splice", _categories),
    lambda train: _Reader(int(train[0].max()) + 1, int(train[1].max()) + 1),
)
marketing = _problem(
    *("marketing", "attention on marketing", "embeddings", 400, 32),
    *("13 answers as tokens of width 24, attention, layer normalisation, on KEEL's marketing", _categories),
    lambda train: _Answers(train[0].shape[1], int(train[0].max()) + 1, int(train[1].max()) + 1),
)
libras = _problem(
    *("movement_libras-lstm", "LSTM on gestures", "net", 500, 24),
    *("an LSTM of 24 units reads nine times five points of KEEL's movement_libras", _measured),
    lambda train: _Strokes(int(train[1].max()) + 1),
)
