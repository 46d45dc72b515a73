"""The suite as a whole, in small: records that resume, processes that agree, and the section it ends in."""

from dataclasses import replace

import pytest
from rich.console import Console

from gradagrad_lab import pool
from gradagrad_lab.cli import app as cli
from gradagrad_lab.context import Context, Size
from gradagrad_lab.errors import UserError
from gradagrad_lab.figures.suite import plan as planning
from gradagrad_lab.figures.suite import study as figure
from gradagrad_lab.figures.suite.plan import BY_KEY, CONTESTANTS, PROBLEMS, size_of
from gradagrad_lab.figures.suite.study import Standings
from gradagrad_lab.methods import entry_of
from gradagrad_lab.single import outcome_of
from gradagrad_lab.study import Frame, Method, Plan, conduct

TUNED = ("sgd", "adagrad", "adam")
SMALL = [*(key for one in TUNED for key in (one, f"{one}-averaged")), "ours", "ours-averaged", "cocob"]


@pytest.fixture
def context(tmp_path):
    return Context(tmp_path / "out", seeds=2, console=Console(quiet=True), workers=1)


@pytest.fixture
def size(context):
    entries = [PROBLEMS["iris-16"], PROBLEMS["breast_cancer-16"]]
    contestants = tuple(BY_KEY[key] for key in SMALL)
    return replace(size_of(context), entries=entries, contestants=contestants, steps=12)


def test_sizes(context):
    quick, full = size_of(context), size_of(Context(context.out, size=Size.FULL))
    assert full.seeds == (0, 1, 2, 3, 4)
    assert size_of(Context(context.out, size=Size.FULL, first_seed=100)).seeds == (100, 101, 102, 103, 104)
    assert len(full.entries) > len(quick.entries)
    some = size_of(Context(context.out, on="cnn,development"))
    assert [entry.name for entry in some.entries if entry.role != "development"] == ["cnn"]
    assert len(some.entries) > 2
    with pytest.raises(UserError, match="--on must be one of"):
        size_of(Context(context.out, on="cnn,nothing"))
    with pytest.raises(UserError, match="data of letter-16 are not on this machine"):
        size_of(Context(context.out, on="letter-16"))


def test_whole_suite_in_small(context, size, monkeypatch, capsys):
    monkeypatch.setattr(planning, "size_of", lambda context: size)
    monkeypatch.chdir(context.out.parent)
    assert cli.run(["suite", "--out", str(context.out), "--seeds", "2", "--workers", "1"]) == 0
    assert "Open" in capsys.readouterr().out
    page = (context.out / "suite.html").read_text()
    assert "no learning rate to choose" in page
    assert "Problem by problem" in page

    # A second time nothing is trained: the same numbers, read from the records.
    monkeypatch.setattr(pool, "train", None)
    section = conduct(figure.STUDY, context)
    assert [claim.verdict for claim in section.claims].count("not tested") == 1, "COCOB averaged takes no part"
    assert {claim.whose for claim in section.claims} == {"ours"}
    titles = [row[0] for row in section.tables[0].rows]
    assert titles == [BY_KEY[key].title for key in SMALL]
    assert [row[1] for row in section.tables[1].rows] == ["looked at", "looked at"]
    assert "stand in" in section.intro
    assert "The quick size is too small to choose by" in section.summary

    # The best tuned baseline has a ratio of 1 by definition, and ours is compared on the same seeds.
    results = Standings(Frame(context, Plan(details=size)))
    for entry in size.entries:
        assert results.pairing(entry, results.best_tuned(entry)).ratio() == 1.0
        assert len(results.losses(entry, BY_KEY["ours"])) == 2


def test_the_command_passes_its_options_on(context, monkeypatch):
    seen = []
    monkeypatch.setattr(planning, "size_of", lambda context: seen.append(context) or 1 / 0)
    words = ["suite", "--full", "--seeds", "3", "--first-seed", "7", "--no-resume", "--workers", "2", "--on", "mlp"]
    with pytest.raises(ZeroDivisionError):
        cli.run([*words, "--out", str(context.out)])
    found = seen[0]
    assert (found.quick, found.seeds, found.first_seed, found.resume, found.workers) == (False, 3, 7, False, 2)
    assert (found.out, found.on) == (context.out, "mlp")


def test_processes_give_the_same_numbers(context, size):
    wanted = [size.run(PROBLEMS["breast_cancer-16"], Method.of("adam", lr=0.01), seed) for seed in (0, 1)]
    elsewhere = Context(context.out.parent / "pool", console=context.console, workers=2)
    pool.train_missing(context, wanted, "here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_WORTH_PROCESSES", 0.0)
        pool.train_missing(elsewhere, wanted, "pool")
    for run in wanted:
        found, same = context.records.find(run), elsewhere.records.find(run)
        assert found is not None
        assert same is not None
        one, other = outcome_of(found.curves), outcome_of(same.curves)
        assert (one.train, one.averaged_train, one.curve) == (other.train, other.averaged_train, other.curve)


def test_every_method_can_be_built_and_stepped():
    problem = PROBLEMS["factorisation"].problem
    for one in CONTESTANTS:
        task = problem.make(0, steps=1)
        method = one.method("embeddings")
        options = dict((method.but(lr=0.1) if one.side == "tuned" else method).options)
        optimizer = entry_of(method.optimizer).build(task.parameters, **options)
        assert optimizer.param_groups[0]["params"][0] is task.parameters[0]


def test_a_peer_that_is_not_installed_is_left_out_and_named(context, monkeypatch):
    planning._installed.cache_clear()
    real = planning.entry_of

    def without(name):
        entry = real(name)
        return replace(entry, module="no_such_package_here") if name == "prodigy" else entry

    monkeypatch.setattr(planning, "entry_of", without)
    size = size_of(context)
    planning._installed.cache_clear()
    assert size.missing == ["Prodigy"]
    assert not [one for one in size.contestants if one.optimizer == "prodigy"]
    with pytest.raises(UserError):
        without("prodigy").factory()
