"""The scalar variant (one step size per run) for a whole stack of DLRM runs in one computation.

A driver around `gradagrad.rule`, like those in `gradagrad.steps`: it decides where the numbers come from and where they
go, and the rule is called as it stands, with one γ₀, ρ, growth and α per run. A test holds it to `gradagrad.GradaGrad`
with ``granularity="group"``, run by run.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradagrad import rule
from gradagrad.steps.ops import tensor_ops
from gradagrad_lab.problems.dlrm_batched import Batch, BatchedDLRM


class ScalarStack:
    """`GradaGrad(granularity="group", lr=γ₀, rho=ρ)` for every run of ``model``, each with its own γ₀ and ρ."""

    def __init__(self, model: BatchedDLRM, initial: Sequence[float], rho: Sequence[float]) -> None:
        if not len(initial) == len(rho) == model.runs:
            raise ValueError(f"initial and rho must have {model.runs} entries, got {len(initial)} and {len(rho)}.")
        dtype = model.networks.dtype
        self.model = model
        self.lr = torch.tensor(initial, dtype=dtype)[:, None]
        self.rho = torch.tensor(rho, dtype=dtype)[:, None]
        self.growth = torch.ones_like(self.lr)  # (runs, 1): broadcasts against (runs, numbers) and (rows, runs, 16)
        self.alpha = torch.zeros_like(self.lr)
        self.agreement = torch.full_like(self.lr, torch.nan)
        """⟨g, g_prev⟩ / |g|² of the last step."""
        self._momentum = torch.zeros_like(model.networks)
        # Of the tables, the last step's rows only: every other row's last gradient is zero, on the paper's clock.
        self._last_rows = torch.empty(0, dtype=torch.int64)
        self._rows_momentum = model.tables.new_empty(0, model.runs, model.dimension)
        self._ops = tensor_ops(dtype)

    @torch.no_grad()
    def step(self, batch: Batch, of_networks: Tensor, of_rows: Tensor) -> None:
        """One step from the gradients that `BatchedDLRM.gradients` gives."""
        settings = rule.Settings(lr=self.lr, rho=self.rho)  # pyright: ignore[reportArgumentType]
        table_momentum = self._remembered(batch.touched, of_rows)
        networks = rule.measure(of_networks, self._momentum, lambda a: a.sum(dim=1, keepdim=True))
        tables = rule.measure(of_rows, table_momentum, lambda a: a.sum(dim=(0, 2))[:, None])
        gg, gm = networks[0] + tables[0], networks[1] + tables[1]
        self.agreement = gm / gg
        before = self.growth, self.alpha
        after = rule.adapt(gg, gm, *before, settings, self._ops)
        moved, momentum = rule.move(
            self.model.networks, of_networks, self._momentum, before, after, settings, self._ops
        )
        rows = self.model.tables.index_select(0, batch.touched)
        moved_rows, rows_momentum = rule.move(rows, of_rows, table_momentum, before, after, settings, self._ops)
        self.growth, self.alpha = after
        self.model.networks.copy_(moved)
        self._momentum = momentum
        self.model.tables.index_copy_(0, batch.touched, moved_rows)
        self._last_rows, self._rows_momentum = batch.touched, rows_momentum

    def _remembered(self, touched: Tensor, like: Tensor) -> Tensor:
        """The last step's gradient of the rows touched now: zero but for rows touched in both steps."""
        remembered = torch.zeros_like(like)
        if len(self._last_rows):
            place = torch.searchsorted(self._last_rows, touched).clamp_(max=len(self._last_rows) - 1)
            again = (self._last_rows[place] == touched).nonzero().squeeze(1)
            remembered.index_copy_(0, again, self._rows_momentum.index_select(0, place[again]))
        return remembered
