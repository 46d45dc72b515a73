"""DLRM, the click model of Naumov et al. (arXiv 1906.00091), in plain torch.

                              probability of a click
                                        ▲
                                   top network
                                        ▲
                    ┌───────────────────┴───────────────────┐
                    │                        dot products of all pairs
                    │                      ▲          ▲     …     ▲
                 16 numbers ───────────► 16 numbers 16 numbers  16 numbers
                    ▲                      ▲          ▲           ▲
              bottom network             table 1    table 2 …   table 26
                    ▲                      ▲          ▲           ▲
        13 integers, log(1 + x)           id C1      id C2       id C26

All 26 tables are one `nn.Embedding`, the fields' rows one after another, which gives the same numbers as 26 tables and
is several times faster. Its gradient is sparse: a batch of 128 rows touches about 1,400 of its rows.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from gradagrad_lab.data.clicks.stream import CAP, DENSE_FIELDS, table_sizes


@dataclass(frozen=True)
class Size:
    """How large the model is: rows of the tables (at most ``cap`` a field) and widths of the hidden layers."""

    cap: int = CAP
    dimension: int = 16
    bottom: tuple[int, ...] = (64,)
    top: tuple[int, ...] = (64,)


SMALL = Size(cap=1000, bottom=(32,), top=(32,))
DEFAULT = Size()
# The Kaggle script of DLRM's repository: a row for every id. 540 million parameters; the paper says "more than 300".
KAGGLE = Size(cap=2**31, bottom=(512, 256, 64), top=(512, 256))
SIZES = {"small": SMALL, "default": DEFAULT, "kaggle": KAGGLE}


class DLRM(nn.Module):
    """``forward`` takes integers (rows, 13) as log(1 + x) and table rows (rows, fields); it returns logits (rows,)."""

    def __init__(
        self, sizes: Sequence[int] | None = None, size: Size = DEFAULT, *, seed: int = 0, sparse: bool = True
    ) -> None:
        """``sizes``: rows of each field's table; by default the synthetic stream's."""
        super().__init__()
        self.sizes = tuple(sizes if sizes is not None else table_sizes(size.cap))
        vectors = len(self.sizes) + 1
        pairs = vectors * (vectors - 1) // 2
        self.bottom = _layers((DENSE_FIELDS, *size.bottom, size.dimension))
        self.top = _layers((size.dimension + pairs, *size.top, 1))
        self.tables = nn.Embedding(
            sum(self.sizes), size.dimension, sparse=sparse, _weight=torch.empty(sum(self.sizes), size.dimension)
        )
        self.register_buffer("pairs", pair_positions(vectors), persistent=False)
        self.pairs: Tensor
        self.initialise(seed)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """DLRM's own start: N(0, 2/(in + out)) weights, N(0, 1/out) biases, tables uniform within ±1/√rows."""
        random = torch.Generator().manual_seed(seed)
        for layer in self.layers():
            outputs, inputs = layer.weight.shape
            layer.weight.normal_(0.0, math.sqrt(2.0 / (inputs + outputs)), generator=random)
            layer.bias.normal_(0.0, math.sqrt(1.0 / outputs), generator=random)
        begin = 0
        for rows in self.sizes:
            bound = math.sqrt(1.0 / rows)
            self.tables.weight[begin : begin + rows].uniform_(-bound, bound, generator=random)
            begin += rows

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        hidden = dense
        for layer in self.bottom:
            hidden = torch.relu(layer(hidden))
        vectors = torch.cat([hidden.unsqueeze(1), self.tables(ids)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        hidden = torch.cat([hidden, products], dim=1)
        for layer in self.top[:-1]:
            hidden = torch.relu(layer(hidden))
        return self.top[-1](hidden).squeeze(1)

    def layers(self) -> list[nn.Linear]:
        """The bottom network's layers, then the top's."""
        return cast(list[nn.Linear], [*self.bottom, *self.top])

    def networks(self) -> list[nn.Parameter]:
        """The dense part: everything but the tables."""
        return [*self.bottom.parameters(), *self.top.parameters()]


def _layers(widths: Sequence[int]) -> nn.ModuleList:
    # skip_init: `initialise` fills them, from its own generator and not from the global one.
    return nn.ModuleList(
        nn.utils.skip_init(nn.Linear, inputs, outputs) for inputs, outputs in itertools.pairwise(widths)
    )


def pair_positions(vectors: int) -> Tensor:
    """Where the products of different vectors stand, each pair once, in a flattened (vectors × vectors) matrix."""
    row, column = torch.tril_indices(vectors, vectors, offset=-1)
    return row * vectors + column
