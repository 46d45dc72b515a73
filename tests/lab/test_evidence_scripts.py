"""The scripts behind the held-out and the at-size evidence: what they keep, and how they resume from it."""

import dataclasses
import json

import pytest
from rich.progress import Progress

from benchmarks import at_size, auto_held_out
from gradagrad_lab.figures.suite.catalogue import problem_of


@pytest.fixture
def kept(tmp_path):
    with Progress(disable=True) as progress:
        yield at_size.Kept(tmp_path / "kept.json", 1, progress)


def test_the_rate_of_adamw_is_sought_beyond_the_grid_and_nothing_is_trained_twice(kept, monkeypatch):
    trained = []

    def run(name, make, seed, setting, advance):
        (optimizer, *_) = make(at_size.cnn(seed))
        trained.append(rate := optimizer.param_groups[0]["lr"])
        return {"loss": None if rate > 0.05 else abs(rate - 0.04), "seconds": 0.0, "size": 1}

    monkeypatch.setattr(at_size, "run", run)
    assert kept.best_rate("cnn") == 0.0316
    assert trained == [at_size._rate(place) for place in (*at_size.PLACES, -3, -2)], "until the best has neighbours"
    monkeypatch.setattr(at_size, "run", None)
    again = at_size.Kept(kept.path, 1, Progress(disable=True))
    assert again.best_rate("cnn") == 0.0316
    assert len(json.loads(kept.path.read_text())["cnn"]) == len(trained)


@pytest.mark.parametrize("words", ["warm-up and cosine", "clipping at norm 1", "4 batches to a step"])
def test_a_run_counts_steps_and_measures(words, monkeypatch):
    title, build, _ = at_size.MODELS["cnn"]
    monkeypatch.setitem(at_size.MODELS, "cnn", (title, build, 4))
    steps, advanced = [], []

    def counted(work):
        (optimizer,) = at_size._auto(work)
        optimizer.register_step_post_hook(lambda *_: steps.append(optimizer.param_groups[0]["lr"]))
        return [optimizer]

    found = at_size.run("cnn", counted, 0, at_size.SETTINGS[words], lambda: advanced.append(1))
    assert len(advanced) == 4
    assert len(steps) == (1 if words.startswith("4") else 4)
    assert ("cosine" in words) == (len(set(steps)) > 1)
    assert {"loss", "averaged loss", "accuracy", "averaged accuracy"} <= set(found)


def test_an_interrupted_problem_goes_on_where_it_was():
    """What is there is not trained again; the rates that tuning chose end up in the rows."""
    quadratic = dataclasses.replace(problem_of("quadratic").problem, steps=8)
    rates = {name: [0.01, 0.1] for name in auto_held_out.BASELINES}
    done = {"last": [1.0], "averaged": [1.0], "diverged": [0, 0]}
    rows = {auto_held_out._RATES: rates, **{name: dict(done) for name in auto_held_out._peers()}}
    kept = []
    auto_held_out._run(quadratic, rows, lambda: kept.append(len(rows)))
    assert rows["Prodigy"] == done
    assert (rows["Adam, tuned for the last"]["lr"], rows["Adam, tuned for the averaged"]["lr"]) == (0.01, 0.1)
    assert len(rows["ours"]["last"]) == 5
    assert auto_held_out._RATES not in rows
    assert len(kept) == 9, "after each of six baselines and three of ours"
