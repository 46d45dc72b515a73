"""Records are complete or absent, and found again. A run with an invalid record is trained again, with a message."""

import errno
import functools
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gradagrad import GradaGrad
from gradagrad_lab import methods, pool
from gradagrad_lab.context import Context
from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.problems.toy import AbsoluteValue
from gradagrad_lab.records import MARKER, SCHEMA, Record, RecordStore, RunFile, key_of, prepare
from gradagrad_lab.study import Method, Run, runs_of
from gradagrad_lab.train import train

CONFIG = {"optimizer": "adam", "options": {"lr": 0.1, "gamma_max": math.inf}}
PROBLEM = AbsoluteValue()


def a_run(**changes: Any) -> Run:
    content: dict[str, Any] = {"problem": PROBLEM, "method": Method.of("gradagrad", lr=0.1), "seed": 0, "size": 3}
    return Run(**{**content, **changes})


def a_record(run: Run | None = None) -> Record:
    run = run or a_run()
    curves = {name: [1.0] * (points - 1) + [math.nan] for name, points in run.measures.items()}
    return Record(PROBLEM.label, run.config, run.seed, curves)


def kept(out: Path, record: Record | None = None) -> Path:
    """The file in which a store has written a record."""
    store = RecordStore(out)
    store.add(record or a_record())
    store.write()
    return store.path(PROBLEM.label)


def test_round_trip_keeps_numbers_that_json_does_not_know(tmp_path: Path) -> None:
    content = json.loads(kept(tmp_path).read_text())
    assert content["runs"][a_run().key]["curves"]["loss"][:2] == [1.0, 1.0]
    found = RecordStore(tmp_path).find(a_run())
    assert found is not None
    assert math.isnan(found.curves["loss"][-1])
    assert found.diverged
    assert {"torch", "commit", "date"} <= set(found.made)
    assert found.key == a_run().key


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


def test_a_changed_rule_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RecordStore(tmp_path)
    store.add(a_record())
    monkeypatch.setattr(methods.gradagrad, "GradaGrad", functools.partial(GradaGrad, growth_limit=1.5))
    methods.rule_of.cache_clear()
    assert store.find(a_run()) is None
    monkeypatch.undo()
    methods.rule_of.cache_clear()
    assert store.find(a_run()) is not None
    assert methods.rule_of("adam").startswith("torch ")
    assert len({methods.rule_of(name) for name in ("adam", "gradagrad", "autogradagrad")}) == 3


def test_without_reuse_old_records_are_trained_again_but_own_ones_are_read(tmp_path: Path) -> None:
    kept(tmp_path)
    assert RecordStore(tmp_path).find(a_run()) is not None
    fresh = RecordStore(tmp_path, reuse=False)
    assert fresh.find(a_run()) is None
    fresh.add(a_record())
    assert fresh.find(a_run()) is not None


def test_two_commands_in_one_folder_keep_each_other_s_runs(tmp_path: Path) -> None:
    stores = [RecordStore(tmp_path), RecordStore(tmp_path)]
    for seed in range(4):
        stores[seed % 2].add(a_record(a_run(seed=seed)))
        stores[seed % 2].write()
    assert all(RecordStore(tmp_path).find(a_run(seed=seed)) is not None for seed in range(4))


def test_a_run_that_another_command_trained_again_is_not_written_back(tmp_path: Path) -> None:
    def save(file: RunFile, number: int, *paths: tuple[str, ...]) -> None:
        for own in paths:
            file.put({"0": number}, *own)
        file.save()

    path = tmp_path / "runs.json"
    save(RunFile(path), 1, ("a",), ("held-out", "ours"))
    early = RunFile(path)
    save(RunFile(path), 2, ("a",), ("held-out", "ours"))
    save(early, 3, ("b",), ("held-out", "other"))
    expected = {"a": {"0": 2}, "b": {"0": 3}, "held-out": {"ours": {"0": 2}, "other": {"0": 3}}}
    assert early.runs == RunFile(path).runs == expected


def changed(**content: Any) -> Callable[[str], str]:
    """A record as a program gone wrong would write it."""

    def change(text: str) -> str:
        whole = json.loads(text)
        whole["runs"][a_run().key] |= content
        return json.dumps(whole)

    return change


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda text: "", "is damaged"),
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: "[]", "is damaged"),
        (lambda text: "[" * 100_000, "is damaged"),
        (changed(made=7), "is damaged"),
        (changed(curves={}), "does not fit the run"),
        (changed(curves={name: [1.0] for name in a_run().measures}), "does not fit the run"),
        (changed(curves=3), "does not fit the run"),
    ],
    ids=["empty", "cut", "foreign", "deep", "no-note", "no-curves", "short-curves", "no-table"],
)
def test_a_record_that_does_not_fit_is_trained_again_with_a_message(
    tmp_path: Path, change: Callable[[str], str], word: str
) -> None:
    path = kept(tmp_path)
    path.write_text(change(path.read_text()))
    console = Console(record=True, width=300, file=io.StringIO())
    context = Context(tmp_path, console=console)
    pool.train_missing(context, [a_run()], "test")
    told = console.export_text()
    assert word in told
    assert "trained again" in told
    found = RecordStore(tmp_path).find(a_run())
    assert found is not None
    assert not found.diverged, "the invented record was a diverged one"


def test_only_what_is_missing_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of(PROBLEM, [Method.of("gradagrad", lr=lr) for lr in (1.0, 0.1)], [0, 1], 3)
    pool.train_missing(Context(tmp_path), runs, "test")
    path = Context(tmp_path).records.path(PROBLEM.label)
    content = json.loads(path.read_text())
    del content["runs"][runs[2].key]
    path.write_text(json.dumps(content))
    trained: list[Run] = []
    monkeypatch.setattr(pool, "train", lambda group: trained.extend(group) or train(group))
    again = Context(tmp_path, console=Console(quiet=True))
    pool.train_missing(again, runs, "test")
    assert trained == [runs[2]]
    assert all(RecordStore(tmp_path).find(run) is not None for run in runs)


def test_what_is_missing_is_trained_in_the_groups_of_an_undisturbed_command() -> None:
    methods = [Method.of("adagrad", lr=0.1), Method.of("adagrad", lr=0.2), Method.of("sgd", lr=0.1), Method.of("adam")]
    wanted = runs_of(PROBLEM, methods, (0, 1), 3)
    groups = pool._groups(wanted)
    assert [len(group) for group in groups] == [4, 2, 2], "an optimizer's settings and seeds are stacked"
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
        store.add(a_record())
    assert list(store.folder.iterdir()) == []
