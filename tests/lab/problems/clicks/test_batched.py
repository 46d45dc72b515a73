"""Runs side by side give the numbers of runs one by one, through the real optimizers on the plain model."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam

from gradagrad import GradaGrad
from gradagrad_lab.data.clicks.stream import ClickStream, Rows, table_sizes
from gradagrad_lab.figures.figure4.results import of_rule
from gradagrad_lab.problems.clicks import rows as click_rows
from gradagrad_lab.problems.clicks import runs as click_runs
from gradagrad_lab.problems.clicks.batched import Batch, BatchedDLRM
from gradagrad_lab.problems.clicks.dlrm import DLRM, Size
from gradagrad_lab.problems.clicks.rows import Setup
from gradagrad_lab.problems.clicks.runs import NORM, SCALAR, ClickProblem
from gradagrad_lab.problems.clicks.scalar import ScalarStack
from gradagrad_lab.study import Method, Run
from gradagrad_lab.train import train

TINY = Size(cap=60, dimension=4, bottom=(8,), top=(8,))
SIZES = table_sizes(TINY.cap)
STEPS, BATCH = 8, 32

pytestmark = pytest.mark.filterwarnings("ignore:the first step moves")


@pytest.fixture(autouse=True)
def checked_sparse_tensors() -> Iterator[None]:
    """torch warns unless one decides; here every sparse gradient is checked."""
    with torch.sparse.check_sparse_tensor_invariants(True):
        yield


@pytest.fixture(scope="module")
def rows() -> Rows:
    return ClickStream(5, TINY.cap).rows(STEPS * BATCH)


def cuts(rows: Rows) -> list[Rows]:
    return [rows.cut(step * BATCH, (step + 1) * BATCH) for step in range(STEPS)]


def in_double(rows: Rows) -> Batch:
    batch = Batch.of(rows)
    return batch._replace(dense=batch.dense.double(), clicks=batch.clicks.double())


def model_of(seed: int = 4) -> DLRM:
    return DLRM(SIZES, TINY, seed=seed).double()


def train_alone(model: DLRM, optimizers: list[Optimizer], rows: Rows) -> list[float]:
    losses = []
    for cut in cuts(rows):
        for optimizer in optimizers:
            optimizer.zero_grad()
        logits = model(torch.from_numpy(cut.dense).double(), torch.from_numpy(cut.ids).long())
        loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(cut.clicks).double())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def assert_same(stack: BatchedDLRM, run: int, alone: DLRM) -> None:
    flat = torch.cat([p.detach().reshape(-1) for layer in alone.layers() for p in (layer.weight, layer.bias)])
    torch.testing.assert_close(stack.networks[run], flat, rtol=1e-9, atol=1e-12)
    begin = 0
    for field, size in enumerate(alone.sizes):  # table by table: totals hide errors
        ours, theirs = stack.tables[begin : begin + size, run], alone.tables.weight[begin : begin + size]
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-9, atol=1e-12, msg=f"table {field + 1}")
        begin += size


@pytest.mark.parametrize("by_run", [False, True])
def test_gradients_are_autograds(by_run: bool, rows: Rows) -> None:
    model = model_of()
    stack = BatchedDLRM([model] * 3, by_run=by_run)
    batch = in_double(cuts(rows)[0])
    losses = stack.backward(batch)
    cut = cuts(rows)[0]
    loss = binary_cross_entropy_with_logits(
        model(torch.from_numpy(cut.dense).double(), torch.from_numpy(cut.ids).long()), batch.clicks
    )
    loss.backward()
    assert model.tables.weight.grad is not None
    flat = torch.cat([p.grad.reshape(-1) for layer in model.layers() for p in (layer.weight, layer.bias)])  # pyright: ignore
    for run in range(3):
        assert losses[run].item() == pytest.approx(loss.item(), rel=1e-12)
        table_gradient, own_gradient = stack.run_tables[run].grad, stack.run_networks[run].grad
        assert table_gradient is not None
        assert own_gradient is not None
        torch.testing.assert_close(own_gradient, flat, rtol=1e-9, atol=1e-13)
        torch.testing.assert_close(
            table_gradient.to_dense(), model.tables.weight.grad.to_dense(), rtol=1e-9, atol=1e-13
        )


def test_scalar_stack_is_the_real_optimizer(rows: Rows) -> None:
    """γ₀ × ρ in one computation against GradaGrad(granularity="group") or AdaGrad-norm on one plain model each."""
    settings = [(initial, rho) for initial in (1.0, 1e-2, 1e-6) for rho in (2.0, 100.0)] + [(0.5, 0.0), (0.05, 0.0)]
    stack = BatchedDLRM([model_of()] * len(settings))
    scalar = ScalarStack(stack, [initial for initial, _ in settings], [rho for _, rho in settings])
    losses = []
    for cut in cuts(rows):
        batch = in_double(cut)
        loss, of_networks, of_rows = stack.gradients(batch)
        scalar.step(batch, of_networks, of_rows)
        losses.append(loss)
    for run, (initial, rho) in enumerate(settings):
        alone = model_of()
        optimizer: Optimizer = AdagradNorm(alone.parameters(), initial)
        if rho > 0:
            optimizer = GradaGrad(alone.parameters(), lr=initial, rho=rho, granularity="group")
        expected = train_alone(alone, [optimizer], rows)
        assert [float(loss[run]) for loss in losses] == pytest.approx(expected, rel=1e-9)
        assert_same(stack, run, alone)
        if rho == 0:
            continue
        state = optimizer.state[alone.tables.weight]
        torch.testing.assert_close(scalar.growth[run, 0], state["growth"], rtol=1e-9, atol=0)
        torch.testing.assert_close(scalar.alpha[run, 0], state["accumulator"], rtol=1e-9, atol=0)
    assert scalar.growth.max() > 100  # the small γ₀ did grow: the comparison was not of runs that stand still


def alone_optimizers(method: Method, model: DLRM) -> list[Optimizer]:
    """What a person would write for the plain model."""
    networks: list[nn.Parameter] = model.networks()
    table = [model.tables.weight]
    name, lr, options = method.optimizer, method["lr"], dict(method.options)
    if name == "sgd":
        return [SGD(model.parameters(), lr)]
    if name == "adagrad":
        return [Adagrad(model.parameters(), lr)]
    if name == NORM:
        return [AdagradNorm(model.parameters(), lr)]
    if name == "row-wise adagrad":
        return [Adagrad(networks, lr), RowWiseAdagrad(table, lr)]
    if name == "adam":
        return [Adam(networks, lr), SparseAdam(table, lr)]
    if name == SCALAR:
        return [GradaGrad(model.parameters(), **options, granularity="group")]
    if name == "gradagrad element":
        return [GradaGrad(model.parameters(), **options, lazy=True)]
    groups: list[dict[str, Any]] = [{"params": networks}, {"params": table, "granularity": "row"}]
    return [GradaGrad(groups, **options, lazy=True)]


class AdagradNorm(Optimizer):
    """One step size for everything: the learning rate over the root of the sum of all squared gradient norms."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.total = 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients = [(p, p.grad.to_dense()) for group in self.param_groups for p in group["params"]]
        self.total += sum(float(gradient.square().sum()) for _, gradient in gradients)
        for p, gradient in gradients:
            p -= self.param_groups[0]["lr"] * gradient / (math.sqrt(self.total) + 1e-10)


