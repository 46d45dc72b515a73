"""Figure 4 from end to end at a toy size, and that drawing never trains."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gradagrad_lab import experiments
from gradagrad_lab.context import Context
from gradagrad_lab.data import criteo_cache
from gradagrad_lab.errors import DATA, UserError
from gradagrad_lab.figures import figure4, figure4_claims, figure4_read, figure4_runs, figure4_train
from gradagrad_lab.figures.figure4_runs import DRAWN, INITIAL, RHO, SCALAR, Lane, Setup
from gradagrad_lab.figures.figure4_train import Plan

from .rows import text_rows

TOY = Plan(Setup(rows=26 * 16, held_out=128, batch=16, cap=50, bottom=4, top=4), (0, 1), (0,), (0,))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(tmp_path_factory.mktemp("figure4"), workers=1)


@pytest.fixture(scope="module")
def best(context: Context) -> dict[str, float]:
    return figure4_train.ensure(context, TOY)


def test_section_is_complete(context: Context, best: dict[str, float]) -> None:
    section = figure4.present(figure4_read.Results(context, TOY, best), seconds=1.0)
    assert section.key == "figure4"
    assert len(section.claims) == 7
    assert all(claim.evidence for claim in section.claims)
    for picture in section.pictures:
        for name in (picture.stem, f"{picture.stem}-narrow"):
            assert (context.out / "figures" / f"{name}.png").stat().st_size > 5000
            assert (context.out / "figures" / f"{name}.svg").stat().st_size > 5000
    titles = [table.title for table in section.tables]
    assert sum("held-out log-loss" in title for title in titles) >= 4
    assert sum("AUC" in title for title in titles) == 2


def test_a_second_run_trains_nothing(context: Context, best: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(figure4_runs, "train", refuse)
    assert figure4_train.ensure(context, TOY) == best


def test_processes_give_the_same_records(
    context: Context, best: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = [Lane(SCALAR, initial, rho) for initial in (1.0, 1e-6) for rho in (2.0, 500.0)]
    monkeypatch.setattr(figure4_train, "scalar_lanes", lambda: lanes)
    monkeypatch.setattr(figure4_train, "diagonal_lanes", list)
    monkeypatch.setattr(figure4_train, "GRIDS", {})
    other = Context(tmp_path, workers=2)
    figure4_train.ensure(other, TOY)
    for lane in lanes:
        for seed in TOY.seeds:
            mine, theirs = (figure4_train.find(where, TOY, lane, seed) for where in (context, other))
            assert mine is not None
            assert theirs is not None
            # Another stack of lanes: equal up to rounding, which a stack of another size may do differently.
            assert mine.curves["excess"] == pytest.approx(theirs.curves["excess"], rel=1e-3, abs=1e-3)


def test_baselines_are_tuned_beyond_the_ends_of_their_grids(context: Context, best: dict[str, float]) -> None:
    for name, rate in best.items():
        losses: dict[float, float] = {}
        for power in range(-30, 21):
            record = figure4_train.find(context, TOY, Lane(name, 2.0**power), 0)
            if record is not None:
                losses[2.0**power] = figure4_train.held_out_loss(record)
        assert rate == min(losses, key=lambda key: losses[key])
        assert min(losses) < rate < max(losses), f"{name}: the best lies at an end"


def test_claims_follow_the_numbers(context: Context, best: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up losses in, the verdict that they deserve out."""
    results = figure4_read.Results(context, TOY, best)
    base = results.references["base rate"]
    shape = (len(RHO), len(INITIAL), len(TOY.seeds))
    level = np.full(shape, base - 5 * results.alike)
    behind = level.copy()
    behind[:2, -1] = base

    def verdicts(losses: np.ndarray) -> tuple[str, str]:
        monkeypatch.setattr(figure4_read.Results, "scalar", lambda self, metric, bias=DRAWN: losses)
        return figure4_claims.lack_of_adaptivity(results).verdict, figure4_claims.alike_for_large(results).verdict

    assert verdicts(behind) == ("holds", "holds")
    assert verdicts(level) == ("does not hold", "holds")
    stuck = behind.copy()
    stuck[:, -1] = np.nan  # diverged is not alike
    assert verdicts(stuck) == ("holds", "does not hold")
    half = behind.copy()
    half[:, -1, 0] = base
    assert verdicts(half) == ("holds", "holds in part")
    # A tenth of what tuned AdaGrad gains is the bound, neither more nor less.
    assert results.alike == pytest.approx(0.1 * (base - results.baseline("adagrad", "held-out loss").mean()))
    for share, verdict in ((0.099, "holds"), (0.101, "does not hold")):
        apart = behind.copy()
        apart[2:, -1] += share * results.gain
        assert verdicts(apart)[1] == verdict


