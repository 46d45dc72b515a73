"""Figure 3: tuning, verdicts, and the whole experiment in small on replacements."""

import numpy as np
import pytest
from rich.console import Console

from gradagrad_lab import data, pool
from gradagrad_lab.context import Context, Size
from gradagrad_lab.figures.figure3 import plan as figure3_plan
from gradagrad_lab.figures.figure3 import study as figure3
from gradagrad_lab.figures.figure3.claims import matches
from gradagrad_lab.figures.figure3.plan import Trial
from gradagrad_lab.figures.figure3.results import Contest
from gradagrad_lab.problems.logistic import Logistic
from gradagrad_lab.records import Record
from gradagrad_lab.study import conduct
from gradagrad_lab.tune import choose

GRID = [2.0**power for power in range(-12, 7)]


@pytest.fixture
def context(tmp_path):
    return Context(tmp_path / "out", seeds=2, console=Console(quiet=True), workers=1)


def invent(context: Context, runs, score) -> None:
    """Records with an accuracy that is known for each learning rate, the other metrics being beside the point."""
    for run in runs:
        value = score(run.method["lr"])
        curves = {name: [value] * points for name, points in run.measures.items()}
        context.records.add(Record("iris", run.config, run.seed, curves | {"loss": [1 - value] * run.size}))


@pytest.fixture
def trial(context):
    return Trial(Logistic(data.load("iris")), 3, (0, 1))


def tuned(context: Context, trial: Trial, scores: dict[float, float]):
    invent(context, trial.tuning("adam").first(), lambda lr: scores.get(lr, 0.5))
    return choose(trial.tuning("adam"), context.records)


def test_tuning_takes_the_best_and_prefers_the_middle_among_equals(context, trial):
    choice = tuned(context, trial, {0.25: 0.9, 1.0: 0.9, 2.0**-12: 0.9})
    assert choice.lr == 0.25
    assert choice.grid[0] < choice.lr < choice.grid[-1]
    assert choose(trial.tuning("adam"), context.records, "averaged accuracy").lr == 0.25


def test_a_diverged_learning_rate_is_never_the_best(context, trial):
    assert tuned(context, trial, {0.25: 0.6, 64.0: np.nan}).lr == 0.25


def test_sizes(context):
    trials = figure3_plan.plan(Context(context.out, size=Size.FULL)).details
    assert {trial.epochs for trial in trials} == {100}
    assert len(trials[0].seeds) == 10
    assert [trial.name for trial in figure3_plan.plan(Context(context.out, only=("wine",))).details] == ["wine"]
    assert Trial(Logistic(data.load("iris")), 100, (0,)).window == 10
    soft = figure3_plan.plan(Context(context.out, softmax=True)).details
    assert {trial.problem.loss for trial in soft} == {"softmax"}


def contest(trial: Trial, own: float, low: float, high: float, spread: float = 0.001) -> Contest:
    jitter = spread * np.array([-1.0, 0.0, 1.0])
    others = {"adam": np.full(3, high), "sgd": np.full(3, low), "adagrad": np.full(3, (low + high) / 2)}
    return Contest(trial, own + jitter, others)


@pytest.mark.parametrize(
    ("own", "low", "high", "expected"),
    [
        (0.700, 0.69, 0.705, True),
        (0.700, 0.69, 0.711, False),  # more than a point below the best
        (0.690, 0.692, 0.695, False),  # below the lowest by more than two standard errors
        (0.6915, 0.692, 0.695, True),  # below the lowest, but within two standard errors
        (0.720, 0.69, 0.711, True),
    ],
)
def test_a_match_is_close_to_the_best_and_not_below_the_lowest(trial, own, low, high, expected):
    assert contest(trial, own, low, high).matches is expected


def test_the_headline_weighs_both_momenta(trial):
    good, bad = contest(trial, 0.70, 0.69, 0.70), contest(trial, 0.60, 0.69, 0.70)
    verdicts = {
        words: matches({"β = 0": without, "β = 0.9": with_momentum}).verdict
        for words, without, with_momentum in (
            ("both", [good, good], [good, good]),
            ("one", [bad, bad], [good, good]),
            ("half", [good, bad], [good, bad]),
            ("few", [bad, bad, good], [bad, good, good]),
        )
    }
    assert verdicts == {"both": "holds", "one": "holds in part", "half": "holds in part", "few": "does not hold"}


def test_whole_experiment_in_small_on_stand_ins(context, monkeypatch):
    monkeypatch.setattr(data, "BUNDLED", ("iris", "wine"))
    monkeypatch.setattr(data, "data_sets_at_hand", lambda data_dir: ["iris", "wine"])
    monkeypatch.setattr(figure3_plan, "_epochs", lambda problem, quick: 5)
    section = conduct(figure3.STUDY, context)
    assert "replacements" in section.intro
    assert "2 seeds instead of 10" in section.intro
    main = section.tables[0]
    assert [row[0] for row in main.rows] == [f"{name} (replacement from scikit-learn)" for name in ("iris", "wine")]
    assert {row[-1] for row in main.rows} <= {"yes", "no"}
    assert section.tables[1].title.startswith("Ours: AutoGradaGrad untuned")
    assert section.missing.count("gradagrad data fetch") == 6
    assert {claim.whose for claim in section.claims} == {"paper", "ours"}
    assert all(claim.criterion and claim.number for claim in section.claims)
    assert "β = 0.9" in section.summary
    for picture in section.pictures:
        assert "replacement" in picture.caption, "a caption says what was reduced"
    # A second time nothing is trained: the same numbers, read from the records.
    monkeypatch.setattr(pool, "train", None)
    again = conduct(figure3.STUDY, Context(context.out, seeds=2, console=Console(quiet=True), workers=1))
    assert [table.rows for table in again.tables] == [table.rows for table in section.tables]
    assert isinstance(again.claims[0].evidence, str)
