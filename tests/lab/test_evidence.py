"""The scripts of the held-out evidence and the benchmarks: what they record, and how they resume from it."""

import dataclasses
import functools
import gzip
import hashlib
import json
import math

import pytest
import torch
from sklearn import datasets

import gradagrad
from gradagrad import AutoGradaGrad
from gradagrad_lab import held_out, tune
from gradagrad_lab.data import pictures as pictures_data
from gradagrad_lab.errors import UserError
from gradagrad_lab.evidence import data, methods, models, show, workloads
from gradagrad_lab.evidence.run import Job, Records, train
from gradagrad_lab.figures import page as figures
from gradagrad_lab.methods import OPTIMIZERS, rule_of

STEPS = 6


@pytest.fixture
def pictures(monkeypatch):
    """scikit-learn's digits, enlarged, in place of the data sets."""
    digits = datasets.load_digits()
    images = torch.nn.functional.interpolate(torch.tensor(digits.images).float().unsqueeze(1) / 16, (28, 28))
    names = torch.tensor(digits.target)
    parts = {"train": slice(0, 1300), "validation": slice(1300, 1400), "test": slice(1400, 1600)}
    made = {part: (images[rows] - images.mean(), names[rows]) for part, rows in parts.items()}
    monkeypatch.setattr(workloads, "pictures", lambda name: made)
    monkeypatch.setattr(workloads, "REFRESHED", 2)
    return made


def _short(name, steps=STEPS):
    return dataclasses.replace(workloads.WORKLOADS[name], steps=steps, tuning=steps, points=(1.0,))


def test_a_quick_look_trains_every_kind_of_net(pictures, monkeypatch):
    tiny = dataclasses.replace(_short("gpt"), make=lambda seed: workloads.gpt(seed, width=32, blocks=1))
    monkeypatch.setitem(workloads.WORKLOADS, "gpt", tiny)
    text = show.quick({"fashion-mlp": 80, "fashion-cnn": 8, "fashion-vit": 8, "gpt": 4})
    mlp = [float(cell) for cell in text.splitlines()[2].split("|")[2:-1]]
    assert len(text.splitlines()) == 6
    assert "diverged" not in text
    assert max(mlp) > 0.7, "an MLP learns digits in 80 steps"


@pytest.mark.parametrize("method", sorted({row.method for row in methods.ROWS} | set(methods.SWEEPS)))
def test_a_run_measures_both_points_and_repeats(method, pictures):
    work = _short("fashion-cnn")
    job = Job(method, methods.METHODS[method].lr, 1, STEPS)
    first, again = train(work, job), train(work, job)
    places = ["last"] if methods.METHODS[method].averages else ["last", "averaged"]
    assert [place for place in ("last", "averaged") if place in first] == places
    for place in places:
        assert first[place] == again[place]
        assert set(first[place]) == {"train", "validation", "test"}
        assert first["curve"][place][-1][0] == STEPS


def test_short_runs_never_see_the_test_set(pictures):
    task = workloads.WORKLOADS["fashion-mlp"].make(0)
    del task.fixed["test"]
    work = dataclasses.replace(workloads.WORKLOADS["fashion-mlp"], make=lambda seed: task)
    assert set(train(work, Job("AdamW", 1e-3, 0, STEPS))["last"]) == {"validation"}


def test_parts_do_not_overlap_and_a_changed_file_is_refused(tmp_path, monkeypatch):
    def store(shift):
        (tmp_path / "mnist").mkdir(exist_ok=True)
        sums = []
        for name, count in zip(pictures_data.FILES, (6000, 6000, 50, 50), strict=True):
            size, head = (784, 16) if "images" in name else (1, 8)
            content = bytes(head) + bytes((k * 7 + shift) % 251 for k in range(count * size))
            (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(content))
            sums.append(hashlib.sha256(content).hexdigest())
        return tuple(sums)

    monkeypatch.setenv("GRADAGRAD_DATA", str(tmp_path))
    monkeypatch.setitem(pictures_data.SUMS, "mnist", store(0))
    found = pictures_data.pictures.__wrapped__("mnist")
    assert {part: len(names) for part, (_, names) in found.items()} == {"train": 1000, "validation": 5000, "test": 50}
    store(1)
    with pytest.raises(UserError, match="not the expected file"):
        pictures_data.pictures.__wrapped__("mnist")
    monkeypatch.setenv("GRADAGRAD_OFFLINE", "0")
    monkeypatch.setitem(pictures_data.ADDRESSES, "mnist", "http://127.0.0.1:1")
    monkeypatch.setattr(pictures_data, "FILES", ("absent",) * 4)
    with pytest.raises(UserError, match="cannot be reached"):
        pictures_data.pictures.__wrapped__("mnist")