@pytest.mark.parametrize(
    ("products", "ends", "by_sign", "by_steps"),
    [
        # (first product, second product) of the two initialisations, whether each recovers
        ([(1, 1), (-1, 1)], [True, False], "holds", "holds"),
        ([(1, -1), (1, 1)], [False, True], "not tested", "holds"),
        ([(1, 1), (-1, 1)], [False, True], "does not hold", "does not hold"),
        ([(1, 1), (1, 1)], [True, True], "not tested", "not tested"),
    ],
)
def test_sentences_about_the_mechanism(
    context: Context,
    best: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
    products: list[tuple[int, int]],
    ends: list[bool],
    by_sign: str,
    by_steps: str,
) -> None:
    results = figure4_read.Results(context, TOY, best)
    losses = np.full((len(RHO), len(INITIAL), 2), results.references["base rate"] - 5 * results.alike)
    losses[-1, -1] += np.where(ends, 0.0, 2 * results.alike)
    agreement = np.broadcast_to(np.array(products, dtype=float), (len(RHO), len(INITIAL), 2, 2))
    given = {"held-out loss": losses, "opening agreement": agreement}
    monkeypatch.setattr(figure4_read.Results, "scalar", lambda self, metric, bias=DRAWN: given[metric])
    assert figure4_claims.mechanism(results).verdict == by_sign
    assert figure4_claims.agreeing(results).verdict == by_steps


def test_stability_counts_setbacks(context: Context, best: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    results = figure4_read.Results(context, TOY, best)
    falling = np.linspace(2.0, 0.5, len(results.steps))
    curves = np.broadcast_to(falling, (len(RHO), len(INITIAL), 2, len(falling))).copy()
    losses = np.full(curves.shape[:3], 0.5)
    given = {"excess": curves, "held-out loss": losses}
    monkeypatch.setattr(figure4_read.Results, "scalar", lambda self, metric, bias=DRAWN: given[metric])
    assert figure4_claims.setbacks(results).sum() == 0
    assert figure4_claims.stability(results).verdict == "holds in part"  # nothing became less stable
    curves[3, 1, 0, -1] += 3.0
    losses[5, 0, 1] = np.nan
    assert np.argwhere(figure4_claims.setbacks(results)).tolist() == [[3, 1, 0], [5, 0, 1]]
    assert figure4_claims.stability(results).verdict == "holds"
    curves[0, :, :, -1] += 3.0
    assert figure4_claims.stability(results).verdict == "does not hold"


def test_the_report_says_whether_the_runs_were_known(context: Context, best: dict[str, float]) -> None:
    """Verdicts on runs that had been seen when the criteria were written are marked as such."""
    known = figure4_read.Results(context, TOY, best)
    assert "confirm nothing" in figure4_claims.how_judged(known)
    default = figure4.plan_of(Context(context.out)).seeds
    assert default == tuple(range(100, 106))
    assert not set(default) & set(figure4_claims.SEEN)
    assert figure4.plan_of(Context(context.out, first_seed=0, seeds=7)).seeds == tuple(range(7))


def test_real_criteo_is_used_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADAGRAD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "criteo"
    folder.mkdir()
    path = folder / "train.txt"
    path.write_bytes(b"\n".join(text_rows(800)))
    context = Context(tmp_path / "out", data_dir=tmp_path, workers=1)
    setup = figure4.plan_of(context).setup
    assert setup.criteo == str(path)
    assert not figure4.plan_of(Context(tmp_path / "out")).setup.criteo
    small = dataclasses.replace(setup, rows=400, held_out=50, batch=16, cap=50, bottom=4, top=4)
    with pytest.raises(UserError, match="gradagrad data criteo") as raised:
        figure4_runs.Clicks(small)
    assert raised.value.exit_code == DATA
    criteo_cache.build(path, criteo_cache.Settings(cap=50))
    clicks = figure4_runs.Clicks(small)
    record = figure4_runs.train(figure4_runs.Stack((Lane("adagrad", 0.05),), (0,), DRAWN), clicks)[0]
    assert record.config["problem"]["data"] == "Criteo"
    assert np.isfinite(record.curves["held-out loss"])
    assert len(clicks.training) == 400 // 16


def test_registered() -> None:
    assert experiments.runner("figure4") is figure4.run
