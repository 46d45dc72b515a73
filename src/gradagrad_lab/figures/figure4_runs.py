"""What Figure 4 trains: the runs, the stacks they are trained in, and one stack's training from start to record."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.optim import Optimizer

from gradagrad import GradaGrad, LargeFirstStepWarning
from gradagrad_lab.data.clicks import HELD_OUT, TRAINING, ClickStream, Rows, log_loss
from gradagrad_lab.data.criteo_cache import CriteoCache, Settings, open_cache
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.figures.figure4_scalar import ScalarStack
from gradagrad_lab.problems.dlrm import DLRM, Size
from gradagrad_lab.problems.dlrm_batched import Batch, BatchedDLRM
from gradagrad_lab.records import Record

INITIAL = (1.0, 1e-2, 1e-4, 1e-6)
RHO = (2.0, 10.0, 50.0, 100.0, 200.0, 500.0)
DRAWN, CLICK_RATE = "drawn", "click rate"
"""The last bias: as DLRM draws it from N(0, 1), or at the logit of the click rate."""
SCALAR = "gradagrad scalar"
STACK = 8  # runs side by side: more no longer helps, and each has a table of its own
WINDOWS, WINDOW = 40, 10  # points of a training curve, and the fewest steps in one: fewer would show mostly noise
OPENING = 24  # first steps of which every product and every γ is kept
_EVALUATED = 256  # held-out rows at a time: more no longer fit into the caches


@dataclass(frozen=True)
class Setup:
    """The data and the model: everything two runs of one figure have in common."""

    rows: int
    held_out: int
    batch: int = 128
    cap: int = 100_000
    bottom: int = 64
    top: int = 64
    criteo: str = ""
    """Path of a Criteo file whose cache is read; empty for the synthetic stream."""
    edition: str = ""
    """What tells this file from another of the same name."""

    @property
    def steps(self) -> int:
        return self.rows // self.batch

    @property
    def size(self) -> Size:
        return Size(self.cap, 16, (self.bottom,), (self.top,))

    def config(self) -> dict[str, Any]:
        described = {key: value for key, value in asdict(self).items() if key not in ("criteo", "edition")}
        source = "Criteo" if self.criteo else "synthetic Criteo-shaped stream"
        return {"kind": "DLRM", "data": source, **described, **({"edition": self.edition} if self.criteo else {})}


@dataclass(frozen=True)
class Lane:
    """One optimizer setting."""

    optimizer: str
    lr: float
    rho: float | None = None

    def config(self, setup: Setup, bias: str) -> dict[str, Any]:
        options = {"lr": self.lr, **({} if self.rho is None else {"rho": self.rho})}
        return {"problem": setup.config(), "optimizer": self.optimizer, "options": options, "last bias": bias}


@dataclass(frozen=True)
class Stack:
    """Runs trained side by side: one optimizer, several settings, each from an initialisation of its own."""

    lanes: tuple[Lane, ...]
    seeds: tuple[int, ...]
    bias: str


def stacks_of(runs: Sequence[tuple[Lane, int]], bias: str) -> list[Stack]:
    """Stacks of at most `STACK` runs, about equally many in each, of a single optimizer and of few initialisations."""
    result: list[Stack] = []
    for name in dict.fromkeys(lane.optimizer for lane, _ in runs):
        own = [run for run in runs if run[0].optimizer == name]
        parts = -(-len(own) // STACK)
        bounds = [len(own) * part // parts for part in range(parts + 1)]
        for begin, end in itertools.pairwise(bounds):
            lanes, seeds = zip(*own[begin:end], strict=True)
            result.append(Stack(lanes, seeds, bias))
    return result


class Clicks:
    """The rows of a setup in memory, cut into batches whose distinct table rows are found once for all runs."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        training, held_out, self.sizes = _rows(setup)
        # Half of the tables' rows are never met: a stack without them takes half the memory and the time to make it.
        used = np.unique(np.concatenate([training.ids.ravel(), held_out.ids.ravel()]))
        training, held_out = (rows._replace(ids=np.searchsorted(used, rows.ids)) for rows in (training, held_out))
        self.used = torch.from_numpy(used.astype(np.int64))
        steps = len(training.clicks) // setup.batch
        cuts = [training.cut(step * setup.batch, (step + 1) * setup.batch) for step in range(steps)]
        self.training = [Batch.of(rows) for rows in cuts]
        # Without a teacher (real data) nothing is subtracted.
        self.teacher = np.array([_teacher_loss(rows) for rows in cuts])
        spans = range(0, len(held_out.clicks), _EVALUATED)
        self.held_out = [Batch.of(held_out.cut(begin, begin + _EVALUATED)) for begin in spans]
        self.held_out_clicks = held_out.clicks
        self.click_rate = float(training.clicks.mean())
        self.references = {
            "teacher": _teacher_loss(held_out) if held_out.teacher is not None else math.nan,
            "teacher AUC": math.nan if held_out.teacher is None else _auc(held_out.teacher, held_out.clicks),
            "base rate": float(log_loss(np.full_like(held_out.clicks, self.click_rate), held_out.clicks).mean()),
            "click rate": self.click_rate,
        }


