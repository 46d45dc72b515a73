"""The problem's mathematics and the training loop: stacked runs equal single runs, with the real optimizers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradagrad_lab import data
from gradagrad_lab.average import POWER, Average
from gradagrad_lab.data.dataset import Dataset
from gradagrad_lab.methods import LEARNING_RATE, OPTIMIZERS
from gradagrad_lab.problems.logistic import Logistic, row_order
from gradagrad_lab.records import Record
from gradagrad_lab.study import Method, Run, runs_of
from gradagrad_lab.train import train

SEEDS = (0, 1, 2)
EPOCHS = 4
LANES = {
    "adam": ({"lr": 0.5}, {"lr": 0.01}),
    "adagrad": ({"lr": 0.5}, {"lr": 4.0}),
    "sgd": ({"lr": 0.5}, {"lr": 4.0}),
    "gradagrad": (
        *({}, {"lr": 1e-6}, {"momentum": 0.9}),
        *({"rho": 10.0, "granularity": "group", "lr": 1e-3}, {"granularity": "row", "rho": 4.0}),
    ),
}


def group(problem: Logistic, name: str, lanes: Any, seeds: Sequence[int], epochs: int) -> list[Run]:
    return runs_of(problem, [Method.of(name, **options) for options in lanes], seeds, epochs)


@pytest.fixture(scope="module")
def iris() -> Dataset:
    return data.load("iris")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", list(LANES))
def test_stacked_and_single_runs_give_the_same_curves(iris, name, dtype):
    problem = Logistic(iris, dtype=dtype)
    runs = group(problem, name, LANES[name], SEEDS, EPOCHS)
    for run, record in zip(runs, train(runs), strict=True):
        (single,) = train([run])
        for metric, curve in single.curves.items():
            expected = torch.tensor(curve, dtype=torch.float64)
            got = torch.tensor(record.curves[metric], dtype=torch.float64)
            tolerance = 1e-10 if dtype == torch.float64 else 1e-4
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loss", ["one-vs-rest", "softmax"])
@pytest.mark.parametrize("name", list(LANES))
def test_a_run_is_what_an_ordinary_training_loop_gives(iris, name, loss):
    """nn.Linear, autograd and the optimizer by itself, in float64: nothing of the lab but the order of the rows."""
    options, seed = {"lr": 1.0, **LANES[name][-2]}, 1
    problem = Logistic(iris, dtype=torch.float64, loss=loss)
    (record,) = train([Run(problem, Method.of(name, **options), seed, EPOCHS)])
    features, targets = torch.as_tensor(iris.features), torch.as_tensor(iris.targets)
    one_hot = nn.functional.one_hot(targets, iris.classes).double()
    model = nn.Linear(iris.columns, iris.classes, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = OPTIMIZERS[name].factory()(model.parameters(), **options)

    def loss_of(rows: Any) -> torch.Tensor:
        if loss == "softmax":
            return nn.functional.cross_entropy(model(features[rows]), targets[rows])
        summed = nn.functional.binary_cross_entropy_with_logits(model(features[rows]), one_hot[rows], reduction="sum")
        return summed / len(features[rows])

    average = Average(list(model.parameters()), POWER)

    def accuracy() -> float:
        return (model(features).argmax(dim=1) == targets).double().mean().item()

    for epoch in range(EPOCHS):
        for rows in row_order(seed, epoch, iris.rows).split(16):
            optimizer.zero_grad()
            loss_of(rows).backward()
            optimizer.step()
            average.update()
        with torch.no_grad():
            assert record.curves["loss"][epoch] == pytest.approx(loss_of(slice(None)).item(), rel=1e-9)
        assert record.curves["accuracy"][epoch] == pytest.approx(accuracy())
        with average.averaged():
            assert record.curves["averaged accuracy"][epoch] == pytest.approx(accuracy())


@pytest.mark.parametrize(
    "name", [name for name, entry in OPTIMIZERS.items() if entry.package not in ("gradagrad", "torch")]
)
def test_peers_train_one_run_at_a_time(iris, name):
    pytest.importorskip(OPTIMIZERS[name].module)
    problem = Logistic(iris)
    groups = problem.together(group(problem, name, [{}], (0, 1), 6))
    assert [len(runs) for runs in groups] == [1, 1]
    first, second = (train(runs)[0] for runs in groups)
    assert not first.diverged
    assert not second.diverged
    assert first.curves["loss"][-1] != second.curves["loss"][-1]
    assert max(first.curves["accuracy"]) > 0.6, "chance is a third"


def test_every_row_is_visited_once_per_epoch_in_an_order_of_its_own():
    orders = [row_order(seed, epoch, 150).tolist() for seed, epoch in ((3, 0), (4, 0), (3, 1))]
    assert all(sorted(order) == list(range(150)) for order in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]


@pytest.mark.parametrize("classes", [3, 150])
def test_evaluation_counts_ties_as_errors_and_is_exact_for_extreme_scores(classes):
    generator = np.random.default_rng(1)
    targets = np.arange(300) % classes
    dataset = Dataset("made", "made", "made", "", generator.normal(size=(300, 4)), targets, classes)
    stack = Logistic(dataset, dtype=torch.float64).stack(1, [0, 1])
    points = stack.start()
    start = stack.evaluate(points)
    assert (start["accuracy"] == 0).all(), "all scores are equal at the origin"
    torch.testing.assert_close(start["loss"], torch.full((1, 2), classes * np.log(2), dtype=torch.float64))
    points[:, 0].normal_(std=100.0)
    points[:, 1].normal_()
    measured = stack.evaluate(points)
    features = torch.cat([torch.as_tensor(dataset.features), torch.ones(300, 1, dtype=torch.float64)], dim=1)
    for seed in range(2):
        scores = features @ points[0, seed].T
        one_hot = nn.functional.one_hot(torch.as_tensor(targets), classes).double()
        loss = nn.functional.binary_cross_entropy_with_logits(scores, one_hot, reduction="sum") / 300
        assert measured["loss"][0, seed].item() == pytest.approx(loss.item(), rel=1e-9)
        expected = (scores.argmax(dim=1) == torch.as_tensor(targets)).double().mean().item()
        assert measured["accuracy"][0, seed].item() == pytest.approx(expected)


def test_diverged_is_a_status_and_stays_with_its_run(iris):
    problem = Logistic(iris)
    alone = train(group(problem, "sgd", [{"lr": 0.5}], SEEDS, 2))
    records = train(group(problem, "sgd", [{"lr": 0.5}, {"lr": 3e38, "momentum": 0.9}], SEEDS, 2))
    good, bad = records[: len(SEEDS)], records[len(SEEDS) :]
    assert all(record.diverged for record in bad)
    assert all(np.isnan(record.curves["accuracy"][-1]) for record in bad)
    for one, other in zip(good, alone, strict=True):
        assert not one.diverged
        np.testing.assert_allclose(one.curves["loss"], other.curves["loss"], rtol=1e-5)


def test_learning_rates_and_the_average_are_recorded(iris):
    (record,) = train(group(Logistic(iris), "sgd", [{"lr": 0.5}], (0,), 2))
    assert record.curves[LEARNING_RATE] == [0.5, 0.5]
    (record,) = train(group(Logistic(iris), "gradagrad", [{"lr": 1e-6}], (0,), 5))
    assert record.curves[LEARNING_RATE][-1] > 1e-4, "a tiny learning rate must have grown"
    (record,) = train(group(Logistic(iris), "autogradagrad", [{}], (0,), 6))
    assert record.curves[LEARNING_RATE][-1] > 0
    assert record.curves["averaged accuracy"][-1] > 0.6
    assert record.curves["averaged accuracy"] != record.curves["accuracy"]


def test_settings_that_miss_the_same_seeds_are_trained_together(iris):
    problem = Logistic(iris)
    runs = group(problem, "sgd", [{"lr": lr} for lr in (0.1, 0.2, 0.3)], SEEDS, 2)
    assert [len(one) for one in problem.together(runs)] == [9]
    assert sorted(len(one) for one in problem.together(runs[1:])) == [2, 6]


def test_a_problem_that_breaks_its_promise_is_a_fault(iris, monkeypatch):
    monkeypatch.setattr(Logistic, "metrics", ("accuracy", "loss", "beauty"))
    with pytest.raises(ValueError, match="promised"):
        train(group(Logistic(iris), "sgd", [{"lr": 0.5}], (0,), 2))


def test_adagrad_norm_has_one_step_size(iris):
    """Beside the textbook: one sum of squares for all coordinates, in float64."""
    problem = Logistic(iris, dtype=torch.float64)
    records: list[Record] = train(group(problem, "adagrad_norm", [{"lr": 0.5}, {"lr": 0.1}], (0, 1), 2))
    stack = problem.stack(1, [0])
    x, total = stack.start(), torch.zeros((), dtype=torch.float64)
    gradient = torch.empty_like(x)
    for epoch in range(2):
        for batch in stack.batches(epoch):
            stack.gradient(x, batch, out=gradient)
            total += gradient.square().sum()
            x -= 0.5 * gradient / total.sqrt()
    assert records[0].curves["loss"][-1] == pytest.approx(stack.evaluate(x)["loss"].item(), rel=1e-8)
