"""A training of the comparisons: one model from one seed, a loss per mini-batch, and a final measure.

A `Task` ignores optimizers. Everything random in it (start, order of rows, noise) is a function of its seed, so two
optimizers that get the same seed see the same start and the same mini-batches; the split into training and held-out
rows is the same for all seeds.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

Kind = Literal["convex", "net", "embeddings"]
Rows = tuple[Tensor, ...]
LOSS, ACCURACY = "loss", "accuracy"
_EVALUATED_AT_ONCE = 4096


class Task(ABC):
    """One seed of a problem: a model, its mini-batch losses and its measures."""

    parameters: list[nn.Parameter]

    @abstractmethod
    def loss_on(self, step: int) -> Tensor:
        """The loss of mini-batch ``step`` (from 0), with a graph to differentiate."""

    @abstractmethod
    def full_train_loss(self) -> float:
        """The loss over the whole training part, without the noise of a mini-batch."""

    @abstractmethod
    def held_out(self) -> dict[str, float]:
        """``loss`` and, for classes, ``accuracy`` on rows that are never trained on; empty where there are none."""


Maker = Callable[[int, int, int, Path | None], Task]


@dataclass(frozen=True)
class TrainingProblem:
    """A problem by name; ``make`` builds one seed of it.

    ``maker`` is called with (seed, steps, batch, data folder).
    """

    name: str
    title: str
    kind: Kind
    steps: int
    batch: int
    maker: Maker = field(repr=False)
    describe: str = ""

    def make(self, seed: int, data_dir: Path | None = None, steps: int | None = None) -> Task:
        # Layers draw their start from the global generator, which must not change for the caller.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.maker(seed, steps or self.steps, self.batch, data_dir)


class RowOrder:
    """Which rows make up which mini-batch: shuffled passes one after another, cut into equal batches."""

    def __init__(self, seed: int, rows: int, steps: int, batch: int) -> None:
        random = torch.Generator().manual_seed(1_000_003 * seed + 17)
        passes = -(-steps * batch // rows)
        order = torch.cat([torch.randperm(rows, generator=random) for _ in range(passes)])
        self._batches = order[: steps * batch].view(steps, batch)

    def __getitem__(self, step: int) -> Tensor:
        return self._batches[step]


class Supervised(Task):
    """A model, rows to train on and rows held out; the loss is a mean over rows, as is the accuracy."""

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        train: Rows,
        held_out: Rows | None,
        order: RowOrder,
        accuracy: Callable[[Tensor, Tensor], Tensor] | None = None,
        at_once: int = _EVALUATED_AT_ONCE,
    ) -> None:
        self.model = model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._loss, self._accuracy = loss, accuracy
        self._train, self._held_out, self._order, self._at_once = train, held_out, order, at_once

    def loss_on(self, step: int) -> Tensor:
        rows = self._order[step]
        *inputs, targets = (part[rows] for part in self._train)
        return self._loss(self.model(*inputs), targets)

    def full_train_loss(self) -> float:
        return self._mean(self._train, self._loss)

    def held_out(self) -> dict[str, float]:
        if self._held_out is None:
            return {}
        measured = {LOSS: self._mean(self._held_out, self._loss)}
        if self._accuracy is not None:
            measured[ACCURACY] = self._mean(self._held_out, self._accuracy)
        return measured

    @torch.no_grad()
    def _mean(self, rows: Rows, measure: Callable[[Tensor, Tensor], Tensor]) -> float:
        total, count = 0.0, len(rows[-1])
        for begin in range(0, count, self._at_once):
            *inputs, targets = (part[begin : begin + self._at_once] for part in rows)
            total += float(measure(self.model(*inputs), targets)) * len(targets)
        return total / count


def supervised(
    read: Callable[[Path | None], tuple[Rows, Rows]],
    build: Callable[[Rows], nn.Module],
    loss: Callable[[Tensor, Tensor], Tensor],
    accuracy: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Maker:
    """The maker of a supervised problem: ``read(data_dir)`` gives both parts, ``build(train)`` the model."""

    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        train, held_out = read(data_dir)
        order = RowOrder(seed, len(train[-1]), steps, batch)
        return Supervised(build(train), loss, train, held_out, order, accuracy)

    return make


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer that starts at zero."""
    model = nn.Linear(inputs, outputs)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def squared(predictions: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error of a single output."""
    return (predictions.squeeze(-1) - targets).square().mean()


def split(rows: Rows, held_out: float = 0.2) -> tuple[Rows, Rows]:
    """Holds out a fifth at random, the same for every seed."""
    count = len(rows[-1])
    order = torch.randperm(count, generator=torch.Generator().manual_seed(20_240_601))
    cut = count - round(held_out * count)
    return tuple(part[order[:cut]] for part in rows), tuple(part[order[cut:]] for part in rows)


def right_class(scores: Tensor, targets: Tensor) -> Tensor:
    """Share of rows whose highest score is that of their class."""
    return (scores.argmax(dim=-1) == targets).float().mean()


def layers(widths: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them, torch's own start."""
    built: list[nn.Module] = []
    for number, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        built += ([activation()] if number else []) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*built)