def _rows(setup: Setup) -> tuple[Rows, Rows, tuple[int, ...]]:
    if not setup.criteo:
        stream = ClickStream(TRAINING, setup.cap)
        return stream.rows(setup.rows), ClickStream(HELD_OUT, setup.cap).rows(setup.held_out), stream.table_sizes
    cache = criteo_cache_of(setup)
    train, validation = cache.span("train"), cache.span("validation")
    first, last = train[0], min(train[0] + setup.rows, train[1])
    begin, end = validation[0], min(validation[0] + setup.held_out, validation[1])
    return cache.rows(first, last), cache.rows(begin, end), cache.table_sizes


def criteo_cache_of(setup: Setup) -> CriteoCache:
    """The cache of the setup's file, which must have been built."""
    cache = open_cache(Path(setup.criteo), Settings(cap=setup.cap))
    if cache is None:
        raise UserError(
            f"{setup.criteo} has no cache, or has changed since; build it with `gradagrad data criteo {setup.criteo} "
            f"--cap {setup.cap}`.",
            DATA,
        )
    return cache


def _teacher_loss(rows: Rows) -> float:
    return 0.0 if rows.teacher is None else float(log_loss(rows.teacher, rows.clicks).mean())


def _auc(scores: NDArray[Any], clicks: NDArray[Any]) -> float:
    return float(roc_auc_score(clicks, scores)) if np.isfinite(scores).all() and 0 < clicks.mean() < 1 else math.nan


def optimizers_of(model: BatchedDLRM, lanes: Sequence[Lane]) -> list[Optimizer]:
    """The real optimizers of a stack, one param group per run; two where tables and networks are treated apart."""
    name = lanes[0].optimizer
    runs = list(zip(lanes, model.run_networks, model.run_tables, strict=True))
    both: list[dict[str, Any]] = [{"params": [own, table], "lr": lane.lr} for lane, own, table in runs]
    own: list[dict[str, Any]] = [{"params": [own], "lr": lane.lr} for lane, own, _ in runs]
    tables: list[dict[str, Any]] = [{"params": [table], "lr": lane.lr} for lane, _, table in runs]
    rho = [{} if lane.rho is None else {"rho": lane.rho} for lane, _, _ in runs]
    if name == "sgd":
        return [torch.optim.SGD(both, foreach=False)]
    if name == "adagrad":
        return [torch.optim.Adagrad(both, foreach=False)]
    if name == "row-wise adagrad":
        # The industry's row-wise AdaGrad divides by the root of the MEAN square of a row; ours by that of the sum.
        scale = math.sqrt(model.dimension)
        wide = [{**group, "lr": group["lr"] * scale, "granularity": "row"} for group in tables]
        return [torch.optim.Adagrad(own, foreach=False), GradaGrad(wide, rho=0.0, eps=1e-10 * scale)]
    if name == "adam":
        return [torch.optim.Adam(own, foreach=False), torch.optim.SparseAdam(tables)]
    if name == "gradagrad element":
        return [GradaGrad([{**a, **b} for a, b in zip(both, rho, strict=True)], lazy=True)]
    if name == "gradagrad row":
        wide = [{**a, **b, "granularity": "row"} for a, b in zip(tables, rho, strict=True)]
        narrow = [{**a, **b} for a, b in zip(own, rho, strict=True)]
        return [GradaGrad([*narrow, *wide], lazy=True)]
    raise ValueError(f"unknown optimizer {name!r}")


