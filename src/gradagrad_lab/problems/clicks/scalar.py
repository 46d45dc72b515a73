"""The scalar variant (one step size per run) for a whole stack of DLRM runs in one computation.

A driver around the rule, like those in `gradagrad.engine`: it decides where the numbers come from and where they go,
and the rule is called unchanged, with one γ₀, ρ, growth and α per run. A test compares it with `gradagrad.GradaGrad` at
``granularity="group"``, run by run.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradagrad.rules.gradagrad import RULE, Settings, limit_of_growth
from gradagrad.torch_ops.ops import tensor_ops
from gradagrad_lab.problems.clicks.batched import Batch, BatchedDLRM


class _Sums:
    """Sums over everything but the runs, (runs, 1)."""

    def __init__(self, over: int | tuple[int, ...]) -> None:
        self._over = over

    def dot(self, a: Tensor, b: Tensor, /) -> Tensor:
        return self.total(a * b)

    def total(self, a: Tensor, /) -> Tensor:
        return a.sum(dim=self._over)[:, None]


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
        self._momentum = torch.zeros_like(model.networks)
        # Of the tables, the last step's rows only: every other row's last gradient is zero, on the paper's clock.
        self._last_rows = torch.empty(0, dtype=torch.int64)
        self._rows_momentum = model.tables.new_empty(0, model.runs, model.dimension)
        self._ops = tensor_ops(dtype)

    @torch.no_grad()
    def step(self, batch: Batch, of_networks: Tensor, of_rows: Tensor) -> None:
        """One step from the gradients that `BatchedDLRM.gradients` gives."""
        settings = Settings(lr=self.lr, rho=self.rho, growth_limit=limit_of_growth(None, "group"))
        rows = self.model.tables.index_select(0, batch.touched)
        networks = {"x": self.model.networks, "g": of_networks, "momentum": self._momentum}
        tables = {"x": rows, "g": of_rows, "momentum": self._remembered(batch.touched, of_rows)}
        parts = [(networks, _Sums(1)), (tables, _Sums((0, 2)))]
        (gg, gm), (table_gg, table_gm) = (RULE.measure(values, settings, sums, self._ops) for values, sums in parts)
        sums = gg + table_gg, gm + table_gm
        before = {"growth": self.growth, "accumulator": self.alpha}
        after, factors = RULE.decide(sums, before, settings, self._ops)
        moved, moved_rows = (RULE.move(values, factors, settings, s, self._ops)[0] for values, s in parts)
        self.growth, self.alpha = after["growth"], after["accumulator"]
        self.model.networks.copy_(moved["x"])
        self._momentum = moved["momentum"]
        self.model.tables.index_copy_(0, batch.touched, moved_rows["x"])
        self._last_rows, self._rows_momentum = batch.touched, moved_rows["momentum"]

    def _remembered(self, touched: Tensor, like: Tensor) -> Tensor:
        """The last step's gradient of the rows touched now: zero but for rows touched in both steps."""
        remembered = torch.zeros_like(like)
        if len(self._last_rows):
            place = torch.searchsorted(self._last_rows, touched).clamp_(max=len(self._last_rows) - 1)
            again = (self._last_rows[place] == touched).nonzero().squeeze(1)
            remembered.index_copy_(0, again, self._rows_momentum.index_select(0, place[again]))
        return remembered