class RowWiseAdagrad(Optimizer):
    """The industry's row-wise AdaGrad, written out: one sum per row, of the mean square of its gradient."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            for p in group["params"]:
                gradient = p.grad.to_dense()
                total = self.state[p].setdefault("sum", torch.zeros(len(p), 1, dtype=p.dtype))
                total += gradient.square().mean(dim=1, keepdim=True)
                p -= group["lr"] * gradient / (total.sqrt() + 1e-10)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sgd", [(0.5, None), (0.05, None)]),
        ("adagrad", [(0.05, None), (0.01, None)]),
        (NORM, [(0.5, None), (0.05, None)]),
        ("row-wise adagrad", [(0.05, None), (0.01, None)]),
        ("adam", [(0.01, None), (0.001, None)]),
        (SCALAR, [(0.01, 2.0), (1e-6, 100.0)]),
        ("gradagrad element", [(0.01, 2.0), (1e-3, 4.0)]),
        ("gradagrad row", [(0.01, 2.0), (1e-3, 4.0)]),
    ],
)
def test_stacked_optimizers_equal_single_ones(
    name: str, settings: list[tuple[float, float | None]], rows: Rows
) -> None:
    methods = [of_rule(name, rate, rho) for rate, rho in settings]
    stack = BatchedDLRM([model_of(seed) for seed in range(len(methods))], by_run=True)
    optimizers = click_runs.optimizers_of(stack, methods)
    losses = []
    for cut in cuts(rows):
        losses.append(stack.backward(in_double(cut)))
        for optimizer in optimizers:
            optimizer.step()
    for run, method in enumerate(methods):
        alone = model_of(seed=run)
        expected = train_alone(alone, alone_optimizers(method, alone), rows)
        assert [float(loss[run]) for loss in losses] == pytest.approx(expected, rel=1e-8)
        assert_same(stack, run, alone)


TOY = Setup(rows=20 * 32, held_out=64, batch=32, cap=60, bottom=(8,), top=(8,))


def toy_runs(methods: list[Method], seeds: list[int]) -> list[Run]:
    problem = ClickProblem(TOY)
    return [Run(problem, method, seed, TOY.steps) for method, seed in zip(methods, seeds, strict=True)]


def test_a_run_that_diverges_leaves_the_others_alone() -> None:
    fine, wild = of_rule("sgd", 0.1), of_rule("sgd", 1e30)
    together = train(toy_runs([fine, wild], [0, 1]))
    alone = train(toy_runs([fine], [0]))
    assert [record.diverged for record in together] == [False, True]
    assert together[0].curves["excess"] == pytest.approx(alone[0].curves["excess"], rel=1e-5, abs=1e-6)
    assert math.isfinite(together[0].curves["loss"][0])


def test_stacks_keep_every_run_once() -> None:
    methods = [of_rule(SCALAR, initial, rho) for rho in range(6) for initial in (1.0, 0.1, 0.01)]
    methods.append(of_rule("sgd", 1.0))
    wanted = [run for seed in (3, 4) for run in toy_runs(methods, [seed] * len(methods))]
    stacks = ClickProblem(TOY).together(wanted)
    assert [len(stack) for stack in stacks] == [7, 7, 7, 7, 8, 2]
    assert {run for stack in stacks for run in stack} == set(wanted)
    assert all(len({run.method.optimizer for run in stack}) == 1 for stack in stacks)


def test_leaving_out_rows_never_met_changes_nothing() -> None:
    clicks = click_rows.Clicks(TOY)
    model = DLRM(clicks.sizes, TOY.size, seed=2)
    assert clicks.used is not None
    assert len(clicks.used) < sum(clicks.sizes)
    short, whole = BatchedDLRM([model], used=clicks.used), BatchedDLRM([model])
    for batch, _, _ in clicks.training:
        full = batch._replace(touched=clicks.used[batch.touched])
        for ours, theirs in zip(short.gradients(batch), whole.gradients(full), strict=True):
            assert torch.equal(ours, theirs)
    rows = ClickStream(click_rows.TRAINING, TOY.cap).rows(32)
    first = clicks.training[0].batch
    looked_up = clicks.used[first.touched[first.position]].view(32, -1)
    assert torch.equal(looked_up, torch.from_numpy(rows.ids).long())
