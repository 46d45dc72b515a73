"""Figure 3: tuning, verdicts, and the whole experiment in small on stand-ins."""

import numpy as np
import pytest
from rich.console import Console

from gradagrad_lab import data
from gradagrad_lab.context import Context
from gradagrad_lab.figures import figure3, figure3_plan
from gradagrad_lab.figures.figure3_plan import DEFAULT, INITIAL_RATES, Panel, setting, train_tuned, tune, variants
from gradagrad_lab.figures.figure3_tables import verdict_of
from gradagrad_lab.optimizers import GRID
from gradagrad_lab.problems.logistic import Logistic
from gradagrad_lab.records import Record
from gradagrad_lab.run import Job


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADAGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADAGRAD_DATA", raising=False)
    return Context(tmp_path / "out", seeds=2, console=Console(quiet=True), workers=1)


def invent(context: Context, panel: Panel, optimizer: str, scores: dict[float, float]) -> None:
    """Records with a given accuracy per learning rate, the other metrics being beside the point."""
    for lr, score in scores.items():
        curve = [[score] * panel.epochs for _ in panel.seeds]
        config = panel.job(optimizer, [{"lr": lr}]).config({"lr": lr})
        curves = {"accuracy": curve, "loss": [[1 - score] * panel.epochs for _ in panel.seeds]}
        context.records.save(Record(config, list(panel.seeds), "done", curves))


@pytest.fixture
def panel(context):
    return Panel(Logistic(data.load("iris")), 3, (0, 1))


@pytest.mark.parametrize(
    ("difference", "error", "verdict"),
    [
        (0.03, 0.01, "ahead"),
        (-0.03, 0.01, "behind"),
        (0.02, 0.01, "level"),
        (-0.02, 0.01, "level"),
        (0.0, 0.0, "level"),
        (np.nan, np.nan, "diverged"),
        (0.1, np.nan, "one seed, no verdict"),
    ],
)
def test_verdicts(difference, error, verdict):
    assert verdict_of(difference, error) == verdict


def test_tuning_takes_the_best_and_prefers_the_middle_among_equals(context, panel):
    invent(context, panel, "adam", dict.fromkeys(GRID, 0.5) | {0.25: 0.9, 1.0: 0.9, 2.0**-12: 0.9})
    tuned = tune(panel, context.records, "adam")
    assert tuned.lr == 0.25
    assert not tuned.at_end
    assert tune(panel, context.records, "adam", "loss").lr == 0.25


def test_a_diverged_learning_rate_is_never_the_best(context, panel):
    invent(context, panel, "adam", dict.fromkeys(GRID, 0.5) | {0.25: 0.6, 64.0: np.nan})
    assert tune(panel, context.records, "adam").lr == 0.25


def test_the_grid_grows_until_the_best_lies_inside(context, panel, monkeypatch):
    """Training is replaced by a known optimum at 2^9, outside the grid; everything else is real."""
    asked = []

    def train_missing(jobs: list[Job], context, description=""):
        for job in jobs:
            rates = [lane["lr"] for lane in job.lanes]
            asked.append(rates)
            invent(context, panel, job.optimizer, {lr: 1 - abs(np.log2(lr) - 9) / 100 for lr in rates})

    monkeypatch.setattr(figure3_plan, "train_missing", train_missing)
    train_tuned(context, [panel], ["sgd"])
    assert asked == [list(GRID), [2.0**7, 2.0**8, 2.0**9], [2.0**10, 2.0**11, 2.0**12]]
    tuned = tune(panel, context.records, "sgd")
    assert (tuned.lr, tuned.at_end, tuned.extended) == (2.0**9, False, True)


def test_every_variant_the_issue_names_is_there():
    all_of_them = variants()
    assert len({str(options) for options in all_of_them}) == len(all_of_them)
    for lr in INITIAL_RATES:
        assert setting(lr=lr) in all_of_them
    for rho in (1.0, 2.0, 4.0, 10.0):
        assert setting(rho=rho) in all_of_them
    assert any(options["momentum"] > 0 for options in all_of_them)
    assert any(options["granularity"] == "group" for options in all_of_them)
    assert DEFAULT == {"lr": 1.0, "rho": 2.0, "momentum": 0.0, "granularity": "element"}


def test_sizes(context):
    assert {panel.epochs for panel in figure3_plan.panels(Context(context.out, quick=False))} == {100}
    assert len(figure3_plan.panels(Context(context.out, quick=False))[0].seeds) == 10
    assert Panel(Logistic(data.load("iris")), 100, (0,)).window == 10


def test_whole_experiment_in_small_on_stand_ins(context, monkeypatch):
    monkeypatch.setattr(data, "BUNDLED", ("iris", "wine"))
    monkeypatch.setattr(figure3_plan, "_epochs", lambda problem, quick: 5)
    section = figure3.run(context)
    assert "stand-ins" in section.intro
    assert "2 seeds instead of 10" in section.intro
    main = section.tables[0]
    assert [row[0] for row in main.rows] == ["iris (scikit-learn stand-in)", "wine (scikit-learn stand-in)"]
    assert {row[-1] for row in main.rows} <= {"ahead", "level", "behind"}
    assert len(section.claims) == 3
    for picture in section.pictures:
        for kind in ("png", "svg"):
            for layout in ("", "-narrow"):
                assert (context.out / "figures" / f"{picture.stem}{layout}.{kind}").stat().st_size > 5000
        assert "stand-in" in picture.caption, "a caption says what was reduced"
    ratio = float(section.tables[-1].rows[-1][-1])
    assert ratio > 1
    # A second time nothing is trained: the same numbers, read from the records.
    monkeypatch.setattr("gradagrad_lab.workers.train", None)
    again = figure3.run(context)
    assert [table.rows for table in again.tables] == [table.rows for table in section.tables]
