"""The problem's mathematics and the training loop: stacked runs are single runs, real optimizers, resumable."""

import numpy as np
import pytest
import torch
from torch import nn

from gradagrad_lab import data
from gradagrad_lab.data.dataset import Dataset
from gradagrad_lab.errors import InterruptedRunError
from gradagrad_lab.optimizers import OPTIMIZERS, PEERS, extended
from gradagrad_lab.problems.logistic import Logistic, row_order
from gradagrad_lab.run import LEARNING_RATE, Hooks, Job, train

SEEDS = (0, 1, 2)
EPOCHS = 4
LANES = {
    "adam": ({"lr": 0.5}, {"lr": 0.01}),
    "adagrad": ({"lr": 0.5}, {"lr": 4.0}),
    "sgd": ({"lr": 0.5}, {"lr": 4.0}),
    "gradagrad": (
        {},
        {"lr": 1e-6},
        {"momentum": 0.9},
        {"rho": 10.0, "granularity": "group", "lr": 1e-3},
        {"granularity": "row", "rho": 4.0},
    ),
}


@pytest.fixture(scope="module")
def iris() -> Dataset:
    return data.load("iris")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", list(LANES))
def test_stacked_and_single_runs_give_the_same_curves(iris, name, dtype):
    problem = Logistic(iris, dtype=dtype)
    stacked = train(Job(problem, name, LANES[name], SEEDS, EPOCHS))
    for lane, record in zip(LANES[name], stacked, strict=True):
        for number, seed in enumerate(SEEDS):
            (single,) = train(Job(problem, name, (lane,), (seed,), EPOCHS))
            for metric, curves in single.curves.items():
                expected = torch.tensor(curves[0], dtype=torch.float64)
                got = torch.tensor(record.curves[metric][number], dtype=torch.float64)
                tolerance = 1e-10 if dtype == torch.float64 else 1e-4
                torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", list(LANES))
