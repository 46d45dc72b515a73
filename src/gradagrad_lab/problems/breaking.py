"""Problems on which optimizers without a learning rate break: units and losses that saturate, random gradients.

AutoGradaGrad's limit was chosen on them, so they are development problems.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data import bundled
from gradagrad_lab.data.pictures import pictures
from gradagrad_lab.problems.blocks import LSTM
from gradagrad_lab.problems.training import (
    RowOrder,
    Rows,
    Supervised,
    Task,
    TrainingProblem,
    layers,
    linear,
    right_class,
    split,
    squared,
    supervised,
)

Loss = Callable[[Tensor, Tensor], Tensor]
CLASSES, HIDDEN, DEEP, RANK, PRETRAINING = 10, 128, 20, 8, 300
SIDE, BLOBS = 24, 1500
NODES, COMMUNITIES, WORDS_PER_NODE = 600, 6, 40


@functools.cache
def _mnist(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """Training and validation pictures of mean 0 and deviation 1, as rows; the test set is left alone."""
    parts = pictures("mnist", data_dir)
    return tuple((parts[part][0].flatten(1), parts[part][1]) for part in ("train", "validation"))  # pyright: ignore


@functools.cache
def _grey(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """The same, with pixels from 0 to 1."""
    parts = _mnist(data_dir)
    least, most = parts[0][0].min(), parts[0][0].max()
    return tuple(((rows - least) / (most - least), names) for rows, names in parts)  # pyright: ignore


def _classes(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return scores.softmax(dim=1), functional.one_hot(targets, CLASSES).to(scores.dtype)


def soft_dice(scores: Tensor, targets: Tensor) -> Tensor:
    """One minus the mean soft Dice coefficient of the classes in a mini-batch."""
    likely, wanted = _classes(scores, targets)
    return 1.0 - ((2.0 * (likely * wanted).sum(0) + 1e-3) / (likely.sum(0) + wanted.sum(0) + 1e-3)).mean()


def one_minus_p(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean probability of the wrong classes."""
    likely, wanted = _classes(scores, targets)
    return 1.0 - (likely * wanted).sum(1).mean()


def focal(scores: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy that counts a row by the squared probability of its wrong classes."""
    logs = scores.log_softmax(dim=1).gather(1, targets.unsqueeze(1)).squeeze(1)
    return -((1.0 - logs.exp()).square() * logs).mean()


class _Bandit(Supervised):
    """A policy names the class and sees only whether it was right: REINFORCE with the mean reward as baseline."""

    def __init__(self, model: nn.Module, train: Rows, held_out: Rows, order: RowOrder, seed: int) -> None:
        super().__init__(model, one_minus_p, train, held_out, order, right_class)
        self._draws = torch.Generator().manual_seed(seed)

    def loss_on(self, step: int) -> Tensor:
        rows = self._order[step]
        logs = self.model(self._train[0][rows]).log_softmax(dim=1)
        named = torch.multinomial(logs.detach().exp(), 1, generator=self._draws)
        reward = (named.squeeze(1) == self._train[1][rows]).to(logs.dtype)
        return -((reward - reward.mean()) * logs.gather(1, named).squeeze(1)).mean()


def zero_last(model: nn.Sequential) -> nn.Sequential:
    """Lets the last layer start at zero."""
    for parameter in model[-1].parameters():
        nn.init.zeros_(parameter)
    return model


def _two_layers(activation: Callable[[], nn.Module] = nn.ReLU, hidden: int = 1) -> nn.Sequential:
    return layers((784, *[HIDDEN] * hidden, CLASSES), activation)


def _bandit(build: Callable[[], nn.Module]) -> Callable[[int, int, int, Path | None], Task]:
    def make(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
        train, held_out = _mnist(data_dir)
        return _Bandit(build(), train, held_out, RowOrder(seed, len(train[-1]), steps, batch), seed)

    return make


def _on_mnist(
    name: str, title: str, build: Callable[[], nn.Module], loss: Loss = functional.cross_entropy, steps: int = 1000,
    batch: int = 64, read: Callable[[Path | None], tuple[Rows, Rows]] = _mnist,
) -> TrainingProblem:  # fmt: skip
    maker = supervised(read, lambda _: build(), loss, right_class)
    return TrainingProblem(name, title, "net", steps, batch, maker, title)


class _RowReader(nn.Module):
    """A recurrent net that reads a picture row by row, then names it."""

    def __init__(self, kind: Callable[[], nn.Module], width: int = 64) -> None:
        super().__init__()
        self.recurrent, self.last = kind(), nn.Linear(width, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        found = self.recurrent(rows.view(-1, 28, 28))
        return self.last(found if isinstance(found, Tensor) else found[0][:, -1])


def _gru() -> nn.Module:
    return nn.GRU(28, 64, batch_first=True)


def _deep() -> nn.Sequential:
    """Twenty layers without normalisation or shortcuts, from He's start."""
    net = layers((784, *[64] * (DEEP - 1), CLASSES))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return net


class LowRank(nn.Module):
    """A frozen linear layer with a low-rank addition that starts at zero."""

    def __init__(self, frozen: nn.Linear) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(RANK, frozen.in_features) / frozen.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(frozen.out_features, RANK))

    def forward(self, rows: Tensor) -> Tensor:
        return self.frozen(rows) + rows @ self.A.T @ self.B.T


