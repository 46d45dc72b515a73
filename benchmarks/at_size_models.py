"""The models that `benchmarks.at_size` trains, on data that every installation has.

Text is the source of Python's standard library (every tenth file is held out). Fine-tuning uses the prose of its
manual. Pictures are scikit-learn's digits pasted on its photographs. Clicks are the lab's synthetic stream.
"""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data.clicks.stream import HELD_OUT, TRAINING, ClickStream, Rows
from gradagrad_lab.problems.blocks import BatchNorm2d
from gradagrad_lab.problems.clicks.dlrm import DLRM, Size
from gradagrad_lab.problems.training import right_class

LETTERS, CONTEXT, TEXT = 128, 64, 4_000_000
SIDE, CLASSES = 12, 10
RANK = 4
CLICK_CAP, CLICK_BATCH = 2_000_000, 128


@dataclass
class Work:
    """One model to train: mini-batch losses by step, held-out measures, and its embedding tables."""

    parameters: list[nn.Parameter]
    loss: Callable[[int], Tensor]
    held_out: Callable[[], dict[str, float]]
    tables: tuple[nn.Parameter, ...] = ()
    size: int = 0

    def __post_init__(self) -> None:
        self.size = self.size or sum(parameter.numel() for parameter in (*self.parameters, *self.tables))


class Block(nn.Module):
    """Pre-norm attention and two linear layers four times as wide."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        rows, length, width = hidden.shape
        parts = self.attend(self.before(hidden)).view(rows, length, 3, self.heads, width // self.heads)
        seen = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=self.causal)
        hidden = hidden + self.project(seen.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.narrow(functional.gelu(self.widen(self.between(hidden))))


class Transformer(nn.Module):
    """Six causal blocks of width 128 over single characters: 1.2 million parameters."""

    def __init__(self, width: int = 128, blocks: int = 6) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        self.blocks = nn.Sequential(*(Block(width, 4, causal=True) for _ in range(blocks)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, LETTERS)

    def forward(self, text: Tensor) -> Tensor:
        return self.last(self.norm(self.blocks(self.letters(text) + self.places)))


def _coded(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).clamp_max(LETTERS - 1).long()


@functools.cache
def _sources() -> tuple[Tensor, Tensor]:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    train = b"".join(file.read_bytes() for number, file in enumerate(files) if number % 10)
    return _coded(train[:TEXT]), _coded(b"".join(file.read_bytes() for file in files[::10]))


@functools.cache
def _manual() -> tuple[Tensor, Tensor]:
    names = sorted(topics)
    return tuple(
        _coded("\n".join(topics[name] for number, name in enumerate(names) if (number % 10 == 0) is held).encode())
        for held in (False, True)
    )  # pyright: ignore[reportReturnType]


def _next_letter(model: nn.Module, text: tuple[Tensor, Tensor], seed: int, batch: int) -> dict[str, Any]:
    """Windows at random places to train on, 256 fixed ones to measure."""
    train, held_out = text
    fixed = torch.linspace(0, len(held_out) - CONTEXT - 2, 256).long()

    def on(part: Tensor, places: Tensor) -> Tensor:
        window = part[places.unsqueeze(1) + torch.arange(CONTEXT + 1)]
        return functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())

    def loss(step: int) -> Tensor:
        random = torch.Generator().manual_seed(100_003 * seed + step)
        return on(train, torch.randint(len(train) - CONTEXT - 1, (batch,), generator=random))

    @torch.no_grad()
    def measure() -> dict[str, float]:
        return {"loss": float(on(held_out, fixed))}

    return {"loss": loss, "held_out": measure}


def language(seed: int) -> Work:
    """A transformer that writes Python."""
    model = Transformer()
    return Work(list(model.parameters()), **_next_letter(model, _sources(), seed, batch=8))


class Adapted(nn.Module):
    """LoRA: a frozen linear layer plus a trained product of two thin matrices, which starts at 0."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Parameter(torch.randn(RANK, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs) + inputs @ self.down.T @ self.up.T


@functools.cache
def _trained() -> dict[str, Tensor]:
    """The start of LoRA: the language model after 150 steps of AdamW on Python's sources."""
    torch.manual_seed(0)
    model = Transformer()
    loss = _next_letter(model, _sources(), 0, batch=8)["loss"]
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(150):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    return model.state_dict()


