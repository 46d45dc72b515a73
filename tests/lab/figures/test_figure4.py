"""Figure 4 from end to end at a toy size, at the paper's size in small, on files that are too short."""

import dataclasses
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gradagrad_lab.context import Context, Size
from gradagrad_lab.data import criteo as criteo_file
from gradagrad_lab.data.clicks import tables as clicks_tables
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.figures.figure4 import claims as figure4_claims
from gradagrad_lab.figures.figure4 import plan as figure4_plan
from gradagrad_lab.figures.figure4 import study as figure4
from gradagrad_lab.figures.figure4.plan import GRIDS, INITIAL, RHO, Figure4Plan, of_rule
from gradagrad_lab.figures.figure4.results import Results
from gradagrad_lab.problems.clicks.runs import AUTO, ClickProblem, Setup
from gradagrad_lab.study import Frame, Plan, Run, conduct, present
from gradagrad_lab.study import train as train_plan
from gradagrad_lab.train import train
from lab.rows import text_rows
from lab.store import recorded

SETUP = Setup(rows=26 * 16, held_out=128, batch=16, cap=50, bottom=(4,), top=(4,))
TOY = Figure4Plan(SETUP, (0, 1), (0,), 26 * 16)
PLAN = Plan(TOY.runs(), TOY.tunings, TOY)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    made = Context(tmp_path_factory.mktemp("figure4"), workers=1, console=Console(quiet=True))
    train_plan(PLAN, made, "toy")
    return made


@pytest.fixture
def results(context: Context) -> Results:
    return Results(Frame(context, PLAN))


def test_section_is_complete_its_pictures_can_be_drawn_and_auto_is_averaged(context: Context) -> None:
    section = present(figure4.STUDY, Frame(context, PLAN), seconds=1.0)
    assert section.key == "figure4"
    assert [claim.whose for claim in section.claims] == ["paper"] * 4 + ["ours"]
    assert all(claim.evidence and claim.criterion and claim.number for claim in section.claims)
    assert {picture.stem: len(picture.panels) for picture in section.pictures} == {"figure4": 6, "figure4-gamma": 6}
    names = [row[0] for row in section.tables[0].rows]
    assert {"AdaGrad-norm, tuned", "AutoGradaGrad (ours), y", "AutoGradaGrad (ours), x̄"} <= set(names)
    assert "criteo/train.txt" in section.missing
    record = context.records.find(TOY.run(of_rule(AUTO), 0))
    assert record is not None
    assert record.curves["averaged loss"][0] != record.curves["loss"][0]
    assert np.isfinite(record.curves["averaged loss"][0])


def test_baselines_are_tuned_beyond_the_ends_of_their_grids(results: Results, context: Context) -> None:
    assert set(results.best) == set(GRIDS)
    for name, rate in results.best.items():
        losses: dict[float, float] = {}
        for power in range(-30, 21):
            found = [context.records.find(TOY.run(of_rule(name, 2.0**power), seed)) for seed in TOY.seeds]
            if found[0] is not None:
                losses[2.0**power] = float(np.mean([one.curves["loss"][0] for one in found if one is not None]))
        assert min(losses) < rate < max(losses), f"{name}: the best lies at an end"