def _lora(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    """A net that Adam trained on MNIST learns Fashion-MNIST."""
    (inputs, targets), _ = _mnist(data_dir)
    net, order = _two_layers(hidden=2), RowOrder(seed + 1000, len(targets), PRETRAINING, 64)
    adam = torch.optim.Adam(net.parameters())
    for step in range(PRETRAINING):
        adam.zero_grad()
        functional.cross_entropy(net(inputs[order[step]]), targets[order[step]]).backward()
        adam.step()
    model = nn.Sequential(*(LowRank(layer) if isinstance(layer, nn.Linear) else layer for layer in net))
    parts = pictures("fashion-mnist", data_dir)
    train, held_out = ((parts[part][0].flatten(1), parts[part][1]) for part in ("train", "validation"))
    order = RowOrder(seed, len(train[-1]), steps, batch)
    return Supervised(model, functional.cross_entropy, train, held_out, order, right_class)


@functools.cache
def _blobs(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """Noisy pictures of two bright discs, and which pixels the discs cover."""
    random = torch.Generator().manual_seed(211)
    line = torch.arange(SIDE).float()
    where, radius = SIDE * torch.rand(BLOBS, 2, 2, generator=random), 2 + 3 * torch.rand(BLOBS, 2, generator=random)
    across = (line.view(1, 1, -1, 1) - where[..., :1, None]) ** 2
    down = (line.view(1, 1, 1, -1) - where[..., 1:, None]) ** 2
    covered = (across + down < radius[..., None, None] ** 2).any(dim=1, keepdim=True).float()
    return split((covered + 0.7 * torch.randn(covered.shape, generator=random), covered))


def _overlap(scores: Tensor, covered: Tensor) -> Tensor:
    """One minus the soft Dice coefficient of a mini-batch of masks."""
    likely = torch.sigmoid(scores)
    return 1.0 - (2.0 * (likely * covered).sum() + 1.0) / (likely.sum() + covered.sum() + 1.0)


def _hard_overlap(scores: Tensor, covered: Tensor) -> Tensor:
    likely = (scores > 0).float()
    return 2.0 * (likely * covered).sum() / (likely.sum() + covered.sum()).clamp_min(1.0)


def _segmenter(width: int = 12) -> nn.Module:
    convolutions = (nn.Conv2d(1, width, 5, padding=2), nn.Conv2d(width, width, 5, padding=2))
    return nn.Sequential(
        *(part for own in convolutions for part in (own, nn.ReLU())), nn.Conv2d(width, 1, 3, padding=1)
    )


@functools.cache
def _photograph(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    """The brightness of a photograph of scikit-learn's, and where in the square each pixel lies."""
    picture = torch.tensor(datasets.load_sample_image("flower.jpg")).float().mean(2)[100:292:2, 200:392:2] / 128 - 1
    line = torch.linspace(-1, 1, len(picture))
    places = torch.cartesian_prod(line, line)
    return split((places, picture.flatten()))


class _Sine(nn.Module):
    """A layer of SIREN: sin(30·(Wx + b)), with the start of its authors."""

    def __init__(self, inputs: int, outputs: int, first: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        bound = 1.0 / inputs if first else (6.0 / inputs) ** 0.5 / 30.0
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, places: Tensor) -> Tensor:
        return torch.sin(30.0 * self.linear(places))


def _siren() -> nn.Sequential:
    return nn.Sequential(_Sine(2, 64, first=True), _Sine(64, 64), nn.Linear(64, 1))


class _Heat(Task):
    """A net that solves u'' = −f on (−1, 1) with u = 0 at the ends; ``held_out`` is its relative error."""

    def __init__(self, seed: int, steps: int, batch: int) -> None:
        self.model = layers((1, 32, 32, 1), nn.Tanh)
        self.parameters = list(self.model.parameters())
        self._places = 2.0 * torch.rand(steps, batch, 1, generator=torch.Generator().manual_seed(seed)) - 1.0

    @staticmethod
    def _solution(x: Tensor) -> Tensor:
        return torch.sin(torch.pi * x) + 0.3 * torch.sin(4 * torch.pi * x)

    def _loss(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        u = self.model(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        force = torch.pi**2 * (torch.sin(torch.pi * x) + 4.8 * torch.sin(4 * torch.pi * x))
        return (bend + force).square().mean() / 100.0 + self.model(torch.tensor([[-1.0], [1.0]])).square().mean()

    def loss_on(self, step: int) -> Tensor:
        return self._loss(self._places[step])

    def full_train_loss(self) -> float:
        with torch.enable_grad():
            return self._loss(torch.linspace(-1, 1, 201).unsqueeze(1)).item()

    @torch.no_grad()
    def held_out(self) -> dict[str, float]:
        x = torch.linspace(-1, 1, 201).unsqueeze(1)
        missed = self.model(x) - self._solution(x)
        return {"loss": float(missed.norm() / self._solution(x).norm())}


class _Graph(Task):
    """Two graph convolutions name the communities of a random graph; every step sees all of it."""

    def __init__(self, seed: int) -> None:
        random = torch.Generator().manual_seed(223)
        names = torch.randint(COMMUNITIES, (NODES,), generator=random)
        same = names.unsqueeze(0) == names.unsqueeze(1)
        drawn = torch.rand(NODES, NODES, generator=random) < torch.where(same, 0.03, 0.006)
        edges = drawn.triu(1)
        joined = (edges | edges.T).float() + torch.eye(NODES)
        roots = joined.sum(1).rsqrt()
        self._near = roots.unsqueeze(1) * joined * roots
        themes = torch.rand(COMMUNITIES, WORDS_PER_NODE, generator=random) < 0.3
        self._words = (torch.rand(NODES, WORDS_PER_NODE, generator=random) < 0.1 + 0.15 * themes[names]).float()
        self._names = names
        self._few = torch.arange(NODES) % 10 == 0
        self.first, self.last = nn.Linear(WORDS_PER_NODE, 32), nn.Linear(32, COMMUNITIES)
        self.parameters = [*self.first.parameters(), *self.last.parameters()]

    def _scores(self) -> Tensor:
        return self._near @ self.last(functional.relu(self._near @ self.first(self._words)))

    def loss_on(self, step: int) -> Tensor:
        return functional.cross_entropy(self._scores()[self._few], self._names[self._few])

    @torch.no_grad()
    def full_train_loss(self) -> float:
        return float(self.loss_on(0))

    @torch.no_grad()
    def held_out(self) -> dict[str, float]:
        scores, names = self._scores()[~self._few], self._names[~self._few]
        return {"loss": float(functional.cross_entropy(scores, names)), "accuracy": float(right_class(scores, names))}


@functools.cache
def _digits(data_dir: Path | None = None) -> tuple[Rows, Rows]:
    loaded = bundled.load("digits")
    return split((torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets)))


SATURATING: Sequence[TrainingProblem] = (
    *(
        _on_mnist(f"{name}-{hidden}", f"MNIST, {hidden} × {name}", functools.partial(_two_layers, kind, hidden))
        for name, kind in (
            ("tanh", nn.Tanh),
            ("sigmoid", nn.Sigmoid),
            ("softsign", nn.Softsign),
            ("hardtanh", nn.Hardtanh),
        )
        for hidden in (1, 3)
    ),
    _on_mnist("tanh-grey", "MNIST from 0 to 1, tanh", lambda: _two_layers(nn.Tanh), read=_grey),
    _on_mnist("sigmoid-grey", "MNIST from 0 to 1, sigmoid", lambda: _two_layers(nn.Sigmoid), read=_grey),
    _on_mnist("dice", "MNIST, soft Dice", _two_layers, soft_dice),
    _on_mnist("dice-zero", "MNIST, soft Dice, last layer from 0", lambda: zero_last(_two_layers()), soft_dice),
    _on_mnist("one-minus-p", "MNIST, 1 − p", _two_layers, one_minus_p),
    _on_mnist("focal", "MNIST, focal loss", _two_layers, focal),
    TrainingProblem(
        *("segments", "segmentation, soft Dice", "net", 300, 16),
        supervised(_blobs, lambda _: _segmenter(), _overlap, _hard_overlap),
        "three convolutions find two discs in noise",
    ),
)
POLICIES: Sequence[TrainingProblem] = tuple(
    TrainingProblem(name, title, "net", 1000, 64, _bandit(build), title)
    for name, title, build in (
        ("policy", "MNIST, policy gradient", _two_layers),
        ("policy-zero", "MNIST, policy gradient, last layer from 0", lambda: zero_last(_two_layers())),
    )
)
OTHER_NETS: Sequence[TrainingProblem] = (
    _on_mnist("relu", "MNIST, ReLU", _two_layers),
    _on_mnist("four-rows", "MNIST, mini-batches of 4", _two_layers, batch=4),
    _on_mnist("lstm", "MNIST row by row, LSTM", lambda: _RowReader(lambda: LSTM(28, 64)), steps=500),
    _on_mnist(
        "gru-28", "MNIST row by row, GRU", lambda: _RowReader(lambda: nn.GRU(28, 64, batch_first=True)), steps=500
    ),
    _on_mnist("deep-20", "MNIST, 20 plain layers", _deep),
    TrainingProblem("lora", "LoRA from MNIST to Fashion-MNIST", "net", 500, 64, _lora, "ranks of 8, B from 0"),
    TrainingProblem(
        *("siren", "SIREN on a photograph", "net", 800, 512),
        supervised(
            _photograph, lambda _: nn.Sequential(_Sine(2, 64, first=True), _Sine(64, 64), nn.Linear(64, 1)), squared
        ),
        "2-64-64-1 with sin(30·), brightness from coordinates",
    ),
    TrainingProblem(
        *("pinn", "differential equation", "net", 2000, 64),
        lambda seed, steps, batch, _: _Heat(seed, steps, batch),
        "1-32-32-1, tanh; the second derivative is trained",
    ),
    TrainingProblem(
        *("graph", "graph net, all nodes in each step", "net", 300, NODES),
        lambda seed, steps, batch, _: _Graph(seed),
        "two graph convolutions, 60 of 600 nodes have names",
    ),
)
LINEAR: Sequence[TrainingProblem] = (
    TrainingProblem(
        *("digits-softmax", "separable softmax regression", "convex", 1000, 32),
        supervised(_digits, lambda train: linear(train[0].shape[1], CLASSES), functional.cross_entropy, right_class),
        "scikit-learn's digits, from 0",
    ),
)
BREAKING: Sequence[TrainingProblem] = (*SATURATING, *POLICIES, *OTHER_NETS, *LINEAR)
