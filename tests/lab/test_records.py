"""Records are complete or absent, and found again. A run with an invalid record is trained again, with a message."""

import errno
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gradagrad_lab import methods, pool, records
from gradagrad_lab.context import Context
from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.figures.figure4.results import of_rule
from gradagrad_lab.problems.clicks import runs as click_runs
from gradagrad_lab.problems.clicks.rows import Setup
from gradagrad_lab.problems.toy import AbsoluteValue
from gradagrad_lab.records import MARKER, SCHEMA, Record, RecordStore, key_of, prepare
from gradagrad_lab.study import Method, Run, runs_of

CONFIG = {"optimizer": "adam", "options": {"lr": 0.1, "gamma_max": math.inf}}
PROBLEM = AbsoluteValue()


def a_run(**changes: Any) -> Run:
    content: dict[str, Any] = {"problem": PROBLEM, "method": Method.of("gradagrad", lr=0.1), "seed": 0, "size": 3}
    return Run(**{**content, **changes})


def a_record(run: Run | None = None) -> Record:
    run = run or a_run()
    curves = {name: [1.0] * (points - 1) + [math.nan] for name, points in run.measures.items()}
    return Record(run.config, [run.seed], "diverged", curves)


def test_round_trip_keeps_numbers_that_json_does_not_know(tmp_path: Path) -> None:
    path = RecordStore(tmp_path).save(a_record())
    assert json.loads(path.read_text())["curves"]["loss"] == [1.0, 1.0, "nan"]
    found = RecordStore(tmp_path).find(a_run())
    assert found is not None
    assert math.isnan(found.curves["loss"][-1])
    assert found.versions["torch"]
    assert found.key == path.stem == a_run().key


def test_key_depends_on_everything_that_decides_a_run() -> None:
    keys = {
        a_run().key,
        a_run(seed=1).key,
        a_run(size=4).key,
        a_run(problem=AbsoluteValue(start_at=2.0)).key,
        a_run(method=Method.of("gradagrad", lr=0.1000001)).key,
        a_run(method=Method.of("adagrad", lr=0.1)).key,
        key_of(CONFIG, [0]),
    }
    assert len(keys) == 7
    assert a_run() == a_run(method=Method.of("gradagrad", lr=0.1))


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the rule's source, which the lab takes for the rule."""
    own = Path(methods.gradagrad.__file__).parent / methods.RULE_SOURCES["gradagrad"]
    copy = tmp_path / "rule.py"
    copy.write_text(own.read_text())
    monkeypatch.setitem(methods.RULE_SOURCES, "gradagrad", str(copy))
    yield copy
    methods.rule_of.cache_clear()


def test_a_changed_rule_is_trained_again(tmp_path: Path, rule: Path) -> None:
    store = RecordStore(tmp_path)
    store.save(a_record())
    text = rule.read_text()
    for new, believed in ((text + "\nEXTRA = 1\n", False), ("# A remark.\n" + text, True)):
        rule.write_text(new)
        methods.rule_of.cache_clear()
        assert (store.find(a_run()) is not None) is believed
    methods.rule_of.cache_clear()
    assert methods.rule_of("adam").startswith("torch ")
    assert len({methods.rule_of(name) for name in ("adam", "gradagrad", "autogradagrad")}) == 3


def test_without_reuse_old_records_are_trained_again_but_own_ones_are_read(tmp_path: Path) -> None:
    RecordStore(tmp_path).save(a_record())
    assert RecordStore(tmp_path).find(a_run()) is not None
    fresh = RecordStore(tmp_path, reuse=False)
    assert fresh.find(a_run()) is None
    fresh.save(a_record())
    assert fresh.find(a_run()) is not None


