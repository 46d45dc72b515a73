"""DLRM on a stream of clicks, read once: what Figure 4 trains.

At the quick and the full size, runs are trained side by side on rows kept in memory: same rows, same order, each from
its own initialisation. At the paper's size a run has half a billion parameters and is trained alone, by the real
optimizer, on rows read when needed.
"""

import contextlib
import gc
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from gradagrad import AutoGradaGrad, GradaGrad
from gradagrad_lab.average import AVERAGED
from gradagrad_lab.data.clicks.stream import log_loss
from gradagrad_lab.problems.clicks.batched import BatchedDLRM
from gradagrad_lab.problems.clicks.dlrm import DLRM
from gradagrad_lab.problems.clicks.rows import Cut, Setup, clicks_of
from gradagrad_lab.problems.clicks.scalar import ScalarStack
from gradagrad_lab.study import Method, Run
from gradagrad_lab.train import Training

SCALAR, NORM, AUTO = "gradagrad scalar", "adagrad-norm", "autogradagrad"
STACK = 8  # runs side by side: more no longer helps, and each has a table of its own
REFERENCES = ("teacher", "teacher AUC", "base rate", "click rate")


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
        """At most `STACK` runs, about equally many in each, of one optimizer and of few initialisations."""
        if self.setup.paper:
            return [[run] for run in runs]
        groups: list[list[Run]] = []
        for name in dict.fromkeys(run.method.optimizer for run in runs):
            own = [run for run in runs if run.method.optimizer == name]
            parts = -(-len(own) // STACK)
            bounds = [len(own) * part // parts for part in range(parts + 1)]
            groups += [own[begin:end] for begin, end in itertools.pairwise(bounds)]
        return groups

    def cost(self, runs: Sequence[Run]) -> float:
        return self.setup.steps * (8e-3 if self.setup.paper else 1.5e-3) * len(runs)

    def begin(self, runs: Sequence[Run]) -> Training:
        return ClickReader(self, runs)


def _auc(scores: NDArray[Any], clicks: NDArray[Any]) -> float:
    return float(roc_auc_score(clicks, scores)) if np.isfinite(scores).all() and 0 < clicks.mean() < 1 else math.nan


def optimizers_of(model: BatchedDLRM, methods: Sequence[Method]) -> list[Optimizer]:
    """The real optimizers of a stack, one param group per run; two where tables and networks are treated apart."""
    name = methods[0].optimizer
    options = [dict(method.options) for method in methods]
    runs = list(zip(options, model.run_networks, model.run_tables, strict=True))
    both: list[dict[str, Any]] = [{"params": [own, table], **given} for given, own, table in runs]
    own: list[dict[str, Any]] = [{"params": [own], **given} for given, own, _ in runs]
    tables: list[dict[str, Any]] = [{"params": [table], **given} for given, _, table in runs]
    if name == "sgd":
        return [torch.optim.SGD(both, foreach=False)]
    if name == "adagrad":
        return [torch.optim.Adagrad(both, foreach=False)]
    if name == NORM:
        return [GradaGrad(both, rho=0.0, granularity="group")]
    if name == "row-wise adagrad":
        # The industry's row-wise AdaGrad divides by the root of the MEAN square of a row; ours by that of the sum.
        scale = math.sqrt(model.dimension)
        wide = [{**group, "lr": group["lr"] * scale, "granularity": "row"} for group in tables]
        return [torch.optim.Adagrad(own, foreach=False), GradaGrad(wide, rho=0.0, eps=1e-10 * scale)]
    if name == "adam":
        return [torch.optim.Adam(own, foreach=False), torch.optim.SparseAdam(tables)]
    if name == SCALAR:
        return [GradaGrad(both, granularity="group")]
    if name == "gradagrad element":
        return [GradaGrad(both, lazy=True)]
    if name == AUTO:  # one optimizer for each run, since all parameters of an optimizer decide together
        return [AutoGradaGrad([own, table]) for _, own, table in runs]
    if name == "gradagrad row":
        return [GradaGrad([*own, *({**group, "granularity": "row"} for group in tables)], lazy=True)]
    raise ValueError(f"unknown optimizer {name!r}")


class ClickReader(Training):
    """Runs of one optimizer side by side, each from its own initialisation, through the stream."""

    def __init__(self, problem: ClickProblem, runs: Sequence[Run]) -> None:
        self.setup = setup = problem.setup
        self.steps, self.rounds = setup.steps, min(200 if setup.paper else 20, setup.steps)
        if setup.paper:
            gc.collect()  # the gigabytes of the last run may be in a cycle that Python has not collected yet
        self.clicks = clicks = clicks_of(setup)
        self.methods = [run.method for run in runs]
        name = self.methods[0].optimizer
        self.is_scalar = name == SCALAR
        # One computation for all runs where each has a single step size; at the paper's size, the optimizer itself.
        stacked = name in (SCALAR, NORM) and not setup.paper
        seeds = [run.seed for run in runs]
        starts = {seed: DLRM(clicks.sizes, setup.size, seed=seed) for seed in set(seeds)}
        self.model = BatchedDLRM([starts[seed] for seed in seeds], by_run=not stacked, used=clicks.used)
        del starts
        self.scalar: ScalarStack | None = None
        self.optimizers: list[Optimizer] = []
        if stacked:
            given = [dict(method.options) for method in self.methods]
            self.scalar = ScalarStack(self.model, [one["lr"] for one in given], [one.get("rho", 0.0) for one in given])
        else:
            self.optimizers = optimizers_of(self.model, self.methods)
        self._excess = torch.full((setup.steps, len(runs)), torch.nan, dtype=torch.float64)
        self._growth = torch.full((len(setup.points), len(runs)), torch.nan, dtype=torch.float64)
        self._next: Iterator[Cut] | None = None

    def advance(self, number: int) -> None:
        for step in range(number * self.steps // self.rounds, (number + 1) * self.steps // self.rounds):
            self.step(step)

    def step(self, number: int) -> None:
        """Train every model on batch ``number`` of the stream."""
        if self._next is None:
            self._next = self.clicks.batches(number)
        cut = next(self._next)
        batch = cut.batch
        # torch's optimizers build sparse tensors from our indices, which are valid, so torch need not check them.
        with torch.sparse.check_sparse_tensor_invariants(False):
            if self.scalar is not None:
                loss, of_networks, of_rows = self.model.gradients(batch)
                self.scalar.step(batch, of_networks, of_rows)
            else:
                loss = self.model.backward(batch)
                for optimizer in self.optimizers:
                    optimizer.step()
        self._excess[number] = loss.double() - cut.teacher_loss
        point, rest = divmod(number + 1, self.setup.every)
        if self.is_scalar and not rest:
            self._growth[point - 1] = self._grown()

    def _grown(self) -> Tensor:
        if self.scalar is not None:
            return self.scalar.growth[:, 0].double()
        state = self.optimizers[0].state
        return torch.stack([state[own]["growth"].double().reshape(()) for own in self.model.run_networks])

    def curves(self) -> list[dict[str, list[float]]]:
        """Excess over the teacher in windows, and everything measured on held-out rows."""
        every, points = self.setup.every, len(self.setup.points)
        excess = self._excess[: every * points].unflatten(0, (points, every)).mean(dim=1)
        logits, clicks, teachers = self._evaluate()
        targets = torch.from_numpy(clicks).double()
        references = _references(clicks, teachers, self.clicks.click_rate)
        found: list[dict[str, list[float]]] = []
        for run in range(len(self.methods)):
            loss = float(functional.binary_cross_entropy_with_logits(logits[run], targets))
            fine = bool(torch.isfinite(excess[:, run]).all())
            own = {
                "excess": excess[:, run].tolist(),
                "loss": [loss if fine else math.nan],
                "AUC": [_auc(logits[run].numpy(), clicks)],
                "references": references,
            }
            if self.is_scalar:
                own["growth"] = self._growth[:, run].tolist()
            found.append(own)
        if self.methods[0].optimizer == AUTO:
            with contextlib.ExitStack() as averaged:
                for optimizer in self.optimizers:
                    averaged.enter_context(optimizer.averaged())  # pyright: ignore[reportAttributeAccessIssue]
                logits, _, _ = self._evaluate()
            for own, values in zip(found, logits, strict=True):
                own[AVERAGED + "loss"] = [float(functional.binary_cross_entropy_with_logits(values, targets))]
        return found

    def _evaluate(self) -> tuple[Tensor, NDArray[np.float32], NDArray[np.float32] | None]:
        parts = [(self.model.logits(cut.batch), cut.clicks, cut.teacher) for cut in self.clicks.held_out()]
        logits, clicks, teachers = zip(*parts, strict=True)
        known = [teacher for teacher in teachers if teacher is not None]
        return torch.cat(logits, dim=1).double(), np.concatenate(clicks), np.concatenate(known) if known else None


def _references(clicks: NDArray[np.float32], teacher: NDArray[np.float32] | None, rate: float) -> list[float]:
    """What losses are compared with, in the order of `REFERENCES`."""
    base = float(log_loss(np.full_like(clicks, rate), clicks).mean())
    if teacher is None:
        return [math.nan, math.nan, base, rate]
    return [float(log_loss(teacher, clicks).mean()), _auc(teacher, clicks), base, rate]