def lora(seed: int) -> Work:
    """The same transformer, trained on Python, learns English through adapters of rank 4."""
    before = _trained()
    torch.manual_seed(seed)
    model = Transformer()
    model.load_state_dict(before)
    model.requires_grad_(False)
    for block in model.blocks:
        for name in ("attend", "project", "widen", "narrow"):
            setattr(block, name, Adapted(getattr(block, name)))
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return Work(learning, **_next_letter(model, _manual(), seed, batch=8))


@functools.cache
def _pictures() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """20,000 pictures of a digit somewhere on a piece of a photograph, and 2,000 with digits never trained on."""
    random = torch.Generator().manual_seed(61)
    digits: Any = datasets.load_digits()
    signs, names = torch.tensor(digits.images).float() / 16, torch.tensor(digits.target)
    grounds = [torch.tensor(picture).float().mean(dim=2) / 255 for picture in datasets.load_sample_images().images]

    def made(count: int, begin: int, end: int) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(begin, end, (count,), generator=random)
        found = torch.empty(count, 1, SIDE, SIDE)
        for number, sign in enumerate(chosen.tolist()):
            ground = grounds[number % len(grounds)]
            top, left = (int(torch.randint(edge - SIDE, (), generator=random)) for edge in ground.shape)
            y, x = torch.randint(SIDE - 8 + 1, (2,), generator=random).tolist()
            picture = 0.3 * ground[top : top + SIDE, left : left + SIDE].clone()
            picture[y : y + 8, x : x + 8] += signs[sign]
            found[number, 0] = picture - picture.mean()
        return found, names[chosen]

    return made(20_000, 0, 1400), made(2_000, 1400, len(names))


class ViT(nn.Module):
    """Pieces of 4 × 4 pixels, four blocks of width 64."""

    def __init__(self, width: int = 64, blocks: int = 4, piece: int = 4) -> None:
        super().__init__()
        self.pieces = nn.Conv2d(1, width, piece, stride=piece)
        self.places = nn.Parameter(0.02 * torch.randn((SIDE // piece) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, 4, causal=False) for _ in range(blocks)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        hidden = self.pieces(pictures).flatten(2).transpose(1, 2) + self.places
        return self.last(self.norm(self.blocks(hidden)).mean(dim=1))


def _convolutions() -> nn.Module:
    """Six convolutions with batch normalisation, 24 to 96 channels."""
    stack: list[nn.Module] = []
    before = 1
    for width, stride in ((24, 1), (24, 1), (48, 2), (48, 1), (96, 2), (96, 1)):
        stack += [nn.Conv2d(before, width, 3, stride, 1, bias=False), BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*stack, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def _classifier(model: nn.Module, seed: int, batch: int) -> Work:
    (pictures, names), (others, their_names) = _pictures()

    def loss(step: int) -> Tensor:
        random = torch.Generator().manual_seed(100_003 * seed + step)
        rows = torch.randint(len(names), (batch,), generator=random)
        return functional.cross_entropy(model(pictures[rows]), names[rows])

    @torch.no_grad()
    def held_out() -> dict[str, float]:
        scores = model(others)
        loss = functional.cross_entropy(scores, their_names)
        return {"loss": float(loss), "accuracy": float(right_class(scores, their_names))}

    return Work(list(model.parameters()), loss, held_out)


def cnn(seed: int) -> Work:
    """Convolutions that name a digit on a photograph."""
    return _classifier(_convolutions(), seed, batch=32)


def vit(seed: int) -> Work:
    """A small vision transformer for the same pictures."""
    return _classifier(ViT(), seed, batch=32)


@functools.cache
def _rows(stream: int, count: int) -> Rows:
    return ClickStream(stream, CLICK_CAP).rows(count)


def clicks(seed: int, steps: int = 1000) -> Work:
    """Facebook's click model; its tables have more than ten million rows and sparse gradients."""
    train, others = _rows(TRAINING, steps * CLICK_BATCH), _rows(HELD_OUT, 8192)
    model = DLRM(ClickStream(TRAINING, CLICK_CAP).table_sizes, Size(CLICK_CAP, 4, (32, 16), (32, 16)))

    def on(rows: Rows) -> Tensor:
        scores = model(torch.tensor(rows.dense), torch.tensor(rows.ids).long())
        return functional.binary_cross_entropy_with_logits(scores, torch.tensor(rows.clicks))

    @torch.no_grad()
    def held_out() -> dict[str, float]:
        return {"loss": float(on(others))}

    def loss(step: int) -> Tensor:
        return on(train.cut(step * CLICK_BATCH, (step + 1) * CLICK_BATCH))

    return Work(list(model.networks()), loss, held_out, tuple(model.tables.parameters()))