def changed(**content: Any) -> Callable[[str], str]:
    """A record rewritten with a checksum that fits, as a program gone wrong would write it."""

    def change(text: str) -> str:
        new = {**json.loads(text), **content}
        return json.dumps({**new, "checksum": records._checksum(new)})

    return change


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda text: "", "is damaged"),
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: text.replace("[1.0,1.0", "[1.0,7.0", 1), "its checksum does not match"),
        (lambda text: text.replace(f'"schema":{SCHEMA}', '"schema":99'), "has format 99"),
        (lambda text: "[]", "is not a record"),
        (changed(sekunden=1.0), "is damaged"),
        (changed(seeds=[1]), "is of seed 1, not 0"),
        (changed(config=a_run(size=4).config), "is of another run"),
        (changed(curves={}), "has curves of other lengths"),
        (changed(curves={name: [1.0] for name in a_run().measures}), "has curves of other lengths"),
    ],
    ids=["empty", "cut", "flipped", "newer", "foreign", "field", "seed", "config", "no-curves", "short-curves"],
)
def test_a_record_that_does_not_fit_is_trained_again_with_a_message(
    tmp_path: Path, change: Callable[[str], str], word: str
) -> None:
    path = RecordStore(tmp_path).save(a_record())
    path.write_text(change(path.read_text()))
    console = Console(record=True, width=300, file=io.StringIO())
    context = Context(tmp_path, console=console)
    context.pool.train([a_run()], "test")
    told = console.export_text()
    assert word in told
    assert "trained again" in told
    found = RecordStore(tmp_path).find(a_run())
    assert found is not None
    assert found.status == "done", "the invented record was a diverged one"


def test_only_what_is_missing_is_trained(tmp_path: Path) -> None:
    runs = runs_of(PROBLEM, [Method.of("gradagrad", lr=lr) for lr in (1.0, 0.1)], [0, 1], 3)
    context = Context(tmp_path)
    context.pool.train(runs, "test")
    written = {run.key: context.records.path(run.key).stat().st_mtime_ns for run in runs}
    context.records.path(runs[2].key).write_text("")
    again = Context(tmp_path, console=Console(quiet=True))
    again.pool.train(runs, "test")
    assert again.records.find(runs[2]) is not None
    for run in runs:
        same = again.records.path(run.key).stat().st_mtime_ns == written[run.key]
        assert same == (run is not runs[2])


@pytest.mark.parametrize("damage", [False, True])
def test_records_of_one_training_are_written_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bool
) -> None:
    wanted = [a_run(seed=seed) for seed in range(3)]
    save, saved = RecordStore.save, list[str]()

    def die(store: RecordStore, record: Record) -> Path:
        if saved:
            raise KeyboardInterrupt
        saved.append(record.key)
        return save(store, record)

    monkeypatch.setattr(RecordStore, "save", die)
    with pytest.raises(KeyboardInterrupt):
        RecordStore(tmp_path).save_together([a_record(run) for run in wanted])
    monkeypatch.setattr(RecordStore, "save", save)
    (left,) = (tmp_path / "partial").iterdir()
    if damage:
        left.write_bytes(left.read_bytes()[:-5])
    store = RecordStore(tmp_path)
    store.finish_writing()
    assert [store.find(run) is not None for run in wanted] == [True, not damage, not damage]
    assert not list((tmp_path / "partial").iterdir())


def test_what_is_missing_is_trained_in_the_groups_of_an_undisturbed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click_runs, "STACK", 2)
    problem = click_runs.ClickProblem(Setup(rows=256, held_out=128))
    wanted = [Run(problem, of_rule(click_runs.SCALAR, 1.0, 2.0), seed, 2) for seed in range(5)]
    groups = pool._groups(wanted)
    assert [len(group) for group in groups] == [1, 2, 2]
    assert pool._missing_groups(wanted, {*groups[0], *groups[2]}) == [groups[0], groups[2]]
    assert pool._missing_groups(wanted, {groups[1][0], *groups[2]}) == [groups[2], groups[1][:1]]


def test_a_folder_of_another_version_or_a_file_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path)
    prepare(tmp_path)
    (tmp_path / MARKER).write_text('{"schema": 7}')
    with pytest.raises(UserError, match=f"was written in format 7, this version writes format {SCHEMA}"):
        prepare(tmp_path)
    (tmp_path / MARKER).write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        prepare(tmp_path)
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="cannot be written") as caught:
        prepare(tmp_path / "out")
    assert caught.value.exit_code == OUTPUT


def test_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RecordStore(tmp_path)
    prepare(tmp_path)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match=r"The disk is full.*finished runs are kept"):
        store.save(a_record())
    assert list(store.folder.iterdir()) == []