def test_docstrings_do_not_name_their_package():
    found = data.docstrings()
    texts = [text for part in found.values() for text in part[0]]
    assert len(set(texts)) == len(texts)
    assert not any(package in text.lower() for text in texts for package in data.PACKAGES)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_clicks_touch_few_rows_of_large_tables(monkeypatch):
    monkeypatch.setattr(workloads, "CLICK_CAP", 1000)
    workloads._clicked.cache_clear()
    task = workloads.clicks(0, size=16, steps=3)
    task.loss_on(2).backward()
    assert task.tables[0].grad.is_sparse
    work = dataclasses.replace(_short("clicks", 3), make=lambda seed: workloads.clicks(seed, size=16, steps=3))
    for method in ("AdamW", "SGD", "AdaGrad", "GradaGrad", methods.OURS):
        assert math.isfinite(train(work, Job(method, 1e-3, 0, 3))["last"]["test"]["loss"])
    workloads._clicked.cache_clear()


def test_adapters_start_as_the_layer_they_adapt():
    layer = torch.nn.Linear(5, 3)
    adapted, rows = models.LowRank(layer), torch.randn(4, 5)
    assert torch.equal(adapted(rows), layer(rows))
    assert [name for name, parameter in adapted.named_parameters() if parameter.requires_grad] == ["A", "B"]


def test_statistics_of_batch_normalisation_are_made_for_the_average_and_put_back(pictures):
    task = workloads.WORKLOADS["fashion-cnn"].make(0)
    before = {name: tensor.clone() for name, tensor in task.model.state_dict().items()}
    with task.fresh_statistics():
        inside = task.model.state_dict()["1.running_mean"].clone()
    assert not torch.equal(inside, before["1.running_mean"])
    assert all(torch.equal(tensor, before[name]) for name, tensor in task.model.state_dict().items())


def _pretend(job):
    """A run that is most accurate at 0.0316 at the last iterate, and at 0.316 averaged. Its loss says the opposite."""
    if job.value > 1:
        return {"diverged": 1}
    near = {place: abs(math.log10(job.value) - best) for place, best in (("last", -1.5), ("averaged", -0.5))}
    found = {
        place: {part: {"loss": x, "accuracy": 0.5 + job.seed / 100} for part in ("train", "test")}
        | {"validation": {"loss": -x, "accuracy": 0.5 - x / 100}}
        for place, x in near.items()
    }
    return {**found, "ms": 1.0, "size": 7, "curve": {place: [[1, 0.0, 0.5]] for place in near}}


def _finish(own, most=10_000):
    trained = []
    while jobs := own.missing():
        trained.append(jobs[0])
        own.add(jobs[0], _pretend(jobs[0]))
        if len(trained) == most:
            break
    return trained


def test_tuning_goes_on_until_the_best_rate_has_neighbours_and_nothing_is_trained_twice(tmp_path):
    trained = _finish(Records("mnist-mlp", tmp_path), most=5)
    own = Records("mnist-mlp", tmp_path)
    trained += _finish(own)
    assert len({job.key for job in trained}) == len(trained) == len(own.runs)
    assert own.best(methods.Row("AdamW", tuned=True)) == (0.0316, [])
    assert own.best(methods.Row("AdamW", tuned=True, averaged=True)) == (0.316, [])
    assert {job.seed for job in trained if job.steps == own.workload.tuning} == {0}
    finals = [job for job in trained if job.steps == own.workload.steps and job.method == "SGD, cosine"]
    assert [(job.value, job.seed) for job in finals] == [(0.0316, seed) for seed in range(3)]
    lines = json.loads((tmp_path / "mnist-mlp.json").read_text())
    assert {"commit", "date", "torch"} <= set(lines["made"][0])
    assert own.outdated(trained[-1].key) is False


def test_rates_of_rivals_are_tuned_at_whole_length_in_the_end(tmp_path, monkeypatch):
    _finish(own := Records("mnist-mlp", tmp_path))
    rival, other = methods.COSINE, methods.Row("SGD, cosine", tuned=True)
    assert [own.shortly_tuned(row) for row in (rival, other, methods.AVERAGED)] == [False, True, False]
    assert "| SGD + cosine, tuned | 0.0316* |" in show.table(own)
    own.runs[f"{rival.method} | 0.1 | seed 0 | {own.workload.steps} steps"]["last"]["validation"]["accuracy"] = 1.0
    assert [job.value for job in own.best(rival)[1]] == [0.316], "the best one needs a worse neighbour"
    assert own.value(rival) == 0.0316
    _finish(own)
    assert own.value(rival) == 0.1, "it is best at whole length"
    monkeypatch.setitem(workloads.WORKLOADS, "cnn-long", dataclasses.replace(_short("cnn-long"), like="mnist-mlp"))
    assert Records("cnn-long", tmp_path).value(rival) == 0.1, "longer runs begin with it"
    assert (own.reference, Records("gpt", tmp_path).reference) == (rival, methods.USUAL)


