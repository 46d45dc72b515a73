"""Building blocks of nets, written in operations that torch.func can map over, so that many runs can share a call."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class BatchNorm1d(nn.BatchNorm1d):
    """Batch normalisation by the rows available, also when measuring: an averaged model then needs no second pass."""

    def __init__(self, width: int) -> None:
        super().__init__(width, track_running_stats=False)


class BatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation of pictures, without running statistics."""

    def __init__(self, width: int) -> None:
        super().__init__(width, track_running_stats=False)


class Attention(nn.Module):
    """A pre-norm transformer block: attention, then two linear layers, each beside a shortcut.

    ``causal``: a place sees only the places before it. ``wider``: how many times as wide the inner layer is.
    """

    def __init__(self, width: int, heads: int, causal: bool = False, wider: int = 2) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, wider * width), nn.Linear(wider * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        rows, length, width = hidden.shape
        parts = self.attend(self.before(hidden)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if self.causal:
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            seen = (query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(dim=-1) @ value
        hidden = hidden + self.project(seen.transpose(1, 2).reshape(rows, length, width))
        return hidden + self.narrow(functional.gelu(self.widen(self.between(hidden))))


class Transformer(nn.Module):
    """Blocks of attention over learnt places: an answer at each place, or if ``pooled`` one from their mean.

    ``deviation`` is that of the first layer's weights at the start; torch's own start if None.
    """

    def __init__(
        self, first: nn.Module, places: int, width: int, outputs: int, heads: int, *, blocks: int = 2, wider: int = 2,
        causal: bool = False, pooled: bool = False, deviation: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.first, self.pooled = first, pooled
        self.places = nn.Parameter(0.02 * torch.randn(places, width))
        if deviation is not None:
            nn.init.normal_(first.get_parameter("weight"), std=deviation)
        self.blocks = nn.Sequential(*(Attention(width, heads, causal, wider) for _ in range(blocks)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.norm(self.blocks(self.first(rows) + self.places))
        return self.last(hidden.mean(dim=1) if self.pooled else hidden)


def at_each_place(scores: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """The cross-entropy of the classes at all places."""
    return functional.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction=reduction)


class LSTM(nn.Module):
    """The last state of a long short-term memory that has read a sequence."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs, self.recurrent = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width, bias=False)

    def forward(self, sequence: Tensor) -> Tensor:
        given = self.inputs(sequence)
        state = memory = torch.zeros_like(given[:, 0, : self.recurrent.in_features])
        for place in range(sequence.shape[1]):
            keep, write, show, new = (given[:, place] + self.recurrent(state)).chunk(4, dim=-1)
            memory = torch.sigmoid(keep) * memory + torch.sigmoid(write) * torch.tanh(new)
            state = torch.sigmoid(show) * torch.tanh(memory)
        return state
