"""DLRM on a stream of clicks, read once: what Figure 4 trains. The rows are Criteo's or the synthetic stream's."""

import gc
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.average import AVERAGED
from gradagrad_lab.data.clicks.stream import BLOCK, HELD_OUT, TRAINING, ClickStream, Rows, joined, log_loss, raw_block
from gradagrad_lab.data.criteo import CriteoCache, Settings, open_cache
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.problems.clicks.dlrm import DLRM, Size
from gradagrad_lab.single import follow
from gradagrad_lab.study import Method, Run
from gradagrad_lab.train import Training

SCALAR, NORM, AUTO = "gradagrad scalar", "adagrad-norm", "autogradagrad"
REFERENCES = ("teacher", "teacher AUC", "base rate", "click rate")
WINDOWS, WINDOW = 40, 10  # points of a training curve, and the fewest steps in one: fewer would show mostly noise
_RATED = 192_000  # rows at most over which the click rate is taken
_EVALUATED = 512  # held-out rows at a time


@dataclass(frozen=True)
class Setup:
    """The data and the model: everything that the runs of a figure share. ``rows``: as many as there are."""

    rows: int
    held_out: int
    batch: int = 128
    cap: int = 100_000
    bottom: tuple[int, ...] = (64,)
    top: tuple[int, ...] = (64,)
    criteo: str = ""
    """Path of a Criteo file whose map is read; empty for the synthetic stream."""
    version: str = ""
    """What distinguishes this file from another of the same name."""
    paper: bool = False
    """The paper's size: a table row for every id."""

    @property
    def steps(self) -> int:
        return self.rows // self.batch

    @property
    def every(self) -> int:
        """Steps in one point of a curve."""
        return max(min(max(self.steps // WINDOWS, WINDOW), self.steps), 1)

    @property
    def points(self) -> NDArray[np.float64]:
        """Steps done at each point of a curve."""
        return self.every * np.arange(1, self.steps // self.every + 1, dtype=np.float64)

    @property
    def size(self) -> Size:
        return Size(2**31 if self.paper else self.cap, 16, self.bottom, self.top)

    @property
    def settings(self) -> Settings:
        return Settings(every_id=True) if self.paper else Settings(cap=self.cap)

    @property
    def table_sizes(self) -> tuple[int, ...]:
        return _map(self).table_sizes if self.criteo else ClickStream(TRAINING, self.size.cap).table_sizes

    def config(self) -> dict[str, Any]:
        described = {key: value for key, value in asdict(self).items() if key not in ("criteo", "version")}
        source = "Criteo" if self.criteo else "synthetic Criteo-shaped stream"
        return {"kind": "DLRM", "data": source, **described, **({"version": self.version} if self.criteo else {})}

    def rows_of(self, part: int, begin: int, end: int) -> Rows:
        """Rows [begin, end) to train on, or held out."""
        if self.criteo:
            first = _map(self).span("train" if part == TRAINING else "validation")[0]
            return _map(self).rows(first + begin, first + end)
        numbers = range(begin // BLOCK, (end - 1) // BLOCK + 1)
        blocks = [_block(part, self.size.cap, number) for number in numbers]
        first = numbers[0] * BLOCK
        return joined(blocks).cut(begin - first, end - first)

    def held_out_rows(self) -> Iterator[Rows]:
        """Batches to evaluate on."""
        for begin in range(0, self.held_out, _EVALUATED):
            yield self.rows_of(HELD_OUT, begin, min(begin + _EVALUATED, self.held_out))


@lru_cache(maxsize=48)
def _block(seed: int, cap: int, number: int) -> Rows:
    """A block of the stream; those of the quick and the full size are made once in each process."""
    return ClickStream(seed, cap).prepared(raw_block(seed, number))


@lru_cache(maxsize=1)
def _map(setup: Setup) -> CriteoCache:
    """The memory map of the setup's file, which must have been made."""
    if (found := open_cache(Path(setup.criteo), setup.settings)) is None:
        how = f"make one with `gradagrad data criteo {setup.criteo}`"
        raise UserError(f"{setup.criteo} has no up-to-date memory map; {how}.", DATA)
    return found


@lru_cache(maxsize=1)
def click_rate(setup: Setup) -> float:
    """The share of clicks in rows that are trained on."""
    return float(setup.rows_of(TRAINING, 0, min(setup.rows, _RATED)).clicks.mean())


class Clicks:
    """One pass over the stream, as the training loop takes it."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup, self.model = setup, DLRM(setup.table_sizes, setup.size, seed=seed)
        self.parameters = list(self.model.parameters())
        self.teacher_loss = 0.0
        """What the teacher loses on the last batch; 0 without a teacher."""

    def loss_on(self, step: int) -> Tensor:
        rows = self.setup.rows_of(TRAINING, step * self.setup.batch, (step + 1) * self.setup.batch)
        self.teacher_loss = 0.0 if rows.teacher is None else float(log_loss(rows.teacher, rows.clicks).mean())
        return functional.binary_cross_entropy_with_logits(self._logits(rows), torch.from_numpy(rows.clicks))

    def _logits(self, rows: Rows) -> Tensor:
        # A copy, since the memory map cannot be written.
        return self.model(torch.from_numpy(rows.dense.copy()), torch.from_numpy(rows.ids).long())

    @torch.no_grad()
    def measured(self) -> tuple[float, float]:
        """Held-out loss and area under the curve."""
        found = [(self._logits(rows), torch.from_numpy(rows.clicks)) for rows in self.setup.held_out_rows()]
        logits, clicks = (torch.cat(parts).double() for parts in zip(*found, strict=True))
        loss = float(functional.binary_cross_entropy_with_logits(logits, clicks))
        return loss, _auc(logits.numpy(), clicks.numpy())


def _auc(scores: NDArray[Any], clicks: NDArray[Any]) -> float:
    return float(roc_auc_score(clicks, scores)) if np.isfinite(scores).all() and 0 < clicks.mean() < 1 else math.nan


@lru_cache(maxsize=1)
def references(setup: Setup) -> list[float]:
    """The losses to compare with, in the order of `REFERENCES`."""
    rows, rate = joined(list(setup.held_out_rows())), click_rate(setup)
    base = float(log_loss(np.full_like(rows.clicks, rate), rows.clicks).mean())
    if rows.teacher is None:
        return [math.nan, math.nan, base, rate]
    return [float(log_loss(rows.teacher, rows.clicks).mean()), _auc(rows.teacher, rows.clicks), base, rate]


@dataclass(frozen=True)
class ClickProblem:
    """One pass over the stream; a seed is an initialisation, a size a number of steps."""

    setup: Setup
    label = "DLRM"

    def config(self) -> dict[str, Any]:
        return self.setup.config()

    def measures(self, method: Method, size: int) -> Mapping[str, int]:
        found = {"excess": len(self.setup.points), "loss": 1, "AUC": 1, "references": len(REFERENCES)}
        if method.optimizer == SCALAR:
            found["growth"] = found["excess"]
        if method.optimizer == AUTO:
            found[AVERAGED + "loss"] = 1
        return found

    def together(self, runs: Sequence[Run]) -> list[list[Run]]:
        return [[run] for run in runs]

    def cost(self, runs: Sequence[Run]) -> float:
        return self.setup.steps * (8e-3 if self.setup.paper else 2.5e-3) * len(runs)

    def begin(self, runs: Sequence[Run]) -> Training:
        (run,) = runs
        return ClickRun(self.setup, run)


def optimizers_of(model: DLRM, method: Method) -> list[Any]:
    """The optimizers of a run; two where tables and networks are treated apart."""
    name, options = method.optimizer, dict(method.options)
    networks, tables = model.networks(), [model.tables.weight]
    whole: dict[str, Callable[..., Optimizer]] = {
        "sgd": partial(SGD, foreach=False),
        "adagrad": Adagrad,
        NORM: partial(GradaGrad, rho=0.0, granularity="group"),
        SCALAR: partial(GradaGrad, granularity="group"),
        "gradagrad element": partial(GradaGrad, lazy=True),
        AUTO: AutoGradaGrad,
    }
    if name in whole:
        return [whole[name]([*networks, *tables], **options)]
    if name == "adam":
        return [Adam(networks, **options), SparseAdam(tables, **options)]
    if name == "gradagrad row":
        groups = [{"params": networks}, {"params": tables, "granularity": "row"}]
        return [GradaGrad(groups, lazy=True, **options)]
    if name != "row-wise adagrad":
        raise ValueError(f"unknown optimizer {name!r}")
    # The industry's row-wise AdaGrad divides by the root of the MEAN square of a row; ours by that of the sum.
    scale = math.sqrt(model.tables.embedding_dim)
    by_row = GradaGrad(tables, lr=options["lr"] * scale, rho=0.0, eps=1e-10 * scale, granularity="row")
    return [Adagrad(networks, **options), by_row]


class ClickRun(Training):
    """One run through the stream."""

    def __init__(self, setup: Setup, run: Run) -> None:
        if setup.paper:
            gc.collect()  # the gigabytes of the last run may be in a cycle that Python has not collected yet
        self.setup, self.method, self.rounds = setup, run.method, len(setup.points)
        self.task = Clicks(setup, run.seed)
        self.optimizers = optimizers_of(self.task.model, run.method)
        self._losses = follow(self.task, self.optimizers, range(setup.steps))
        self._excess: list[float] = []
        self._growth: list[float] = []
        self._rest: list[float] = []

    def advance(self, number: int) -> None:
        """One point of the curve. Steps behind the end of the curve are trained, but not shown."""
        shown = [float(loss) - self.task.teacher_loss for loss in itertools.islice(self._losses, self.setup.every)]
        self._excess.append(float(np.mean(shown)))
        if self.method.optimizer == SCALAR:
            self._growth.append(float(self.optimizers[0].state[self.task.parameters[0]]["growth"]))
        if number == self.rounds - 1:
            self._rest = [float(loss) for loss in self._losses]

    def curves(self) -> list[dict[str, list[float]]]:
        """Excess over the teacher in windows, and everything measured on held-out rows."""
        loss, area = self.task.measured()
        fine = all(map(math.isfinite, (*self._excess, *self._rest)))
        found = {"excess": self._excess, "loss": [loss if fine else math.nan], "AUC": [area]}
        found["references"] = references(self.setup)
        if self.method.optimizer == SCALAR:
            found["growth"] = self._growth
        if self.method.optimizer == AUTO:
            with self.optimizers[0].averaged():
                found[AVERAGED + "loss"] = [self.task.measured()[0]]
        return [found]