def test_the_other_rule_is_trained_again_and_marked(tmp_path):
    own = Records("fashion-mlp", tmp_path)
    _finish(own)
    assert {job.value for job in own.sweep("AdamW")} == {tune.rate(place) for place in range(-12, 1)}
    assert "Not trained: none." in show.table(own)
    assert "an older rule" not in show.table(own) + show.summary([show.workload_case(own)])
    own.runs["AutoGradaGrad | 1 | seed 1 | 2145 steps"]["rule"] = "another"
    assert [job.seed for job in own.missing()] == [1]
    assert [job.seed for job in own.done(methods.AVERAGED)] == [0, 2], "rules are not mixed"
    assert "an older rule" not in show.table(own)
    for seed in (0, 2):
        own.runs[f"AutoGradaGrad | 1 | seed {seed} | 2145 steps"]["rule"] = "another"
    assert "an older rule" in show.table(own)
    assert "an older rule" in show.summary([show.workload_case(own)])


def test_tables_name_what_is_missing_and_give_intervals(tmp_path):
    own = Records("fashion-cnn", tmp_path)
    assert "Not trained: AdamW + cosine, tuned; " in show.table(own)
    own.add(job := Job("GradaGrad", 0.01, 0, own.workload.steps), _pretend(job))
    assert show.table(own).rpartition("Not trained: ")[2].count(";") == len(own.rows()) - 2
    _finish(own)
    rows = dict(line.strip("| ").split(" | ", 1) for line in show.table(own).splitlines() if line.startswith("| "))
    half = 4.303 * torch.tensor([0.5, 0.51, 0.52]).std().item() / 3**0.5
    assert rows["SGD + cosine, tuned"].startswith(f"0.0316* | 51.00 ± {100 * half:.2f} | ")


def _case(title, ours, adamw, free, **untuned):
    return show.Case(title, *(dict(enumerate(one)) for one in (ours, adamw, free)), untuned)


def test_a_summary_divides_by_rivals_seed_by_seed_and_begins_with_the_worst():
    lines = show.summary(
        [
            _case("won", [1.0, 2.0], [2.0, 4.0], [2.0], near={0: 2.0, 1: 4.0}, far={0: 4.0, 1: 8.0}),
            _case("lost", [3.0, 3.0], [1.0, 4.0], [], near={0: 3.0, 1: 3.0}, far={0: 2.0, 1: 2.0, 2: 2.0}),
        ]
    ).splitlines()
    assert (
        lines[0] == "| AutoGradaGrad ÷ | the best untuned | near | AdamW + cosine, tuned | Schedule-Free AdamW, tuned |"
    )
    half = 12.71 * (math.log(4.0) / 2**0.5) / 2**0.5
    assert lines[2] == f"| lost | 1.50 ± 0.00 (far) | 1.00 ± 0.00 | 1.50 ± {1.5 * half:.2f} | – |"
    assert lines[3] == "| won | 0.50 ± 0.00 (near) | 0.50 ± 0.00 | 0.50 ± 0.00 | 0.50 (1 seed) |"
    assert lines[4:] == ["| **mean** | 0.87 | 0.71 | 0.87 | 0.50 |", "| **worst** | 1.50 | 1.00 | 1.50 | 0.50 |"]


def test_a_workload_counts_errors_and_a_diverged_rival_is_no_best(tmp_path):
    own = Records("mnist-mlp", tmp_path)
    _finish(own)
    for seed in range(3):
        own.runs[f"Prodigy | 1 | seed {seed} | 2145 steps"]["last"]["test"]["accuracy"] = 0.9
        own.runs[f"Schedule-Free RAdam | 0.0025 | seed {seed} | 2145 steps"] = {"diverged": 1}
    case = show.workload_case(own)
    assert case.best() == "Prodigy, default"
    assert case.against(case.untuned["Prodigy, default"]) == pytest.approx([5.0, 4.9, 4.8])


def test_the_exam_divides_by_the_rate_that_its_command_chooses():
    cases = {case.title.split(" (")[0].removesuffix(" †"): case for case in show.exam_cases()}
    runs = held_out.Results(show.PAGE.parent / "records" / "auto-held-out.json").runs
    for name, own in runs.items():
        if name not in cases:
            continue  # It is not trained to the end.
        grid = [seeds for method, seeds in own.items() if method.startswith("AdamW, cosine, lr")]
        best = min(grid, key=lambda seeds: seeds["0"][0] + seeds["1"][0])
        assert list(cases[name].adamw.values()) == [best[str(seed)][0] for seed in range(3)]
        assert cases[name].ours[2] == own["AutoGradaGrad"]["2"][1]