def train(stack: Stack, clicks: Clicks) -> list[Record]:
    """Train a stack through the whole stream, once, and return a record per lane."""
    # torch's own optimizers build sparse tensors from the indices we gave; torch wants to be told not to check them.
    with torch.sparse.check_sparse_tensor_invariants(False), warnings.catch_warnings():
        # γ₀ = 1 is one of the settings to be shown, and its first step is too large, as the warning would say.
        warnings.simplefilter("ignore", LargeFirstStepWarning)
        return _train(stack, clicks)


def _train(stack: Stack, clicks: Clicks) -> list[Record]:
    started = time.perf_counter()
    setup = clicks.setup
    bias = None if stack.bias == DRAWN else math.log(clicks.click_rate / (1.0 - clicks.click_rate))
    is_scalar = stack.lanes[0].optimizer == SCALAR
    starts = {seed: DLRM(clicks.sizes, setup.size, seed=seed, last_bias=bias) for seed in set(stack.seeds)}
    model = BatchedDLRM([starts[seed] for seed in stack.seeds], by_run=not is_scalar, used=clicks.used)
    del starts
    losses: list[Tensor] = []
    growth: list[Tensor] = []
    opening: list[Tensor] = []
    every = min(max(len(clicks.training) // WINDOWS, WINDOW), len(clicks.training))
    scalar: ScalarStack | None = None
    optimizers: list[Optimizer] = []
    if is_scalar:
        scalar = ScalarStack(model, [lane.lr for lane in stack.lanes], [lane.rho or 0.0 for lane in stack.lanes])
    else:
        optimizers = optimizers_of(model, stack.lanes)
    for number, batch in enumerate(clicks.training):
        if scalar is not None:
            loss, of_networks, of_rows = model.gradients(batch)
            scalar.step(batch, of_networks, of_rows)
            if (number + 1) % every == 0:
                growth.append(scalar.growth[:, 0].clone())
            if number < OPENING:
                opening.append(torch.cat([scalar.agreement, scalar.growth], dim=1))
        else:
            loss = model.backward(batch)
            for optimizer in optimizers:
                optimizer.step()
        losses.append(loss)
    curves = torch.stack(losses, dim=1).double().numpy()  # (runs, steps)
    held_out = torch.cat([model.logits(batch) for batch in clicks.held_out], dim=1).double()
    seconds = (time.perf_counter() - started) / len(stack.lanes)
    records: list[Record] = []
    for run, (lane, seed) in enumerate(zip(stack.lanes, stack.seeds, strict=True)):
        excess = curves[run] - clicks.teacher
        whole = len(excess) // every * every
        final, auc = _held_out(held_out[run], clicks.held_out_clicks)
        diverged = not (np.isfinite(curves[run]).all() and math.isfinite(final))
        result: dict[str, Any] = {
            "steps": [every * (window + 1) for window in range(whole // every)],
            "excess": excess[:whole].reshape(-1, every).mean(axis=1).tolist(),
            "held-out loss": final,
            "AUC": auc,
            "references": clicks.references,
        }
        if scalar is not None:
            result["growth"] = [float(values[run]) for values in growth]
            result["opening agreement"] = [float(values[run, 0]) for values in opening[1:]]
            result["opening growth"] = [float(values[run, 1]) for values in opening]
        records.append(
            Record(
                config=lane.config(setup, stack.bias),
                seeds=[seed],
                status="diverged" if diverged else "done",
                curves=result,
                seconds=seconds,
                diverged=[seed] if diverged else [],
            )
        )
    return records


def _held_out(logits: Tensor, clicks: NDArray[np.float32]) -> tuple[float, float]:
    """Log-loss from the logits, exactly, however sure the model is; and the area under the ROC curve."""
    targets = torch.from_numpy(clicks).double()
    loss = float(torch.nn.functional.binary_cross_entropy_with_logits(logits, targets))
    return loss, _auc(logits.numpy(), clicks)
