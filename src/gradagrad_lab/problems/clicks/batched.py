"""Many runs of one DLRM side by side: same rows in the same order, each run with its own start and settings.

Every run's parameters are two ordinary `nn.Parameter`s that share the stack's memory: its networks as one vector, and
its table, a slice of a stack laid out (rows, runs, 16), so that one look-up serves all runs; or, ``by_run``, in one
piece for each run, as torch's own optimizers want it. Nothing here depends on a rule. Gradients are stacked,
or separate for every run. Those of the table are sparse over the rows that the batch touched.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data.clicks.stream import Rows
from gradagrad_lab.problems.clicks.dlrm import DLRM


class Batch(NamedTuple):
    """A batch with its distinct table rows found beforehand, once for all runs and epochs."""

    dense: Tensor  # (rows, 13)
    touched: Tensor  # distinct table rows, ascending
    position: Tensor  # (rows · fields,): where in `touched` each look-up points
    clicks: Tensor  # (rows,)

    @staticmethod
    def of(rows: Rows) -> "Batch":
        touched, position = np.unique(rows.ids, return_inverse=True)
        return Batch(
            torch.from_numpy(np.array(rows.dense)),  # a copy: rows of a cache are not to be written to
            torch.from_numpy(touched.astype(np.int64)),
            torch.from_numpy(position.reshape(-1).astype(np.int64)),
            torch.from_numpy(np.ascontiguousarray(rows.clicks)),
        )


class BatchedDLRM:
    """Copies of ``starts``, one for each run, and their gradients. ``tables`` is (rows, runs, dimension), whatever its
    layout.

    ``used``: the table rows that the batches touch at all, if the others are to be left out; batches then count them.
    """

    def __init__(self, starts: Sequence[DLRM], *, by_run: bool = False, used: Tensor | None = None) -> None:
        model = starts[0]
        self.runs = len(starts)
        self.by_run = by_run
        self.fields = len(model.sizes)
        self.dimension = model.tables.embedding_dim
        self._pairs = model.pairs
        self._mirror = mirror_positions(self.fields + 1)
        self._bottom_layers = len(model.bottom)
        self._shapes = [(layer.out_features, layer.in_features) for layer in model.layers()]
        with torch.no_grad():
            self.networks = torch.stack([_flat(start) for start in starts])
            weights = [start.tables.weight for start in starts]
            if used is not None:
                weights = _selected(weights, used)
            # Adding a sparse gradient to a slice that is not in one piece costs torch 25 times as much.
            self.tables = torch.stack(weights).transpose(0, 1) if by_run else torch.stack(weights, dim=1)
        self.run_networks = [nn.Parameter(self.networks[run]) for run in range(self.runs)]
        self.run_tables = [nn.Parameter(self.tables[:, run]) for run in range(self.runs)]

    def gradients(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Every run's mean loss over the batch (runs,), and its gradient: of the networks (runs, numbers) and of the
        touched table rows (touched, runs, dimension)."""
        networks = self.networks.detach().requires_grad_()
        rows = self._touched_rows(batch).requires_grad_()
        losses = _losses(self._logits(networks, rows, batch), batch.clicks)
        of_networks, of_rows = torch.autograd.grad(losses.sum(), (networks, rows))
        return losses.detach(), of_networks, of_rows

    def backward(self, batch: Batch) -> Tensor:
        """Every run's mean loss over the batch, (runs,); gradients are left in the parameters."""
        losses, of_networks, of_rows = self.gradients(batch)
        shape = (self.tables.shape[0], self.dimension)
        for run, (own, table) in enumerate(zip(self.run_networks, self.run_tables, strict=True)):
            own.grad = of_networks[run]
            # Distinct and ascending, hence coalesced; saying so saves every optimizer a sort.
            table.grad = torch.sparse_coo_tensor(
                batch.touched[None], of_rows[:, run].contiguous(), shape, is_coalesced=True, check_invariants=False
            )
        return losses

    @torch.no_grad()
    def logits(self, batch: Batch) -> Tensor:
        """(runs, rows)."""
        return self._logits(self.networks, self._touched_rows(batch), batch)

    @torch.no_grad()
    def _touched_rows(self, batch: Batch) -> Tensor:
        if self.by_run:
            return torch.stack([table.index_select(0, batch.touched) for table in self.run_tables], dim=1)
        return self.tables.index_select(0, batch.touched)

    def _logits(self, networks: Tensor, table_rows: Tensor, batch: Batch) -> Tensor:
        runs, count = self.runs, len(batch.clicks)
        layers = self._layers(networks)
        hidden = batch.dense.expand(runs, -1, -1)
        for weight, bias in layers[: self._bottom_layers]:
            hidden = torch.relu(torch.baddbmm(bias, hidden, weight.transpose(1, 2)))
        looked_up = functional.embedding(batch.position, table_rows.flatten(1))
        looked_up = looked_up.view(count, self.fields, runs, self.dimension).permute(2, 0, 1, 3)
        vectors = torch.cat([hidden.unsqueeze(2), looked_up], dim=2).flatten(0, 1)
        products = Interaction.apply(vectors, self._pairs, self._mirror)
        hidden = torch.cat([hidden, products.view(runs, count, -1)], dim=2)
        for weight, bias in layers[self._bottom_layers : -1]:
            hidden = torch.relu(torch.baddbmm(bias, hidden, weight.transpose(1, 2)))
        weight, bias = layers[-1]
        return torch.baddbmm(bias, hidden, weight.transpose(1, 2)).squeeze(2)

    def _layers(self, networks: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights (runs, out, in) and biases (runs, 1, out) of all layers."""
        lengths = [length for out, inputs in self._shapes for length in (out * inputs, out)]
        parts = networks.split_with_sizes(lengths, dim=1)
        return [
            (parts[2 * i].unflatten(1, shape), parts[2 * i + 1].unsqueeze(1)) for i, shape in enumerate(self._shapes)
        ]


def _flat(model: DLRM) -> Tensor:
    """The networks' numbers in one vector: every layer's weight, then its bias."""
    return torch.cat([p.reshape(-1) for layer in model.layers() for p in (layer.weight, layer.bias)])


def _selected(weights: Sequence[Tensor], rows: Tensor) -> list[Tensor]:
    """``rows`` of each; of one that occurs several times, once."""
    found = {id(weight): weight.index_select(0, rows) for weight in weights}
    return [found[id(weight)] for weight in weights]


class Interaction(torch.autograd.Function):
    """The products of all pairs of vectors, (rows, vectors, dimension) → (rows, pairs).

    Autograd would multiply once for each side of the product; the gradient matrix is symmetric, so once is enough.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, pairs: Tensor, mirror: Tensor) -> Tensor:
        ctx.save_for_backward(vectors, mirror)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, pairs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        vectors, mirror = ctx.saved_tensors
        padded = functional.pad(gradients[0], (0, 1))  # what the diagonal, which is not used, points at
        count = vectors.shape[1]
        symmetric = padded.index_select(1, mirror).unflatten(1, (count, count))
        return torch.bmm(symmetric, vectors), None, None


def mirror_positions(vectors: int) -> Tensor:
    """For each entry of a (vectors × vectors) matrix, which pair it is; one past the last pair on the diagonal."""
    row, column = torch.tril_indices(vectors, vectors, offset=-1)
    pairs = torch.arange(len(row))
    matrix = torch.full((vectors, vectors), len(row))
    matrix[row, column] = pairs
    matrix[column, row] = pairs
    return matrix.flatten()


def _losses(logits: Tensor, clicks: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, clicks.expand_as(logits), reduction="none").mean(dim=1)