def test_an_average_with_other_weights_is_trained_again(tmp_path):
    """Its numbers are taken out of the records when the weights change; the last iterate's stay."""
    own = Records("mnist-mlp", tmp_path)
    _finish(own)
    key = f"AdamW | 0.316 | seed 0 | {own.workload.steps} steps"
    del own.runs[key]["averaged"]
    assert [job.key for job in own.missing()] == [key]
    assert own.best(methods.Row("AdamW", tuned=True)) == (0.0316, [])


def test_the_page_shows_the_records():
    """`python -m gradagrad_lab.evidence --page` writes it anew."""
    text = show.PAGE.read_text("utf-8")
    assert show.filled(text) == text


def test_the_page_shows_the_full_size_of_the_figures():
    """`python -m gradagrad_lab.figures.page` writes it anew."""
    text = figures.PAGE.read_text("utf-8")
    assert figures.page(text) == text
    assert figures.page(text.replace("| glass |", "| grass |", 1)) == text


def test_adamw_as_on_text_warms_up_and_clips():
    """A gradient of norm 100 moves it as one of norm 1 does with SGD; the rate rises over a tenth, then falls to 0."""
    weight = torch.nn.Parameter(torch.zeros(4))
    entry = dataclasses.replace(methods.METHODS[methods.USUAL.method], attribute="SGD")
    optimizer = entry.build([weight], steps=100, lr=1.0)
    rates = []
    for _ in range(100):
        rates.append(optimizer.param_groups[0]["lr"])
        before = weight.detach().clone()
        weight.grad = torch.full((4,), 50.0)
        optimizer.step()
        assert float((weight.detach() - before).norm()) == pytest.approx(rates[-1], rel=1e-2)
    assert rates[:11] == pytest.approx([(step + 1) / 10 for step in range(10)] + [1.0])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] < 1e-3


def test_the_digest_of_the_rule_follows_what_it_does(monkeypatch):
    before = rule_of("autogradagrad")
    for option in ({"momentum": 0.71}, {"guard": False}, {"gamma0": 1.1e-4}):
        monkeypatch.setattr(gradagrad, "AutoGradaGrad", functools.partial(AutoGradaGrad, **option))
        assert rule_of.__wrapped__("autogradagrad") != before
    assert rule_of("gradagrad") != before


def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path, monkeypatch):
    """Runs that exist are not trained again, and a grid ends with neighbours of its best rate."""
    problem = dataclasses.replace(held_out.HELD_OUT[1], steps=4)
    results = held_out.Results(tmp_path / "runs.json")
    method, make = results.tuned(problem, "adagrad", 0, held_out.WIDE["adagrad"])
    again = held_out.Results(tmp_path / "runs.json")
    runs = again.runs[problem.name]
    assert again.tuned(problem, "adagrad", 0, held_out.WIDE["adagrad"])[0] == method

    ours = results.get(problem, "AutoGradaGrad", 0, make)
    assert all(math.isfinite(loss) for loss in ours)

    def never(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(held_out, "run", never)
    assert again.mean(problem, method, make, 0, held_out.TUNING_SEEDS) == results.mean(
        problem, method, make, 0, held_out.TUNING_SEEDS
    )
    rates = sorted(float(name.removeprefix("AdaGrad, lr ")) for name in runs)
    assert rates[0] < float(method.removeprefix("AdaGrad, lr ")) < rates[-1]
    monkeypatch.setattr(held_out, "rule_of", lambda _: "another")
    with pytest.raises(AssertionError, match="trained again"):
        results.get(problem, "AutoGradaGrad", 0, make)


def test_the_table_counts_diverged_runs(tmp_path, capsys):
    problem = dataclasses.replace(held_out.HELD_OUT[1], steps=4)
    what = held_out.Table(
        [problem], 1, (1e-4,), held_out.NARROW, ("schedulefree", "schedulefree warm-up", "prodigy advised")
    )
    results = held_out.Results(tmp_path / "runs.json")
    results.get(problem, "AutoGradaGrad", 0, held_out.Make(OPTIMIZERS["sgd"], {"lr": 1e9}))
    rows, diverged = held_out.table(results, what, [problem])
    held_out.show(rows, diverged, [problem])
    printed = capsys.readouterr().out
    assert sum(diverged.values()) == diverged["AutoGradaGrad, last"] + diverged["AutoGradaGrad, averaged"] == 2
    for method in ("AdamW, cosine tuned, last", "Prodigy, as advised, averaged", "Schedule-Free AdamW, warm-up, last"):
        assert method in printed