def test_a_run_is_what_an_ordinary_training_loop_gives(iris, name):
    """nn.Linear, autograd and the optimizer by itself, in float64: nothing of the lab but the order of the rows."""
    options, seed = LANES[name][-2], 1
    (record,) = train(Job(Logistic(iris, dtype=torch.float64), name, (options,), (seed,), EPOCHS))
    features, targets = torch.as_tensor(iris.features), torch.as_tensor(iris.targets)
    one_hot = nn.functional.one_hot(targets, iris.classes).double()
    model = nn.Linear(iris.columns, iris.classes, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = OPTIMIZERS[name].factory()(model.parameters(), **options)
    loss_of = nn.BCEWithLogitsLoss(reduction="none")
    for epoch in range(EPOCHS):
        for rows in row_order(seed, epoch, iris.rows).split(16):
            optimizer.zero_grad()
            loss_of(model(features[rows]), one_hot[rows]).sum(dim=1).mean().backward()
            optimizer.step()
        with torch.no_grad():
            scores = model(features)
            loss = loss_of(scores, one_hot).sum(dim=1).mean().item()
            accuracy = (scores.argmax(dim=1) == targets).double().mean().item()
        assert record.curves["loss"][0][epoch] == pytest.approx(loss, rel=1e-9)
        assert record.curves["accuracy"][0][epoch] == pytest.approx(accuracy)


@pytest.mark.parametrize("name", PEERS)
def test_peers_train_one_run_at_a_time(iris, name):
    pytest.importorskip(OPTIMIZERS[name].module)
    (record,) = train(Job(Logistic(iris), name, ({},), (0, 1), 6))
    assert record.status == "done"
    losses, accuracies = np.asarray(record.curves["loss"]), np.asarray(record.curves["accuracy"])
    assert losses.shape == (2, 6)
    assert losses[0, -1] != losses[1, -1]
    assert (accuracies.max(axis=1) > 0.6).all(), "chance is a third"


def test_gradient_is_autograds(iris):
    stack = Logistic(iris, dtype=torch.float64).stack(2, [0, 5])
    points = torch.randn_like(stack.start())
    gradient = torch.empty_like(points)
    batch = list(stack.batches(3))[-1]  # the short one at the end
    assert batch.features.shape[1] == iris.rows % 16
    stack.gradient(points, batch, out=gradient)
    leaf = points.clone().requires_grad_()
    scores = torch.einsum("lscd,sbd->lscb", leaf, batch.features)
    losses = nn.functional.binary_cross_entropy_with_logits(
        scores, batch.targets.expand(2, -1, -1, -1), reduction="none"
    )
    losses.sum(dim=2).mean(dim=-1).sum().backward()
    torch.testing.assert_close(gradient, leaf.grad, rtol=1e-12, atol=1e-14)


def test_every_row_is_visited_once_per_epoch_and_lanes_share_the_order(iris):
    stack = Logistic(iris).stack(1, [3, 4])
    visited = torch.cat([batch.features for batch in stack.batches(0)], dim=1)
    assert visited.shape[1] == iris.rows
    for order in visited:
        # Rows of iris repeat, so compare sorted copies rather than sets.
        rows = sorted(map(tuple, order[:, :-1].tolist()))
        assert rows == sorted(map(tuple, torch.as_tensor(iris.features, dtype=torch.float32).tolist()))
    assert not torch.equal(visited[0], visited[1])
    again = torch.cat([batch.features for batch in stack.batches(1)], dim=1)
    assert not torch.equal(visited, again)


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


@pytest.mark.parametrize("name", ["adam", "gradagrad"])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(iris, name, tmp_path):
    job = Job(Logistic(iris), name, LANES[name], SEEDS, 6)
    whole = train(job)
    checkpoint = tmp_path / "partial.pt"
    seen = []
    with pytest.raises(InterruptedRunError):
        train(job, Hooks(seen.append, lambda: len(seen) == 3, checkpoint))
    assert checkpoint.exists()
    resumed_from = []
    resumed = train(job, Hooks(resumed_from.append, checkpoint=checkpoint))
    assert resumed_from[0] == pytest.approx(3 / 6)
    assert len(resumed_from) == 4
    for first, second in zip(whole, resumed, strict=True):
        assert first.curves == second.curves


def test_damaged_or_foreign_checkpoints_are_left_aside(iris, tmp_path):
    job = Job(Logistic(iris), "sgd", ({"lr": 0.5},), (0,), 3)
    expected = train(job)[0].curves
    checkpoint = tmp_path / "partial.pt"
    checkpoint.write_bytes(b"not a checkpoint")
    assert train(job, Hooks(checkpoint=checkpoint))[0].curves == expected
    other = Job(Logistic(iris), "sgd", ({"lr": 0.25},), (0,), 3)
    with pytest.raises(InterruptedRunError):
        train(other, Hooks(should_stop=lambda: True, checkpoint=checkpoint))
    assert train(job, Hooks(checkpoint=checkpoint))[0].curves == expected


def test_diverged_is_a_status_and_stays_with_its_run(iris):
    alone = train(Job(Logistic(iris), "sgd", ({"lr": 0.5},), SEEDS, 2))[0]
    good, bad = train(Job(Logistic(iris), "sgd", ({"lr": 0.5}, {"lr": 3e38, "momentum": 0.9}), SEEDS, 2))
    assert bad.status == "diverged"
    assert bad.diverged == list(SEEDS)
    assert np.isnan(np.asarray(bad.curves["accuracy"])[:, -1]).all()
    assert good.status == "done"
    np.testing.assert_allclose(good.curves["loss"], alone.curves["loss"], rtol=1e-5)


def test_learning_rates_are_recorded(iris):
    (record,) = train(Job(Logistic(iris), "sgd", ({"lr": 0.5},), (0,), 2))
    assert record.curves[LEARNING_RATE] == [[0.5, 0.5]]
    (record,) = train(Job(Logistic(iris), "gradagrad", ({"lr": 1e-6},), (0,), 5))
    assert record.curves[LEARNING_RATE][0][-1] > 1e-4, "a tiny learning rate must have grown"


def test_grid_is_extended_only_at_its_ends():
    grid = [0.25, 0.5, 1.0]
    assert extended(grid, 0.5) == []
    assert extended(grid, 1.0) == [2.0, 4.0, 8.0]
    assert extended(grid, 0.25) == [0.03125, 0.0625, 0.125]
    assert extended([2.0**-30, 1.0], 2.0**-30) == [], "far beyond any sensible learning rate"