def test_claims_follow_the_numbers(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up losses in, the verdict that they deserve out."""
    base = results.references["base rate"]
    shape = (len(RHO), len(INITIAL), len(results.plan.seeds))
    level = np.full(shape, base - 5 * results.alike)
    behind = level.copy()
    behind[:2, -1] = base

    def verdicts(losses: np.ndarray) -> tuple[str, str]:
        monkeypatch.setattr(Results, "scalar", lambda self, metric: losses)
        return figure4_claims.lack_of_adaptivity(results).verdict, figure4_claims.alike_for_large(results).verdict

    assert verdicts(behind) == ("holds", "holds")
    assert verdicts(level) == ("does not hold", "holds")
    sentence = figure4_claims.in_a_sentence(results)
    assert "in 6 of 6 cases (3 ρ × 2 initialisations); at ρ = 2, γ₀ = 1e-6 catches up in 2 of 2 initialis" in sentence
    stuck = behind.copy()
    stuck[:, -1] = np.nan  # diverged is not alike
    assert verdicts(stuck) == ("holds", "does not hold")
    half = behind.copy()
    half[:, -1, 0] = base
    assert verdicts(half) == ("holds", "holds in part")
    sentence = figure4_claims.in_a_sentence(results)
    assert "in 3 of 6 cases (3 ρ × 2 initialisations); at ρ = 2, γ₀ = 1e-6 never catches up" in sentence
    # A tenth of what tuned AdaGrad gains is the bound, neither more nor less.
    assert results.alike == pytest.approx(0.1 * (base - results.baseline("adagrad", "loss").mean()))
    for share, verdict in ((0.099, "holds"), (0.101, "does not hold")):
        apart = behind.copy()
        apart[2:, -1] += share * results.gain
        assert verdicts(apart)[1] == verdict


def test_stability_counts_setbacks(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    falling = np.linspace(2.0, 0.5, len(results.steps))
    curves = np.broadcast_to(falling, (len(RHO), len(INITIAL), 2, len(falling))).copy()
    losses = np.full(curves.shape[:3], 0.5)
    given = {"excess": curves, "loss": losses}
    monkeypatch.setattr(Results, "scalar", lambda self, metric: given[metric])
    assert figure4_claims.setbacks(results).sum() == 0
    assert figure4_claims.stability(results).verdict == "holds in part"  # nothing became less stable
    curves[3, 1, 0, -1] += 3.0
    losses[5, 0, 1] = np.nan
    assert np.argwhere(figure4_claims.setbacks(results)).tolist() == [[3, 1, 0], [5, 0, 1]]
    assert figure4_claims.stability(results).verdict == "holds"
    curves[0, :, :, -1] += 3.0
    assert figure4_claims.stability(results).verdict == "does not hold"


def test_the_report_says_whether_the_runs_were_known(results: Results, context: Context) -> None:
    """Verdicts on runs that had been seen when the criteria were written are marked as such."""
    assert "confirm nothing" in figure4_claims.how_judged(results)
    default = figure4_plan.plan_of(Context(context.out, size=Size.FULL)).seeds
    assert default == tuple(range(100, 106))
    assert figure4_plan.plan_of(Context(context.out)).seeds == default[:3]
    assert not set(default) & set(figure4_claims.SEEN)
    assert figure4_plan.plan_of(Context(context.out, first_seed=0, seeds=7)).seeds == tuple(range(7))


def test_another_rho_draws_its_own_panel(tmp_path: Path) -> None:
    context = Context(tmp_path, workers=1, seeds=1, rho=(50.0, 3.0), rows=640, console=Console(quiet=True))
    assert figure4_plan.plan_of(context).rhos == (3.0, 50.0)
    toy = dataclasses.replace(TOY, seeds=(0,), rhos=(50.0,))
    plan = Plan(toy.runs(), toy.tunings, toy)
    section = present(figure4.STUDY, Frame(context, train_plan(plan, context, "toy")))
    assert [panel.title for panel in section.pictures[0].panels] == ["ρ = 50"]
    assert section.claims == [], "the paper's sentences are about its own ρ"


@pytest.fixture
def criteo(tmp_path: Path) -> Path:
    """A data folder with 800 rows in Criteo's format, of which 685 are to train on and 57 to evaluate on."""
    path = tmp_path / "criteo" / "train.txt"
    path.parent.mkdir()
    path.write_bytes(b"\n".join(text_rows(800)))
    return path


def test_a_short_file_is_used_as_it_is_and_nothing_is_judged_by_it(criteo: Path, tmp_path: Path) -> None:
    """What is stated is what was trained on; too little for a curve draws none, too little for a verdict gives none."""
    context = Context(tmp_path / "out", data_dir=tmp_path, workers=1, seeds=1, console=Console(quiet=True))
    section = conduct(figure4.STUDY, context)
    assert section.settings["rows"] == "640 trained on, 57 held out"
    assert {claim.verdict for claim in section.claims} == {"not decidable at this size"}
    assert all("5 steps and 57 held-out rows" in claim.evidence for claim in section.claims)
    assert section.pictures == []
    assert "685 rows to train on, where 10,240 were planned" in section.intro
    assert "too few steps for a curve" in section.intro
    assert section.sources[0].origin == str(criteo)


def test_a_file_that_is_too_short_is_one_sentence(criteo: Path, tmp_path: Path) -> None:
    criteo.write_bytes(b"\n".join(text_rows(200)))
    with pytest.raises(UserError, match=r"holds 200 rows; Figure 4 needs at least 384") as raised:
        figure4_plan.plan_of(Context(tmp_path / "out", data_dir=tmp_path))
    assert raised.value.exit_code == DATA


def test_real_criteo_is_used_where_it_is(criteo: Path, tmp_path: Path) -> None:
    found = figure4_plan.plan_of(Context(tmp_path / "out", data_dir=tmp_path)).setup
    assert (found.criteo, found.rows, found.held_out) == (str(criteo), 685, 57)
    assert not figure4_plan.plan_of(Context(tmp_path / "out")).setup.criteo
    small = dataclasses.replace(found, rows=400, held_out=50, batch=16, cap=50, bottom=(4,), top=(4,))
    run = Run(ClickProblem(small), of_rule("adagrad", 0.05), 0, small.steps)
    (criteo_file.folder_of(criteo) / "ids.npz").unlink()
    with pytest.raises(UserError, match="gradagrad data criteo") as raised:
        train([run])
    assert raised.value.exit_code == DATA
    criteo_file.build(criteo, small.settings)
    record = train([run])[0]
    assert record.config["problem"]["data"] == "Criteo"
    assert np.isfinite(record.curves["loss"][0])


TINY_TABLES = (7,) * 26


def test_the_paper_s_size_from_end_to_end(criteo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's size but for its size: a row for every id, and only the scalar grid."""
    monkeypatch.setattr(clicks_tables, "CARDINALITIES", TINY_TABLES)
    monkeypatch.setattr(criteo_file, "CARDINALITIES", TINY_TABLES)
    monkeypatch.setitem(figure4_plan.SIZES, "paper", Setup(10_000, 100, 16, bottom=(4,), top=(4,), paper=True))
    shown = StringIO()
    console = Console(file=shown, width=1000)
    context = Context(tmp_path / "out", tmp_path, workers=1, console=console, size=Size.PAPER)
    section = conduct(figure4.STUDY, context)
    assert "24 runs of 42 steps" in shown.getvalue()
    assert len(section.claims) == 3
    assert section.settings["networks"] == "13-4-16 and 367-4-1"
    assert section.settings["tables"] == "every id has its row"
    assert [picture.stem for picture in section.pictures] == ["figure4", "figure4-gamma"]
    assert len(recorded(tmp_path / "out")) == 24
