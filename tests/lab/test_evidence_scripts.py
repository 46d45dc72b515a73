"""The scripts behind the pages about AutoGradaGrad and about size: what they keep, and how they go on from it."""

import dataclasses
import json

import pytest
import torch
from rich.progress import Progress

from benchmarks import at_size, auto_choices, auto_diagnosis, auto_held_out
from benchmarks.auto_reference import Setting
from benchmarks.stacked import Stack, ours, train
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


def test_choices_are_read_back_as_they_were_trained(tmp_path, monkeypatch):
    short = dataclasses.replace(problem_of("quadratic").problem, steps=20)
    monkeypatch.setattr(auto_choices, "problem_of", lambda name: dataclasses.make_dataclass("One", ["problem"])(short))
    chosen, spike = auto_choices.CHOSEN, "× 1e6 at 30 %"
    wanted = [auto_choices.Lane(), auto_choices.Lane(chosen, "cosine"), auto_choices.Lane(chosen, spike=spike)]
    found = auto_choices.Kept(tmp_path / "kept.json").get("quadratic", wanted, seeds=2)
    monkeypatch.setattr(auto_choices, "train", None)
    again = auto_choices.Kept(tmp_path / "kept.json").get("quadratic", wanted[::-1], seeds=2)[::-1]
    assert [one.last.tolist() for one in found] == [one.last.tolist() for one in again]
    assert len({tuple(one.last.tolist()) for one in found}) == 3
    alone = train(Stack(short, range(2)), [ours([Setting(guard="norm")])])[0]
    assert found[0].last.tolist() == pytest.approx(alone.last.tolist(), rel=1e-4)


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


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_limited_guard_lets_a_spike_weigh_that_share_of_all_before_it(share):
    rule = auto_diagnosis._Limited(torch.ones(1, 5), [auto_diagnosis.CHOSEN])
    rule.share = share
    totals = []
    for spike in (*[1.0] * 20, 1e6):
        rule.step(torch.full((1, 5), spike))
        totals.append(rule.k * (rule.k + 1) * float(rule.a.sum()))
    assert totals[-1] / totals[-2] == pytest.approx(1 + share, rel=1e-5)
